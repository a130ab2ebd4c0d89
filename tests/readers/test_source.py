"""Lists of pairs, lists of dicts and DataFrames are read as files with the same content are."""

from pathlib import Path

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.readers.column_roles import LABELLED, SUMMARIES
from clearhead.readers.documents import Documents
from clearhead.readers.pairs import PairSource, read_pairs
from clearhead.readers.questions import read_questions
from clearhead.readers.source import Rows, as_paths

from .conftest import both, error_of, written

PAIRS = [("I am hungry.", "J'ai faim."), ("A tab\tand\nlines", "Deux\nlignes"), ("é🌻", '"')]


class PandasLike:
    """What is used of a pandas DataFrame."""

    def __init__(self, columns: dict[str, list]) -> None:
        self.columns, self._rows = [*columns], [*zip(*columns.values())]

    def __len__(self) -> int:
        return len(self._rows)

    def itertuples(self, *, index: bool, name: None) -> list[tuple]:
        assert not index and name is None
        return self._rows


class PolarsLike(PandasLike):
    """What is used of a polars DataFrame."""

    def iter_rows(self) -> list[tuple]:
        return self._rows


@pytest.mark.parametrize("path", [str, Path])
def test_a_path_alone_is_one_file(path: type, tmp_path: Path) -> None:
    file = written(tmp_path / "pairs.tsv", "a\tb\nc\td\n")
    assert both(read_pairs(path(file))) == both(read_pairs([path(file)])) == [("a", "b"), ("c", "d")]
    with Documents(path(file)) as documents:
        assert len([*documents]) == 1


@pytest.mark.parametrize("make", [list, tuple, lambda pairs: [[*it] for it in pairs], iter])
def test_a_list_of_pairs_gives_these_pairs_whatever_a_model_was_trained_on(make) -> None:
    trained = DataConfig(source_column="x,y", target_column="z", separator=";", reverse=True)
    for data in (None, trained):
        pairs = read_pairs(make(PAIRS), data)
        assert both(pairs) == PAIRS and [*pairs.lines] == [1, 2, 3]
    assert str(pairs.report) == "list of 3 pairs: in memory, source in source, target in target; 3 of 3 rows used"


def test_labels_of_any_plain_type_are_texts_and_what_is_missing_is_counted() -> None:
    rows = [
        ("a text", 1),
        ("b text", np.int64(2)),
        ("c text", True),
        ("d text", 1.5),
        ("", "x"),
        ("e", None),
        (None, "f"),
    ]
    pairs = read_pairs(rows, roles=LABELLED)
    assert pairs.targets == ["1", "2", "true", "1.5"]
    assert pairs.report.skipped == {"empty text": 1, "no label in target": 1, "no string in source": 1}
    assert 'row 6: "{' in str(pairs.report)


@pytest.mark.parametrize("frame", [PandasLike, PolarsLike])
def test_columns_of_a_frame_are_found_and_named_as_those_of_a_file(frame: type) -> None:
    table = frame(
        {"id": [1, 2], "en": ["A dog.", "A cat."], "fr": ["Un chien.", "Un chat."], "de": ["Hund", float("nan")]}
    )
    assert both(read_pairs(table, DataConfig(source_column="en", target_column="fr"))) == [
        ("A dog.", "Un chien."),
        ("A cat.", "Un chat."),
    ]
    named = read_pairs(table, DataConfig(source_column="en,fr", target_column="de", separator="tab"))
    assert both(named) == [("A dog. Un chien.", "Hund")] and named.report.skipped == {"no string in de": 1}
    assert error_of(read_pairs, table, DataConfig(source_column="no", target_column="fr")).value == "no"


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_the_libraries_themselves(library: str) -> None:
    module = pytest.importorskip(library)
    columns = {"text": [f"text {n}" for n in range(30)], "label": [n % 3 for n in range(30)]}
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    pairs = read_pairs(table, roles=LABELLED)
    assert both(pairs) == [(f"text {n}", str(n % 3)) for n in range(30)]


def test_dicts_are_rows_of_any_form() -> None:
    rows = [{"document": ["One.", "Two."], "summary": ["1", "2"]}]
    assert both(read_pairs(rows, roles=SUMMARIES)) == [("One. Two.", "1"), ("One. Two.", "2")]
    question = {"context": "Ada was here.", "question": "Who?", "answer": "Ada"}
    assert len(read_questions([question])) == 1
    with Documents([{"text": "once upon"}]) as documents:
        assert [it.text for it in documents] == ["once upon"]


def test_what_is_missing_in_a_frame_is_null() -> None:
    class NAType:
        """As pandas calls its own."""

    [rows] = as_paths([{"a": NAType(), "b": float("nan"), "c": np.float64("inf"), "d": (1, None), "e": Path("x")}])
    assert isinstance(rows, Rows)
    with rows.open() as file:
        assert file.read() == b'{"a": null, "b": null, "c": null, "d": [1, null], "e": "x"}\n'


def test_they_are_read_repeatedly_and_have_a_digest_of_their_own() -> None:
    with PairSource(PAIRS, kept=0) as source:
        assert [*source] == [*source] == [(n, *pair) for n, pair in enumerate(PAIRS, 1)]
        digest = source.digest()
        source.expect_digest(digest)
        assert PairSource(PAIRS[:2]).digest() != digest


@pytest.mark.parametrize("data", [3, None, b"bytes", {"a": 1}, [("a", "b"), ("c",)], [1, 2], ["a.tsv", ("b", "c")]])
def test_what_is_no_data_is_an_error(data: object) -> None:
    assert "DataFrame" in error_of(read_pairs, data).expected


@pytest.mark.parametrize(
    ("data", "side", "place"),
    [([("a", None)], "target", 0), ([("a", "b"), ("c", None), ("d", None)], "target", 1), ([(None, "b")], "source", 0)],
)
def test_pairs_without_a_side_are_an_error_that_names_the_first_item(data: list, side: str, place: int) -> None:
    error = error_of(read_pairs, data)
    assert (error.name, error.value, error.line) == (side, None, place + 1)
    assert f"item {place} " in error.what and side in error.what


@pytest.mark.parametrize("data", [PandasLike({"en": [], "fr": []}), [("", ""), (" ", "x")]])
def test_data_without_a_usable_row_is_an_error(data: object) -> None:
    assert error_of(read_pairs, data).name
