"""Handle Ctrl-C and SIGTERM. In training, the first signal stops after the current step; the second stops at once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

from ..config.messages import say_within_a_handler
from ..errors import TrainingError

_INTACT = "everything saved so far is intact"


class StoppedError(TrainingError):
    """A signal stopped training; `--resume` continues it. `exit_code` is 130 for Ctrl-C and 143 for SIGTERM."""

    def __init__(self, what: str, exit_code: int, fix: str = "continue in the same way with `resume=True`") -> None:
        super().__init__(what, fix=fix, value=exit_code)
        self.exit_code = exit_code


class StopSignals:
    """Raise StoppedError on a signal inside the `with` block. Inside `held()`, the first signal only sets `requested`.

    This also applies to signals that the process ignored before. Shells make background jobs ignore Ctrl-C, but a
    signal sent to the run itself is meant to stop it.

    with StopSignals() as stop:
        prepare()
        with stop.held():
            while stop.requested is None:
                make_a_step()
    """

    def __init__(self, *, silent: bool = False) -> None:
        """`silent` leaves out the message at the first signal."""
        self.requested: int | None = None  # the number of the last signal, of this process or another one of the run
        self._silent, self._holding, self._noted = silent, False, False

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # Python allows no handlers in other threads
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the earlier handlers. None means that a handler wasn't installed from Python."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Defer the first signal: it only sets `requested`, and raises StoppedError when the block ends."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self.requested is not None:
            self._raise(_INTACT)

    def raise_stopped(self, step: int) -> NoReturn:
        """Raise a StoppedError after `step`, whose checkpoint has been saved."""
        self._raise(f"a checkpoint of step {step:,} is saved" if step else "training hasn't begun")

    def _note(self, number: int, _frame: FrameType | None) -> None:
        first, self._noted, self.requested = not self._noted, True, number
        if not (first and self._holding):
            self._raise(_INTACT)
        if not self._silent:
            say_within_a_handler("stopping after this step; press Ctrl-C again to stop at once")

    def _raise(self, consequence: str) -> NoReturn:
        assert self.requested is not None
        name = "Ctrl-C" if self.requested == signal.SIGINT else signal.Signals(self.requested).name
        raise StoppedError(f"stopped by {name}: {consequence}", 128 + self.requested)
