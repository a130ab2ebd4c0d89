"""The command line called in this process."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from clearhead.cli import main


@dataclass(frozen=True)
class Done:
    """What a command line left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """`run("translate", folder, "text")` as a user would call it."""

    def call(*arguments: object) -> Done:
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Done(code, out, err)

    return call


@pytest.fixture
def pipe(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`pipe(data, "translate", folder)` with these bytes as standard input."""

    def call(data: bytes, *arguments: object) -> Done:
        (tmp_path / "stdin").write_bytes(data)
        with (tmp_path / "stdin").open() as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            return run(*arguments)

    return call


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A model folder that may be written to."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))
