"""JSON lines: one object a line, with a string for the source and one for the target, at its top or nested.

A label may also be a number or a boolean; a document may be a list of its sentences, and of summaries there may be a
list, each of which makes a pair of its own.
"""

import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..config import DataConfig
from ..errors import DataError
from .column_roles import SENTENCES, Roles
from .headers import asked_columns, listed
from .lines import decode, shown, undecodable
from .skipped import Report
from .tables import Pair

_USUAL = 0.5  # of the first objects have a key that counts
_BEGUN = re.compile(rb"""\{\s*["']""")  # an object with a key, be it of another language


class Written(float):
    """A number that knows how it was written: 1.10 is another label than 1.1."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Of a number in JSON with a fraction or an exponent."""
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass(frozen=True)
class JsonLines:
    """How to read objects: the path of keys to the source, and to the target."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    roles: Roles = SENTENCES

    @property
    def kind(self) -> str:
        """What the shards of a folder have in common."""
        return "JSON lines"

    @property
    def names(self) -> tuple[str, str]:
        """What source and target are called."""
        return ".".join(self.source), ".".join(self.target)

    def __str__(self) -> str:
        source, target = self.names
        return f"JSON lines, {self.roles.source} in {source}, {self.roles.target} in {target}"

    def read(self, lines: Iterable[bytes], report: Report, before: int) -> Generator[Pair, None, int]:
        """The pairs, their lines counted after `before` others; returns the number of lines. The report is added to."""
        number = several = 0
        for number, line in enumerate(lines, 1):
            values, why = read_object(line)
            if values is None:
                report.skip(before + number, why, undecodable(line))
                continue
            source, why = self._source(values)
            targets, other = self._targets(values)
            several += len(targets) > 1
            for target in targets:
                wrong = why or other or self.roles.fault(source, target)
                if reason := wrong or half_a_character(line, source + target):
                    report.skip(before + number, reason, undecodable(line))
                else:
                    yield before + number, source, target
        if several:
            report.notes.append(f"several in {self.names[1]} on {several:,} lines: each makes a pair of its own")
        report.lines += number
        return number

    def _source(self, values: dict[str, Any]) -> tuple[str, str]:
        """The text, or "" and the reason why there is none."""
        value, why = value_at(values, self.source)
        if isinstance(value, str):
            return value, ""
        if self.roles.lists and _is_list(value):
            return " ".join(value), ""
        return "", why or f"no string in {self.names[0]}"

    def _targets(self, values: dict[str, Any]) -> tuple[list[str], str]:
        """All there are, one at least, which is "" with the reason where there is none."""
        value, why = value_at(values, self.target)
        if self.roles.lists and _is_list(value):
            return value or [""], ""
        text = _text(value, self.roles)
        if text is None:
            return [""], why or f"no {self.roles.target if self.roles.labels else 'string'} in {self.names[1]}"
        return [text], ""


def look_for_json(name: str, head: Sequence[bytes], data: DataConfig, roles: Roles = SENTENCES) -> JsonLines | None:
    """The form of JSON lines whose first are `head`, None where they are something else.

    A DataError where it is JSON of another make, or broken, or where nothing tells which keys are meant.
    """
    spoken = [(number, line.strip()) for number, line in enumerate(head, 1) if line.strip()]
    objects = [values for _, line in spoken if (values := read_object(line)[0]) is not None]
    if not objects or data.separator:
        _refuse_other_json(name, [line for _, line in spoken])
        if not data.separator:
            _refuse_broken_json(name, spoken, roles)
        return None
    if 2 * sum(line.startswith(b"{") for _, line in spoken) < len(spoken):
        return None
    counts = Counter(path for values in objects for path in _paths(values, roles))
    keys = [path for path, count in counts.items() if count >= _USUAL * len(objects)]
    names = [".".join(path) for path in keys]
    places = asked_columns(name, names, data, "key")
    if places is None:
        cells = [[it for values in objects if (it := _cell(values, path, roles))] for path in keys]
        places = roles.keys([path[-1] for path in keys], cells)
    if places is None:
        raise _no_keys(name, names, *spoken[0], roles)
    source, target = (keys[place] for place in (places[::-1] if data.reverse else places))
    return JsonLines(source, target, roles)


def _no_keys(name: str, names: Sequence[str], number: int, line: bytes, roles: Roles) -> DataError:
    of = "strings or numbers" if roles.labels else "strings"
    expected = f"names such as {roles.source} and {roles.target}" if roles.source_names else "two, or names that tell"
    return DataError(
        f"{name} has JSON objects with {len(names)} key{'' if len(names) == 1 else 's'} of {of}; expected {expected}, "
        "or: --source-column KEY --target-column KEY"
        f"\n  line {number}: {shown(undecodable(line))}" + (f"\n  keys: {listed(names)}" if names else "")
    )


def _refuse_other_json(name: str, spoken: Sequence[bytes]) -> None:
    first = spoken[0] if spoken else b""
    if b"\t" not in first and (first in (b"{", b"[") or first.startswith((b"[{", b"[ {"))):
        raise DataError(
            f"{name} is JSON that is no JSON lines; expected one object a line; to convert: "
            + ("jq -c . FILE" if first.startswith(b"{") else "jq -c '.[]' FILE")
        )


def _refuse_broken_json(name: str, spoken: Sequence[tuple[int, bytes]], roles: Roles) -> None:
    """Lines that begin as objects and are none would be cut at their commas, as if they were a CSV."""
    begun = [(number, line) for number, line in spoken if _BEGUN.match(line) and b"\t" not in line]
    if begun and 2 * len(begun) >= len(spoken):
        number, line = begun[0]
        raise DataError(
            f"{name} looks like JSON lines, and none of the first is an object that can be read\n"
            f"  line {number}: {shown(undecodable(line))}\n"
            f'  expected {{"{roles.source}": "…", "{roles.target}": "…"}} on each line, with double quotes and '
            "without a comma behind it; if it is a table: --separator"
        )


def _paths(values: dict[str, Any], roles: Roles, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that lead to what may be read."""
    for key, value in values.items():
        if isinstance(value, dict) and len(above) < 8:
            yield from _paths(value, roles, (*above, key))
        elif _text(value, roles) is not None or (roles.lists and _is_list(value)):
            yield (*above, key)


def _text(value: Any, roles: Roles) -> str | None:
    """A string; of a label also a number or a boolean as it is written in JSON; None for anything else."""
    if isinstance(value, str):
        return value
    if roles.labels and isinstance(value, Written):
        return value.text
    return json.dumps(value) if roles.labels and isinstance(value, bool | int | float) else None


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(it, str) for it in value)


def _cell(values: dict[str, Any], path: Sequence[str], roles: Roles) -> str:
    """What stands at the end of a path, as it would in a table."""
    value, _ = value_at(values, path)
    return " ".join(value) if _is_list(value) else _text(value, roles) or ""


def read_object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """The object of a line, or None and the reason why there is none."""
    text = decode(line)
    if text is None:
        return None, "not UTF-8"
    if not text.strip():
        return None, "blank line"
    try:
        values = json.loads(text, parse_float=Written)
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        return None, "not JSON"
    return (values, "") if isinstance(values, dict) else (None, "no JSON object")


def value_at(values: Any, path: Sequence[str]) -> tuple[Any, str]:
    """The value at the end of a path, or None and the reason why there is none."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return None, f"no key {'.'.join(path)}"
        values = values[key]
    return values, ""


def half_a_character(line: bytes, text: str) -> str | None:
    """Escapes may spell half a character, which no tokenizer can read."""
    if b"\\u" in line and any("\ud800" <= letter <= "\udfff" for letter in text):
        return "half of a surrogate pair"
    return None
