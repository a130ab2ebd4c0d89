from dataclasses import replace

import numpy as np
import pytest

from clearhead.errors import DataError, ModelError
from clearhead.scoring.confidence import Confidence

DICE = np.random.default_rng(0)


def measured(certainty, right) -> Confidence:
    found = Confidence.of(
        np.asarray(certainty, np.float64), {"loss": np.zeros(1), "accuracy": np.asarray(right, float)}
    )
    assert found is not None
    return found


def overconfident(n: int = 20_000) -> Confidence:
    """Answers that are right with the square of the probability that the model gives them."""
    p = DICE.uniform(0, 1, n)
    return measured(np.log(p), DICE.uniform(0, 1, n) < p**2)


def test_confidence_is_the_share_of_right_answers() -> None:
    confidence = overconfident()
    for p in (0.1, 0.5, 0.9):
        assert confidence(np.log(p)) == pytest.approx(p**2, abs=0.03)


def test_confidence_rises_with_certainty_and_never_reaches_0_or_1() -> None:
    confidence = measured(np.arange(100), np.arange(100) >= 50)
    found = [confidence(it) for it in range(-5, 110)]
    assert found == sorted(found)
    assert 0 < found[0] < found[-1] < 1


def test_sklearn_finds_the_same_pools() -> None:
    isotonic = pytest.importorskip("sklearn.isotonic").IsotonicRegression()
    certainty = DICE.normal(size=300)
    right = (DICE.normal(size=300) + certainty > 0).astype(float)
    theirs = np.unique(isotonic.fit_transform(certainty, right))
    confidence = measured(certainty, right)
    _, ours = confidence._curve
    counts = [int((isotonic.predict(certainty) == it).sum()) for it in theirs]
    assert ours == pytest.approx([(n * it + 0.5) / (n + 1) for n, it in zip(counts, theirs)], abs=1e-9)


def test_a_threshold_accepts_the_most_answers_with_an_error_rate() -> None:
    confidence = overconfident()
    found = confidence.threshold(0.2)
    accepted = np.array([confidence(it) >= found.confidence for it in confidence.certainty])
    assert accepted.mean() == pytest.approx(found.accepted, abs=1e-9)
    assert 1 - confidence.quality[accepted].mean() == pytest.approx(found.error)
    assert found.low < found.error <= 0.2
    assert found.error < found.high
    better = [it for it in confidence.thresholds() if it.accepted > found.accepted]
    assert better and min(it.error for it in better) > 0.2


def test_thresholds_can_be_confidences_of_another_calibration() -> None:
    here, other = overconfident(2000), overconfident(500)
    found = [*here.thresholds(other)]
    assert {it.confidence for it in found} <= {other(it) for it in here.certainty.tolist()}
    for it in found[:: len(found) // 5]:
        accepted = np.array([other(own) >= it.confidence for own in here.certainty])
        assert (it.count, it.error) == (accepted.sum(), pytest.approx(1 - here.quality[accepted].mean()))


def test_the_interval_is_that_of_wilson() -> None:
    found = [*measured(np.zeros(100), np.arange(100) >= 10).thresholds()]
    assert [(it.count, it.error) for it in found] == [(100, pytest.approx(0.1))]
    assert (found[0].low, found[0].high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))


def test_an_error_rate_that_no_confidence_has() -> None:
    with pytest.raises(DataError) as caught:
        measured(np.zeros(100), np.arange(100) >= 10).threshold(0.05)
    assert caught.value.name == "error_rate"
    assert "10.00%" in str(caught.value)


def test_confidence_is_measured_on_20_answers_or_more_with_a_score() -> None:
    assert Confidence.of(np.zeros(19), {"accuracy": np.zeros(19)}) is None
    assert Confidence.of(np.full(30, -np.inf), {"accuracy": np.zeros(30)}) is None
    assert Confidence.of(np.zeros(30), {"distortion": np.zeros(30)}) is None


@pytest.mark.parametrize(("name", "values", "quality"), [("chrf", 55.0, 0.55), ("cer", 0.25, 0.75), ("cer", 1.5, 0.0)])
def test_scores_become_a_quality_between_0_and_1(name: str, values: float, quality: float) -> None:
    found = Confidence.of(np.zeros(20), {name: np.full(20, values)})
    assert found is not None
    assert (found.measure, found.quality.tolist()) == (name, pytest.approx([quality] * 20))


def test_of_many_answers_some_are_stored_and_all_are_counted() -> None:
    confidence = overconfident(30_000)
    stored = confidence.to_dict()
    assert len(stored["certainty"]) == 5000 and stored["certainty"] == sorted(stored["certainty"])
    whole, again = (it.threshold(0.3) for it in (confidence, Confidence.from_dict(stored, "confidence.json")))
    assert (whole.total, again.total) == (30_000, 30_000)
    assert again.count == pytest.approx(whole.count, rel=0.05)
    assert again.high - again.low == pytest.approx(whole.high - whole.low, rel=0.05)


def test_what_is_stored_still_ranks_answers_of_a_probability_close_to_1() -> None:
    missing = np.geomspace(1e-7, 1e-4, 2000)
    confidence = measured(-missing, np.arange(2000) < 1000)
    again = Confidence.from_dict(confidence.to_dict(), "confidence.json")
    assert again.threshold(0.01).accepted == pytest.approx(confidence.threshold(0.01).accepted, abs=0.01)
    assert again.threshold(0.01).accepted == pytest.approx(0.5, abs=0.05)


def test_it_can_be_stored() -> None:
    confidence = overconfident(500)
    again = Confidence.from_dict(confidence.to_dict(), "confidence.json")
    assert [again(it) for it in (-2.0, -0.5)] == pytest.approx([confidence(it) for it in (-2.0, -0.5)], abs=2e-3)


def test_it_is_stored_with_that_of_words() -> None:
    confidence = replace(overconfident(500), words=overconfident(1000))
    again = Confidence.from_dict(confidence.to_dict(), "confidence.json")
    assert confidence.words is not None and again.words is not None
    assert again.words(-0.5) == pytest.approx(confidence.words(-0.5), abs=2e-3)
    assert (again.total, again.words.total, again.words.words) == (500, 1000, None)


@pytest.mark.parametrize(
    "change",
    [
        {"quality": [1.0]},
        {"certainty": ["x"] * 30},
        {"certainty": [float("nan")] * 30},
        {"quality": [7.0] * 30},
        {"words": {}},
        {"words": 5},
    ],
)
def test_a_damaged_file_is_an_error(change: dict[str, object]) -> None:
    values = {"measure": "accuracy", "total": 30, "certainty": [0.0] * 30, "quality": [1.0] * 30, **change}
    with pytest.raises(ModelError) as caught:
        Confidence.from_dict(values, "confidence.json")
    assert caught.value.name == "confidence.json"
