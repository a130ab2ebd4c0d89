import json
import platform
import re
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import clearhead

from ..conftest import Run


def test_it_names_the_versions_and_the_machine(run: Run) -> None:
    done = run("env")
    assert (done.code, done.err) == (0, "")
    found = dict(line.split(maxsplit=1) for line in done.out.splitlines())
    assert found["clearhead"] == clearhead.__version__ and found["python"] == platform.python_version()
    assert found["torch"] == torch.__version__
    assert {"processor", "cores", "memory", "graphics", "device", "threads", "precision"} <= found.keys()


def test_as_json_too(run: Run) -> None:
    values = json.loads(run("env", "--json").out)
    assert values["clearhead"] == clearhead.__version__ and values["device"] in ("cpu", "cuda")


def test_prepare_compiles_the_engine_loops_first(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.decode.engines.loops.machine_code.prepare", lambda: print("prepared"))
    assert run("env", "--prepare").out.startswith("prepared\nclearhead ")


def test_every_library_that_the_project_needs_and_that_it_can_use_is_named(run: Run) -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    libraries = [*project["dependencies"], *extras["plot"], *extras["track"]]
    assert {re.split("[>=]", library)[0] for library in libraries} <= json.loads(run("env", "--json").out).keys()


def test_a_library_that_is_not_there_is_called_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.cli.verbs.env._LIBRARIES", ("no-such-library",))
    assert "no-such-library not installed" in run("env").out


def test_a_torch_that_cannot_be_imported_is_reported_with_all_the_rest(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.loads(run("env", "--json").out)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("env", "--json")
    values = json.loads(done.out)
    assert (done.code, done.err) == (0, "")
    assert values.pop("device").startswith("can't be chosen: ModuleNotFoundError: import of torch halted")
    assert values == {name: whole[name] for name in values}
    assert whole.keys() - values.keys() == {"graphics", "device", "threads", "precision"}
