"""Formats of questions about texts: SQuAD's JSON, JSON objects with a context and a question, and QAMR's tables.

Each format yields one unchecked entry per question. An entry that can't be read records the reason. A file with the
wrong structure raises a DataError with the path of the wrong value.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import DataError
from .files import Input
from .json_lines import parsed_json, read_object
from .lines import decode, read_lines, read_whole, shown, to_utf8, undecodable

_KINDS: dict[type, str] = {
    dict: "an object", list: "a list", str: "a string", int: "a number", bool: "true or false", float: "a fraction",
    type(None): "null",
}  # fmt: skip
_EXPECTED = (
    'SQuAD JSON, {"data": [{"title": …, "paragraphs": [{"context": …, "qas": […]}]}]}, or an object '
    'on each line: {"context": …, "question": …, "answers": {"text": […], "answer_start": […]}}'
)


@dataclass(frozen=True)
class Entry:
    """An unchecked question from a file."""

    title: str = ""
    context: str = ""
    id: str = ""  # "" if the file has none
    question: str = ""
    answers: tuple[tuple[str, int | None], ...] = ()  # text and position; None without a position
    impossible: bool = False  # True if the context has no answer
    fault: str = ""  # why it can't be read
    answer_faults: tuple[str, ...] = ()  # why some answers can't be read
    text: str = ""  # for a message

    @property
    def claimed(self) -> str:
        """The first answer and the text at its position, for a message."""
        text, start = next(iter(self.answers), ("", None))
        if start is None or not text.strip():
            return text
        found = self.context[start : start + len(text)] if start >= 0 else ""
        return f"-> {text}; position {start:,} has {found or 'nothing'}"


def is_table(file: Input) -> bool:
    """Return whether the first line has a tab and isn't JSON."""
    first = next((line.strip() for line in read_lines(file) if line.strip()), b"")
    return b"\t" in first and not first.startswith((b"{", b"["))


def read_json(file: Input) -> tuple[str, Iterator[Entry]]:
    """Return the name of the format, and the questions."""
    content = read_whole(file)
    lines = content.split(b"\n")
    first, _ = read_object(next((line for line in lines if line.strip()), b""))
    if first is not None and "data" not in first and content.lstrip().startswith(b"{"):
        lines = lines[: -1 if not lines[-1] else None]
        return "JSON lines", (_of_object(*read_object(line), undecodable(line)) for line in lines)
    document = _parsed(file.name, content)
    if isinstance(document, list):
        return "JSON", (_of_item(item) for item in document)
    return "SQuAD", _of_squad(_Node(file.name, "", document))


def _parsed(name: str, content: bytes) -> Any:
    try:
        return parsed_json(content.decode())
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"{name} isn't UTF-8 (line {line:,}, byte {error.start:,})"
        raise DataError(what, fix=to_utf8(content.split(b"\n")), name=name, line=line) from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, column {error.colno:,}"
        raise DataError(
            f"{name} isn't JSON, or is cut off: {error.msg} ({place})", expected=_EXPECTED, name=name, line=error.lineno
        ) from error
    except (ValueError, RecursionError) as error:  # a number with too many digits, or lists nested too deeply
        raise DataError(f"{name} isn't readable JSON: {error}", expected=_EXPECTED, name=name) from error


@dataclass(frozen=True)
class _Node:
    """A value in a JSON document, with its path."""

    file: str
    place: str
    value: Any

    def each(self, key: str) -> "Iterator[_Node]":
        """Yield the objects of a list."""
        values = self.get(key, list, None)
        if values is None:
            raise self._wrong(key, "missing", list)
        for number, value in enumerate(values):
            if not isinstance(value, dict):
                raise self._wrong(f"{key}[{number}]", _kind(value), dict)
            yield _Node(self.file, f"{self.place}{key}[{number}].", value)

    def get(self, key: str, kind: type, default: Any) -> Any:
        """Return the value at a key, or the default. Raise a DataError if its type is wrong."""
        if not isinstance(self.value, dict):
            what = f"{self.file} contains {_kind(self.value)}, not an object"
            raise DataError(what, expected=_EXPECTED, name=self.file)
        value = self.value.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._wrong(key, _kind(value), kind)
        return value

    def _wrong(self, key: str, found: str, expected: type) -> DataError:
        return DataError(
            f"{self.file}: {self.place}{key} is {found}",
            expected=f"{_KINDS[expected]}; the format is {_EXPECTED}",
            name=f"{self.place}{key}",
            value=found,
        )


def _kind(value: Any) -> str:
    return next(said for kind, said in reversed(_KINDS.items()) if isinstance(value, kind))  # true is an int, too


def _of_squad(root: _Node) -> Iterator[Entry]:
    for article in root.each("data"):
        title = article.get("title", str, "")
        for paragraph in article.each("paragraphs"):
            context = paragraph.get("context", str, "")
            for node in paragraph.each("qas"):
                text, given = node.get("question", str, ""), node.value.get("id")
                answers = [] if node.get("answers", list, None) is None else [*node.each("answers")]
                yield Entry(
                    title, context, _id(given), text,
                    tuple((it.get("text", str, ""), it.get("answer_start", int, None)) for it in answers),
                    node.get("is_impossible", bool, False),
                    text=text,
                )  # fmt: skip


def _of_item(item: Any) -> Entry:
    text = json.dumps(item, ensure_ascii=False)
    return _of_object(item, "", text) if isinstance(item, dict) else _of_object(None, "not a JSON object", text)


def _of_object(values: dict[str, Any] | None, why: str, text: str) -> Entry:
    """Parse an object with `context`, `question`, and `answers` (a list, or Hugging Face's form) or `answer`."""
    if values is None:
        return Entry(fault=why, text=text)
    for key in ("context", "question"):
        if not isinstance(values.get(key), str):
            return Entry(fault=f"no string in {key}" if key in values else f"no {key}", text=text)
    title, given = values.get("title"), values.get("id")
    entry = Entry(title if isinstance(title, str) else "", values["context"], _id(given), values["question"], text=text)
    if "answers" not in values and "answer" not in values:
        return replace(entry, fault="no answer")
    answers = _answers(values.get("answers", values.get("answer")))
    if answers is None:
        return replace(entry, fault="answers in an unknown format")
    if not isinstance(values.get("is_impossible"), bool | None):
        return replace(entry, fault="is_impossible is neither true nor false")
    empty = answers == () and "is_impossible" not in values  # as Hugging Face writes it
    return replace(entry, answers=answers, impossible=empty or values.get("is_impossible") is True)


def _id(given: Any) -> str:
    """Return the id as text; "" for null."""
    return "" if given is None else str(given)


def _answers(value: Any) -> tuple[tuple[str, int | None], ...] | None:
    """Return texts and positions; None for an unknown format."""
    match value:
        case None:
            return ()
        case str():
            return ((value, None),)
        case {"text": list(texts), "answer_start": list(starts)} if len(texts) == len(starts):
            pairs = list(zip(texts, starts))
        case {"text": str(text)}:
            pairs = [(text, value.get("answer_start"))]
        case list() if all(isinstance(it, str) for it in value):
            pairs = [(text, None) for text in value]
        case list() if all(isinstance(it, dict) for it in value):
            pairs = [(it.get("text"), it.get("answer_start")) for it in value]
        case _:
            return None
    return tuple(pairs) if all(map(_is_answer, pairs)) else None


def _is_answer(pair: tuple[Any, Any]) -> bool:
    text, start = pair
    return isinstance(text, str) and (start is None or (isinstance(start, int) and not isinstance(start, bool)))


# --- QAMR: a table of sentences, and one of questions whose answers are word indices

_ID, _WHO, _NUMBER, _QUESTION, _ANSWER = 0, 2, 3, 5, 6  # columns; any others are further answers, each `who:words`


def read_qamr(tables: Sequence[Input]) -> Iterator[Entry]:
    """Yield the questions of two tables, given in any order: sentences with ids, and questions about these ids."""
    rows = [[_cells(table, number, line) for number, line in enumerate(read_lines(table), 1)] for table in tables]
    rows.sort(key=lambda it: len(it[0]))
    if len(rows) != 2 or len(rows[0][0]) != 2 or len(rows[1][0]) <= _ANSWER:
        names = " and ".join(table.name for table in tables)
        what = f"{names}: a table of questions needs a table of sentences, as in QAMR"
        expected = f"two tables, one of 2 columns (id, sentence) and one of {_ANSWER + 1} or more; or {_EXPECTED}"
        raise DataError(what, expected=expected, name=names)
    sentences = {cells[0]: cells[1] for cells in rows[0] if len(cells) == 2}
    for cells in rows[1]:
        text = "\t".join(cells)
        if len(cells) <= _ANSWER:
            yield Entry(fault="too few columns", text=text)
        elif cells[_ID] not in sentences:
            yield Entry(fault="no context", text=text)
        else:
            yield _of_row(sentences[cells[_ID]], cells, text)


def _cells(table: Input, number: int, line: bytes) -> list[str]:
    text = decode(line)
    if text is None:
        what = f"{table.name} line {number:,} isn't UTF-8: {shown(undecodable(line))}"
        raise DataError(what, fix=to_utf8([line]), name=table.name, line=number)
    return text.split("\t")


def _of_row(sentence: str, cells: Sequence[str], text: str) -> Entry:
    """Return the entry of a row, whose answers are lists of word indices."""
    words = sentence.split(" ")
    answers: list[tuple[str, int | None]] = []
    faults = []
    for said in (cells[_ANSWER], *(cell.partition(":")[2] for cell in cells[_ANSWER + 1 :])):
        places = [int(it) for it in said.split() if it.isascii() and it.isdigit()]
        if not places or len(places) < len(said.split()) or max(places) >= len(words):
            faults.append("answer without word indices")
        elif places != [*range(places[0], places[0] + len(places))]:
            faults.append("answer with words that aren't consecutive")
        else:
            start = sum(len(word) + 1 for word in words[: places[0]])
            answers.append((" ".join(words[places[0] : places[-1] + 1]), start))
    article = ":".join(cells[_ID].split(":")[:-2])  # its last two numbers are a paragraph and a sentence
    name = " ".join((cells[_ID], cells[1].replace(" ", "-"), cells[_WHO], cells[_NUMBER]))
    return Entry(
        article, sentence, name, cells[_QUESTION].strip(), tuple(answers), answer_faults=tuple(faults), text=text
    )
