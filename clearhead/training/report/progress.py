"""Progress of a run on stderr: a live line on a terminal, occasional lines in a pipe or a file."""

import math
import os
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Self, TextIO

from ...errors import TrainingError

_EVERY = 10.0  # seconds between progress lines in a pipe
_GAP = 1.0  # seconds between lines of any kind in a pipe, except messages
_REFRESH = 0.2  # seconds between updates of the live line


class Progress:
    """Report training progress on stderr, never on stdout.

    with Progress(steps) as progress:
        progress.update(step=1, epoch=0, loss=9.2, tokens_per_second=9000.0)
        progress.evaluation("step 1: bleu 0.1")
        progress.message("training stops early")
    """

    def __init__(
        self,
        steps: int,
        *,
        unit: str = "tokens",
        stream: TextIO | None = None,
        say: Callable[[str], None] | None = None,
        every: float = _EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Report the progress towards step `steps` to `stream` (default: stderr). `unit` is what the speed counts.

        If the stream isn't a terminal, a progress line is printed every `every` seconds. If `say` is given, it receives
        evaluations and messages, and nothing else is reported.
        """
        self._say = say
        self._steps, self._unit, self._clock = steps, unit, clock
        self._stream: TextIO | None = stream or sys.stderr
        movable = os.environ.get("TERM") not in ("dumb", "unknown")
        self._live = _LiveLine(self._stream, steps) if self._stream and self._stream.isatty() and movable else None
        self._interval = _REFRESH if self._live else every
        self._start: tuple[int, float] | None = None  # step and time of the first update
        self._shown = self._printed = -math.inf  # times of the last progress line and of the last line of any kind
        self._held_back = ""  # a line that came too early to be printed
        self._loss: float | None = None
        self._speed: float | None = None

    def update(self, *, step: int, epoch: int, loss: float, tokens_per_second: float) -> None:
        """Report a step. Loss and speed are shown as moving averages.

        Args:
            step: number of the step, from 1.
            epoch: number of the epoch, from 0; shown from 1.
            loss: mean loss per token of this step.
            tokens_per_second: speed of this step.
        """
        if self._say is not None:
            return
        now = self._clock()
        self._start = self._start or (step, now)
        self._loss, self._speed = _blend(self._loss, loss), _blend(self._speed, tokens_per_second)
        if now - self._shown < self._interval and step != self._steps:
            return
        self._shown = now
        speed = f"{self._speed:,.0f} {self._unit}/s"
        parts = [f"epoch {epoch + 1}", f"loss {self._loss:.3f}", speed, self._left(step, now)]
        text = "  ".join(filter(None, parts))
        if self._live is not None:
            self._live.show(step, text)
        else:
            self._print_or_hold_back(f"step {step:,}/{self._steps:,}  {text}")

    def aim(self, steps: int) -> None:
        """Change the total number of steps."""
        if steps != self._steps and self._live is not None:
            self._live.aim(steps)
        self._steps = steps

    def evaluation(self, text: str) -> None:
        """Report an evaluation. In a pipe, lines that follow each other within a second may be skipped."""
        if self._say is None and self._live is None:
            self._print_or_hold_back(text)
        else:
            self.message(text)

    def message(self, text: str) -> None:
        """Print a message at once. Messages are never skipped."""
        if self._say is not None:
            self._say(text)
        elif self._live is not None:
            self._live.message(text)
        else:
            self._print_held_back()
            self._print(text)

    def close(self) -> None:
        """Print any delayed line, and leave the live line on screen."""
        if self._live is not None:
            self._live.close()
        else:
            self._print_held_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(TrainingError) if kind else nullcontext():  # keep the first error
            self.close()

    def _print_or_hold_back(self, text: str) -> None:
        if self._clock() - self._printed < _GAP:
            self._held_back = text
        else:
            self._held_back = ""
            self._print(text)

    def _print_held_back(self) -> None:
        if self._held_back:
            text, self._held_back = self._held_back, ""
            self._print(text)

    def _print(self, text: str) -> None:
        if self._stream is None:  # print would write to stdout
            return
        self._printed = self._clock()
        try:
            print(text, file=self._stream, flush=True)
        except BrokenPipeError as error:
            what = "training stopped because the pipe that reads its messages was closed"
            fix = "continue with `resume=True`, and send stderr to a file or a terminal"
            raise TrainingError(what, fix=fix) from error

    def _left(self, step: int, now: float) -> str:
        """Estimate the time left from the pace so far, evaluations included; "" at the first step."""
        assert self._start is not None
        done, seconds = step - self._start[0], now - self._start[1]
        if done < 1:
            return ""
        minutes, rest = divmod(round(seconds / done * (self._steps - step)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


class _LiveLine:
    """A terminal line that is redrawn in place, from the first step on. It respects NO_COLOR."""

    def __init__(self, stream: TextIO, steps: int) -> None:
        import rich.console
        import rich.progress

        console = rich.console.Console(file=stream, markup=False, highlight=False)
        step = rich.progress.TextColumn("step {task.completed:,.0f}/{task.total:,.0f}")
        columns = (step, rich.progress.BarColumn(20), rich.progress.TextColumn("{task.description}", markup=False))
        self._progress = rich.progress.Progress(*columns, console=console, auto_refresh=False, redirect_stdout=False)
        self._task = self._progress.add_task("", total=steps)
        self._started = False

    def show(self, step: int, text: str) -> None:
        if not self._started:
            self._progress.start()
            self._started = True
        self._progress.update(self._task, completed=step, description=text, refresh=True)

    def aim(self, steps: int) -> None:
        self._progress.update(self._task, total=steps)

    def message(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)

    def close(self) -> None:
        if self._started:
            self._progress.stop()


def _blend(average: float | None, value: float) -> float:
    return value if average is None else 0.9 * average + 0.1 * value
