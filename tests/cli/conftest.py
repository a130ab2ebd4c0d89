"""The command line called in this process."""

from collections.abc import Callable
from dataclasses import dataclass

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
