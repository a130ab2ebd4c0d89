import itertools
import os
import random

import numpy as np
import pytest

from clearhead.errors import DataError
from clearhead.scoring.bootstrap import SEED, compare_means, estimates, interval, paired_bootstrap, resampled_means
from clearhead.scoring.translation_scores import bleu, chrf

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
    for compared, alone in ((found.by_score["bleu"], bleu), (found.by_score["chrf"], chrf)):
        assert [it.system for it in compared] == ["good", "bad"]
        for it, texts in zip(compared, (good, bad)):
            assert it.score == pytest.approx(alone(texts, references).score)
            assert abs(it.mean - it.score) < it.interval
    assert "bs:1000" in found.signatures["bleu"] and "seed:12345" in found.signatures["chrf"]


def test_a_large_difference_is_no_chance_and_a_small_one_may_be() -> None:
    one, references = corpus(1, 0.2)
    alike, worse = corpus(2, 0.2)[0], corpus(3, 0.4)[0]
    found = paired_bootstrap([("one", one), ("alike", alike), ("worse", worse)], references)
    first, second, third = found.by_score["bleu"]
    assert first.p_value is None
    assert second.p_value > 0.05 > 0.01 > third.p_value


def exact_p_value(change: np.ndarray) -> float:
    """Enumerate all N^N corpora: the share whose mean is at least as far from the measured one as that is from 0."""
    n = len(change)
    means = np.array([change[list(drawn)].mean() for drawn in itertools.product(range(n), repeat=n)])
    return float(np.mean(abs(means - change.mean()) >= abs(change.mean()) - 1e-12))


@pytest.mark.parametrize("change", [[3, 1, -1, 2, 2], [-4, 1, 0, -2, 1], [1, -1, 1, 0, 0], [2, -1, 0, 0, -1]])
def test_p_is_two_tailed_and_that_of_all_corpora_that_can_be_drawn(change: list[int]) -> None:
    one = np.array([0.1, 0.7, 0.2, 0.9, 0.4])
    other = one + np.array(change) / 7
    exact = exact_p_value(np.array(change, float))
    p = compare_means([("one", one), ("other", other)])[1].p_value
    assert p == pytest.approx(exact, abs=3.5 * np.sqrt(max(exact * (1 - exact), 1e-3) / 1000))
    assert p == compare_means([("other", other), ("one", one)])[1].p_value, "the direction doesn't matter"


def test_p_is_uniform_where_two_systems_are_equally_good() -> None:
    dice = np.random.default_rng(5)
    found = [compare_means([("a", dice.random(60)), ("b", dice.random(60))])[1].p_value for _ in range(40)]
    assert sum(p < 0.05 for p in found) <= 6 and 0.35 < np.mean(found) < 0.65


def test_a_system_beside_itself_is_no_better() -> None:
    one, references = corpus(1, 0.2, 30)
    found = paired_bootstrap([("one", one), ("same", one), ("other", corpus(2, 0.2, 30)[0])], references)
    assert (
        [it.p_value for it in found.by_score["bleu"][:2]]
        == [it.p_value for it in found.by_score["chrf"][:2]]
        == [None, 1.0]
    )
    assert found.by_score["bleu"][2].p_value < 1


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
    assert os.environ.get("SACREBLEU_SEED") == seed and "seed:12345" in expected.signatures["bleu"]


def test_sentences_may_have_different_numbers_of_references() -> None:
    one, references = corpus(1, 0.2, 30)
    other = corpus(2, 0.3, 30)[0]
    more = [[*texts, "autre chose"] if n % 3 == 0 else texts for n, texts in enumerate(references)]
    found = paired_bootstrap([("a", one), ("b", other)], more)
    assert found.by_score["bleu"][0].score == pytest.approx(bleu(one, more).score)


def test_what_cannot_be_compared_is_refused() -> None:
    one, references = corpus(1, 0.2, 10)
    with pytest.raises(DataError, match="can't be compared") as caught:
        paired_bootstrap([("a", one)], references)
    assert caught.value.value == 1
    with pytest.raises(DataError) as caught:
        paired_bootstrap([("a", one), ("b", one[:9])], references)
    assert caught.value.value == 9


def values(seed: int, mean: float, n: int = 200) -> np.ndarray:
    """Which examples a system gets right, 0 or 1."""
    return (np.random.default_rng(seed).random(n) < mean).astype(float)


def test_means_are_compared_by_the_same_rule_as_bleu() -> None:
    one, other = values(1, 0.60, 90), values(2, 0.66, 90)
    first, second = compare_means([("one", one), ("other", other)])
    draws = np.random.default_rng(12345).choice(90, size=(1000, 90))
    for found, alone in ((first, one), (second, other)):
        means = sorted(alone[draws].mean(1))
        assert (found.score, found.mean) == pytest.approx((alone.mean(), np.mean(means)))
        assert found.interval == pytest.approx((means[974] - means[25]) / 2)
    change = (other - one).mean()
    extreme = sum(abs((other - one)[draws].mean(1) - change) >= change - 1e-12)
    assert (first.system, first.p_value) == ("one", None)
    assert 0 < extreme < 1000 and second.p_value == pytest.approx((extreme + 1) / 1001)


def test_bleu_and_chrf_have_the_figures_of_sacrebleu_s_own_test(monkeypatch: pytest.MonkeyPatch) -> None:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    one, references = corpus(1, 0.2)
    references = [[*texts, "le chat dort"] if n % 3 == 0 else texts for n, texts in enumerate(references)]
    systems = [("one", one), ("other", corpus(2, 0.25)[0]), ("worse", corpus(3, 0.4)[0])]
    columns = [[texts[0] for texts in references], [texts[1] if len(texts) > 1 else None for texts in references]]
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    signatures, theirs = PairedTest(systems, metrics, columns, test_type="bs", n_samples=1000)()
    found = paired_bootstrap(systems, references)
    for name, key in (("bleu", "BLEU"), ("chrf", "chrF2")):
        assert found.signatures[name] == str(signatures[key])
        for ours, their in zip(found.by_score[name], theirs[key]):
            assert (ours.score, ours.mean, ours.interval) == (their.score, their.mean, their.ci)


def test_the_difference_to_the_first_lies_where_that_of_the_samples_does() -> None:
    one, other = values(1, 0.60, 90), values(2, 0.66, 90)
    draws = np.random.default_rng(12345).choice(90, size=(1000, 90))
    first, second, same = compare_means([("one", one), ("other", other), ("same", one)])
    changes = sorted((other - one)[draws].mean(1))
    assert first.difference is None and same.difference == (0.0, 0.0)
    assert second.difference == pytest.approx((changes[25], changes[974]))
    good, references = corpus(1, 0.1, 40)
    bad, _ = corpus(2, 0.4, 40)
    for compared in paired_bootstrap([("good", good), ("bad", bad)], references).by_score.values():
        low, high = compared[1].difference
        assert low < compared[1].score - compared[0].score < high < 0


def test_a_large_difference_of_means_is_no_chance_and_no_difference_is() -> None:
    one = values(1, 0.6)
    systems = [("one", one), ("same", one.copy()), ("alike", values(2, 0.6)), ("worse", values(3, 0.4))]
    assert [it.system for it in compare_means(systems)] == ["one", "same", "alike", "worse"]
    _, same, alike, worse = (it.p_value for it in compare_means(systems))
    assert same == 1 > alike > 0.05 > 0.01 > worse


def test_means_that_cannot_be_compared_are_refused() -> None:
    one = values(1, 0.5, 10)
    odd = np.where(np.arange(10) == 2, np.nan, one)
    for systems, name in (
        ([("a", one)], ""),
        ([("a", one), ("b", one[:9])], "b"),
        ([("a", one[:0]), ("b", one[:0])], "a"),
        ([("a", one), ("b", odd)], "b"),
    ):
        with pytest.raises(DataError) as caught:
            compare_means(systems)
        assert caught.value.name == name


def test_the_samples_are_those_that_are_drawn_all_at_once() -> None:
    values = np.random.default_rng(0).random((37, 2))
    draws = np.random.default_rng(SEED).choice(37, size=(1000, 37))
    expected = [values[rows].mean(0) for rows in draws]
    np.testing.assert_allclose(resampled_means(values), expected)


def test_an_interval_leaves_out_25_of_1000_on_each_side() -> None:
    means = np.random.default_rng(0).permutation(1000.0 + np.arange(1000))
    assert interval(means) == (1025, 1974)
    assert ((means < 1025).sum(), (means > 1974).sum()) == (25, 25)


def test_intervals_hold_the_truth_about_95_times_of_100() -> None:
    held = sum(found.low < 0.5 < found.high for found in estimates(np.random.default_rng(1).random((60, 200))))
    assert 180 <= held <= 198


def test_all_scores_are_resampled_alike_and_always() -> None:
    values = np.random.default_rng(0).random((20, 1))
    one, double, again = estimates(np.hstack([values, 2 * values, values]))
    assert (double.mean, double.low, double.high) == pytest.approx((2 * one.mean, 2 * one.low, 2 * one.high))
    assert (one.low, one.high) == (again.low, again.high) == (estimates(values)[0].low, estimates(values)[0].high)
    assert one.named("f1") == {"f1": one.mean, "f1_interval": [one.low, one.high]}


def test_what_is_always_the_same_has_an_interval_without_width() -> None:
    [found] = estimates(np.ones((7, 1)))
    assert (found.mean, found.low, found.high) == (1, 1, 1)
