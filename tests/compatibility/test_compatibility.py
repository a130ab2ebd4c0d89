"""Model folders of earlier releases are read, answer what they answered then, and their training continues."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from clearhead.config import TASKS
from clearhead.folder.model_folder import WEIGHTS
from tests.compatibility.write import HERE, RUNS, answer, machine, resume

RELEASES = sorted(it.name for it in HERE.iterdir() if (it / "answers.json").exists())
CASES = [
    (release, it) for release in RELEASES for it in json.loads((HERE / release / "answers.json").read_text())["answers"]
]


@pytest.fixture
def about(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    """What a release noted. The current folder is a copy of its folder."""
    shutil.copytree(HERE / release, tmp_path / release)
    monkeypatch.chdir(tmp_path / release)
    return json.loads(Path("answers.json").read_text(encoding="utf-8"))


def test_every_task_has_a_folder_and_all_are_small() -> None:
    assert {task for _, task in CASES} == {*TASKS}
    for release in RELEASES:
        assert sum(it.stat().st_size for it in (HERE / release).rglob("*")) < 1.5e6


@pytest.mark.parametrize(("release", "task"), CASES)
def test_a_model_of_an_earlier_release_answers_as_it_did(release: str, task: str, about: dict) -> None:
    found, expected = answer(task), about["answers"][task]
    if isinstance(expected, str):
        assert found == expected
    else:
        np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize(("release", "task"), [(release, task) for release, task in CASES if task in RUNS])
def test_a_run_of_an_earlier_release_continues_to_the_same_weights(release: str, task: str, about: dict) -> None:
    resume(task, task)
    weights, expected = load_file(Path(task) / WEIGHTS), load_file(f"continued/{task}.safetensors")
    assert weights.keys() == expected.keys()
    same_bits = about["machine"] == machine()  # elsewhere, sums are rounded differently
    for name, values in expected.items():
        np.testing.assert_allclose(weights[name], values, rtol=0, atol=0 if same_bits else 0.05, err_msg=name)
