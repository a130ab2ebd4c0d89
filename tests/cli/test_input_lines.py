import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.cli import input_lines
from clearhead.cli.input_lines import Line, line_of, read_groups
from clearhead.errors import DataError


class Pipe:
    """A pipe whose other end is in the hands of the test."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def end(self) -> None:
        os.close(self.writing)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    os.close(pipe.reading)


def read_all(data: bytes, most: int = 2000) -> list[list[Line]]:
    """The groups of a stream that is written by another thread and then closed."""
    pipe = Pipe()

    def write() -> None:
        with os.fdopen(pipe.writing, "wb") as file:
            file.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    found = list(read_groups(pipe.reading, most=most))
    writer.join()
    os.close(pipe.reading)
    return found


def expected_lines(data: bytes) -> list[str]:
    """Split at LF by Python's own means; what follows the last LF is a line unless it is empty."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    return [line.removesuffix(b"\r").decode(errors="replace") for line in lines]


@given(data=st.binary(max_size=300), most=st.integers(1, 5))
@settings(deadline=None)
def test_every_line_is_read_once_and_in_order_whatever_it_holds(data: bytes, most: int) -> None:
    groups = read_all(data, most)
    lines = [line for group in groups for line in group]
    bare_bom = data == b"\xef\xbb\xbf"
    assert [line.text for line in lines] == expected_lines(data) or (bare_bom and [line.text for line in lines] == [""])
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert all(1 <= len(group) <= most for group in groups)


def test_a_line_of_megabytes_is_one_line() -> None:
    (group, rest) = read_all(b"x" * 3_000_000 + b"\nend")
    assert [len(line.text) for line in group] == [3_000_000]
    assert rest == [Line(2, "end")]


def test_a_line_is_there_as_soon_as_it_has_ended(pipe: Pipe) -> None:
    groups = read_groups(pipe.reading)
    pipe.write(b"one\n")
    assert next(groups) == [Line(1, "one")]
    pipe.write(b"two\nthree\nfo")
    assert next(groups) == [Line(2, "two"), Line(3, "three")]
    pipe.write(b"ur\n")
    assert next(groups) == [Line(4, "four")]
    pipe.end()
    assert list(groups) == []


def test_lines_that_have_arrived_together_are_one_group() -> None:
    assert [len(group) for group in read_all(b"a\n" * 4500)] == [2000, 2000, 500]


def test_only_line_feeds_end_a_line() -> None:
    text = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g"
    assert read_all(f"{text}\r\n".encode()) == [[Line(1, text)]]


def test_what_is_not_utf_8_is_replaced_and_marked() -> None:
    assert line_of(7, b"caf\xe9 \xc3\xa9") == Line(7, "caf\ufffd é", damaged=True)
    assert line_of(7, "café".encode()) == Line(7, "café", damaged=False)


def test_a_byte_order_mark_is_taken_from_the_first_line_only() -> None:
    assert read_all(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n") == [[Line(1, "a"), Line(2, "\ufeffb")]]


def test_a_descriptor_that_does_not_wait_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.reading, False)

    def write_late() -> None:
        pipe.write(b"late\n")
        pipe.end()

    timer = threading.Timer(0.05, write_late)
    timer.start()
    assert list(read_groups(pipe.reading)) == [[Line(1, "late")]]
    timer.join()


def test_a_folder_as_standard_input_is_rejected(tmp_path: os.PathLike[str]) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(DataError) as caught:
        list(read_groups(descriptor))
    assert caught.value.name == "-"
    os.close(descriptor)


def test_a_line_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_lines, "LONGEST", 1 << 17)
    assert [len(line.text) for group in read_all(b"a" * 99_999 + b"\nb") for line in group] == [99_999, 1]
    (tmp_path / "x").write_bytes(b"a\n" + b"b" * (1 << 20))
    with (tmp_path / "x").open("rb") as file, pytest.raises(DataError) as caught:
        list(read_groups(file.fileno()))
    assert caught.value.name and caught.value.line in (1, 2) and caught.value.expected
