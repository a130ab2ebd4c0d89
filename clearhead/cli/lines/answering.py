"""Options and main loop of the verbs that answer each line of input with a line of output.

The lines can be names of image and audio files. One that can't be read doesn't affect the others: its line of output is
empty, or a JSON object with the key "error", so that line n still belongs to file n. The command then ends with exit
code 1.
"""

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeAlias

from ...config.messages import say
from ...errors import DataError
from ..input_lines import Answer, Place, Printed
from ..output import ProgressLine, new_regular_file, to_json
from ..parser import Options, Parser, UsageError
from ..rejection import MARK, Rejection, add_rejection_options
from .in_order import InOrder
from .measured_engines import Engines, n_bytes

if TYPE_CHECKING:
    from ...api import App
    from .output_file import OutputFile

CAN_FORK = sys.platform == "linux"  # macOS can, too, but its libraries don't survive it
_KILLS = "it killed two workers"
Failure: TypeAlias = Callable[[int, int], DataError]


def lost_lines(count: int, total: int) -> DataError:
    """Return the error for lines that killed workers."""
    what = f"{count:,} of {total:,} lines have no answer: each killed two workers"
    return DataError(what, fix="answer them alone with --workers 1 to see why", value=count)


def add_line_options(parser: Parser) -> None:
    """Add the options for worker processes and output files."""
    parser.add_value("--out", "FILE", "write to this file (default: standard output)", type=new_regular_file)
    parser.add_flag("--resume", "continue the --out file of a run that was stopped")
    parser.add_number(
        "--workers", "worker processes for many lines (default: one per core, or 1 with --threads)", least=1, most=1024
    )
    add_rejection_options(parser)


def check_line_options(options: Options, app: "App") -> None:
    """Raise UsageError if the options for workers and output files can't be used."""
    if options.resume and not options.out:
        raise UsageError("--resume needs --out, the file to continue")
    number_of_workers(options, app)


def number_of_workers(options: Options, app: "App") -> int:
    """Return the number of workers.

    Raises:
        UsageError: it's invalid, or the model can't be shared between processes.
    """
    asked, threads = options.workers, app.config.train.threads
    if asked is None and threads is not None:
        return 1
    why = _obstacle(app, threads or 1)
    if asked is None:
        from ...decode.engine import usable_cores

        return 1 if why else usable_cores()
    if why and asked > 1:
        raise UsageError(f"--workers {asked} can't be used: {why}", fix="use --workers 1", value=asked)
    return asked


def _obstacle(app: "App", threads: int) -> str:
    """Return the reason why this process can't share the model with workers, or ""."""
    if not CAN_FORK:
        return "worker processes need Linux"
    if app.config.train.device != "cpu":
        return f"the model runs on {app.config.train.device}"
    if threads > 1:
        return "a worker has one thread, so --threads has no effect"
    own = [
        name.split()[0] for name, engine in app.loaded.handle.engines.items() if getattr(engine, "own_threads", False)
    ]
    return f"the engine {own[0]!r} has threads of its own, which use all cores" if own else ""


class LineAnswers:
    """Prints the answer to each line, or writes it to a file.

    Args:
        settings: the settings that change the answers.
        as_json: whether answers are JSON lines, with the input under `key`.
    """

    def __init__(
        self, options: Options, app: "App", settings: Mapping[str, Any], *, as_json: bool, key: str = "source"
    ) -> None:
        self.options, self.app, self.as_json, self.key = options, app, as_json, key
        self.settings = {**settings, "json": as_json}
        self.n_lines = self.n_failed = self.n_rejected = 0
        self.rejection = Rejection.of(options, app)
        if self.rejection is not None:
            self.settings["reject_below"] = self.rejection.least
        self.engines = Engines()

    def printed(self, record: Any, text: str, notes: tuple[str, ...]) -> Printed:
        """Return the output for a record, in which an answer is marked if its confidence is too low.

        Args:
            record: the answer with its scores, for JSON and for its confidence.
            text: the answer as a line of plain output.
            notes: messages about the line, for stderr.
        """
        rejected = self.rejection is not None and self.rejection(record)
        if self.as_json:
            values = record.to_dict() if self.rejection is None else self.rejection.marked(record)
            return Printed(to_json(values), notes, rejected=rejected)
        return Printed(MARK if rejected else text, notes, rejected=rejected)

    def run(
        self,
        groups: Iterable[Sequence[Place]],
        answer: Answer,
        *,
        piped: bool,
        failure: Failure = lost_lines,
        engines: Engines | None = None,
    ) -> None:
        """Answer groups of lines.

        Args:
            answer: answers some of them.
            piped: whether the lines are those of standard input.
            failure: returns the error for lines without an answer, given their number and that of all lines.
            engines: chooses the engine of the workers.

        Raises:
            DataError: lines have no answer. The others have been answered.
        """
        self.engines = engines or self.engines
        with self._output_file() or nullcontext() as file:
            self._run(groups, answer, file, sys.stdin.fileno() if piped and sys.stdin else None)
        if self.rejection is not None:
            say(self.rejection.said(self.n_rejected))
        if self.n_failed:
            raise failure(self.n_failed, self.n_lines)

    def _run(
        self, groups: Iterable[Sequence[Place]], answer: Answer, file: "OutputFile | None", descriptor: int | None
    ) -> None:
        lines = file.unanswered(iter(groups)) if file else iter(groups)
        shown = file or not sys.stdout.isatty()  # the answers themselves show the progress on a terminal
        with ProgressLine(None if shown else StringIO()) as progress:
            counter = _Counter(progress, file, self._input_size(descriptor))
            self.engines.unread = counter.left
            workers = partial(number_of_workers, self.options, self.app)
            in_order = InOrder(answer, workers, self._unanswered, counter, self.engines)
            for group, printed in in_order.run(lines, descriptor):
                self._print(group, printed, file, progress)
        self._finish(file)

    def _finish(self, file: "OutputFile | None") -> None:
        if file:
            file.finish()

    def _input_size(self, descriptor: int | None) -> int | None:
        """Return the size of the input, if it's known: that of a regular file."""
        if descriptor is None:
            return None
        found = os.fstat(descriptor)
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def _output_file(self, *, whole: bool = False, **facts: str) -> "OutputFile | None":
        """Open the output file. `facts` are what else the answers depend on; see `OutputFile`."""
        if not self.options.out:
            return None
        from ...folder.adapters import weights_digest
        from ...folder.manifest import Manifest
        from ...folder.model_folder import CONFIDENCE, CONFIG, TOKENIZER
        from .output_file import OutputFile

        files = Manifest.read(self.app.path).files
        weights = weights_digest(self.app.path) or ""
        model = " ".join([*(files.get(name, "") for name in (CONFIG, TOKENIZER, CONFIDENCE)), weights])
        settings = {name: value for name, value in self.settings.items() if name != "batch_tokens"}
        run = {"verb": self.app.task.verb, "model": model, "settings": json.dumps(settings, sort_keys=True), **facts}
        return OutputFile(self.options.out, run, resume=self.options.resume, whole=whole)

    def _print(
        self, group: Sequence[Place], printed: Sequence[Printed], file: "OutputFile | None", progress: ProgressLine
    ) -> None:
        for it in printed:
            if it.notes:
                progress.clear()
            for note in it.notes:
                say(note)
            if not file:
                print(it.text)
        if file:
            file.write(group, [it.text for it in printed])
        else:
            sys.stdout.flush()
        self._count(group, printed)

    def _count(self, group: Sequence[Place], printed: Sequence[Printed]) -> None:
        self.n_lines += len(group)
        self.n_failed += sum(it.failed for it in printed)
        self.n_rejected += sum(it.rejected for it in printed)

    def _unanswered(self, place: Place) -> Printed:
        """Return the output for a line that killed two workers."""
        where, line = place
        text = to_json({self.key: line.text, "error": _KILLS}) if self.as_json else ""
        return Printed(text, (f"error: {where} has no answer: {_KILLS}",), failed=True)


class _Counter:
    """Counts lines that have been answered, and shows their share of an input of `size` bytes."""

    def __init__(self, progress: ProgressLine, file: "OutputFile | None", size: int | None) -> None:
        self._progress, self._file, self._size = progress, file, size
        self._lines = self._bytes = 0

    def __call__(self, places: Sequence[Place]) -> None:
        self._lines += len(places)
        self._bytes += n_bytes(places)
        share = None if self._size is None else self._bytes / max(1, self._bytes + self.left())
        self._progress.lines(self._lines, share)

    def left(self) -> int:
        """Return the number of bytes that aren't answered, or 0 if it isn't known."""
        skipped = self._file.skipped if self._file else 0
        return max(0, (self._size or 0) - skipped - self._bytes)


class MediaInputs:
    """Answers image or audio files, including those that can't be read.

    Args:
        answer: returns the results for files.
        show: returns the output for the name of a file and its result.
        as_json: whether answers are JSON lines, with the name of the file under `key`.
    """

    def __init__(
        self,
        app: "App",
        answer: Callable[[list[str]], Sequence[Any]],
        show: Callable[[str, Any], Printed],
        *,
        as_json: bool,
        key: str = "source",
    ) -> None:
        task: Any = app.task
        self._reader, self._what = task.reader, task.units.sources
        self._answer, self._show, self._as_json, self._key = answer, show, as_json, key

    def __call__(self, places: Sequence[Place]) -> list[Printed]:
        names = [line.text for _, line in places]
        try:
            return [self._show(name, result) for name, result in zip(names, self._answer(names))]
        except DataError:  # find out which
            faults = {name: fault for name in dict.fromkeys(names) if (fault := self._fault(name))}
            if not faults:
                raise
        good = [name for name in names if name not in faults]
        shown = map(self._show, good, self._answer(good) if good else ())
        return [self._unread(name, faults[name]) if name in faults else next(shown) for name in names]

    def error(self, count: int, total: int) -> DataError:
        """Return the error for files that can't be read."""
        what = f"{count:,} of {total:,} {self._what} can't be read"
        return DataError(what, expected="existing files in a format that can be read", value=count)

    def _unread(self, name: str, fault: DataError) -> Printed:
        line = to_json({self._key: name, "error": fault.what}) if self._as_json else ""
        return Printed(line, (f"error: {fault}",), failed=True)

    def _fault(self, name: str) -> DataError | None:
        try:
            self._reader.encode([name])
        except DataError as error:
            return error
        return None
