"""Ctrl-C and SIGTERM: while steps are made, the first lets the step end and saves; all others end at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from ..config.messages import say_within_a_handler
from ..errors import TrainingError

_GO_ON = "go on with the same command and --resume"


class StoppedError(TrainingError):
    """A signal ended training, which `--resume` takes up again; `exit_code` is 130 for Ctrl-C, 143 for SIGTERM."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StopSignals:
    """Within `with`, a signal raises a StoppedError where it arrives; where `held`, the first only sets `requested`.

    Also one that was ignored, as a script ignores Ctrl-C for what it starts in the background: who sends it there means
    the run, which loses nothing.

    with StopSignals() as stop:
        prepare()
        with stop.held():
            while stop.requested is None:
                make_a_step()
    """

    def __init__(self) -> None:
        self.requested: int | None = None  # the number of the last signal
        self._holding = False

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Put back the handlers of before; None stands for one that was not Python's."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, a first signal waits to be looked at; one that nobody looked at raises at the end."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self.requested is not None:
            self._raise("what was saved before is intact")

    def raise_stopped(self, step: int) -> NoReturn:
        """Say that the run stopped after `step`, where a checkpoint was saved, and how to go on."""
        self._raise(f"at step {step:,}, a checkpoint is saved" if step else "before the first step")

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first, self.requested = self.requested is None, number
        if not (first and self._holding):
            self._raise("what was saved before is intact")
        say_within_a_handler("stopping after this step; a second time stops at once")

    def _raise(self, what: str) -> NoReturn:
        assert self.requested is not None
        name = "Ctrl-C" if self.requested == signal.SIGINT else signal.Signals(self.requested).name
        raise StoppedError(f"stopped by {name}: {what}; {_GO_ON}", 128 + self.requested)
