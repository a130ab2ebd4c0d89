"""Answer image and audio files named on the command line or on standard input. One that can't be read loses no others.

Its line of output is empty, or a JSON object with the key "error", so that line n still belongs to file n. The command
then ends with exit code 1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..config.messages import say
from ..errors import DataError
from .output import to_json

if TYPE_CHECKING:
    from ..api import App

Answer = Callable[[list[str]], Sequence[Any]]


class MediaInputs:
    """Counts the files that can't be read.

    Args:
        app: the app that reads them.
        as_json: whether answers are JSON lines.
        key: their key for the name of a file.
    """

    def __init__(self, app: "App", *, as_json: bool, key: str = "source") -> None:
        self._encoder: Any = app.task.encoder
        self._what, self._as_json, self._key = app.task.units.sources, as_json, key
        self._n_files = self._n_unread = 0
        self._faults = dict[str, DataError]()

    def answered(self, names: Iterable[str], answer: Answer) -> list[Any]:
        """Return the result for each file, or None for one that can't be read, which is reported."""
        files = list(names)
        self._n_files += len(files)
        try:
            return list(answer(files))
        except DataError:  # find out which
            faults = {name: fault for name in dict.fromkeys(files) if (fault := self._fault(name))}
            if not faults:
                raise
        self._faults |= faults
        for name in files:
            if name in faults:
                self._n_unread += 1
                say(f"error: {faults[name]}")
        good = [name for name in files if name not in faults]
        results = iter(answer(good) if good else ())
        return [None if name in faults else next(results) for name in files]

    def shown(self, name: str) -> str:
        """Return the line of output for a file that couldn't be read."""
        return to_json({self._key: name, "error": self._faults[name].what}) if self._as_json else ""

    def is_unread(self, name: str) -> bool:
        """Return whether a file couldn't be read."""
        return name in self._faults

    def finish(self) -> None:
        """Raise a DataError if a file couldn't be read."""
        if self._n_unread:
            raise DataError(
                f"{self._n_unread:,} of {self._n_files:,} {self._what} can't be read",
                expected="existing files in a format that can be read",
                value=self._n_unread,
            )

    def _fault(self, name: str) -> DataError | None:
        try:
            self._encoder.tokens([name])
        except DataError as error:
            return error
        return None
