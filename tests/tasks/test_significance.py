import random

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


def test_the_same_systems_give_the_same_figures_again() -> None:
    one, references = corpus(1, 0.2)
    other = corpus(2, 0.3)[0]
    twice = [paired_bootstrap([("a", one), ("b", other)], references) for _ in range(2)]
    assert twice[0] == twice[1]


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
