import json
import platform

import torch

import clearhead

from .conftest import Run


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


def test_a_library_that_is_not_there_is_called_so(run: Run, monkeypatch) -> None:
    monkeypatch.setattr("clearhead.cli.env._LIBRARIES", ("no-such-library",))
    assert "no-such-library not installed" in run("env").out
