"""JSON Lines with new keys. They're added to the bytes of each object."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import DataError
from ...readers.files import Input
from ...readers.json_lines import BRACKET, json_text, read_object, value_at
from ...readers.lines import has_surrogate, shown, undecodable, whole_lines
from .table_file import TableFile, TableRow, as_json

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class JsonTable(TableFile):
    """JSON Lines, or an array with an object on each line.

    Args:
        paths: the keys to read, each as a path of keys.
    """

    kind = "JSON lines"

    def __init__(self, file: Input, paths: Sequence[tuple[str, ...]], *, joined: bool) -> None:
        super().__init__(file, joined=joined)
        self.paths, self._keys, self._left = paths, set[str](), b""

    @property
    def names(self) -> set[str]:
        """All keys of all objects. This reads the whole file."""
        return self._keys if self.extent else set()

    @property
    def used(self) -> list[str]:
        return [".".join(path) for path in self.paths]

    def rows(self) -> Iterator[TableRow]:
        before = b""
        for number, line in enumerate(whole_lines(self.file), 1):
            values, why = read_object(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line)
            if values is None and (why == BRACKET or not line.strip()):
                before += line
                continue
            if values is None:
                raise self._unreadable(number, line, why)
            self._keys.update(values)
            texts = self.read_texts([self._text(values, path, number, line) for path in self.paths])
            if damaged := any(map(has_surrogate, texts)):
                texts = tuple(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts)
            yield TableRow(number, texts, damaged, before + line, len(line))
            before = b""
        self._left = before

    def written(self, rows: Sequence[TableRow], cells: Sequence[Sequence[Any]]) -> bytes:
        return b"".join(_with_keys(row.content, self.added, new) for row, new in zip(rows, cells))

    def end(self) -> bytes:
        return self._left

    def _text(self, values: dict[str, Any], path: tuple[str, ...], number: int, line: bytes) -> str:
        """Return the text at the end of a path, "" if there's none."""
        value, _ = value_at(values, path)
        text = "" if value is None else json_text(value)
        if text is None:
            raise self._unreadable(number, line, f"no text in {'.'.join(path)}")
        return text

    def _unreadable(self, number: int, line: bytes, why: str) -> DataError:
        what = f"{self.file.name} line {number:,}, {why}: {shown(undecodable(line.strip()))}"
        expected = "one object per line, with texts in " + " and ".join(self.used)
        return DataError(what, expected=expected, fix="correct the line", name=self.file.name, line=number)


def _with_keys(line: bytes, names: Mapping[str, str], values: Sequence[Any]) -> bytes:
    """Return an object's line with more keys. After the object, there's only white space, a comma or a bracket."""
    begin, _, rest = line.rpartition(b"}")
    inside = begin.rstrip()
    new = ", ".join(f"{as_json(name)}: {as_json(value)}" for name, value in zip(names, values))
    comma = b"" if inside.endswith(b"{") else b", "
    return inside + comma + new.encode() + begin[len(inside) :] + b"}" + rest
