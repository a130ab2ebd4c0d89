"""JSON lines: one object a line, with a string for the source and one for the target, at its top or nested."""

import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import DataConfig
from ..errors import DataError
from .headers import asked_columns, listed, named_pair
from .lines import decode, fault, shown, undecodable
from .report import Report
from .tables import Pair

_USUAL = 0.5  # of the first objects have a key that counts
_BEGUN = re.compile(rb"""\{\s*["']""")  # an object with a key, be it of another language


@dataclass(frozen=True)
class JsonLines:
    """How to read objects: the path of keys to the source, and to the target."""

    source: tuple[str, ...]
    target: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What the shards of a folder have in common."""
        return "JSON lines"

    @property
    def names(self) -> tuple[str, str]:
        """What source and target are called."""
        return ".".join(self.source), ".".join(self.target)

    def __str__(self) -> str:
        return "JSON lines, source in {}, target in {}".format(*self.names)

    def read(self, lines: Iterable[bytes], report: Report, before: int) -> Generator[Pair, None, int]:
        """The pairs, their lines counted after `before` others; returns the number of lines. The report is added to."""
        number = 0
        for number, line in enumerate(lines, 1):
            values, why = _object(line)
            if values is None:
                report.skip(before + number, why, undecodable(line))
                continue
            (source, why), (target, other) = (_string(values, path) for path in (self.source, self.target))
            if reason := why or other or fault(source, target) or _unsayable(line, source + target):
                report.skip(before + number, reason, undecodable(line))
            else:
                yield before + number, source, target
        report.lines += number
        return number


def look_for_json(name: str, head: Sequence[bytes], data: DataConfig) -> JsonLines | None:
    """The form of JSON lines whose first are `head`, None where they are something else.

    A DataError where it is JSON of another make, or broken, or where nothing tells which keys are meant.
    """
    spoken = [(number, line.strip()) for number, line in enumerate(head, 1) if line.strip()]
    objects = [values for _, line in spoken if (values := _object(line)[0]) is not None]
    if not objects or data.separator:
        _refuse_other_json(name, [line for _, line in spoken])
        if not data.separator:
            _refuse_broken_json(name, spoken)
        return None
    if 2 * sum(line.startswith(b"{") for _, line in spoken) < len(spoken):
        return None
    counts = Counter(path for values in objects for path in _paths(values))
    keys = [path for path, count in counts.items() if count >= _USUAL * len(objects)]
    names = [".".join(path) for path in keys]
    places = asked_columns(name, names, data, "key")
    if places is None:
        cells = [[it for values in objects if (it := _string(values, path)[0])] for path in keys]
        places = named_pair([path[-1] for path in keys], cells) or ((0, 1) if len(names) == 2 else None)
    if places is None:
        number, line = spoken[0]
        raise DataError(
            f"{name} has JSON objects with {len(names)} key{'' if len(names) == 1 else 's'} of strings; expected two, "
            "or names that tell, or: --source-column KEY --target-column KEY"
            f"\n  line {number}: {shown(undecodable(line))}" + (f"\n  keys: {listed(names)}" if names else "")
        )
    source, target = (keys[place] for place in (places[::-1] if data.reverse else places))
    return JsonLines(source, target)


def _refuse_other_json(name: str, spoken: Sequence[bytes]) -> None:
    first = spoken[0] if spoken else b""
    if b"\t" not in first and (first in (b"{", b"[") or first.startswith((b"[{", b"[ {"))):
        raise DataError(
            f"{name} is JSON that is no JSON lines; expected one object a line; to convert: "
            + ("jq -c . FILE" if first.startswith(b"{") else "jq -c '.[]' FILE")
        )


def _refuse_broken_json(name: str, spoken: Sequence[tuple[int, bytes]]) -> None:
    """Lines that begin as objects and are none would be cut at their commas, as if they were a CSV."""
    begun = [(number, line) for number, line in spoken if _BEGUN.match(line) and b"\t" not in line]
    if begun and 2 * len(begun) >= len(spoken):
        number, line = begun[0]
        raise DataError(
            f"{name} looks like JSON lines, and none of the first is an object that can be read\n"
            f"  line {number}: {shown(undecodable(line))}\n"
            '  expected {"source": "…", "target": "…"} on each line, with double quotes and without a comma behind it; '
            "if it is a table: --separator"
        )


def _paths(values: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that lead to strings."""
    for key, value in values.items():
        if isinstance(value, str):
            yield (*above, key)
        elif isinstance(value, dict) and len(above) < 8:
            yield from _paths(value, (*above, key))


def _object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    text = decode(line)
    if text is None:
        return None, "not UTF-8"
    if not text.strip():
        return None, "blank line"
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        return None, "not JSON"
    return (values, "") if isinstance(values, dict) else (None, "no JSON object")


def _string(values: Any, path: Sequence[str]) -> tuple[str, str]:
    """The string at the end of a path, or "" and the reason why there is none."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return "", f"no key {'.'.join(path)}"
        values = values[key]
    return (values, "") if isinstance(values, str) else ("", f"no string in {'.'.join(path)}")


def _unsayable(line: bytes, text: str) -> str | None:
    """Escapes may spell half a character, which no tokenizer can read."""
    if b"\\u" in line and any("\ud800" <= letter <= "\udfff" for letter in text):
        return "half of a surrogate pair"
    return None
