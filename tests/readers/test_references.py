"""Further references, aligned with the sources of whatever holds these."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.readers.pairs import read_pairs, references
from clearhead.readers.references import read_with_references

from .conftest import error_of

SOURCES = ["I am hungry.", "She sings, too.", "No."]
FIRST = ["J'ai faim.", "Elle chante aussi.", "Non."]
SECOND = ["Je suis affamé.", "Elle chante, elle aussi.", "Non."]


@pytest.fixture
def write(tmp_path: Path):
    def write(name: str, *lines: str | bytes) -> Path:
        data = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


def table(*extra: str) -> list[str]:
    return [*extra, *map("\t".join, zip(SOURCES, FIRST))]


def test_line_n_of_each_file_is_a_reference_of_source_n_behind_those_of_the_pairs(write) -> None:
    first, second = write("1.fr", *FIRST), write("2.fr", *SECOND)
    expected = (SOURCES, [list(dict.fromkeys(each)) for each in zip(FIRST, SECOND)])
    for data in (
        [write("a.tsv", *table())],
        [write("header.tsv", *table("English\tFrench"))],
        [write("a.en", *SOURCES), first],
        [write("a.jsonl", *(f'{{"en": "{en}", "fr": "{fr}"}}' for en, fr in zip(SOURCES, FIRST)))],
    ):
        assert references(read_with_references(data, [second])) == expected, data
    assert references(read_with_references([write("a.en", *SOURCES)], [first, second])) == expected


@pytest.mark.parametrize("content", [SOURCES, table(), table("English\tFrench")], ids=["alone", "TSV", "header"])
def test_sources_and_references_may_flow(write, content: list[str]) -> None:
    expected = references(read_with_references([write("a.tsv", *content)], [write("2.fr", *SECOND)]))
    pipes = [os.pipe() for _ in range(2)]
    for (_, writer), lines in zip(pipes, (content, SECOND)):
        os.write(writer, "".join(line + "\n" for line in lines).encode())
        os.close(writer)
    try:
        data, further = (f"/dev/fd/{reader}" for reader, _ in pipes)
        assert references(read_with_references([data], [further])) == expected
    finally:
        for reader, _ in pipes:
            os.close(reader)


def test_columns_of_sources_alone_are_passed_over_and_that_is_said(write) -> None:
    data = DataConfig(source_column="en", target_column="fr")
    pairs = read_with_references([write("a.en", *SOURCES)], [write("2.fr", *SECOND)], data)
    assert "columns and separator aren't used: the file has only sources" in str(pairs.report)


@pytest.mark.parametrize(
    "sources", [["Yes, I am.", "No, he is not.", "Well, no."], ["Yes, I am.", "She sings.", "1,000 of them."]]
)
def test_a_separator_of_other_data_makes_no_columns_of_punctuation(write, sources: list[str]) -> None:
    data, further = write("a.en", *sources), write("1.fr", *FIRST)
    pairs = read_with_references([data], [further], DataConfig(separator=","), own_separator=False)
    assert references(pairs) == (sources, [[first] for first in FIRST])
    assert "only sources; 3 of 3 lines used" in str(pairs.report)
    assert "columns and separator aren't used: the file has only sources" in str(pairs.report)


@pytest.mark.parametrize(("separator", "between"), [(",", ","), ("|", " | "), (":", ":"), ("tab", "\t")])
def test_a_separator_of_other_data_makes_columns_where_it_cuts_nearly_all_lines(
    write, separator: str, between: str
) -> None:
    rows = [f"source {n}{between}target {n}" for n in range(19)]
    data, further = write("a.txt", *rows, "none"), write("1.fr", *map(str, range(20)))
    kinds = [
        read_with_references([data], [further], DataConfig(separator=separator), own_separator=own)
        for own in (True, False)
    ]
    assert references(kinds[0]) == references(kinds[1])
    assert [target.strip() for target in references(kinds[0])[1][18]] == ["target 18", "18"]


def test_a_separator_of_the_file_itself_makes_columns_of_a_single_line(write) -> None:
    data, further = write("a.csv", "Yes, I am.", "She sings."), write("1.fr", "oui", "non")
    pairs = read_with_references([data], [further], DataConfig(separator=","))
    assert references(pairs) == (["Yes"], [[" I am.", "oui"]])


def test_a_source_without_a_reference_is_counted_and_shown(write) -> None:
    data, further = write("a.en", "one", "two", "", "four"), write("1.fr", "un", "", "trois", "quatre")
    pairs = read_with_references([data], [further])
    assert references(pairs) == (["one", "four"], [["un"], ["quatre"]])
    assert "only sources; 2 of 4 lines used" in str(pairs.report) and pairs.report.used == 2
    assert '\n  skipped 1: no reference\n    line 2: "two"\n' in str(pairs.report)


def test_without_further_files_the_pairs_are_as_they_are(write) -> None:
    data = [write("a.tsv", *table("English\tFrench"), "no tab")]
    assert references(read_with_references(data, [])) == references(read_pairs(data))


def test_the_direction_and_the_columns_are_those_that_are_asked_for(write) -> None:
    data = write("a.tsv", *table())
    pairs = read_with_references([data], [write("2.en", "a", "b", "c")], DataConfig(reverse=True))
    assert references(pairs) == (FIRST, [[SOURCES[0], "a"], [SOURCES[1], "b"], [SOURCES[2], "c"]])
    colons = write("a.txt", *map(":".join, zip(SOURCES, FIRST)))
    pairs = read_with_references([colons], [write("2.fr", *SECOND)], DataConfig(separator=":"))
    assert references(pairs)[0] == SOURCES


def test_lines_that_cannot_be_used_shift_nothing_and_are_shown(write) -> None:
    data = write("a.tsv", "English\tFrench", "one\tun", "no tab", "two\tdeux", "\ttrois", "four\tquatre")
    further = write("2.fr", "UN", "-", b"caf\xe9", "TROIS", "")
    pairs = read_with_references([data], [further])
    assert references(pairs) == (["one", "two", "four"], [["un", "UN"], ["deux"], ["quatre"]])
    said = str(pairs.report)
    assert said.startswith(f"{data} + {further}: TSV, two columns, header (English, French); 3 of 5 lines used\n")
    assert f"\n  {further}: references; 3 of 5 lines used\n" in said
    assert '    skipped 1: not UTF-8\n      line 3: "caf\\xe9"' in said
    assert "    skipped 1: blank line\n      line 5:" in said


def test_sources_alone_need_one_reference_each_and_are_shown_where_they_have_none(write) -> None:
    data = write("a.en", "one", "", "three\twith a tab", b"\xff", "five", "six")
    pairs = read_with_references([data], [write("1.fr", "un", "-", "", "-", "", "six"), write("2.fr", *"123456")])
    assert references(pairs) == (
        ["one", "three\twith a tab", "five", "six"],
        [["un", "1"], ["3"], ["5"], ["six", "6"]],
    )
    assert "only sources; 4 of 6 lines used" in str(pairs.report)
    error = error_of(read_with_references, [data], [write("blank.fr", *[" "] * 6)])
    assert error.name == str(data) and "blank line" in error.what


@pytest.mark.parametrize(("name", "below"), [("a.en", ""), ("a.tsv", ""), ("header.tsv", " below its header")])
def test_files_of_other_lengths_are_refused_with_the_numbers(write, name: str, below: str) -> None:
    lines = {"a.en": SOURCES, "a.tsv": table(), "header.tsv": table("English\tFrench")}[name]
    data, short, long = write(name, *lines), write("1.fr", *FIRST[:2]), write("2.fr", *SECOND, "more")
    error = error_of(read_with_references, [data], [short, long])
    assert error.what == f"{data} has 3 lines{below}, and {short} has 2, {long} has 4" and error.value == (3, 2, 4)


def test_rows_that_need_not_be_lines_are_not_aligned(write, tmp_path: Path) -> None:
    data = write("a.csv", '"I am, of course,",Moi', '"You\nare",Toi', "She,Elle")
    assert error_of(read_with_references, [data], [write("2.fr", *SECOND)]).name == str(data)
    (tmp_path / "shards").mkdir()
    for n in (1, 2):
        write(f"shards/{n}.tsv", *table("English\tFrench"))
    error = error_of(read_with_references, [tmp_path / "shards"], [write("2.fr", *SECOND, *SECOND)])
    assert error.name == str(tmp_path / "shards")


def test_a_folder_of_tables_without_headers_is_one_after_the_other(write, tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    write("shards/1.tsv", *table()[:2])
    write("shards/2.tsv", *table()[2:])
    pairs = read_with_references([tmp_path / "shards"], [write("2.fr", *SECOND)])
    assert references(pairs) == references(read_with_references([write("a.tsv", *table())], [write("2.fr", *SECOND)]))


def test_what_is_wrong_with_pairs_is_said_as_without_references(write, tmp_path: Path) -> None:
    further = write("2.fr", *SECOND)
    ids = write("a.jsonl", '{"id": 1}', '{"id": 2}', '{"id": 3}')
    pairs, absent = write("a.tsv", *table()), tmp_path / "absent"
    for data, other, wrong in ((absent, further, absent), (ids, further, ids), (pairs, absent, absent)):
        assert error_of(read_with_references, [data], [other]).name == str(wrong)


WORDS = st.text(st.sampled_from("ab é"), min_size=1, max_size=5).filter(str.strip)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=8))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sources_with_two_files_are_the_two_aligned_with_one_more(write, rows: list[tuple[str, str, str]]) -> None:
    data, first, second = (write(name, *column) for name, column in zip(("s", "1", "2"), zip(*rows)))
    alone, paired = read_with_references([data], [first, second]), read_with_references([data, first], [second])
    assert references(alone) == references(paired)
