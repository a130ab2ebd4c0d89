"""Ways for a disk and a process to fail, for the tests of what is written."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

FailFrom = Callable[[int, BaseException], AbstractContextManager[None]]


class Killed(BaseException):
    """Stands for SIGKILL: no `except OSError` catches it, so that nothing is cleaned up."""


@pytest.fixture
def fail_from(monkeypatch: pytest.MonkeyPatch) -> FailFrom:
    """`with fail_from(n, error)`: the n-th system call that renames, syncs or makes raises, and all later ones.

    So do those that remove, where the process is dead; a full disk still removes.
    """

    @contextmanager
    def failing(number: int, error: BaseException) -> Iterator[None]:
        calls = 0

        def fail_late(real: Callable) -> Callable:
            def call(*arguments, **named):
                nonlocal calls
                calls += 1
                if calls >= number:
                    raise error
                return real(*arguments, **named)

            return call

        with monkeypatch.context() as patch:
            removing = () if isinstance(error, OSError) else ("rmdir", "unlink")
            for name in ("replace", "fsync", "mkdir", *removing):
                patch.setattr(os, name, fail_late(getattr(os, name)))
            yield

    return failing


@pytest.fixture
def killed() -> BaseException:
    return Killed()


@pytest.fixture
def crash_points(fail_from: FailFrom, killed: BaseException) -> Callable[[Callable[[], None]], Iterator[int]]:
    """For each call in turn: run an action that dies there, then yield; ends when the action comes through."""

    def each(action: Callable[[], None]) -> Iterator[int]:
        for number in range(1, 100):
            try:
                with fail_from(number, killed):
                    action()
            except Killed:
                yield number
            else:
                return
        raise AssertionError("the action never came through")

    return each


@pytest.fixture
def disk_full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def read_only() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))
