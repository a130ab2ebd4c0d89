"""What is shown of scores, whatever the task."""

import pytest

from clearhead.pictures.figures import BLEU
from clearhead.scoring import score_labels


@pytest.mark.parametrize(
    ("names", "best", "expected"),
    [
        (["bleu", "chrf", "loss"], "loss", "bleu"),
        (["bleu", "chrf", "loss"], "chrf", "chrf"),
        (["loss", "f1", "exact_match"], "f1", "f1"),
        (["loss", "token_accuracy", "bits_per_byte"], "loss", "bits_per_byte"),
        (["accuracy", "macro_f1"], "f1", "accuracy"),  # no such score was measured
    ],
)
def test_drawn_beside_the_loss_is_what_weights_are_chosen_by_or_the_most_telling(
    names: list[str], best: str, expected: str
) -> None:
    records = [{"step": 1, "loss": 2.0}, {"step": 2, **{f"valid_{name}": 0.5 for name in names}}]
    curve = score_labels.curve(records, best)
    assert (curve.key, curve.name) == (expected, score_labels.LABELS[expected].name)
    assert curve.lower == (expected == "bits_per_byte")


def test_where_nothing_was_measured_there_is_nothing_of_a_task_to_draw() -> None:
    assert score_labels.curve([{"step": 1, "loss": 2.0, "valid_loss": 2.0}], "loss") is BLEU


def test_a_score_of_a_custom_task_is_shown_by_its_name() -> None:
    scores = {"texts": 3, "word_errors": 0.25, "accuracy": 0.5, "loss": 2.0, "seconds": 9.5}
    assert score_labels.spoken(scores) == "accuracy 0.5000  word errors 0.2500"
    assert [name for name, *_ in score_labels.rows(scores)] == ["accuracy", "word errors"]
    assert score_labels.curve([{"valid_word_errors": 0.5}], "word_errors").name == "word errors"
