"""Folders, standard input and pipes."""

import gzip
import lzma
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.readers.documents import Documents
from clearhead.readers.files import Input, inputs, tree
from clearhead.readers.pairs import PairSource, read_pairs

from .conftest import both, error_of, stdin, written


def refusal(*paths: object) -> DataError:
    return error_of(read_pairs, list(paths))


# --- folders


def test_a_folder_is_read_as_one_file_in_natural_order(tmp_path: Path) -> None:
    written(tmp_path / "part-10.tsv", "e\tf\n")
    written(tmp_path / "part-2.tsv.xz", lzma.compress(b"c\td\nx\n"))
    written(tmp_path / "part-1.tsv.gz", gzip.compress(b"a\tb\ny\n"))
    written(tmp_path / ".hidden", "no pair at all")
    written(tmp_path / "_SUCCESS", "")
    pairs = read_pairs([tmp_path])
    assert both(pairs) == [("a", "b"), ("c", "d"), ("e", "f")]
    assert list(pairs.lines) == [1, 3, 5]
    said = str(pairs.report)
    assert said.startswith(f"{tmp_path} (3 files): TSV, two columns, no header; 3 of 5 lines used\n")
    assert f'    {tmp_path}/part-1.tsv.gz line 2: "y"\n    {tmp_path}/part-2.tsv.xz line 2: "x"' in said


@pytest.mark.parametrize(
    "shards",
    [
        ["en\tfr\na\tb\n", "c\td\n", "en\tfr\ne\tf\n"],
        ["a,b\n", 'en,fr\nc,d\n"e",f\n'],
        ['{"en": "a", "fr": "b"}\n', '{"fr": "d", "n": 1, "en": "c"}\n{"en": "e", "fr": "f"}'],
    ],
    ids=["TSV", "CSV", "JSON lines"],
)
def test_shards_of_every_form_are_read(shards: list[str], tmp_path: Path) -> None:
    for number, content in enumerate(shards):
        written(tmp_path / str(number), content)
    if shards[0].startswith("{"):
        data = DataConfig(source_column="en", target_column="fr")
        assert both(read_pairs([tmp_path], data)) == [("a", "b"), ("c", "d"), ("e", "f")]
        assert "en and fr" in (error := refusal(tmp_path)).what and error.name == f"{tmp_path}/1"
    else:
        assert both(read_pairs([tmp_path])) == [("a", "b"), ("c", "d"), ("e", "f")]


def test_a_row_of_several_lines_does_not_shift_the_numbers_of_the_next_file(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", '"a\nb",c\nd,e\n"f\ng",h\n')
    written(tmp_path / "2.csv", "i,j\nk\n" + "l,m\n" * 20)
    pairs = read_pairs([tmp_path])
    assert list(pairs.lines)[:4] == [1, 3, 4, 6]
    assert f'{tmp_path}/2.csv line 2: "k"' in str(pairs.report)


def test_two_folders_are_aligned_file_by_file(tmp_path: Path) -> None:
    for name, contents in (("en", ["a\nb\n", "c\n"]), ("fr", ["d\ne\n", "f\n"])):
        (tmp_path / name).mkdir()
        for number, content in enumerate(contents):
            written(tmp_path / name / str(number), content)
    pairs = read_pairs([tmp_path / "en", tmp_path / "fr"])
    assert both(pairs) == [("a", "d"), ("b", "e"), ("c", "f")] and list(pairs.lines) == [1, 2, 3]
    written(tmp_path / "fr" / "1", "f\ng\n")
    error = refusal(tmp_path / "en", tmp_path / "fr")
    assert (error.name, error.value) == (f"{tmp_path}/fr/1", (1, 2))
    (tmp_path / "fr" / "1").unlink()
    assert refusal(tmp_path / "en", tmp_path / "fr").value == (2, 1)


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    assert str(refusal(tmp_path)) == f"{tmp_path} is a folder without files\n  expected: data files in it"
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path).what == f"{tmp_path} is a folder without files"
    (tmp_path / "empty").rmdir()
    written(tmp_path / "1", "a\tb\n")
    written(tmp_path / "2", "a,b\n")
    assert refusal(tmp_path).what == f"{tmp_path}/1 is TSV and {tmp_path}/2 is CSV (comma)"
    written(tmp_path / "2", "Read me.\n")
    assert refusal(tmp_path).name == f"{tmp_path}/2"
    (tmp_path / "0").mkdir()
    assert refusal(tmp_path).what == f"{tmp_path} contains another folder, 0"


@pytest.mark.parametrize("path", ["", "pairs\0.tsv"])
def test_what_names_no_file_is_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pairs.tsv").write_text("one\tun\n")
    monkeypatch.chdir(tmp_path)  # as the folder that one is in it would be read
    for read in (inputs, tree, lambda path: Documents([path])):
        assert error_of(read, path).value == path


def test_a_table_that_was_cut_into_files_has_its_header_in_the_first(tmp_path: Path) -> None:
    written(tmp_path / "1", "topic\tenglish\tfrench\nfood\ta\tb\n")
    written(tmp_path / "2", "home\tc\td\n")
    assert both(read_pairs([tmp_path])) == [("a", "b"), ("c", "d")]
    assert both(read_pairs([tmp_path], DataConfig(reverse=True))) == [("b", "a"), ("d", "c")]
    for source, target in (("french", "topic"), ("3", "1")):
        named = read_pairs([tmp_path], DataConfig(source_column=source, target_column=target))
        assert both(named) == [("b", "food"), ("d", "home")]
    written(tmp_path / "2", "c\td\te\tf\n7\tc\td\te\n")
    assert both(read_pairs([tmp_path]))[1:] == [("d", "e"), ("c", "d")]


@pytest.mark.parametrize("asked", [{}, {"source_column": "3", "target_column": "4"}], ids=["found", "asked for"])
def test_no_pair_of_shards_with_labels_is_lost(asked: dict[str, str], tmp_path: Path) -> None:
    for name, word in (("1", "ja"), ("2", "nein"), ("3", "nie")):
        written(tmp_path / name, "".join(f"deu\teng\t{word} {i}\tyes {i}\n" for i in range(3)))
    pairs = read_pairs([tmp_path], DataConfig(**asked))
    assert both(pairs) == [(f"{word} {i}", f"yes {i}") for word in ("ja", "nein", "nie") for i in range(3)]


def test_the_columns_of_a_header_are_not_those_of_a_table_of_another_width(tmp_path: Path) -> None:
    written(tmp_path / "1", "en\tfr\nHello\tBonjour\n")
    written(tmp_path / "2", "1\tHi\tSalut\n2\tBye\tAdieu\n")
    assert refusal(tmp_path).name == f"{tmp_path}/2"


def test_files_without_headers_whose_columns_differ_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "1", "a\tb\tme\nc\td\tme\n")
    written(tmp_path / "2", "7\te\tf\n8\tg\th\n")
    error = refusal(tmp_path)
    assert error.what == f"{tmp_path}/1 has its sentences in columns 1 and 2, {tmp_path}/2 in columns 2 and 3"
    assert "data.source_column" in error.fix


def test_natural_order_is_by_the_value_of_numbers(tmp_path: Path) -> None:
    names = ["a1", "a2", "a10", "a10b", "a11", "b", "b²"]
    for name in reversed(names):
        written(tmp_path / name, "")
    assert [Path(each.name).name for each in inputs(tmp_path)] == names


# --- standard input and pipes


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_is_read_as_often_as_it_is_wanted(pack, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, pack(b"a\tb\nc\td\n"))
    with PairSource(["-"], kept=0) as source:
        assert [list(source), list(source)] == [[(1, "a", "b"), (2, "c", "d")]] * 2
        assert str(source.report).startswith("standard input: TSV, two columns")
        assert len({source.digest(), source.digest()}) == 1


def test_one_side_may_be_standard_input_and_not_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"a\nb\n")
    assert both(read_pairs(["-", written(tmp_path / "x", "c\nd\n")])) == [("a", "c"), ("b", "d")]
    assert refusal("-", "-").name == "-"


def test_standard_input_that_is_empty_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, b"")
    assert refusal("-").what == "standard input is empty"


def test_a_closed_standard_input_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert refusal("-").what == "standard input is closed"


def test_a_pipe_is_read_twice_as_a_file_is() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a\tb\n")
    os.close(writer)
    with PairSource([f"/dev/fd/{reader}"], kept=0) as source:
        assert [list(source), list(source)] == [[(1, "a", "b")]] * 2
    os.close(reader)


def test_a_copy_that_finds_no_room_is_told_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk_full: OSError
) -> None:
    stdin(monkeypatch, b"a\tb\n")

    def fail(*_: object) -> None:
        raise disk_full

    monkeypatch.setattr(Input, "_fill", fail)
    each = Input("-")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(DataError) as caught, each.open():
        pass
    assert f"{tmp_path}: No space left on device" in caught.value.what and "TMPDIR" in caught.value.fix
    each.close()


@pytest.mark.parametrize(("most", "free", "said"), [(1000, 10**6, "64 GiB"), (10**6, 2000, "half the free disk")])
def test_a_stream_without_end_stops_at_its_limit_with_a_message(
    most: int, free: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.readers.files._MOST_COPIED", most)
    monkeypatch.setattr("clearhead.readers.files._BLOCK", 100)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    stdin(monkeypatch, b"a\tb\n" * 250)
    assert len(read_pairs(["-"])) == 250  # exactly the limit
    for name, endless in (("/dev/zero", None), ("standard input", b"a\tb\n" * 251)):
        if endless:
            stdin(monkeypatch, endless)
        error = refusal("-" if endless else name)
        assert error.name == name and said in error.what


def test_where_no_folder_takes_a_copy_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    stdin(monkeypatch, b"a\tb\n")
    monkeypatch.setattr("tempfile.TemporaryFile", fail)
    monkeypatch.setattr("tempfile.gettempdir", fail)
    assert str(refusal("-")) == (
        "standard input can't be copied to a temporary folder: No usable temporary directory found\n"
        "  it is read more than once, so it has to be copied\n"
        "  expected: enough free space for all of it\n"
        "  free some space, or set another folder with TMPDIR=FOLDER"
    )


# --- reading again


@pytest.mark.parametrize("kept", [0, 1000, 10_000])  # letters, of which a pair counts 200 besides its own
def test_pairs_come_again_whether_they_were_kept_or_not(kept: int, tmp_path: Path) -> None:
    path = written(tmp_path / "x", "en\tfr\n" + "".join(f"{i}a\tb\n" for i in range(20)) + "c\n")
    with PairSource([path], kept=kept) as source:
        first = list(source)
        report = str(source.report)
        path.write_text("now\tanother\n")
        second = list(source)
    assert (second == first) == (kept == 10_000)
    assert (str(source.report) == report) == (kept == 10_000)


def test_a_reading_that_is_broken_off_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "x", "a\tb\nc\td\n")
    with PairSource([path]) as source:
        assert next(iter(source)) == (1, "a", "b")
        assert source.report.used == 0
        assert len(list(source)) == 2 and source.report.used == 2


def test_the_digest_is_of_the_bytes_and_of_their_sides(tmp_path: Path) -> None:
    one, two = written(tmp_path / "1", "a\n"), written(tmp_path / "2", "b\n")
    digests = [PairSource(paths).digest() for paths in ([one], [two], [one, two], [two, one])]
    assert len(set(digests)) == 4
    assert PairSource([written(tmp_path / "3", "a\n")]).digest() == digests[0]
    assert error_of(PairSource([tmp_path / "absent"]).digest).name == f"{tmp_path}/absent"


def test_columns_that_are_named_for_aligned_files_are_said_to_mean_nothing(tmp_path: Path) -> None:
    paths = [written(tmp_path / "1", "a\n"), written(tmp_path / "2", "b\n")]
    pairs = read_pairs(paths, DataConfig(source_column="en", target_column="fr"))
    assert both(pairs) == [("a", "b")]
    assert pairs.report.notes == ["columns and separator aren't used: line-aligned files have none"]
    assert both(read_pairs(paths, DataConfig(reverse=True))) == [("b", "a")]


def test_a_pipe_in_a_folder_is_an_error_and_does_not_block(tmp_path: Path) -> None:
    written(tmp_path / "part-1.tsv", "a\tb\n")
    os.mkfifo(tmp_path / "part-2.tsv")
    error = error_of(lambda: inputs(tmp_path))
    assert error.name == str(tmp_path) and "part-2.tsv" in error.what and error.expected == "only data files in it"
