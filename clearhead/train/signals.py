"""Ctrl-C and SIGTERM: the first lets the step end and saves, the second ends at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from ..errors import TrainingError


class StoppedError(TrainingError):
    """A signal ended training after a checkpoint was saved; `exit_code` is 130 for Ctrl-C and 143 for SIGTERM."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class StopSignals:
    """Within `with`, a first signal only sets `requested`; the handlers of before are put back at the end."""

    def __init__(self) -> None:
        self.requested: int | None = None

    def __enter__(self) -> Self:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # elsewhere Python allows no handlers
            self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.requested = number
        signal.signal(number, self._before[number])

    def raise_stopped(self, step: int) -> None:
        """Say what was saved, and how to go on."""
        name = signal.Signals(self.requested or signal.SIGINT).name
        code = 128 + (self.requested or signal.SIGINT)
        raise StoppedError(
            f"stopped by {name} at step {step}; a checkpoint is saved. Go on with the same command and --resume", code
        )
