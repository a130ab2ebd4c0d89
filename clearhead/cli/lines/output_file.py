"""Output files that survive a kill: a progress record next to the file tells how many lines are complete.

out.fr.progress: {"format_version": 1, "lines": 2000, "bytes": 81245, "input": "6e34...", "run": {"verb": ...}}

The record is replaced atomically once a second, after the lines that it counts are on the disk. To resume, whatever
follows them is cut off, and the input is read again up to there and compared by its SHA-256. A file without a record is
complete if it has as many lines as the input.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, cast

from ...config.messages import say
from ...config.values import counted
from ...errors import DataError
from ...folder.atomic import partial_path, write_file, writing
from ..input_lines import Place

_EVERY = 1.0  # seconds between records, each of which waits for the disk
_FORMAT = 1


class OutputFile:
    """An output file with a progress record.

    Args:
        run: what the answers depend on, apart from the input. It must be the same when the run is resumed.
        whole: True if the file only gets its name when it's complete. Until then, its name is that of `partial_path`.

    Raises:
        DataError: the file is from an unfinished run and `resume` is False, or its record can't be used.
    """

    def __init__(
        self,
        path: Path,
        run: Mapping[str, str],
        *,
        resume: bool,
        whole: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path, self.run, self._clock, self._saved = path, dict(run), clock, clock()
        self._final = Path(os.path.realpath(path)) if whole else None  # of a link, the file that it names is replaced
        self._target = partial_path(self._final) if self._final else path
        self.record = path.with_name(f"{path.name}.progress")
        with writing(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._digest = hashlib.sha256()
        self._lines = self._bytes = 0
        self.skipped = 0
        """Bytes of input that were answered before."""
        begun = self._read() if self.record.exists() else None
        if begun and not resume:
            what = f"{path} is from an unfinished run"
            fix = f"continue it with --resume, or delete {self.record} to start again"
            raise DataError(what, fix=fix, name=str(path))
        self._file: IO[bytes] | None = None
        self._finished = resume and not begun and path.exists() and not whole
        if self._finished:
            return
        if begun:
            self._lines, self._bytes, self._expected = begun["lines"], begun["bytes"], begun["input"]
            for name, value in self.run.items():
                if begun["run"].get(name) != value:
                    raise self._changed(f"the {name}")
        else:
            self._save()
        self._file = self._target.open("r+b" if begun and self._target.exists() else "wb")
        self._file.truncate(self._bytes)
        self._file.seek(self._bytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file. Without `finish`, it can be resumed."""
        if self._file:
            self._file.close()

    def unanswered(self, groups: Iterator[Sequence[Place]]) -> Iterator[Sequence[Place]]:
        """Yield the lines that the file has no answers for yet. Raise DataError if the other lines have changed."""
        if self._finished:
            self._expect_as_many(sum(map(len, groups)))
            return
        left = self._lines
        for group in groups:
            if left:
                self.skipped += self._add_input(group[:left])
                group, left = group[left:], max(0, left - len(group))
                if not left and self._digest.hexdigest() != self._expected:
                    raise self._changed(f"line 1 to {self._lines:,} of the input")
            if group:
                yield group
        if left:
            raise self._changed(f"the input, which has only {counted(self._lines - left, 'lines')},")

    def begin(self, data: bytes) -> None:
        """Write what comes before all answers, unless it was written before."""
        if not self._bytes:
            self.write_bytes((), data)

    def write(self, group: Sequence[Place], lines: Sequence[str]) -> None:
        """Write the answers to a group of lines."""
        self.write_bytes(group, "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))

    def write_bytes(self, group: Sequence[Place], data: bytes) -> None:
        """Write what answers a group of lines."""
        cast(IO[bytes], self._file).write(data)
        self._add_input(group)
        self._lines += len(group)
        self._bytes += len(data)
        if self._clock() - self._saved >= _EVERY:
            self._save()

    def finish(self) -> None:
        """Remove the record, because the file is complete."""
        if self._file:
            self._sync()
            self.record.unlink()
            if self._final:
                self._target.replace(self._final)

    def _expect_as_many(self, lines: int) -> None:
        """Raise DataError unless the finished file has this many lines."""
        with self.path.open("rb") as file:
            found = sum(1 for _ in file)
        if found != lines:
            has = counted(found, "lines")
            what = f"{self.path} has {has}, the input has {lines:,}, and {self.record.name} is missing"
            expected = f"a file that was begun by this command, with {self.record.name}"
            fix = f"to start again, delete {self.path}"
            raise DataError(what, expected=expected, fix=fix, name=str(self.path), value=found)
        say(f"{self.path} is complete: {counted(lines, 'lines')}")

    def _add_input(self, group: Sequence[Place]) -> int:
        """Add lines to the digest of the input, and return their size in bytes."""
        data = "".join(f"{line.text}\n" for _, line in group).encode("utf-8", "surrogatepass")
        self._digest.update(data)
        return len(data)

    def _sync(self) -> None:
        file = cast(IO[bytes], self._file)
        file.flush()
        os.fsync(file.fileno())

    def _save(self) -> None:
        """Write the record. Everything that it counts is on the disk first."""
        if self._lines:
            self._sync()
        values = {"format_version": _FORMAT, "lines": self._lines, "bytes": self._bytes}
        write_file(
            self.record, json.dumps({**values, "input": self._digest.hexdigest(), "run": self.run}).encode() + b"\n"
        )
        self._saved = self._clock()

    def _read(self) -> dict[str, Any]:
        """Return the record. Raise DataError if it's damaged or belongs to a different run."""
        try:
            values: dict[str, Any] = json.loads(self.record.read_bytes())
            counts, run = (int(values["lines"]), int(values["bytes"]), str(values["input"])), dict(values["run"])
        except (ValueError, TypeError, KeyError) as error:
            raise self._unusable(f"{self.record} is damaged") from error
        size = self._target.stat().st_size if self._target.exists() else 0
        if counts[1] > size:
            raise self._unusable(f"{self.path} has {size:,} bytes, but {self.record.name} counts {counts[1]:,}")
        return {"lines": counts[0], "bytes": counts[1], "input": counts[2], "run": run}

    def _changed(self, what: str) -> DataError:
        return self._unusable(f"{what} changed after {self.path} was begun")

    def _unusable(self, what: str) -> DataError:
        fix = f"to start again, delete {self.path.name} and {self.record.name}"
        return DataError(what, fix=fix, name=str(self.path))
