"""Running text in pieces: nothing is lost between them, and where documents begin and end stays known."""

import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.data import corpus as corpora
from clearhead.data import running_text
from clearhead.data.forms import TextForm
from clearhead.data.running_text import Running, TextCorpus, beginning
from clearhead.readers import documents
from clearhead.readers.documents import Documents, Piece, pieces_of
from clearhead.readers.skipped import Report

texts = st.lists(st.text(st.sampled_from("ab é\n"), min_size=1, max_size=40), min_size=1, max_size=4)
REPORT = Report(("x",))


@dataclass
class Source:
    """Documents that are no files, in pieces of `size` letters at most."""

    texts: Sequence[str]
    size: int = 7
    report: Report = field(default_factory=lambda: REPORT)

    def __iter__(self) -> Iterator[Piece]:
        for number, text in enumerate(self.texts):
            yield from self._cut(str(number), text)

    def _cut(self, name: str, text: str) -> list[Piece]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(documents, "_PIECE", self.size)
            return list(pieces_of(name, [text], 1))


def corpus(contents: Sequence[str], share: float, size: int = 7) -> TextCorpus:
    return TextCorpus.of(cast(Documents, Source(contents, size)), share)


def running_of(contents: Sequence[str], size: int = 7) -> Running:
    return Running(list(Source(contents, size)), REPORT)


def trained(found: TextCorpus) -> str:
    return "".join(it.text for it in found)


def held(found: TextCorpus) -> str:
    return "".join(found.held_out().texts)


# --- what is held out


@given(texts, st.floats(0, 1, exclude_max=True), st.integers(1, 50))
def test_both_parts_are_the_whole_and_the_second_begins_with_a_line(
    contents: list[str], share: float, size: int
) -> None:
    found, whole = corpus(contents, share, size), "".join(contents)
    assert trained(found) + held(found) == whole
    assert len(found) == len(list(found)) and found.letters == len(trained(found))
    if not share or len(whole) < 2:
        assert not held(found) and found.note.startswith("nothing held out")
        return
    assert trained(found) and held(found)
    ends = {len("".join(contents[:number])) for number in range(len(contents))}
    assert trained(found).endswith("\n") or found.letters in ends or ("\n" not in whole[:-1] and len(contents) == 1)


@given(texts, st.floats(0.01, 0.99), st.integers(1, 50))
def test_the_cut_is_that_of_the_whole_text(contents: list[str], share: float, size: int) -> None:
    """The rule written out on all documents in memory."""
    total, number = sum(map(len, contents)), 0
    place = min(max(1, total - round(share * total)), total - 1)
    if total < 2:
        return
    while place >= len(contents[number]):
        place, number = place - len(contents[number]), number + 1
    text, before = contents[number], sum(map(len, contents[:number]))
    begin = text.find("\n", place - 1) + 1
    if place == 0:
        expected = before
    elif 0 < begin < len(text):
        expected = before + begin
    elif number + 1 < len(contents):
        expected = before + len(text)
    else:
        begin = text.rfind("\n", 0, place) + 1
        expected = before + (begin if begin or number else place)
    assert corpus(contents, share, size).letters == expected


@given(texts, st.floats(0.01, 0.99), st.integers(1, 50))
def test_a_document_that_is_divided_goes_on_and_two_documents_do_not(
    contents: list[str], share: float, size: int
) -> None:
    found = corpus(contents, share, size)
    if not (parts := found.held_out()).texts:
        return
    ends = {len("".join(contents[:number])) for number in range(len(contents))}
    assert [*found][-1].last is parts.pieces[0].first is (found.letters in ends)
    assert parts.pieces[-1].last and next(iter(found)).first
    assert sum(it.first for it in found) + sum(it.first for it in parts.pieces) == len(contents)


def test_the_words_say_where() -> None:
    two = ["1\n2\n3\n4\n", "5\n6\n"]
    assert corpus(two, 0.5).note == "held out the last 6 of 12 characters, from 0 line 4 on"
    assert corpus(two, 0.33).note == "held out the last 4 of 12 characters, from 1 on"
    assert corpus(two, 0.5, size=2).note == "held out the last 6 of 12 characters, from 0 line 4 on"
    assert corpus(two, 0).note == "nothing held out: data.split is 0"
    assert corpus(["1"], 0.5).note == "nothing held out: the text has 1 character"
    assert held(corpus(["0123456789"], 0.1)) == "9"


def test_a_public_text_is_cut_at_its_last_tenth(data_folder: Path) -> None:
    with Documents([data_folder / "tinyshakespeare" / "input.txt.xz"]) as source:
        assert 0.0995 < len(held(TextCorpus.of(source, 0.1))) / 1_115_394 <= 0.1


# --- what is trained on


@given(texts, st.integers(1, 9), st.integers(1, 90))
def test_the_parts_are_the_whole_again(contents: list[str], chunk: int, letters: int) -> None:
    found = corpus(contents, 0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "_CHUNK", chunk)
        patch.setattr(running_text, "_LETTERS", letters)
        parts = list(found.chunks())
    assert all(len(part) <= chunk and sum(map(len, part.texts[:-1])) < letters for part in parts)
    assert [piece for part in parts for piece in part.pieces] == list(found)


def test_a_long_text_is_never_in_memory_whole(tmp_path: Path) -> None:
    path, row = tmp_path / "x", "0123456789" * 10 + "\n"
    with path.open("w") as file:
        for _ in range(160):
            file.write(row * 1000)
    size = path.stat().st_size
    with Documents([path]) as source:
        tracemalloc.start()
        try:
            found = TextCorpus.of(source, 0.02)
            letters = sum(len(piece) for part in found.chunks() for piece in part.texts)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert letters + sum(map(len, found.held_out().texts)) == size
    assert peak < size  # as bytes and as text the whole would be twice its size


def test_a_tokenizer_learns_from_pieces_that_are_spread_evenly(monkeypatch) -> None:
    found = corpus(["".join(f"{number:04}\n" for number in range(100))], 0, size=5)
    sources, targets = found.texts()
    assert (len(sources), len(targets)) == (100, 0) and "".join(sources) == trained(found) == "".join(sources)
    monkeypatch.setattr(running_text, "_LEARN", 50)
    some, _ = found.texts()
    assert (len(some), [*some]) == (10, [f"{number:04}\n" for number in range(9, 100, 10)])


# --- in memory


@given(texts, st.integers(1, 100))
def test_its_beginning_is_so_many_letters_and_ends_no_document_that_goes_on(contents: list[str], letters: int) -> None:
    found, whole = Running(list(beginning(Source(contents), letters)), REPORT), "".join(contents)
    text = "".join(found.texts)
    assert text == whole[:letters]
    ends = [len("".join(contents[: i + 1])) for i in range(len(contents))]
    assert sum(it.last for it in found.pieces) == sum(end <= letters for end in ends)
    assert sum(it.first for it in found.pieces) == sum(begin < letters for begin in [0, *ends[:-1]])


def test_lines_are_counted_over_all_files_and_a_json_string_stands_on_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a\nb\nc\n")
    (tmp_path / "2.txt").write_text("d\ne\nf\n")
    (tmp_path / "3.jsonl").write_text('{"text": "g\\nh\\ni\\n"}\n{"text": "j\\n"}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "_PIECE", 2)
        found = TextForm().read([str(tmp_path)], DataConfig())
    assert [it.line for it in found.pieces] == [1, 2, 3, 4, 5, 6, 7, 7, 7, 8]
    assert found.report.place(found.pieces[4].line) == f"{tmp_path / '2.txt'} line 2"
    with Documents([str(tmp_path)], DataConfig()) as source:
        held = TextForm().divide(source, 0.5, 0).held_out()
    assert (held.texts[0], held.pieces[0].line) == ("f\n", 6)  # from the middle of 20 letters


def test_notes_are_the_inverse_of_themselves() -> None:
    found = running_of(["a\nb\n", "c"], 2)
    again = TextForm().from_notes(TextForm().to_notes(found), REPORT)
    assert again.pieces == [replace(piece, name="") for piece in found.pieces] and len(again) > 1
    assert TextForm().from_notes([], REPORT).texts == []


def test_a_sample_is_the_beginning_and_is_told() -> None:
    found = running_of(["é\n" * 1000], 100)
    some, said = TextForm().sample(found, 2, 0)
    assert "".join(some.texts) == "é\n" * 256
    assert said == "the first 512 of 2,000 characters (256 for each of train.eval_sentences)"
    assert TextForm().sample(found, 2, 0, "limit")[1].endswith("(256 for each of limit)")
    assert TextForm().sample(found, 8, 0) == (found, "")
