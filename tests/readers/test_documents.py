"""Running text: files, folders, JSON lines, and what is held out of it."""

import errno
import gzip
import io
import json
import lzma
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers import documents, lines
from clearhead.readers.documents import Documents, Piece, pieces_of

from .conftest import error_of, written

any_text = (
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    .filter(lambda text: text.strip() and not text.startswith(("\ufeff", "PK\x03\x04", "BZh")))
    .filter(lambda text: "\n" in text or "\r" not in text)
)


def read(*paths: Path | str, **options: object) -> tuple[list[tuple[str, str]], str]:
    with Documents(paths, DataConfig(**options)) as documents:
        found = whole(documents)
        assert whole(documents) == found
        return found, str(documents.report)


def whole(pieces: Iterable[Piece]) -> list[tuple[str, str]]:
    """The name and the text of each document."""
    found: list[tuple[str, str]] = []
    for it in pieces:
        found = [*found, (it.name, it.text)] if it.first else [*found[:-1], (it.name, found[-1][1] + it.text)]
    return found


def refusal(*paths: Path | str, **options: object) -> DataError:
    return error_of(read, *paths, **options)


# --- files and folders


@given(text=any_text, pack=st.sampled_from([bytes, gzip.compress, lzma.compress]), mark=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_comes_as_it_stands_in_the_file(text: str, pack, mark: bool, tmp_path: Path) -> None:
    path = written(tmp_path / "x", pack(("\ufeff" * mark + text).encode()))
    assert read(path)[0] == [(str(path), text)]


def test_a_folder_is_read_with_all_that_is_in_it_in_natural_order(tmp_path: Path) -> None:
    for name in ("b/part-10.txt", "b/part-2.txt", "a.py", "c/d/e", ".hidden", ".git/x", "b/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        written(tmp_path / name, "" if "init" in name else f"{name}\r\n\n")
    written(tmp_path / "z.gz", gzip.compress(b"packed\n", mtime=0))
    written(tmp_path / "cover.png", bytes(range(256)) * 9)
    os.mkfifo(tmp_path / "pipe")
    found, said = read(tmp_path)
    names = ("a.py", "b/part-2.txt", "b/part-10.txt", "c/d/e")
    assert found == [*((f"{tmp_path}/{name}", f"{name}\r\n\n") for name in names), (f"{tmp_path}/z.gz", "packed\n")]
    n_letters = sum(len(text) for _, text in found)
    assert said == (
        f"{tmp_path} (5 files): text, {n_letters} characters in 5 documents; 9 of 9 lines used\n"
        "  skipped 2 of 7 files:\n"
        f"    {tmp_path}/b/__init__.py is empty\n"
        f"    {tmp_path}/cover.png isn't UTF-8 text: 10 of its 10 lines can't be read"
    )


def test_several_files_follow_each_other_and_standard_input_is_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"from the pipe\n")))
    path = written(tmp_path / "x", "one\n")
    assert read(path, "-")[0] == [(str(path), "one\n"), ("standard input", "from the pipe\n")]


def test_the_digest_is_that_of_the_bytes(tmp_path: Path) -> None:
    path = written(tmp_path / "x", "one\n")
    first = Documents([path]).digest()
    assert Documents([path]).digest() == first != Documents([written(path, "two\n")]).digest()


# --- what is left out


def test_lines_that_cannot_be_read_are_left_out_counted_and_shown(tmp_path: Path) -> None:
    written(tmp_path / "a", b"one\n\xff two\nthree\r\nfo\0ur" + 96 * b"." + b"\n five\n\xff")
    written(tmp_path / "b", b"six\nse\xffven\neight\n")
    found, said = read(tmp_path)
    assert [text for _, text in found] == ["one\nthree\r\n five\n", "six\neight\n"]
    assert said.splitlines() == [
        f"{tmp_path} (2 files): text, 27 characters in 2 documents; 5 of 9 lines used",
        "  skipped 3: not UTF-8",
        f'    {tmp_path}/a line 2: "\\xff two"',
        f'    {tmp_path}/a line 6: "\\xff"',
        f'    {tmp_path}/b line 2: "se\\xffven"',
        "  skipped 1: NUL character",
        f'    {tmp_path}/a line 4: "fo\\x00ur{74 * "."}…"',
    ]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        ("café\n".encode("latin-1") * 3, "isn't UTF-8 text: 3 of its 3 lines can't be read"),
        ("text\n".encode("utf-32"), "is UTF-32"),
        (b"PK\x03\x04rest", "is a zip archive"),
        (gzip.compress(b"text\n" * 99, mtime=0)[:-9], "is damaged or cut off"),
        (b'{"title": "a"}\n', "has JSON objects without a string in 'text'"),
    ],
)
def test_what_is_no_text_is_refused_if_named_and_passed_over_in_a_folder(
    tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    path = written(tmp_path / "folder" / "x", content)
    assert said in refusal(path).what
    with pytest.raises(DataError, match="x"):
        read(tmp_path / "folder")
    other = written(tmp_path / "folder" / "y", "text\n")
    found, report = read(tmp_path / "folder")
    assert found == [(str(other), "text\n")] and "skipped 1 of 2 files" in report and said in report
    assert refusal(other, path).name == str(path)


def test_a_nul_in_a_line_of_a_short_file_costs_that_line_alone(tmp_path: Path) -> None:
    found, said = read(written(tmp_path / "x", b"one\nt\0wo\nthree\nfour\n"))
    assert found[0][1] == "one\nthree\nfour\n" and "skipped 1: NUL character" in said
    assert "1 of its first 9 bytes are NUL" in refusal(written(tmp_path / "y", b"a\0b Paris")).what


def test_of_many_files_that_are_passed_over_twenty_are_named(tmp_path: Path) -> None:
    for number in range(23):
        written(tmp_path / f"{number:02}.png", bytes(range(256)) * 9)
    written(tmp_path / "text", "text\n")
    rows = read(tmp_path)[1].splitlines()
    assert rows[1] == "  skipped 23 of 24 files:" and rows[-1] == "    and 3 more"
    assert len(rows) == 2 + 20 + 1 and rows[-2].startswith(f"    {tmp_path}/19.png isn't UTF-8")


def test_links_are_followed_once_and_those_to_nothing_are_told(tmp_path: Path) -> None:
    for name in ("elsewhere", "data/own"):
        (tmp_path / name).mkdir(parents=True)
    written(tmp_path / "elsewhere" / "x", "far\n")
    written(tmp_path / "data" / "own" / "y", "near\n")
    data = tmp_path / "data"
    for name, target in (("circle", data), ("own/up", data), ("far", tmp_path / "elsewhere"), ("again", data / "own"),
                         ("file", tmp_path / "elsewhere" / "x"), ("nothing", tmp_path / "none")):  # fmt: skip
        (data / name).symlink_to(target)
    found, said = read(data)
    assert found == [
        (f"{data}/{name}", text) for name, text in (("far/x", "far\n"), ("file", "far\n"), ("own/y", "near\n"))
    ]
    assert said.endswith(f"\n  skipped 1 of 4 files:\n    {data}/nothing is a broken link")
    assert Documents([data]).digest()


def test_a_list_of_objects_is_learnt_as_it_stands_which_is_said(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for content in ('[{"text": "one"}, {"text": "two"}]\n', '[\n  {\n "text": "one"}\n]\n'):
        path = written(tmp_path / "folder" / "x.json", content)
        found, said = read(path)
        assert found == [(str(path), content)]
        assert f"\n  {path} is a JSON array" in said and "jq -c '.[]' FILE" in said
        assert "JSON array" not in read(tmp_path / "folder")[1], "in a folder of sources it is one of them"
    assert "JSON array" not in read(written(tmp_path / "y", "[1] see {x}\n"))[1]


def test_where_there_is_no_text_that_is_said(tmp_path: Path) -> None:
    assert refusal().what == "no text was given"
    assert refusal("-", "-").name == "-"
    for path in (tmp_path, tmp_path / "no"):
        assert refusal(path).name == str(path)
    error = refusal(written(tmp_path / "x", " \n\n"))
    assert error.name == f"{tmp_path}/x" and error.what.startswith(f"no text in {tmp_path}/x\n")


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch) -> None:
    def refuse(path: str) -> None:  # root could read a folder of any mode
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert str(refusal(tmp_path)) == f"{tmp_path} can't be read: Permission denied"


def test_a_file_that_ends_too_early_is_an_error_once_some_of_it_was_given(tmp_path: Path) -> None:
    rows = "".join(json.dumps({"text": os.urandom(999).hex()}) + "\n" for _ in range(999)).encode()
    written(tmp_path / "a.jsonl.gz", gzip.compress(rows, mtime=0)[:-999])
    written(tmp_path / "b", "text\n")
    assert refusal(tmp_path).name == f"{tmp_path}/a.jsonl.gz"


# --- JSON lines


@given(texts=st.lists(any_text, min_size=1), ascii=st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_of_json_lines_each_is_a_document(texts: list[str], ascii: bool, tmp_path: Path) -> None:
    rows = "".join(json.dumps({"id": 1, "text": text}, ensure_ascii=ascii) + "\n" for text in texts)
    path = written(tmp_path / "x.jsonl", rows)
    assert read(path)[0] == [(f"{path} line {number}", text) for number, text in enumerate(texts, 1)]


def test_the_key_can_be_named_and_faults_are_counted(tmp_path: Path) -> None:
    rows = ['{"a": {"b": "yes"}, "text": "no"}'] * 9
    rows += [
        '{"a": {}}',
        '{"a": {"b": 1}}',
        '{"a": {"b": " "}}',
        '{"a": {"b": "x\\u0000"}}',
        '{"a": {"b": "\\ud800"}}',
        "{",
        "",
    ]
    path = written(tmp_path / "x", "\n".join(rows))
    with Documents([path], DataConfig(source_column="a.b")) as documents:
        assert {it.text for it in documents} == {"yes"}
        assert documents.report.skipped == {
            "no key a.b": 1, "no string in a.b": 1, "empty text": 1, "NUL character": 1, "half of a surrogate pair": 1,
            "not JSON": 1,
        }  # fmt: skip
        assert (documents.report.used, documents.report.lines) == (9, 15)
    error = refusal(path, source_column="c")
    assert (error.name, error.value, error.expected) == (str(path), "c", 'one on each line: {"c": "…"}')


def test_a_text_in_which_some_lines_are_objects_is_a_text(tmp_path: Path) -> None:
    text = '{"text": "a"}\nand so on\n'
    assert read(written(tmp_path / "x", text))[0][0][1] == text


# --- pieces

some_text = st.text(st.sampled_from("ab é\n"), max_size=40)


def cut(parts: list[str], size: int, **options: object) -> list[Piece]:
    """A document in pieces of `size` letters at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_PIECE", size)
        return list(pieces_of("x", parts, 3, **options))


@given(st.lists(some_text), st.integers(1, 50))
def test_the_pieces_joined_are_the_document_however_it_came(parts: list[str], size: int) -> None:
    found, text = cut(parts, size), "".join(parts)
    assert "".join(it.text for it in found) == text and found == cut([text], size)
    assert all(1 <= len(it.text) <= size for it in found)
    assert [it.first for it in found] == [not i for i in range(len(found))]
    assert [it.last for it in found] == [it.first for it in found][::-1]


@given(some_text, st.integers(1, 50))
def test_a_piece_ends_with_a_line_where_one_ends_in_it_and_knows_where_it_begins(text: str, size: int) -> None:
    before = ""
    for piece in cut([text], size):
        assert piece.last or piece.text.endswith("\n") or "\n" not in piece.text
        assert piece.line == 3 + before.count("\n")
        before += piece.text
    assert {it.line for it in cut([text], size, escaped=True)} <= {3}


@given(some_text.filter(len), st.data())
def test_a_piece_is_cut_in_two_where_its_document_goes_on(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    piece = Piece("x", text, 7)
    before, behind = piece.before(place), piece.after(place)
    assert before.text + behind.text == text and (before.line, behind.line) == (7, 7 + before.text.count("\n"))
    assert (before.first, before.last, behind.first, behind.last) == (True, False, False, True)
    assert Piece("x", text, 7, escaped=True).after(place).line == 7


@given(
    rows=st.lists(st.sampled_from([b"a\n", b"\xc3\xa9\r\n", b"\xff\n", b"\0\n", b"\n"]), max_size=12),
    size=st.integers(1, 9),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_is_the_same_in_however_many_blocks_a_file_is_read(rows: list[bytes], size: int, tmp_path: Path) -> None:
    long = 12 * (99 * "first " + "\n")  # enough that NUL is rare
    path, other = written(tmp_path / "x", long.encode() + b"".join(rows)), written(tmp_path / "y", b"\xff\nok\n")
    at_once = read(path, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_TOGETHER", size)
        assert read(path, other) == at_once
    kept = b"".join(row for row in rows if row not in (b"\xff\n", b"\0\n"))
    assert at_once[0] == [(str(path), long + kept.decode()), (str(other), "ok\n")]
