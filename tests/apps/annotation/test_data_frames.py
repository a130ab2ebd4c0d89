"""Frames of pandas, polars and Arrow that get the answers as new columns."""

from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import DataError
from tests.builders import make_encoder_folder
from tests.serving.small_models import make

LIBRARIES = ["pandas", "polars", "pyarrow"]


class PandasFrame:
    """What is used of a pandas DataFrame."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.cells, self.columns = columns, list(columns)
        self.iloc = self

    def __getitem__(self, places: tuple[slice, int]) -> Any:
        return type("Series", (), {"tolist": lambda _: list(self.cells.values())[places[1]]})()

    def assign(self, **new: list[Any]) -> "PandasFrame":
        return PandasFrame({**self.cells, **new})

    def values(self, name: str) -> list[Any]:
        return self.cells[name]


class PolarsFrame:
    """What is used of a polars DataFrame."""

    get_column = None

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.cells, self.columns = columns, list(columns)

    def to_series(self, place: int) -> Any:
        return type("Series", (), {"to_list": lambda _: list(self.cells.values())[place]})()

    def hstack(self, other: "PolarsFrame") -> "PolarsFrame":
        return PolarsFrame({**self.cells, **other.cells})

    def values(self, name: str) -> list[Any]:
        return self.cells[name]


def frame_of(library: str, columns: dict[str, list[Any]]) -> Any:
    if library in ("pandas-like", "polars-like"):
        return (PandasFrame if library == "pandas-like" else PolarsFrame)(columns)
    module = pytest.importorskip(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


def values_of(frame: Any, name: str) -> list[Any]:
    if isinstance(frame, PandasFrame | PolarsFrame):
        return frame.values(name)
    column = frame.column(name) if hasattr(frame, "append_column") else frame[name]
    values = next(getattr(column, it) for it in ("to_pylist", "to_list") if hasattr(column, it))()
    return [None if isinstance(it, float) and it != it else it for it in values]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("models") / "classify", "classify")


@pytest.mark.parametrize("library", ["pandas-like", "polars-like", *LIBRARIES])
def test_a_frame_gets_labels_and_probabilities(library: str, classifier: Path, capsys) -> None:
    app = clearhead.load(classifier)
    frame = frame_of(library, {"id": [1, 2, 3], "text": ["so warm", None, "cold"], "label": ["x", "y", "z"]})
    found = app.annotate(frame)
    assert type(found) is type(frame) and capsys.readouterr().err.startswith("1 of 3 rows have no text")
    names = list(getattr(found, "column_names", None) or found.columns)
    assert names == ["id", "text", "label", "label_2", "probability_2"]
    warm, cold = app.results(["so warm", "cold"])
    assert values_of(found, "label_2") == [warm.label, None, cold.label]
    assert values_of(found, "probability_2") == [warm.probability, None, cold.probability]
    assert values_of(found, "label") == ["x", "y", "z"]
    assert list(getattr(frame, "column_names", None) or frame.columns) == ["id", "text", "label"]


@pytest.mark.parametrize("library", ["pandas-like", "polars-like", *LIBRARIES])
def test_columns_are_chosen_and_joined_and_vectors_are_lists(library: str, tmp_path: Path, capsys) -> None:
    app = clearhead.load(make_encoder_folder(tmp_path, task="embed"))
    frame = frame_of(
        library, {"subject": ["She", "We"], "body": ["sings.", float("nan") if "pandas" in library else None]}
    )
    found = app.annotate(frame, text="subject,body")
    vectors = [list(map(float, it)) for it in values_of(found, "vector")]
    assert vectors == [[float(str(it)) for it in vector] for vector in app(["She sings.", "We"])]


def test_an_index_of_pandas_and_names_that_are_numbers_stay(classifier: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([["a", 1], ["b", 2]], index=[7, 7])
    found = clearhead.load(classifier).annotate(frame, text="1")
    assert list(found.index) == [7, 7] and list(found.columns) == [0, 1, "label", "probability"]


@pytest.mark.parametrize("frame", [["a", "b"], "table.csv", {"text": ["a"]}, None])
def test_what_is_no_frame_is_an_error(classifier: Path, frame: object) -> None:
    with pytest.raises(DataError) as caught:
        clearhead.load(classifier).annotate(frame)
    assert "DataFrame" in caught.value.expected


def test_columns_that_cannot_be_read_are_errors(classifier: Path) -> None:
    app = clearhead.load(classifier)
    with pytest.raises(DataError) as caught:
        app.annotate(PandasFrame({"text": ["a", {"b": 1}]}))
    assert (caught.value.name, caught.value.line) == ("text", 2)
    with pytest.raises(DataError, match="no column 'b'"):
        app.annotate(PandasFrame({"text": ["a"], "c": [1]}), text="b")
    with pytest.raises(DataError) as caught:
        app.annotate(PandasFrame({"a": ["the dog sat"], "b": ["the cat sat"]}))
    assert "`text=COLUMN`" in caught.value.fix


def test_a_frame_without_rows_gets_the_columns(classifier: Path) -> None:
    assert clearhead.load(classifier).annotate(PandasFrame({"text": []})).columns == ["text", "label", "probability"]
