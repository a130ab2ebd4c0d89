"""`metrics.jsonl`: the log of a run, one JSON object per line."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from ...errors import DataError, ModelError
from ...folder.atomic import write_file, writing
from ...folder.manifest import read_bytes

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has no numbers for these


class MetricsLog:
    """A log file. Each line is written completely before training continues."""

    def __init__(self, path: Path, *, after: int) -> None:
        """Open the log of a run that continues after step `after` (0 for a new run).

        This removes later lines, an incomplete last line, and the scores of averaged weights, which are logged after
        the last step.

        Raises:
            DataError: the file isn't a log.
        """
        self._path = path
        with writing(path.parent):
            if path.exists():
                _cut(path, after)
            self._file = path.open("ab", buffering=0)

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record of numbers and texts, {"step": ..., ...}. Finite floats can be read back bit for bit."""
        values = {name: _as_json(value) for name, value in record.items()}
        rest = memoryview(json.dumps(values, allow_nan=False).encode() + b"\n")
        with writing(self._path.parent):
            while rest:  # a nearly full disk accepts part of the data and fails on the next write
                rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Unlogged(MetricsLog):
    """A log that drops its records, because another process writes them."""

    def __init__(self) -> None:
        """Open no file."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return all records of a log in order, without an incomplete last line.

    Raises:
        DataError: the file is missing or isn't a log.
    """
    return [record for _, record in _parse(path, _read(path).split(b"\n"))]


def _cut(path: Path, after: int) -> None:
    """Keep only the lines up to step `after`. Rewrite the file only if it changes."""
    data = _read(path)
    records = _parse(path, data.split(b"\n"))
    kept = [line for line, record in records if record.get("step", 0) <= after and "averaged" not in record]
    text = b"".join(line + b"\n" for line in kept)
    if text != data:
        write_file(path, text)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except ModelError as error:
        raise DataError(error.what, expected=error.expected, name=str(path)) from error


def _parse(path: Path, lines: list[bytes]) -> list[tuple[bytes, dict[str, Any]]]:
    """Return each line with its parsed object. Drop an incomplete last line; raise on any other bad line."""
    records: list[tuple[bytes, dict[str, Any]]] = []
    bad = 0
    for number, line in enumerate(lines[:-1], start=1):  # the text after the last line feed isn't a complete line
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            bad = bad or number
        elif bad:
            what = f"line {bad} of {path} is damaged"
            raise DataError(what, expected="a JSON object", fix="delete the line to continue", name=str(path), line=bad)
        else:
            records.append((line, {name: _from_json(value) for name, value in values.items()}))
    return records


def _as_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _from_json(value: Any) -> Any:
    return _WORDS.get(value, value) if isinstance(value, str) else value
