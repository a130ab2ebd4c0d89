"""Running text in pieces: nothing is lost between them, and where documents begin and end stays known."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.tasks.data import TextForm
from clearhead.text import running
from clearhead.text.documents import Document, Documents
from clearhead.text.report import Report
from clearhead.text.running import Running

texts = st.lists(st.text(st.sampled_from("ab é\n"), min_size=1, max_size=40), min_size=1, max_size=4)
REPORT = Report(("x",))


def running_text(contents: list[str], size: int = 7, **ends: bool) -> Running:
    """Documents in pieces of `size` letters at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_PIECE", size)
        return Running.of([Document(str(n), text) for n, text in enumerate(contents)], REPORT, **ends)


@given(texts, st.integers(1, 50))
def test_the_pieces_joined_are_the_documents_and_none_is_empty_or_too_long(contents: list[str], size: int) -> None:
    found = running_text(contents, size)
    assert all(1 <= len(piece) <= size for piece in found.pieces)
    documents: list[str] = []
    for piece, first in zip(found.pieces, found.first):
        documents = [*documents, piece] if first else [*documents[:-1], documents[-1] + piece]
    assert documents == contents
    assert sum(found.first) == sum(found.last) == len(contents)
    assert found.first[1:] == found.last[:-1] and found.first[0] and found.last[-1]


@given(texts, st.integers(1, 50))
def test_a_piece_ends_with_a_line_where_one_ends_in_it(contents: list[str], size: int) -> None:
    found = running_text(contents, size)
    for piece, last in zip(found.pieces, found.last):
        assert last or piece.endswith("\n") or "\n" not in piece


@given(texts, st.integers(1, 50))
def test_a_piece_knows_the_line_in_which_it_begins(contents: list[str], size: int) -> None:
    found, before = running_text(contents, size), ""
    for piece, first, line in zip(found.pieces, found.first, found.lines):
        before = "" if first else before
        assert line == 1 + before.count("\n")
        before += piece


@given(texts, st.integers(1, 9))
def test_the_parts_are_the_whole_again(contents: list[str], chunk: int) -> None:
    found = running_text(contents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_CHUNK", chunk)
        parts = list(found.chunks())
    assert all(len(part) <= chunk for part in parts) and len(found) == sum(map(len, parts))
    for name in ("pieces", "first", "last", "lines"):
        assert [it for part in parts for it in getattr(part, name)] == getattr(found, name)


@given(texts, st.integers(1, 100))
def test_its_beginning_is_so_many_letters_and_ends_no_document_that_goes_on(contents: list[str], letters: int) -> None:
    found, whole = running_text(contents).beginning(letters), "".join(contents)
    text = "".join(found.pieces)
    assert text == whole[:letters]
    ends = [len("".join(contents[: i + 1])) for i in range(len(contents))]
    assert sum(found.last) == sum(end <= letters for end in ends)
    assert sum(found.first) == sum(begin < letters for begin in [0, *ends[:-1]])


def test_a_text_that_was_cut_in_two_neither_ends_nor_begins_there() -> None:
    assert running_text(["a\nb\n"], 2, ends=False).last == [False, False]
    assert running_text(["a\nb\n"], 2, begins=False).first == [False, False]
    assert running_text([], begins=False, ends=False).pieces == []


def test_a_file_that_is_divided_goes_on_and_two_files_do_not(tmp_path: Path) -> None:
    for name in ("1", "2"):
        (tmp_path / f"{name}.txt").write_text("".join(f"{name} {i}\n" for i in range(10)))
    for share, begins in ((0.5, True), (0.25, False)):
        with Documents([str(tmp_path)], DataConfig()) as documents:
            found = TextForm().divide(documents, share, 0)
        assert found.train.last[-1] is begins and found.held.first[0] is begins
        assert found.held.last[-1] and found.train.first[0]
        assert "".join([*found.train.pieces, *found.held.pieces]) == "".join(
            (tmp_path / f"{name}.txt").read_text() for name in ("1", "2")
        )


def test_lines_are_counted_over_all_files_and_a_json_string_stands_on_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a\nb\nc\n")
    (tmp_path / "2.txt").write_text("d\ne\nf\n")
    (tmp_path / "3.jsonl").write_text('{"text": "g\\nh\\ni\\n"}\n{"text": "j\\n"}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "_PIECE", 2)
        found = TextForm().read([str(tmp_path)], DataConfig())
    assert found.lines == [1, 2, 3, 4, 5, 6, 7, 7, 7, 8]
    assert found.report.place(found.lines[4]) == f"{tmp_path / '2.txt'} line 2"
    with Documents([str(tmp_path)], DataConfig()) as documents:
        held = TextForm().divide(documents, 0.5, 0).held
    assert (held.pieces[0], held.lines[0]) == ("f\n", 6)  # from the middle of 20 letters


def test_notes_are_the_inverse_of_themselves() -> None:
    found = running_text(["a\nb\n", "c"], 2)
    assert TextForm().from_notes(TextForm().to_notes(found), REPORT) == found
    assert TextForm().from_notes([], REPORT).pieces == []


def test_a_sample_is_the_beginning_and_is_told() -> None:
    found = running_text(["é\n" * 1000], 100)
    some, said = TextForm().sample(found, 2, 0)
    assert "".join(some.pieces) == "é\n" * 256
    assert said == "the first 512 of 2,000 characters (256 for each of train.eval_sentences)"
    assert TextForm().sample(found, 2, 0, "limit")[1].endswith("(256 for each of limit)")
    assert TextForm().sample(found, 8, 0) == (found, "")
