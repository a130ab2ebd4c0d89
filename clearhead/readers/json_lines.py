"""JSON Lines: one object per line, with a source and a target string at any depth. An array with an element per line
is read as well.

A label may also be a number or a boolean. A document may be a list of sentences. Each entry in a list of summaries
makes a pair.
"""

import json
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from ..config import DataConfig
from ..errors import DataError
from .column_roles import LABELLED, SENTENCES, Roles, joined_labels
from .columns import Sample, listed, rows_to_inspect
from .lines import decode, has_surrogate, shown, undecodable
from .skipped import Report
from .tables import Pair

_USUAL = 0.5  # share of the first objects that must have a key
BRACKET = "bracket of a JSON array"  # the reason for a line that is only "[" or "]"
_ELEMENT = re.compile(r"(?!\[.*\]$)\[?\s*(\{.*\})\s*[,\]]?")  # an object in an array with an element per line
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_BEGUN = re.compile(rb"""\{\s*["']""")  # an object with a key, in JSON or another language


class Written(float):
    """A number that keeps its spelling: the labels 1.10 and 1.1 are different."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Parse a JSON number with a fraction or an exponent."""
        number = super().__new__(cls, text)
        number.text = text
        return number


@dataclass(frozen=True)
class JsonLines:
    """Format of JSON objects: the key paths of the source's parts, and the key path of the target."""

    sources: tuple[tuple[str, ...], ...]
    target: tuple[str, ...]
    roles: Roles = SENTENCES
    kind: str = "JSON lines"  # the format, which all files of a folder must share
    several: tuple[tuple[str, ...], ...] = ()  # keys of labels, if there are several, of which the target is the first

    @property
    def names(self) -> tuple[str, str]:
        """Return the names of source and target."""
        targets = map(".".join, self.several or (self.target,))
        return " + ".join(map(".".join, self.sources)), ", ".join(targets)

    def __str__(self) -> str:
        source, target = self.names
        return f"{self.kind}, {self.roles.source} in {source}, {self.roles.target} in {target}"

    def described(self) -> str:
        """Return a description of the keys in use."""
        source, target = self.names
        return f"{self.roles.source}: {source}; {self.roles.target}: {target}"

    def read(self, lines: Iterable[bytes], report: Report, before: int) -> Generator[Pair, None, int]:
        """Yield the pairs, then return the number of lines. Line numbers start at `before` + 1.

        Args:
            lines: the lines of a file, without their ends.
            report: counts the lines, and gets those that can't be used.
            before: number of lines in the files before this one.
        """
        number = several = brackets = 0
        for number, line in enumerate(lines, 1):
            values, why = read_object(line)
            if why == BRACKET:
                brackets += 1
                continue
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
            report.notes.append(f"lines with several values in {self.names[1]}: {several:,}; each value makes a pair")
        report.lines += number - brackets
        return number

    def replaced(self, record: str, old: Sequence[str], new: Sequence[str]) -> str | None:
        """Return an object, and what follows it, with another source and target, or None if it can't hold them.

        Args:
            record: an object, and what follows it, with the line ends.
            old: its source and target, as they were read.
            new: what replaces them. Everything else stays the same.
        """
        line, end, rest = record.partition("\n")
        for path, before, after in zip((*self.sources[:1], self.target), old, new):
            values = read_object(line.encode())[0]
            if before == after:
                continue
            if len(self.sources) > 1 or value_at(values, path)[0] != before:
                return None
            value_at(values, path[:-1])[0][path[-1]] = after
            spelled = json.dumps(after, ensure_ascii=line.isascii())
            tries = (line[: it.start()] + spelled + line[it.end() :] for it in _STRING.finditer(line))
            line = next((it for it in tries if read_object(it.encode())[0] == values), "")
        return line + end + rest if line else None

    def _source(self, values: dict[str, Any]) -> tuple[str, str]:
        """Return the text and "", or "" and the reason why there is none."""
        parts = []
        for path in self.sources:
            value, why = value_at(values, path)
            if self.roles.lists and _is_list(value):
                value = " ".join(value)
            if isinstance(value, str):
                parts.append(value)
            elif len(self.sources) == 1 or value is not None:
                return "", why or f"no string in {'.'.join(path)}"
        return parts[0] if len(parts) == 1 else " ".join(filter(str.strip, parts)), ""

    def _targets(self, values: dict[str, Any]) -> tuple[list[str], str]:
        """Return the targets and "", or [""] and the reason why there is none."""
        if self.several:
            names, read = zip(*((path[-1], value_at(values, path)[0]) for path in self.several))
            target, why = self.roles.joined(names, [_text(it, self.roles) for it in read])
            return [target], why
        value, why = value_at(values, self.target)
        if self.roles.separator and (found := labels_of(value)) is not None:
            return [joined_labels(found)], ""
        if self.roles.lists and _is_list(value):
            return value or [""], ""
        text = _text(value, self.roles)
        if text is None:
            return [""], why or f"no {self.roles.target if self.roles.labels else 'string'} in {self.names[1]}"
        return [self.roles.labels_in(text)], ""


def detect_json_lines(name: str, head: Sequence[bytes], data: DataConfig, roles: Roles = SENTENCES) -> JsonLines | None:
    """Detect how to read JSON Lines from the first lines. Return None for any other format.

    Args:
        name: name of the file, for messages.
        head: first lines of the file.
        data: settings, which may set the keys.
        roles: SENTENCES, LABELLED or SUMMARIES.

    Raises:
        DataError: the JSON has another structure or is broken, or the keys to use are ambiguous.
    """
    objects = json_objects(name, head, data, roles)
    if not objects:
        return None
    keys, sample = sample_json(name, objects, roles)
    columns = roles.asked(sample, data) or roles.keys(sample)
    if columns is None:
        number, line = next((number, line.strip()) for number, line in enumerate(head, 1) if line.strip())
        raise _no_keys(name, sample.names, number, line, roles)
    sources, target = columns if not data.reverse else ((columns[1],), columns[0][0])
    several = tuple(keys[place] for place in roles.several(sample, data))
    roles.expect_distinct(name, [path[-1] for path in several])
    return JsonLines(tuple(keys[place] for place in sources), keys[target], roles, several=several)


def json_objects(name: str, head: Sequence[bytes], data: DataConfig, roles: Roles) -> list[dict[str, Any]]:
    """Return the objects of JSON Lines, or none for any other format.

    Args:
        name: name of the file, for messages.
        head: first lines of the file.
        data: settings. With `data.separator`, the file isn't JSON.
        roles: names of source and target, for messages.

    Raises:
        DataError: the JSON has another structure or is broken.
    """
    spoken = [(number, line.strip()) for number, line in enumerate(head, 1) if line.strip()]
    objects = [values for _, line in spoken if (values := read_object(line)[0]) is not None]
    if not objects or data.separator:
        _reject_other_json(name, [line for _, line in spoken])
        if not data.separator:
            _reject_broken_json(name, spoken, roles)
        return []
    return objects if 2 * sum(line.startswith(b"{") for _, line in spoken) >= len(spoken) else []


def sample_json(name: str, objects: Sequence[dict[str, Any]], roles: Roles) -> tuple[list[tuple[str, ...]], Sample]:
    """Return the paths of the usual keys whose values a task can use, and a sample with their dotted names.

    Args:
        name: name of the file, for messages.
        objects: the first objects.
        roles: which kinds of values a task can use.
    """
    counts = Counter(path for values in objects for path in _paths(values, roles))
    keys = [path for path, count in counts.items() if count >= _USUAL * len(objects)]
    objects = objects[: rows_to_inspect(name, len(keys), "key")]
    cells = [[it for values in objects if (it := _cell(values, path, roles))] for path in keys]
    return keys, Sample(name, [".".join(path) for path in keys], cells, header=True, what="key")


def _no_keys(name: str, names: Sequence[str], number: int, line: bytes, roles: Roles) -> DataError:
    of = f"key{'' if len(names) == 1 else 's'} of {'strings or numbers' if roles.labels else 'strings'}"
    keys = f"\n  keys: {listed(names)}" if names else ""
    what = f"{name} has JSON objects with {len(names)} {of}\n  line {number}: {shown(undecodable(line))}{keys}"
    expected = f"names such as {roles.source} and {roles.target}" if roles.source_names else "two keys, or known names"
    if roles.numbers:
        expected = "a key with texts, and one with numbers"
    fix = "name the keys: `data.source_column=KEY` and `data.target_column=KEY`"
    return DataError(what, expected=expected, fix=fix, name=name, value=tuple(names), line=number)


def _reject_other_json(name: str, spoken: Sequence[bytes]) -> None:
    first = spoken[0] if spoken else b""
    if b"\t" not in first and (first in (b"{", b"[") or first.startswith((b"[{", b"[ {"))):
        command = "jq -c . FILE" if first.startswith(b"{") else "jq -c '.[]' FILE"
        what = f"{name} is JSON, but not JSON Lines"
        raise DataError(what, expected="one object per line", fix=f"convert it with: {command}", name=name)


def _reject_broken_json(name: str, spoken: Sequence[tuple[int, bytes]], roles: Roles) -> None:
    """Raise an error for lines that begin like objects; otherwise they'd be read as CSV."""
    begun = [(number, line) for number, line in spoken if _BEGUN.match(line) and b"\t" not in line]
    if begun and 2 * len(begun) >= len(spoken):
        number, line = begun[0]
        example = f"\n  line {number}, {read_object(line)[1]}: {shown(undecodable(line))}"
        what = f"{name} looks like JSON Lines, but none of its first lines is a valid object{example}"
        expected = f'{{"{roles.source}": "…", "{roles.target}": "…"}} on each line, in double quotes'
        raise DataError(what, expected=expected, fix="if it's a table, set `data.separator`", name=name, line=number)


def _paths(values: dict[str, Any], roles: Roles, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of keys to strings and other usable values."""
    for key, value in values.items():
        if isinstance(value, dict) and len(above) < 8:
            yield from _paths(value, roles, (*above, key))
        elif (
            _text(value, roles) is not None
            or (roles.lists and _is_list(value))
            or (roles.separator and labels_of(value) is not None)
        ):
            yield (*above, key)


def _text(value: Any, roles: Roles) -> str | None:
    """Return a string, or a numeric or boolean label as it's written in JSON; None for anything else."""
    if isinstance(value, str):
        return value
    if roles.labels and isinstance(value, Written):
        return value.text
    return json.dumps(value) if roles.labels and isinstance(value, bool | int | float) else None


def json_text(value: Any) -> str | None:
    """Return a string, number or boolean, or a list of strings, as a text; None for anything else."""
    return " ".join(value) if _is_list(value) else _text(value, LABELLED)


def labels_of(value: Any) -> list[str] | None:
    """Return the labels in a list of strings, numbers or booleans, or None for anything else."""
    found = [_text(it, LABELLED) for it in value] if isinstance(value, list) else [None]
    return None if None in found else cast("list[str]", found)


def _is_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(it, str) for it in value)


def _cell(values: dict[str, Any], path: Sequence[str], roles: Roles) -> str:
    """Return the value at the end of a path in the form of a table cell."""
    value, _ = value_at(values, path)
    if roles.separator and isinstance(value, list):
        return roles.separator.join(labels_of(value) or ())
    return " ".join(value) if _is_list(value) else _text(value, roles) or ""


def read_object(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object of a line and "", or None and the reason why there is none."""
    text = decode(line)
    if text is None:
        return None, "not UTF-8"
    text = text.strip()
    if not text:
        return None, "blank line"
    if text in ("[", "]"):
        return None, BRACKET
    if text[0] == "[" or text[-1] != "}":
        element = _ELEMENT.fullmatch(text)
        text = element[1] if element else text
    try:
        values = parsed_json(text)
    except RepeatedKeyError:
        return None, "repeated key"  # which one is seen in the example
    except (ValueError, RecursionError):  # ValueError: also a number of too many digits
        return None, "not JSON"
    return (values, "") if isinstance(values, dict) else (None, "not a JSON object")


class RepeatedKeyError(ValueError):
    """A JSON object has two values for one key."""


def parsed_json(text: str) -> Any:
    """Parse JSON. Raise a ValueError for broken JSON, or a RepeatedKeyError."""
    return json.loads(text, parse_float=Written, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        key = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise RepeatedKeyError(f"repeated key {key}")
    return values


def value_at(values: Any, path: Sequence[str]) -> tuple[Any, str]:
    """Return the value at the end of a path and "", or None and the reason why there is none."""
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return None, f"no key {'.'.join(path)}"
        values = values[key]
    return values, ""


def half_a_character(line: bytes, text: str) -> str | None:
    """Return a reason if escapes encode half a character, which no tokenizer can read."""
    if b"\\u" in line and has_surrogate(text):
        return "half of a surrogate pair"
    return None
