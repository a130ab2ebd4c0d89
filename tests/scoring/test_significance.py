import os
import random

import numpy as np
import pytest

from clearhead.errors import DataError
from clearhead.scoring.significance import compare_means, paired_bootstrap
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


def test_p_is_the_share_of_corpora_whose_difference_exceeds_the_mean_by_more_than_the_measured_one() -> None:
    one, references = corpus(1, 0.25, 10)
    other = corpus(2, 0.25, 10)[0]
    draws = np.random.default_rng(12345).choice(10, size=(1000, 10), replace=True)

    def score(texts: list[str], places) -> float:
        return bleu([texts[i] for i in places], [references[i] for i in places]).score

    measured = abs(score(other, range(10)) - score(one, range(10)))
    signed = np.array([score(other, places) - score(one, places) for places in draws])
    exceeding = sum(abs(signed) - abs(signed).mean() > measured)
    p = paired_bootstrap([("one", one), ("other", other)], references).by_score["bleu"][1].p_value
    assert 0.01 < p < 0.5 and p == pytest.approx((exceeding + 1) / 1001, abs=2.1 / 1001)  # sacrebleu counts in float32


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
    with pytest.raises(DataError, match="1 systems cannot be compared; expected at least two"):
        paired_bootstrap([("a", one)], references)
    with pytest.raises(DataError, match="9 hypotheses cannot be scored against references of 10 sentences"):
        paired_bootstrap([("a", one), ("b", one[:9])], references)


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
    away = abs((other - one)[draws].mean(1))
    exceeding = sum(away - away.mean() > abs((other - one).mean()))
    assert (first.system, first.p_value) == ("one", None)
    assert 0 < exceeding < 1000 and second.p_value == pytest.approx((exceeding + 1) / 1001)


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
            assert (ours.score, ours.mean, ours.interval, ours.p_value) == (
                their.score,
                their.mean,
                their.ci,
                their.p_value,
            )


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


def test_sacrebleu_gives_the_same_figures_of_a_score_that_is_a_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accuracy, as a metric that sacrebleu itself resamples: its texts are "1" where an answer is right."""
    from sacrebleu.metrics.base import Metric, Score, Signature
    from sacrebleu.significance import PairedTest

    class Accuracy(Metric):
        _SIGNATURE_TYPE = Signature

        def _preprocess_segment(self, sent):
            return sent

        def _extract_reference_info(self, refs):
            return {}

        def _compute_segment_statistics(self, hypothesis, ref_kwargs):
            return [int(hypothesis), 1]

        def _aggregate_and_compute(self, stats):
            return self._compute_score_from_stats(np.sum(stats, axis=0))

        def _compute_score_from_stats(self, stats):
            return Score("Accuracy", float(stats[0] / stats[1]))

    one, other = values(1, 0.60), values(2, 0.66)
    named = [(name, [str(int(it)) for it in system]) for name, system in (("one", one), ("other", other))]
    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    _, scores = PairedTest(named, {"Accuracy": Accuracy()}, [["1"] * 200], test_type="bs", n_samples=1000)()
    for found, theirs in zip(compare_means([("one", one), ("other", other)]), scores["Accuracy"]):
        assert (found.score, found.mean, found.interval) == pytest.approx(
            (theirs.score, theirs.mean, theirs.ci), rel=1e-5
        )
        assert found.p_value == pytest.approx(theirs.p_value, abs=2.1 / 1001)  # sacrebleu counts in float32


def test_a_large_difference_of_means_is_no_chance_and_no_difference_is() -> None:
    one = values(1, 0.6)
    systems = [("one", one), ("same", one.copy()), ("alike", values(2, 0.6)), ("worse", values(3, 0.4))]
    assert [it.system for it in compare_means(systems)] == ["one", "same", "alike", "worse"]
    _, same, alike, worse = (it.p_value for it in compare_means(systems))
    assert same == 1 > alike > 0.05 > 0.01 > worse


def test_systems_that_do_not_differ_are_seldom_told_apart() -> None:
    called = sum(
        compare_means([("a", values(2 * n, 0.5, 100)), ("b", values(2 * n + 1, 0.5, 100))])[1].p_value < 0.025
        for n in range(40)
    )
    assert called <= 6, "one in twenty: p counts one tail of two"


def test_a_ratio_of_sums_is_a_weighted_mean() -> None:
    dice = np.random.default_rng(0)
    lengths = dice.integers(1, 50, 30).astype(float)
    bits, fewer = dice.random((2, 30)) * lengths
    found = compare_means([("a", bits / lengths), ("b", fewer / lengths)], weights=lengths)
    assert [it.score for it in found] == pytest.approx([bits.sum() / lengths.sum(), fewer.sum() / lengths.sum()])
    draws = np.random.default_rng(12345).choice(30, size=(1000, 30))
    assert found[1].mean == pytest.approx((fewer[draws].sum(1) / lengths[draws].sum(1)).mean())
    longer = compare_means([("a", bits / lengths), ("b", fewer / lengths)], weights=4 * lengths)
    assert longer == found, "only the ratios of the weights count"


def test_means_that_cannot_be_compared_are_refused() -> None:
    one = values(1, 0.5, 10)
    with pytest.raises(DataError, match="1 systems cannot be compared; expected at least two"):
        compare_means([("a", one)])
    with pytest.raises(
        DataError, match=r"b has values of shape \(9,\), a of shape \(10,\); expected one value for each"
    ):
        compare_means([("a", one), ("b", one[:9])])
    with pytest.raises(DataError, match=r"a has values of shape \(0,\), a of shape \(0,\); .* and at least one"):
        compare_means([("a", one[:0]), ("b", one[:0])])
    with pytest.raises(DataError, match="value 2 of b is nan; expected a finite number"):
        compare_means([("a", one), ("b", np.where(np.arange(10) == 2, np.nan, one))])
    for weights in (np.ones(9), np.zeros(10), np.full(10, np.inf)):
        with pytest.raises(DataError, match="weights of the examples are not 10 finite numbers above 0, one for each"):
            compare_means([("a", one), ("b", one)], weights)
