"""Answer image and audio files named on the command line or on standard input.

An unreadable file doesn't affect the others: its line of output is empty, or a JSON object with the key "error", so
that line n still belongs to file n. The command then ends with exit code 1.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import DataError
from .input_lines import Place
from .lines.printed import Printed
from .output import to_json

if TYPE_CHECKING:
    from ..api import App


class MediaInputs:
    """Answers files, including those that can't be read.

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
