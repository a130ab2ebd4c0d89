from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import ModelError
from clearhead.pictures.figures import confusion_matrix
from clearhead.scoring.class_scores import ClassScores, class_scores
from clearhead.scoring.confusion import confusion_table, draw_confusion, short_names


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
