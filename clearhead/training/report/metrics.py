"""What training reports while it runs: `metrics.jsonl` for later, a line of progress for whoever watches."""

import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self, TextIO

from ...errors import DataError, TrainingError
from ...folder.atomic import write_file, writing

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no numbers for these


class MetricsLog:
    """One JSON object a line, each whole and on its way to the disk before training goes on."""

    def __init__(self, path: Path, *, after: int) -> None:
        """Open the log of a run that goes on after step `after` (0: a new one); later lines, and a torn last one, go,
        and so do the scores of a mean of checkpoints, which come after every step.

        A line that is no JSON object between others that are is a DataError.
        """
        self._path = path
        with writing(path.parent):
            if path.exists():
                _cut(path, after)
            self._file = path.open("ab", buffering=0)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append {"step": ..., ...}: numbers and texts. A float is read back to the same bits, if it is finite."""
        values = {name: _speakable(value) for name, value in record.items()}
        rest = memoryview(json.dumps(values, allow_nan=False).encode() + b"\n")
        with writing(self._path.parent):
            while rest:  # a disk that is nearly full takes a part, and raises at the next
                rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All that was logged, in order, without a torn last line; a file that is absent or no log is a DataError."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise DataError(f"cannot read the metrics {path}: {error.strerror}") from error
    return [record for _, record in _parse(path, lines)]


def _cut(path: Path, after: int) -> None:
    """Keep the lines up to step `after`; rewrite the file only where that changes it."""
    data = path.read_bytes()
    records = _parse(path, data.split(b"\n"))
    kept = [line for line, record in records if record.get("step", 0) <= after and "averaged" not in record]
    text = b"".join(line + b"\n" for line in kept)
    if text != data:
        write_file(path, text)


def _parse(path: Path, lines: list[bytes]) -> list[tuple[bytes, dict[str, Any]]]:
    """Each line with its object. What cannot be read at the end was torn by a kill; elsewhere it is damage."""
    records: list[tuple[bytes, dict[str, Any]]] = []
    bad = 0
    for number, line in enumerate(lines[:-1], start=1):  # what follows the last line feed is not a whole line
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            bad = bad or number
        elif bad:
            raise DataError(f"{path}, line {bad} is damaged: expected a JSON object; delete the line to go on")
        else:
            records.append((line, {name: _number(value) for name, value in values.items()}))
    return records


def _speakable(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _number(value: Any) -> Any:
    return _WORDS.get(value, value) if isinstance(value, str) else value


class Progress:
    """How far training is: one living line on a terminal, elsewhere a line now and then. Nothing on stdout.

    A process without stderr trains in silence. Where stderr is a pipe that nobody reads any more, that is a
    TrainingError: training has no other result for whoever would have had enough of it.

    with Progress(steps) as progress:
        progress.update(step=1, epoch=0, loss=9.2, tokens_per_second=9000.0)
        progress.message("step 1: bleu 0.1")
    """

    def __init__(
        self,
        steps: int,
        *,
        stream: TextIO | None = None,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Towards step `steps`, on `stream` (stderr); where that is no terminal, a line every so many seconds."""
        self._steps, self._every, self._clock = steps, every, clock
        self._stream: TextIO | None = stream or sys.stderr
        movable = os.environ.get("TERM") not in ("dumb", "unknown")
        self._line = _LivingLine(self._stream, steps) if self._stream and self._stream.isatty() and movable else None
        self._interval = 0.2 if self._line else every
        self._start: tuple[int, float] | None = None  # step and time of the first update
        self._shown = -math.inf  # when
        self._loss: float | None = None
        self._speed: float | None = None

    def update(self, *, step: int, epoch: int, loss: float, tokens_per_second: float) -> None:
        """Say where training is; loss and speed are shown smoothed, epochs from 1."""
        now = self._clock()
        self._start = self._start or (step, now)
        self._loss, self._speed = _blend(self._loss, loss), _blend(self._speed, tokens_per_second)
        if now - self._shown < self._interval and step != self._steps:
            return
        self._shown = now
        parts = [f"epoch {epoch + 1}", f"loss {self._loss:.3f}", f"{self._speed:,.0f} tokens/s", self._left(step, now)]
        text = "  ".join(filter(None, parts))
        if self._line is not None:
            self._line.show(step, text)
        else:
            self.message(f"step {step:,}/{self._steps:,}  {text}")

    def aim(self, steps: int) -> None:
        """Go towards another last step."""
        self._steps = steps
        if self._line is not None:
            self._line.aim(steps)

    def message(self, text: str) -> None:
        """Say something in between, above the living line."""
        if self._line is not None:
            self._line.message(text)
        elif self._stream is not None:  # print would take None for stdout
            try:
                print(text, file=self._stream, flush=True)
            except BrokenPipeError as error:
                raise TrainingError(
                    "training is stopped, since nobody reads its messages; go on with --resume"
                ) from error

    def close(self) -> None:
        """Leave the last state of the living line where it is."""
        if self._line is not None:
            self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _left(self, step: int, now: float) -> str:
        """The time left at the pace so far, with all that was not steps (evaluations) in it; nothing at first."""
        assert self._start is not None
        done, seconds = step - self._start[0], now - self._start[1]
        if done < 1:
            return ""
        minutes, rest = divmod(round(seconds / done * (self._steps - step)), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02} left" if hours else f"{minutes}:{rest:02} left"


class _LivingLine:
    """One line of a terminal that is written over again; by rich, without its thread, colours as NO_COLOR wants."""

    def __init__(self, stream: TextIO, steps: int) -> None:
        import rich.console
        import rich.progress

        console = rich.console.Console(file=stream, markup=False, highlight=False)
        step, bar, text = (
            "step {task.completed:,.0f}/{task.total:,.0f}",
            rich.progress.BarColumn(20),
            "{task.description}",
        )
        columns = (rich.progress.TextColumn(step), bar, rich.progress.TextColumn(text, markup=False))
        self._progress = rich.progress.Progress(*columns, console=console, auto_refresh=False, redirect_stdout=False)
        self._task = self._progress.add_task("", total=steps)
        self._progress.start()

    def show(self, step: int, text: str) -> None:
        self._progress.update(self._task, completed=step, description=text, refresh=True)

    def aim(self, steps: int) -> None:
        self._progress.update(self._task, total=steps)

    def message(self, text: str) -> None:
        self._progress.console.print(text, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


def _blend(average: float | None, value: float) -> float:
    return value if average is None else 0.9 * average + 0.1 * value
