"""Every form of data that the page on data lists, and what is hostile in each."""

import gzip
import io
import lzma
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.errors import DataError
from clearhead.text.sources import PairSource, read_pairs

from .conftest import written

PAGE = Path(__file__).parents[2] / "docs" / "data.md"
PAIRS = [("I am here.", "Oui, moi."), ("Hello!", "Salut !"), ("One.", "Un.")]


def tsv(rows=PAIRS) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in rows).encode()


def csv(rows=PAIRS) -> bytes:
    return "".join(f'{source},"{target}"\n' for source, target in rows).encode()


def json_lines(form: str) -> bytes:
    return "".join(form % pair + "\n" for pair in PAIRS).encode()


def aligned(folder: Path) -> list[Path]:
    return [written(folder / str(i), "".join(f"{pair[i]}\n" for pair in PAIRS)) for i in (0, 1)]


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


FORMS: dict[str, Callable[[Path], list[Path | str]]] = {
    "TSV": lambda folder: [written(folder / "x", tsv())],
    "CSV": lambda folder: [written(folder / "x", csv())],
    "JSON lines": lambda folder: [written(folder / "x", json_lines('{"en": "%s", "fr": "%s"}'))],
    "nested JSON lines": lambda folder: [
        written(folder / "x", json_lines('{"id": 1, "translation": {"en": "%s", "fr": "%s"}}'))
    ],
    "two line-aligned files": aligned,
    "a folder of files": shards,
    "two folders of aligned files": aligned_shards,
    "standard input": lambda _: ["-"],
    "gzip and xz": lambda folder: [written(folder / "x", lzma.compress(csv()))],
}


def test_the_page_lists_the_forms_that_are_read_and_no_others() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## What is read")[1].split("\n\n")[1]
    assert [row.split("|")[1].strip() for row in table.splitlines()[2:]] == list(FORMS)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pairs_in_every_reading(form: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tsv())))
    with PairSource(FORMS[form](tmp_path), kept=0) as source:
        for _ in range(2):
            assert [(there, back) for _, there, back in source] == PAIRS
            assert (source.report.used, source.report.lines, source.report.skipped) == (3, 3, {})


def test_every_reason_that_the_page_gives_is_one_that_is_given() -> None:
    table = PAGE.read_text(encoding="utf-8").split("## Lines that cannot be used")[1].split("\n\n")[2]
    reasons = [reason for row in table.splitlines()[2:] for reason in re.findall(r"`([^`]+)`", row.split("|")[1])]
    code = "".join(path.read_text(encoding="utf-8") for path in (PAGE.parents[1] / "clearhead").rglob("*.py"))
    assert len(reasons) > 12
    for reason in reasons:
        pattern = re.sub(r"\b(tab|comma|fr|250|2|data\\\.max_len)\b", r"\\{.*?\\}", re.escape(reason))
        assert re.search(pattern, code) or reason in code, reason


# --- hostile twins

LONG = ("x" * 100_000, "y " * 50_000)


@pytest.mark.parametrize("make", [tsv, csv, lambda rows: tsv(rows).replace(b"\t", b"|")], ids=["TSV", "CSV", "pipes"])
def test_lines_of_a_hundred_thousand_letters_are_lines(make, tmp_path: Path) -> None:
    pairs = read_pairs([written(tmp_path / "x", make([*PAIRS, LONG]))])
    assert (pairs.sources[-1], pairs.targets[-1]) == LONG


def test_ten_columns_are_two_and_the_rest(tmp_path: Path) -> None:
    for mark in ("\t", ",", ";"):
        path = written(
            tmp_path / "x", "".join(mark.join(f"{row}{column}" for column in "abcdefghij") + "\n" for row in "123")
        )
        pairs = read_pairs([path])
        assert list(zip(pairs.sources, pairs.targets)) == [("1a", "1b"), ("2a", "2b"), ("3a", "3b")]
        assert pairs.report.notes[0].startswith("what follows column 2 is ignored on 3 ")


@pytest.mark.parametrize(
    "form", [tsv(), csv(), json_lines('{"en": "%s", "fr": "%s"}')], ids=["TSV", "CSV", "JSON lines"]
)
def test_what_is_no_text_is_refused_in_every_form(form: bytes, tmp_path: Path) -> None:
    text = form.decode()
    for content, said in (
        (text.encode("utf-16"), "is UTF-16; expected UTF-8"),
        (text.encode("utf-16-le"), "is no text"),
        (bytes(len(form)), "is no text"),
        (gzip.compress(form * 99)[:-9], "is damaged or cut off: it cannot be unpacked to its end"),
        (lzma.compress(form * 99)[:-9], "is damaged or cut off: it cannot be unpacked to its end"),
        (form.replace(b"\n", b"\r"), "end at CR alone"),
    ):
        with pytest.raises(DataError, match=said):
            read_pairs([written(tmp_path / "x", content)])
        (tmp_path / "shards").mkdir(exist_ok=True)
        written(tmp_path / "shards" / "1", form)
        written(tmp_path / "shards" / "2", content)
        with pytest.raises(DataError, match=said):
            read_pairs([tmp_path / "shards"])
