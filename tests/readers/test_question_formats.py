"""Every form of data that the page on data lists, and what is hostile in each."""

import ast
import gzip
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.errors import DataError
from clearhead.readers.pairs import PairSource, read_pairs
from clearhead.readers.references import read_with_references

from .conftest import error_of, stdin, written

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
PAIRS = [("I am here.", "Oui, moi."), ("Hello!", "Salut !"), ("One.", "Un.")]


def tsv(rows=PAIRS) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in rows).encode()


def csv(rows=PAIRS) -> bytes:
    return "".join(f'{source},"{target}"\n' for source, target in rows).encode()


def json_lines(form: str, rows=PAIRS) -> bytes:
    return "".join(form % pair + "\n" for pair in rows).encode()


def aligned(folder: Path, rows=PAIRS) -> list[Path]:
    return [written(folder / str(i), "".join(f"{pair[i]}\n" for pair in rows)) for i in (0, 1)]


def shards(folder: Path) -> list[Path]:
    written(folder / "part-2.xz", lzma.compress(tsv(PAIRS[:1])))
    written(folder / "part-10.gz", gzip.compress(tsv(PAIRS[1:2])))
    written(folder / "part-11", tsv(PAIRS[2:]))
    return [folder]


def aligned_shards(folder: Path) -> list[Path]:
    for i in (0, 1):
        (folder / str(i)).mkdir()
        for number, pair in enumerate(PAIRS):
            written(folder / str(i) / f"{number}.txt", f"{pair[i]}\n")
    return [folder / "0", folder / "1"]


def zipped(folder: Path) -> list[Path]:
    with zipfile.ZipFile(folder / "x.zip", "w") as archive:
        archive.writestr("x.tsv", tsv())
    return [folder / "x.zip"]


FORMS: dict[str, Callable[[Path], list[Path | str]]] = {
    "TSV": lambda folder: [written(folder / "x", tsv())],
    "CSV": lambda folder: [written(folder / "x", csv())],
    "JSON lines": lambda folder: [written(folder / "x", json_lines('{"en": "%s", "fr": "%s"}'))],
    "nested JSON lines": lambda folder: [
        written(folder / "x", json_lines('{"id": 1, "translation": {"en": "%s", "fr": "%s"}}'))
    ],
    "two aligned files": aligned,
    "a folder": shards,
    "two folders": aligned_shards,
    "a zip archive": zipped,
    "standard input": lambda _: ["-"],
    "gzip and xz": lambda folder: [written(folder / "x", lzma.compress(csv()))],
}


def test_the_page_lists_the_forms_that_are_read_and_no_others() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Formats")[1]
    table = next(it for it in table.split("\n\n") if it.startswith("|"))
    assert [row.split("|")[1].strip() for row in table.splitlines()[2:]] == [it for it in FORMS if "nested" not in it]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pairs_in_every_reading(form: str, tmp_path: Path, monkeypatch) -> None:
    stdin(monkeypatch, tsv())
    with PairSource(FORMS[form](tmp_path), kept=0) as source:
        for _ in range(2):
            assert [(there, back) for _, there, back in source] == PAIRS
            assert (source.report.used, source.report.lines, source.report.skipped) == (3, 3, {})


def said_by(path: Path) -> set[str]:
    """Every text of the code but for docstrings, which say nothing; "…" stands for what is put into it."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    documented = [node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            texts.add("".join(it.value if isinstance(it, ast.Constant) else "…" for it in node.values))
    return texts - {ast.get_docstring(node, clean=False) for node in documented}


def test_every_reason_that_the_page_gives_is_one_that_is_given() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Lines that can't be used")[1]
    table = next(it for it in table.split("\n\n") if it.startswith("|"))
    reasons = [reason for row in table.splitlines()[2:] for reason in re.findall(r"`([^`]+)`", row.split("|")[1])]
    said = set().union(*map(said_by, (PAGE.parents[1] / "clearhead").rglob("*.py")))
    assert len(reasons) > 12
    for reason in reasons:
        pattern = re.sub(r"\b(tab|comma|fr|250|2|data\.max_len|source|target|label)\b", "…", reason)
        assert any(it.startswith((reason, pattern)) for it in said), reason


# --- hostile twins

LONG = ("x" * 100_000, "y " * 50_000)


@pytest.mark.parametrize(
    "make",
    [tsv, csv, lambda rows: tsv(rows).replace(b"\t", b"|"), lambda rows: json_lines('{"en": "%s", "fr": "%s"}', rows)],
    ids=["TSV", "CSV", "pipes", "JSON lines"],
)
@pytest.mark.parametrize("through_stdin", [False, True], ids=["file", "standard input"])
def test_lines_of_a_hundred_thousand_letters_are_lines(
    make, through_stdin: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make([*PAIRS, LONG])
    stdin(monkeypatch, content)
    pairs = read_pairs(["-" if through_stdin else written(tmp_path / "x", content)])
    assert (pairs.sources[-1], pairs.targets[-1]) == LONG


def test_so_are_those_of_aligned_files(tmp_path: Path) -> None:
    rows = [*PAIRS, LONG]
    pairs = read_pairs(aligned(tmp_path, rows))
    assert list(zip(pairs.sources, pairs.targets)) == rows


def test_ten_columns_are_two_and_the_rest(tmp_path: Path) -> None:
    for mark in ("\t", ",", ";"):
        path = written(
            tmp_path / "x", "".join(mark.join(f"{row}{column}" for column in "abcdefghij") + "\n" for row in "123")
        )
        pairs = read_pairs([path])
        assert list(zip(pairs.sources, pairs.targets)) == [("1a", "1b"), ("2a", "2b"), ("3a", "3b")]
        assert pairs.report.notes[0].startswith("columns after 2 aren't used: they're in 3 ")


@pytest.mark.parametrize(
    "form", [tsv(), csv(), json_lines('{"en": "%s", "fr": "%s"}')], ids=["TSV", "CSV", "JSON lines"]
)
def test_what_is_no_text_is_refused_in_every_form(form: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = form.decode()
    for content, said in (
        (text.encode("utf-16-le"), "is UTF-16LE"),
        (text.encode("utf-32"), "is UTF-32"),
        (bytes(len(form)), "isn't text"),
        (gzip.compress(form * 99)[:-9], "is damaged or cut off"),
        (lzma.compress(form * 99)[:-9], "is damaged or cut off"),
        (form.replace(b"\n", b"\r"), "end at CR alone"),
    ):
        with pytest.raises(DataError, match=said):
            read_pairs([written(tmp_path / "x", content)])
        (tmp_path / "shards").mkdir(exist_ok=True)
        written(tmp_path / "shards" / "1", form)
        written(tmp_path / "shards" / "2", content)
        with pytest.raises(DataError, match=said):
            read_pairs([tmp_path / "shards"])
        stdin(monkeypatch, content)
        with pytest.raises(DataError, match=said) as caught:
            read_pairs(["-"])
        assert "standard input" in str(caught.value)


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_folder_beside_a_file_is_aligned_only_if_it_holds_one_of_as_many_lines(side: int, tmp_path: Path) -> None:
    folder, paths = tmp_path / "folder", aligned(tmp_path)
    folder.mkdir()
    file, paths[side] = paths[side], folder
    assert error_of(read_pairs, paths).name == str(folder)
    written(folder / "a", "x\n")
    assert {*error_of(read_pairs, paths).value} == {1, 3}
    written(folder / "b", "x\n")
    assert {*error_of(read_pairs, paths).value} == {1, 2}
    (folder / "b").unlink()
    file.rename(folder / "a")
    pairs = read_pairs(paths)
    assert list(zip(pairs.sources, pairs.targets)) == PAIRS


@pytest.mark.parametrize("sources_alone", [False, True])
def test_a_folder_is_no_file_of_references(sources_alone: bool, tmp_path: Path) -> None:
    source, target = aligned(tmp_path)
    (tmp_path / "folder").mkdir()
    written(tmp_path / "folder" / "a", target.read_bytes())
    paths = [source] if sources_alone else [source, target]
    assert error_of(read_with_references, paths, [tmp_path / "folder"]).name == f"{tmp_path}/folder"
