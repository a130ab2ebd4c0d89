import os
import random

import numpy as np
import pytest

from clearhead.errors import DataError
from clearhead.tasks.scores import bleu, chrf
from clearhead.tasks.significance import paired_bootstrap

WORDS = ["le", "chat", "noir", "dort", "sur", "la", "table", "ronde", "et", "rêve"]


def corpus(seed: int, wrong: float, n: int = 120) -> tuple[list[str], list[list[str]]]:
    """References, and translations with a share of wrong words."""
    dice = random.Random(0)
    references = [[" ".join(dice.choices(WORDS, k=8))] for _ in range(n)]
    slips = random.Random(seed)
    return [
        " ".join("non" if slips.random() < wrong else word for word in texts[0].split()) for texts in references
    ], references


def test_the_scores_are_those_of_each_system_alone() -> None:
    good, references = corpus(1, 0.1)
    bad, _ = corpus(2, 0.4)
    found = paired_bootstrap([("good", good), ("bad", bad)], references)
    for compared, alone in ((found.bleu, bleu), (found.chrf, chrf)):
        assert [it.system for it in compared] == ["good", "bad"]
        for it, texts in zip(compared, (good, bad)):
            assert it.score == pytest.approx(alone(texts, references).score)
            assert abs(it.mean - it.score) < it.interval
    assert "bs:1000" in found.bleu_signature and "seed:12345" in found.chrf_signature


def test_a_large_difference_is_no_chance_and_a_small_one_may_be() -> None:
    one, references = corpus(1, 0.2)
    alike, worse = corpus(2, 0.2)[0], corpus(3, 0.4)[0]
    found = paired_bootstrap([("one", one), ("alike", alike), ("worse", worse)], references)
    first, second, third = found.bleu
    assert first.p_value is None
    assert second.p_value > 0.05 > 0.01 > third.p_value


def test_p_is_the_share_of_corpora_whose_difference_exceeds_the_mean_by_more_than_the_measured_one() -> None:
    one, references = corpus(1, 0.25, 10)
    other = corpus(2, 0.25, 10)[0]
    draws = np.random.default_rng(12345).choice(10, size=(1000, 10), replace=True)

    def score(texts: list[str], places) -> float:
        return bleu([texts[i] for i in places], [references[i] for i in places]).score

    measured = abs(score(other, range(10)) - score(one, range(10)))
    signed = np.array([score(other, places) - score(one, places) for places in draws])
    exceeding = sum(abs(signed) - abs(signed).mean() > measured)
    p = paired_bootstrap([("one", one), ("other", other)], references).bleu[1].p_value
    assert 0.01 < p < 0.5 and p == pytest.approx((exceeding + 1) / 1001, abs=2.1 / 1001)  # sacrebleu counts in float32


def test_a_system_beside_itself_is_no_better() -> None:
    one, references = corpus(1, 0.2, 30)
    found = paired_bootstrap([("one", one), ("same", one), ("other", corpus(2, 0.2, 30)[0])], references)
    assert [it.p_value for it in found.bleu[:2]] == [it.p_value for it in found.chrf[:2]] == [None, 1.0]
    assert found.bleu[2].p_value < 1


@pytest.mark.parametrize("seed", [None, "1", "none", "no number"])
def test_the_same_systems_give_the_same_figures_again_whatever_the_environment_says(
    seed: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, references = corpus(1, 0.2)
    other = corpus(2, 0.3)[0]
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    expected = paired_bootstrap([("a", one), ("b", other)], references)
    if seed:
        monkeypatch.setenv("SACREBLEU_SEED", seed)
    assert paired_bootstrap([("a", one), ("b", other)], references) == expected
    assert os.environ.get("SACREBLEU_SEED") == seed and "seed:12345" in expected.bleu_signature


def test_sentences_may_have_different_numbers_of_references() -> None:
    one, references = corpus(1, 0.2, 30)
    other = corpus(2, 0.3, 30)[0]
    more = [[*texts, "autre chose"] if n % 3 == 0 else texts for n, texts in enumerate(references)]
    found = paired_bootstrap([("a", one), ("b", other)], more)
    assert found.bleu[0].score == pytest.approx(bleu(one, more).score)


def test_what_cannot_be_compared_is_refused() -> None:
    one, references = corpus(1, 0.2, 10)
    with pytest.raises(DataError, match="1 systems cannot be compared; expected at least two"):
        paired_bootstrap([("a", one)], references)
    with pytest.raises(DataError, match="9 hypotheses cannot be scored against references of 10 sentences"):
        paired_bootstrap([("a", one), ("b", one[:9])], references)
