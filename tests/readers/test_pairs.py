import gzip
import lzma
import os
import random
import tracemalloc
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.readers.column_roles import LABELLED
from clearhead.readers.headers import named_pair
from clearhead.readers.lines import read_lines, shown
from clearhead.readers.pairs import Pairs, Report, Skipped, read_pairs, references

from .conftest import both, error_of

in_place = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
# Text of one cell: anything but the characters that end it, with some word in it.
ends = "\t\n\r\0"
cell = st.builds("{}x{}".format, *[st.text(st.characters(exclude_categories=["Cs"], exclude_characters=ends))] * 2)
sentences = st.lists(st.tuples(cell, cell), min_size=1, max_size=30)


def write(folder: Path, content: bytes | str, name: str = "pairs.tsv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(folder: Path, content: bytes | str) -> Pairs:
    return read_pairs([write(folder, content)])


def refusal(paths: Sequence[Path | str]) -> DataError:
    return error_of(read_pairs, paths)


def pairs_of(sources: Sequence[str], targets: Sequence[str] | None = None) -> Pairs:
    targets = sources if targets is None else targets
    return Pairs(list(sources), list(targets), array("q", range(1, len(sources) + 1)), Report(("x.tsv",)))


# --- what is read ------------------------------------------------------------------------------------------


@given(rows=sentences, end=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), bom=st.booleans())
@in_place
def test_a_tsv_gives_its_pairs_whatever_their_text_and_line_ends(
    rows: list[tuple[str, str]], end: str, last: bool, bom: bool, tmp_path: Path
) -> None:
    rows = [("One.", "Un."), *rows]  # which is no header
    text = end.join("\t".join(row) for row in rows) + (end if last else "")
    pairs = read(tmp_path, ("\ufeff" if bom else "") + text)
    assert both(pairs) == rows
    assert list(pairs.lines) == list(range(1, len(rows) + 1))
    assert (pairs.report.lines, pairs.report.used, pairs.report.skipped) == (len(rows), len(rows), {})


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "pairs.tsv.xz"])
def test_gzip_and_xz_are_told_by_their_content_and_not_by_their_name(
    pack: Callable[[bytes], bytes], name: str, tmp_path: Path
) -> None:
    text = "".join(f"source {i}\ttarget {i}\n" for i in range(5000)).encode()
    whole = pack(b"\xef\xbb\xbf" + text[:999]) + pack(text[999:])  # packed in two parts, as `cat a.gz b.gz` does
    assert both(read_pairs([write(tmp_path, whole, name)])) == both(read(tmp_path, text))


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_a_line_ends_at_lf_only(mark: str, tmp_path: Path) -> None:
    assert both(read(tmp_path, f"a{mark}b\tc{mark}d\ne\r\tf\n")) == [(f"a{mark}b", f"c{mark}d"), ("e\r", "f")]
    two = [write(tmp_path, f"a{mark}b\nc\n", "a.en"), write(tmp_path, f"d\ne{mark}\n", "a.fr")]
    assert both(read_pairs(two)) == [(f"a{mark}b", "d"), ("c", f"e{mark}")]


def test_a_pipe_can_be_read_as_well_as_a_file(tmp_path: Path) -> None:
    for content in (b"a\tb\n", gzip.compress(b"a\tb\n")):
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        assert both(read_pairs([f"/dev/fd/{reader}"])) == [("a", "b")]
        os.close(reader)


def test_a_third_column_is_ignored_counted_and_said(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a\tb\tcredit: me\nc\td\ne\tf\tcredit: you\tmore\n")
    assert both(pairs) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert pairs.report.form == "TSV, three columns, no header"
    assert pairs.report.notes == ["columns after 2 aren't used: they're in 2 lines (line 1: \"credit: me\")"]


def test_columns_of_numbers_around_the_sentences_are_passed_over(tmp_path: Path) -> None:
    pairs = read(tmp_path, "12\tA dog.\t977\tUn chien.\n13\tA cat.\t978\tUn chat.\n14\tOdd\n")
    assert both(pairs) == [("A dog.", "Un chien."), ("A cat.", "Un chat.")]
    assert pairs.report.skipped == {"too few columns": 1}
    pairs = read(tmp_path, "12\tA dog.\t977\tUn chien.\n13\tA cat.\t978\tUn chat.\n")
    assert both(pairs) == [("A dog.", "Un chien."), ("A cat.", "Un chat.")]
    assert pairs.report.form == "TSV, four columns (sentences in 2 and 4; numbers before them), no header"
    pairs = read(tmp_path, "id\ten\tfr\n1\tA dog.\tUn chien.\n2\tA cat.\tUn chat.\n")
    assert both(pairs) == [("A dog.", "Un chien."), ("A cat.", "Un chat.")]
    assert pairs.report.form == "TSV, three columns (sentences in 2 and 3; numbers before them), header (en, fr)"


def test_numbers_are_sentences_where_there_is_nothing_else(tmp_path: Path) -> None:
    assert both(read(tmp_path, "1\tone\n2\ttwo\n")) == [("1", "one"), ("2", "two")]
    assert both(read(tmp_path, "1\t2\t3\n4\t5\t6\n")) == [("1", "2"), ("4", "5")]


@pytest.mark.parametrize(
    "header",
    [
        "English\tFrench",
        "en\tfr",
        "eng\tfra\tcredits",
        "en_GB\tfr-FR",
        "source\ttarget",
        "SRC\tTGT",
        "Anglais\tFrançais",
    ],
)
def test_a_recognisable_header_is_no_pair_and_is_said(header: str, tmp_path: Path) -> None:
    pairs = read(tmp_path, f"{header}\nA dog.\tUn chien.\n")
    assert both(pairs) == [("A dog.", "Un chien.")]
    assert list(pairs.lines) == [2]
    assert f"header ({', '.join(header.split(chr(9))[:2])})" in pairs.report.form
    assert (pairs.report.lines, pairs.report.used) == (1, 1)


def test_id_is_indonesian_above_sentences_alone() -> None:
    sentences, numbers = ["Saya lapar.", "Dia tidur."], ["x7", "x8"]
    assert named_pair(["id", "en", "by"], [sentences, sentences, numbers]) == (0, 1)
    assert named_pair(["id", "en", "by"], [numbers, sentences, numbers]) is None
    assert named_pair(["id", "en", "fr"], [numbers, sentences, sentences]) == (1, 2)


@pytest.mark.parametrize(
    "first", ["English\tAnglais", "Go.\tVa !", "No\tNon", "French\tfries", "source\tsource", "en\ten", "en-tête\tes-tu"]
)
def test_what_may_be_a_pair_is_no_header(first: str, tmp_path: Path) -> None:
    pairs = read(tmp_path, f"{first}\nA dog.\tUn chien.\n")
    assert both(pairs)[0] == tuple(first.split("\t"))
    assert pairs.report.form == "TSV, two columns, no header"


def test_a_header_is_looked_for_on_the_first_line_only(tmp_path: Path) -> None:
    assert both(read(tmp_path, "a\tb\nen\tfr\n")) == [("a", "b"), ("en", "fr")]


# --- what is not used --------------------------------------------------------------------------------------


def test_every_unusable_line_is_counted_and_shown_with_number_and_reason(tmp_path: Path) -> None:
    lines = [
        b"a\tb",
        b"no tab here",
        b"",
        b"\tonly target",
        b"only source\t \xc2\xa0",
        b"caf\xe9\tx",
        b"x\0\ty",
        b" \t ",
        b"c\td",
    ]
    pairs = read(tmp_path, b"\n".join(lines) + b"\n" + b"word " * 900)
    assert both(pairs) == [("a", "b"), ("c", "d")]
    assert list(pairs.lines) == [1, 9]
    assert pairs.report.skipped == {
        "no tab": 2, "blank line": 2, "empty source": 1, "empty target": 1, "not UTF-8": 1, "NUL character": 1,
    }  # fmt: skip
    assert pairs.report.examples[0] == Skipped(2, "no tab", "no tab here")
    assert Skipped(6, "not UTF-8", "caf\\xe9\tx") in pairs.report.examples
    said = str(pairs.report)
    assert said.startswith(f"{tmp_path}/pairs.tsv: TSV, two columns, no header; 2 of 10 lines used\n")
    assert '\n  skipped 2: no tab\n    line 2: "no tab here"\n    line 10: "word word ' in said
    assert '\n    line 7: "x\\x00\\ty"' in said
    assert max(map(len, said.split("\n"))) < 200


def test_only_the_first_examples_of_a_reason_are_kept(tmp_path: Path) -> None:
    pairs = read(tmp_path, "a\tb\n" + "no tab\n" * 5000)
    assert pairs.report.skipped == {"no tab": 5000}
    assert [it.line for it in pairs.report.examples] == [2, 3, 4]
    assert "  skipped 5,000: no tab\n" in str(pairs.report)


def test_a_line_with_too_few_columns_is_skipped_where_sentences_stand_further_right(tmp_path: Path) -> None:
    rows = [f"{i}\tA dog.\tUn chien." for i in range(300)]
    pairs = read(tmp_path, "\n".join([*rows, "300\tA cat.", "no tab"]))
    assert len(pairs) == 300
    assert pairs.report.skipped == {"too few columns": 1, "no tab": 1}


@given(content=st.binary() | st.lists(st.sampled_from([b"a", b"\t", b"\n", b"\r", b"\0", b"\xff", b" "])).map(b"".join))
@in_place
def test_of_any_bytes_every_line_is_used_or_counted_or_the_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, content)
    try:
        pairs = read_pairs([path])
    except DataError as error:
        assert str(path) in error.what
        return
    report = pairs.report
    assert report.lines == content.count(b"\n") + (not content.endswith(b"\n"))
    assert report.used + sum(report.skipped.values()) + ("no header" not in report.form) == report.lines
    assert report.used == len(pairs.sources) == len(pairs.targets) == len(pairs.lines)
    assert all(source.strip() and target.strip() for source, target in both(pairs))


# --- two files ---------------------------------------------------------------------------------------------

side = st.sampled_from([b"", b" ", b"\xff", b"\0", b"tab\ttab"]) | cell.map(str.encode)


@given(rows=st.lists(st.tuples(side, side), min_size=1), ends=st.tuples(*[st.sampled_from([b"\n", b"\r\n"])] * 2))
@in_place
def test_alignment_never_shifts(rows: list[tuple[bytes, bytes]], ends: tuple[bytes, bytes], tmp_path: Path) -> None:
    paths = [tmp_path / "a.en", tmp_path / "a.fr"]
    for i in (0, 1):
        paths[i].write_bytes(b"".join(row[i] + ends[i] for row in rows))
    try:
        pairs = read_pairs(paths)
    except DataError:
        return
    for source, target, number in zip(pairs.sources, pairs.targets, pairs.lines):
        assert tuple(cell.encode().removeprefix(b"\xef\xbb\xbf") for cell in (source, target)) == tuple(
            cell.removeprefix(b"\xef\xbb\xbf") for cell in rows[number - 1]
        )
    usable = [all(it.strip() and b"\0" not in it and it != b"\xff" for it in row) for row in rows]
    assert set(pairs.lines) <= {i for i, fine in enumerate(usable, 1) if fine}
    assert len(pairs) + sum(pairs.report.skipped.values()) == pairs.report.lines == len(rows)


def test_a_line_bad_on_either_side_is_skipped_on_both(tmp_path: Path) -> None:
    en = write(tmp_path, b"one\ntwo\n\nfour\nfi\xffve\nsix\n\n", "a.en")
    fr = write(tmp_path, b"un\n\ntrois\nquatre\ncinq\ns\xeex\n \n", "a.fr")
    pairs = read_pairs([en, fr])
    assert both(pairs) == [("one", "un"), ("four", "quatre")]
    assert list(pairs.lines) == [1, 4]
    assert pairs.report.skipped == {"empty target": 1, "empty source": 1, "not UTF-8": 2, "blank line": 1}
    said = str(pairs.report)
    assert said.startswith(f"{en} + {fr}: two line-aligned files; 2 of 7 lines used\n")
    assert 'line 2: "two"' in said and 'line 3: "trois"' in said and 'line 6: "s\\xeex"' in said


def test_two_tables_in_place_of_two_aligned_files_are_noticed(tmp_path: Path) -> None:
    note = "most lines of both files have a tab: if each file has pairs, pass one of them, or a folder with both"
    first, second = write(tmp_path, "a\tb\nc\td\n", "1.tsv"), write(tmp_path, "e\tf\ng\th\n", "2.tsv")
    assert note in read_pairs([first, second]).report.notes
    text = write(tmp_path, "a\nc\tc\n", "a.en")
    assert note not in read_pairs([first, text]).report.notes


def test_two_files_with_labels_are_no_aligned_ones(tmp_path: Path) -> None:
    first, second = (write(tmp_path, f"__label__a {it}\n__label__b {it}\n", f"{it}.txt") for it in ("one", "two"))
    assert error_of(read_pairs, [first, second], roles=LABELLED).name == f"{first} and {second}"
    texts = write(tmp_path, "one\ntwo\n", "texts.txt")
    assert both(read_pairs([texts, first]))[0] == ("one", "__label__a one")


def test_a_missing_final_newline_is_fine(tmp_path: Path) -> None:
    assert both(read_pairs([write(tmp_path, "a\nb", "a.en"), write(tmp_path, "c\nd\n", "a.fr")])) == [
        ("a", "c"),
        ("b", "d"),
    ]


def test_unequal_line_counts_are_refused_with_both_counts(tmp_path: Path) -> None:
    en, fr = write(tmp_path, "a\n" * 1200, "a.en"), write(tmp_path, "b\n" * 1199, "a.fr")
    assert str(refusal([en, fr])) == (
        f"{en} has 1,200 lines and {fr} has 1,199 lines\n"
        "  expected: the same number in both: line n of one translates line n of the other"
    )
    assert refusal([fr, en]).value == (1199, 1200)
    assert refusal([en, write(tmp_path, "b\n" * 9, "b.fr")]).value == (1200, 9)


def test_unequal_line_counts_are_right_however_the_paths_are_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a\n" * 2, "a.en"), write(tmp_path, "b\n", "a.fr")
    monkeypatch.chdir(tmp_path)
    for paths, counts in ((["./a.en", ".//a.fr"], (2, 1)), (["./a.fr", "./a.en"], (1, 2))):
        error = refusal(paths)
        assert error.value == counts and all(path in error.what for path in paths)


def test_the_rest_of_the_longer_file_is_counted_and_not_held(tmp_path: Path) -> None:
    short, long = write(tmp_path, "a\n", "a.en"), write(tmp_path, "b\n" * 200_000, "a.fr")
    tracemalloc.start()
    try:
        assert refusal([short, long]).value == (1, 200_000)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_extra_empty_lines_at_the_end_of_one_file_are_told(tmp_path: Path) -> None:
    en, fr = write(tmp_path, "a\nb\n", "a.en"), write(tmp_path, "a\nb\n\n\n", "a.fr")
    error = refusal([en, fr])
    assert (error.value, error.fix) == ((2, 4), f"remove the 2 empty at the end of {fr}")


@pytest.mark.parametrize("number", [0, 3])
def test_one_file_or_two_are_expected(number: int) -> None:
    assert refusal(["a.tsv"] * number).value == number


# --- what is refused ---------------------------------------------------------------------------------------


def test_a_file_without_two_columns_is_refused_and_its_first_line_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, "I am hungry.|J'ai faim.\n" + "x\n" * 4999)
    assert str(refusal([path])) == (
        f"{path} has no line with two columns (first 200 of 5,000 lines checked)\n"
        '  line 1: "I am hungry.|J\'ai faim."\n'
        "  expected: source<TAB>target, a CSV, JSON lines, or two line-aligned files (a.en a.fr)\n"
        '  if the separator is "|", set `data.separator="|"`'
    )
    assert refusal([write(tmp_path, b"\n\n" + b"\xff" * 300)]).line == 3


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (gzip.compress("a\tb\n".encode("utf-32"), mtime=0), "UTF-32"),
        (b"a\tb\n" + bytes(100), "100 of its first 104 bytes"),
        (b"a\tb\rc\td\r", "CR alone"),
        (gzip.compress(os.urandom(9000))[:-5000], "damaged or cut off"),
        (lzma.compress(os.urandom(9000))[:-5000], "damaged or cut off"),
        (gzip.compress(b"a\tb\n" * 99)[:-4] + b"abcd", "damaged or cut off"),
        (b"\x1f\x8b and so on", "damaged or cut off"),
        (b"\xfd7zXZ\0 and so on", "damaged or cut off"),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",  # the same in every process
)
def test_a_file_that_is_no_text_is_refused_in_either_form(content: bytes, said: str, tmp_path: Path) -> None:
    bad, good = write(tmp_path, content), write(tmp_path, "a\tb\n", "good")
    for paths in ([bad], [bad, good], [good, bad]):
        error = refusal(paths)
        assert said in error.what and error.name == str(bad)


def test_a_pair_of_a_packed_file_that_is_cut_off_later_is_not_used_in_silence(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"{random.random()}\tb\n" for _ in range(50_000)).encode())
    assert "damaged" in refusal([write(tmp_path, whole[:-100])]).what


def test_a_place_that_is_no_readable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal([tmp_path / "absent"]).name == f"{tmp_path}/absent"
    assert "File name too long" in refusal(["x" * 5000]).what

    def forbid(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, "a\tb\n")
    monkeypatch.setattr(Path, "open", forbid)  # root may read everything
    assert str(refusal([path])) == f"{path} can't be read: Permission denied"


def test_control_characters_of_a_wrong_conversion_are_reported(tmp_path: Path) -> None:
    wrong = "“café”\tun\n".encode("cp1252").decode("latin-1")
    [note] = read_pairs([write(tmp_path, f"a\tb\n{wrong * 3}é\tü\n")]).report.notes
    assert note.startswith("3 pairs") and "WINDOWS-1252" in note


def test_a_file_without_a_usable_line_says_what_its_lines_lack(tmp_path: Path) -> None:
    path = write(tmp_path, "a\t\n\tb\nx\n")
    error = refusal([path])
    assert error.what.startswith(f"no usable pair in {path}\n") and 'line 3: "x"' in error.what
    assert error.value == {"empty target": 1, "empty source": 1, "no tab": 1} and error.fix == ""
    path = write(tmp_path, "d\xe9j\xe0\tvu\n".encode("latin-1"))
    assert "iconv" in refusal([path]).fix and "déjà" in refusal([path]).fix
    assert refusal([write(tmp_path, "en\tfr\n")]).value == {}
    blank = write(tmp_path, "\n\n", "blank")
    assert refusal([blank, blank]).name == f"{blank} and {blank}"


def test_shown_clips_and_escapes() -> None:
    assert shown("é\t\x1b[31m\u2028") == '"é\\t\\x1b[31m\\u2028"'
    assert shown("a" * 81) == '"' + "a" * 79 + '…"'
    assert shown("a" * 80) == '"' + "a" * 80 + '"'


def test_lines_are_read_as_they_are_needed(tmp_path: Path) -> None:
    damaged_later = gzip.compress(b"a\n" * 100_000, 0)[:-50]
    lines = read_lines(write(tmp_path, damaged_later))
    assert [next(lines) for _ in range(1000)] == [b"a"] * 1000


# --- some of them ------------------------------------------------------------------------------------------


def test_some_of_the_pairs_have_a_report_of_their_own(tmp_path: Path) -> None:
    whole = read(tmp_path, "x\n" + "".join(f"s{i}\tt{i}\n" for i in range(40)))
    some, others = whole.take([3, 5], "two of them"), whole.take([4], "one of them")
    assert (list(some.lines), both(some)) == ([5, 7], [("s3", "t3"), ("s5", "t5")])
    assert (some.report.notes, others.report.notes, whole.report.notes) == (["two of them"], ["one of them"], [])
    some.report.skip(7, "too long", "s5\tt5")
    assert some.report.skipped == {"no tab": 1, "too long": 1}
    assert whole.report.skipped == others.report.skipped == {"no tab": 1}
    assert len(whole.report.examples) == len(others.report.examples) == 1


# --- references --------------------------------------------------------------------------------------------


def test_each_source_stands_once_with_all_its_distinct_targets_in_order() -> None:
    pairs = pairs_of(["b", "a", "b", "b", "A"], ["1", "2", "3", "1", "4"])
    assert references(pairs) == (["b", "a", "A"], [["1", "3"], ["2"], ["4"]])
    assert references(pairs_of([])) == ([], [])
