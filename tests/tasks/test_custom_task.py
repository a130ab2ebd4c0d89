"""A task in one file: it trains, saves, loads, answers, evaluates and explains like a built-in one."""

import json
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.apps.app import App
from clearhead.apps.checks.promise_subjects import subject_of
from clearhead.apps.inputs import read_data
from clearhead.cli import main
from clearhead.config import TASKS, Config, TaskSpec
from clearhead.errors import ConfigError
from clearhead.tasks.base import example_of
from clearhead.tasks.registry import task_named

from ..apps.annotation.test_data_frames import PandasFrame
from ..serving.conftest import serving

HERE = Path(__file__).parent
PATH = "reverse_task:Reversal"
SETTINGS = {
    "data.tokenizer": "word", "data.split": 0.05, "data.batch_tokens": 512, "train.steps": 150, "train.lr": 0.01,
    "train.warmup": 10, "train.optimizer": "adam", "train.precision": "fp32", "train.threads": 1, "train.device": "cpu",
    "train.eval_every": 150, "train.best": "exact_match", "model.d_model": 32, "model.n_heads": 2, "model.d_ff": 64,
    "model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "model.pre_norm": True, "model.dropout": 0.0,
    "model.positions": "learned", "model.max_len": 12,
}  # fmt: skip


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    yield
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


def write(path: Path, n: int, seed: int) -> Path:
    dice = random.Random(seed)
    path.write_text("".join(" ".join(dice.choices("abcdefgh", k=3)) + "\n" for _ in range(n)), encoding="utf-8")
    return path


def test_the_task_is_one_short_file() -> None:
    assert len((HERE / "reverse_task.py").read_text(encoding="utf-8").splitlines()) <= 80


def test_a_custom_task_does_all_that_a_built_in_one_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = str(write(tmp_path / "texts.txt", 600, 0))
    config = Config().override({**SETTINGS, "train.task": PATH, "data.train": [data]})
    folder = clearhead.train(config, tmp_path / "model", say=lambda _: None)
    app = clearhead.load(folder, allow_custom_code=True)
    assert type(app) is App and app.config.train.task == PATH
    assert app("a b c") == "c b a" and app(["d e f", "g a h"]) == ["f e d", "h a g"]
    assert app.annotate(PandasFrame({"text": ["a b c", None]})).cells["reversal"] == ["c b a", None]
    evaluation = app.evaluate(str(write(tmp_path / "others.txt", 60, 1)))
    assert evaluation.scores.to_dict()["exact_match"] > 0.9 and "exact match" in evaluation.report()
    explained = app.explain("b c d")
    assert explained.answer == "d c b" and explained.tokens["encoder"][:3] == ("▁b", "▁c", "▁d")
    assert "clearhead.load" in (folder / "README.md").read_text(encoding="utf-8")
    _works_on_the_command_line(folder, str(write(tmp_path / "few.txt", 8, 2)), capfd)


def _works_on_the_command_line(folder: Path, data: str, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        capfd.readouterr()
        code = main([arguments[0], str(folder), *arguments[1:], "--allow-custom-code", "--json"])
        out, err = capfd.readouterr()
        assert code == 0, err
        return out

    assert json.loads(run("evaluate", "--data", data))["exact_match"] > 0.5
    assert json.loads(run("explain", "b c d"))["text"] == "d c b"
    assert json.loads(run("ablate", data, "--parts", "feed-forwards"))["parts"]
    for checked in (run("verify"), run("verify", data)):
        assert json.loads(checked)["passed"]


def test_a_task_of_its_own_kind_is_verified_by_its_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write(tmp_path / "texts.txt", 40, 0))
    config = Config().override({**SETTINGS, "train.task": PATH, "data.train": [data], "train.steps": 10})
    app = clearhead.load(clearhead.train(config, tmp_path / "model", say=lambda _: None), allow_custom_code=True)

    class Other:  # so that none of the built-in tasks matches
        pass

    for name in ("Sequences", "Generation", "Classification", "QuestionAnswering"):
        monkeypatch.setattr(f"clearhead.apps.checks.promise_subjects.{name}", Other)
    without = subject_of(app.loaded, app.decode_config())
    with_data = subject_of(app.loaded, app.decode_config(), read_data(app.task, app.config, data))
    assert without.loss is None and with_data.loss is not None
    for subject in (without, with_data):
        assert subject.search is None and subject.engines and subject.inputs.source is not None
        assert subject.inputs.target is not None
    assert "random" in without.texts and "texts.txt" in with_data.texts
    assert app.verify(data).passed


def test_a_registered_task_goes_by_its_name_and_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "clearhead.tasks.reverse", import_module("reverse_task"))
    monkeypatch.setitem(TASKS, "reverse", TaskSpec("reverse:Reversal", {"model.topology": "encoder-decoder"}))
    data = str(write(tmp_path / "texts.txt", 40, 0))
    config = Config().override({**SETTINGS, "train.task": "reverse", "data.train": [data], "train.steps": 10})
    app = clearhead.load(clearhead.train(config, tmp_path / "model", say=lambda _: None))
    assert type(app.task) is task_named("reverse") is task_named(PATH)
    assert isinstance(app("a b"), str)
    with serving(f"reverse={app.path}") as served:
        found = served.post("/api/reverse", {"text": ["a b", "c d e"]}).json()
        assert [it["text"] for it in found] == app(["a b", "c d e"])
        schema = served.ask("GET", "/openapi.json").json()["paths"]["/api/reverse"]["post"]["requestBody"]
        assert schema["content"]["application/json"]["schema"]["required"] == ["text"]


@pytest.mark.parametrize("name", ["sumarize", "no_such_module:Task", "reverse_task:Lines", "reverse_task:Nothing"])
def test_what_is_no_task_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        task_named(name)
    assert (caught.value.name, caught.value.value) == ("train.task", name)
    assert "summarize" in caught.value.fix or name != "sumarize"


def test_built_in_tasks_have_what_a_run_asks_for() -> None:
    for name in TASKS:
        task = task_named(name)
        assert task.verb == name and task.required.items() >= TASKS[name].needs.items()
        trained = name != "embed"
        assert bool(task.compared_by) == ("loss" in task.scores) == trained and task.units.answer
        assert f"clearhead {name} 'a folder' " in example_of(task, "a folder")
