"""The losses that need no model: what counting gives."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from clearhead.config import Config
from clearhead.tasks.classify.examples import LabelledExamples
from clearhead.tasks.examples import Examples
from clearhead.tasks.generate.examples import Blocks
from clearhead.tasks.registry import task_named
from clearhead.tokenization.ragged import Ragged
from clearhead.training.report.floors import Floors, smoothing_floor, surprisal_gaps


def named(verb: str) -> object:
    return task_named(verb)(SimpleNamespace(), Config())  # type: ignore[arg-type]


def test_tokens_and_pairs_of_another_kind_are_strange_and_new_ones_of_the_same_kind_arent() -> None:
    dice = np.random.default_rng(0)
    known, new = (np.cumsum(dice.integers(1, 3, n)) % 50 for n in (20_000, 2000))  # each is 1 or 2 after the last
    assert surprisal_gaps(known, new) == pytest.approx((0, 0), abs=0.05)
    tokens, pairs = surprisal_gaps(known, dice.permutation(new))
    assert abs(tokens) < 0.05 and pairs > 1
    tokens, pairs = surprisal_gaps(known, new + 30)
    assert tokens > 1 and pairs > 1


def test_the_loss_of_a_repeated_pair_is_lower_than_that_of_its_tokens() -> None:
    targets = Ragged([[1, 5, 6, 5, 6, 2]] * 50)
    found = Floors.of(named("translate"), Examples(Ragged([[4]] * 50), targets), Examples(Ragged([[4]]), targets))
    assert found is not None and found.bigram is not None
    counts = {5: 100, 6: 100, 2: 50}  # the first token isn't predicted
    expected = -sum(n / 250 * math.log(n / 250) for n in counts.values())
    assert found.unigram == pytest.approx(expected, abs=0.02)
    after_6 = 100 * math.log(2)  # 5 or 2 follow 6, in turns; everything else is certain
    assert found.lowest == found.bigram == pytest.approx(after_6 / 250, abs=0.05)


def test_labels_have_the_entropy_of_their_frequencies() -> None:
    labels = LabelledExamples(Ragged([[4]] * 1000), Ragged([[0]] * 900 + [[1]] * 100))
    found = Floors.of(named("classify"), labels, labels)
    assert found is not None and found.bigram is None
    assert found.lowest == pytest.approx(-(0.9 * math.log(0.9) + 0.1 * math.log(0.1)), abs=0.001)


def test_running_text_is_counted_across_blocks() -> None:
    text = Blocks(Ragged([[1, *[4, 5] * 500]]), 4, 0)
    found = Floors.of(named("generate"), text, text)
    assert found is not None and found.bigram == pytest.approx(0, abs=0.02)
    assert found.unigram == pytest.approx(math.log(2), abs=0.01)


def test_other_examples_have_no_floors() -> None:
    assert Floors.of(named("answer"), SimpleNamespace(), SimpleNamespace()) is None


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_no_prediction_has_a_lower_loss_than_the_smoothed_targets(smoothing: float) -> None:
    q = np.full(10, smoothing / 10)
    q[3] += 1 - smoothing
    own = -float((q * np.log(np.where(q > 0, q, 1))).sum())
    assert smoothing_floor(smoothing, 10) == pytest.approx(own)
