import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError, ModelError
from clearhead.pictures.figures import confusion_matrix
from clearhead.scoring.class_scores import (
    ClassScores,
    calibration,
    class_scores,
    confusion_table,
    draw_confusion,
    short_names,
)

LABELS = ("no", "yes", "maybe", "never")


def examples(n: int, seed: int = 0, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities that know something of the truth."""
    dice = np.random.default_rng(seed)
    truth = dice.integers(0, classes, n)
    logits = dice.normal(size=(n, classes))
    logits[np.arange(n), truth] += 1
    return logits - np.log(np.exp(logits).sum(1, keepdims=True)), truth


def certain(predicted: list[int], classes: int, p: float = 0.97) -> np.ndarray:
    """Each prediction with probability p."""
    return np.log(np.where(np.eye(classes)[predicted] == 1, p, (1 - p) / (classes - 1)))


def test_an_example_by_hand() -> None:
    found = class_scores(certain([0, 0, 1, 1, 1], 4), np.array([0, 1, 1, 1, 2]), LABELS)
    assert found.accuracy.values.tolist() == [1, 0, 1, 1, 0] and found.accuracy.mean == pytest.approx(3 / 5)
    assert found.confusion.tolist() == [[1, 0, 0, 0], [1, 2, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    no, yes, maybe, never = found.classes
    assert (no.label, no.precision, no.recall, no.f1, no.support) == ("no", 0.5, 1.0, pytest.approx(2 / 3), 1)
    assert (yes.precision, yes.recall, yes.f1, yes.support) == pytest.approx((2 / 3, 2 / 3, 2 / 3, 3))
    assert (maybe.precision, maybe.recall, maybe.f1, maybe.support) == (0, 0, 0, 1)
    assert (never.precision, never.recall, never.f1, never.support) == (0, 0, 0, 0)
    assert found.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 0) / 3), "never is never seen and never said"
    assert found.negative_log_likelihood == pytest.approx(-(3 * math.log(0.97) + 2 * math.log(0.01)) / 5)
    assert found.calibration_error == pytest.approx(0.97 - 0.6)


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    for it in class_scores(*examples(200), LABELS).classes:
        assert it.f1 == pytest.approx(2 / (1 / it.precision + 1 / it.recall))


def test_the_confusion_matrix_counts_every_example_once() -> None:
    log_probabilities, truth = examples(300)
    found = class_scores(log_probabilities, truth, LABELS)
    assert found.confusion.sum() == 300 and found.confusion.trace() == found.accuracy.values.sum()
    assert found.confusion.sum(1).tolist() == [it.support for it in found.classes] == np.bincount(truth).tolist()


def test_bins_hold_their_upper_end_and_are_as_the_definition_says() -> None:
    dice = np.random.default_rng(0)
    confidence = np.concatenate([dice.uniform(0.2, 1, 500), [1.0, 0.4, 1e-9]])
    right = (dice.random(503) < confidence).astype(float)
    bins, expected = calibration(confidence, right), []
    for k in range(15):
        own = [(c, r) for c, r in zip(confidence, right) if k / 15 < c <= (k + 1) / 15]
        if own:
            c, r = zip(*own)
            expected.append((k / 15, (k + 1) / 15, sum(c) / len(c), sum(r) / len(r), len(own)))
    found = [(it.low, it.high, it.confidence, it.accuracy, it.count) for it in bins]
    assert len(found) == len(expected) < 15 and np.allclose(found, expected)


def test_who_is_as_often_right_as_sure_has_hardly_an_error_and_who_boasts_has() -> None:
    dice, n = np.random.default_rng(0), 20_000
    p = dice.uniform(0.5, 1, n)
    log_probabilities = np.log(np.stack([p, 1 - p], 1))
    honest = class_scores(log_probabilities, (dice.random(n) > p).astype(np.int64), ["a", "b"])
    boasting = class_scores(certain([0] * n, 2), (dice.random(n) > 0.6).astype(np.int64), ["a", "b"])
    assert honest.calibration_error < 0.02 and boasting.calibration_error == pytest.approx(0.37, abs=0.02)


def test_the_scores_are_plain_values() -> None:
    found = class_scores(*examples(50), LABELS)
    values = json.loads(json.dumps(found.to_dict()))
    assert values["examples"] == 50 and values["accuracy"] == found.accuracy.mean
    assert values["accuracy_interval"] == [found.accuracy.low, found.accuracy.high]
    assert values["classes"][1]["label"] == "yes" and values["confusion"] == found.confusion.tolist()
    assert sum(it["count"] for it in values["bins"]) == 50


@given(st.integers(1, 40), st.integers(2, 4), st.integers(0, 999))
@settings(deadline=None, max_examples=12)
def test_the_scores_are_those_of_scikit_learn(n: int, classes: int, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it imports is not ours to mend
        metrics = pytest.importorskip("sklearn.metrics")
    log_probabilities, truth = examples(n, seed, classes)
    found, every = class_scores(log_probabilities, truth, LABELS[:classes]), list(range(classes))
    predicted = log_probabilities.argmax(1)
    assert found.accuracy.mean == pytest.approx(metrics.accuracy_score(truth, predicted))
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth, predicted, average="macro", zero_division=0))
    expected = metrics.precision_recall_fscore_support(truth, predicted, labels=every, zero_division=0)
    np.testing.assert_allclose(
        [(it.precision, it.recall, it.f1, it.support) for it in found.classes], np.array(expected).T
    )
    np.testing.assert_array_equal(found.confusion, metrics.confusion_matrix(truth, predicted, labels=every))
    assert found.negative_log_likelihood == pytest.approx(
        metrics.log_loss(truth, np.exp(log_probabilities), labels=every)
    )


def test_what_cannot_be_scored_is_said() -> None:
    log_probabilities, truth = examples(3)
    with pytest.raises(DataError, match="no examples"):
        class_scores(log_probabilities[:0], truth[:0], LABELS)
    with pytest.raises(DataError) as caught:
        class_scores(log_probabilities, truth, ["a", "b"])
    assert (caught.value.value, caught.value.expected) == ((3, 4), "shape (3, 2)")
    for classes, wrong_class in (([0, 4, 1], 4), ([-1, 4, 1], -1)):
        with pytest.raises(DataError) as caught:
            class_scores(log_probabilities, np.array(classes), LABELS)
        assert (caught.value.value, caught.value.expected) == (wrong_class, "0 to 3")
    for wrong in (np.exp(log_probabilities), log_probabilities * np.nan):
        with pytest.raises(DataError, match="probabilities of example 0 sum to"):
            class_scores(wrong, truth, LABELS)


def scores(truth: list[int], given: list[int], labels: list[str]) -> ClassScores:
    """Of answers that are sure of themselves."""
    sure = np.full((len(truth), len(labels)), 1e-9)
    sure[np.arange(len(truth)), given] = 1
    return class_scores(np.log(sure / sure.sum(1, keepdims=True)), np.array(truth), labels)


def test_a_row_of_the_table_is_a_right_label_and_a_column_the_one_that_it_got() -> None:
    table = confusion_table(scores([0, 0, 0, 1, 1], [0, 0, 1, 1, 0], ["ham", "a longer name"]))
    heading, *rows = table.splitlines()
    assert heading.split() == ["correct", "label", "ham", "a", "longer", "name", "precision", "recall", "F1"]
    assert rows[0].split() == ["ham", "2", "1", "0.6667", "0.6667", "0.6667"]
    assert rows[1].split() == ["a", "longer", "name", "1", "1", "0.5000", "0.5000", "0.5000"]
    assert len({len(line) for line in (heading, *rows)}) == 1


def test_of_many_labels_the_pairs_that_are_confused_most_are_named_and_how_many_texts_these_are() -> None:
    labels = [f"label {n}" for n in range(13)]
    truth, given = [*range(13), 3, 3, 3, 7], [*range(13), 5, 5, 4, 0]
    rows = [line.split() for line in confusion_table(scores(truth, given, labels)).splitlines()]
    assert rows[0] == ["correct", "label", "predicted", "count", "of"]
    assert [(row[1], row[3], row[4], row[5]) for row in rows[1:]] == [
        ("3", "5", "2", "4"), ("3", "4", "1", "4"), ("7", "0", "1", "2")
    ]  # fmt: skip


def test_that_many_labels_are_never_confused_is_said() -> None:
    labels = [f"{n}" for n in range(13)]
    table = confusion_table(scores([*range(13)], [*range(13)], labels))
    assert table == "none of the 13 labels is ever confused with another"


def test_a_label_that_is_long_or_does_not_print_takes_little_room_on_one_line() -> None:
    table = confusion_table(scores([0, 1], [0, 1], ["x" * 50, "two\nlines"]))
    assert "x" * 19 + "…" in table and "two\\nlines" in table and len(table.splitlines()) == 3


def test_labels_that_begin_alike_are_told_apart_by_their_ends() -> None:
    labels = [f"a name that is long, of number {n}" for n in (1, 2)] + ["another long name, and no other begins so"]
    assert short_names(labels, 16) == ["a name …number 1", "a name …number 2", "another long na…"]
    assert short_names(["x" * 16, "x" * 15 + "y", "z"], 16) == ["x" * 16, "x" * 15 + "y", "z"]
    table = confusion_table(scores([0, 1, 2], [0, 1, 2], labels))
    assert "number 1" in table and "number 2" in table


def test_a_table_that_a_terminal_has_no_room_for_has_numbers_above_its_columns() -> None:
    labels = [f"the name of label {letter}" for letter in "abcdef"]
    heading, *rows = confusion_table(scores([*range(6), 0], [*range(6), 3], labels)).splitlines()
    assert heading.split() == ["correct", "label", *"123456", "precision", "recall", "F1"]
    assert [row.split()[0] for row in rows] == [*"123456"] and all(len(row) <= 80 for row in (heading, *rows))
    assert len({len(row) for row in (heading, *rows)}) == 1


def test_the_picture_is_drawn_into_the_folder(tmp_path: Path) -> None:
    found = scores([0, 1, 1], [0, 1, 0], ["日本", "$b$"])
    draw_confusion(found, tmp_path)
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_needs_a_row_and_a_column_for_each_label(tmp_path: Path) -> None:
    for shape, labels in (((2, 3), ["a", "b"]), ((0, 0), [])):
        with pytest.raises(ModelError) as caught:
            confusion_matrix(np.zeros(shape), labels, tmp_path / "wrong.png")
        assert (caught.value.name, caught.value.value) == ("counts", shape)
