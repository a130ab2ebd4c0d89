"""An error carries its parts as fields, and its text is put together in one place."""

import pickle

import pytest

from clearhead.errors import (
    ClearheadError,
    ConfigError,
    DataError,
    ModelError,
    TrainingError,
    nearest,
    shortened,
    suggestion,
    unknown,
)


def full() -> ConfigError:
    return ConfigError(
        "train.best='bleu' isn't a score for \"classify\"",
        expected="loss, accuracy or macro_f1",
        fix="set train.best to one of them",
        name="train.best",
        value="bleu",
        line=3,
    )


def test_the_text_has_what_is_wrong_what_was_expected_and_what_to_do_each_on_its_line() -> None:
    assert str(full()).split("\n") == [
        "train.best='bleu' isn't a score for \"classify\"",
        "  expected: loss, accuracy or macro_f1",
        "  set train.best to one of them",
    ]


def test_a_part_that_is_missing_leaves_no_line() -> None:
    assert str(DataError("a.tsv is empty")) == "a.tsv is empty"
    assert str(DataError("a.tsv is empty", fix="check how it was made")) == "a.tsv is empty\n  check how it was made"


@pytest.mark.parametrize(
    "copy", [lambda error: pickle.loads(pickle.dumps(error)), lambda error: error.within("a.toml")]
)
def test_the_fields_survive_pickling_and_a_place_in_front(copy) -> None:
    error = copy(full())
    assert type(error) is ConfigError
    assert (error.name, error.value, error.line) == ("train.best", "bleu", 3)
    assert (error.expected, error.fix) == (full().expected, full().fix)


def test_a_place_is_put_in_front_of_what_is_wrong() -> None:
    assert full().within("a.toml").what == f"a.toml: {full().what}"
    assert str(full().within("a.toml")) == f"a.toml: {full()}"


@pytest.mark.parametrize("kind", [ConfigError, DataError, ModelError, TrainingError])
def test_every_error_is_a_clearhead_error(kind: type[ClearheadError]) -> None:
    assert issubclass(kind, ClearheadError)


def test_a_long_list_ends_with_the_number_of_names_that_are_left_out() -> None:
    assert shortened(["a", "b"], 2) == "a, b" and shortened(["a", "b", "c"], 2) == "a, b and 1 more"
    assert shortened(["a"] * 1002, 2) == "a, a and 1,000 more"


def test_the_nearest_known_word_is_suggested() -> None:
    assert nearest("trian.steps", ["train.steps", "data.train"]) == "train.steps"
    assert nearest("x", ["train.steps"]) == ""
    assert suggestion("trian.steps", ["train.steps"]) == "did you mean 'train.steps'?"


def test_the_error_for_an_unknown_value_lists_the_known_ones_and_suggests_the_closest() -> None:
    error = unknown("there's no task 'trian'", "trian", iter(["train", "serve"]), "task", ModelError)
    assert isinstance(error, ModelError) and (error.name, error.value) == ("task", "trian")
    assert (error.expected, error.fix) == ("one of train, serve", "did you mean 'train'?")
    assert [unknown("there's no task 'x'", "x", known, "task").expected for known in (["train"], [])] == ["train", ""]
