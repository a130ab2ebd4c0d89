import numpy as np
import pytest

from clearhead.scoring.resampling import SEED, estimates, interval, resampled_means


def test_the_samples_are_those_that_are_drawn_all_at_once() -> None:
    values, weights = np.random.default_rng(0).random((37, 2)), np.arange(1.0, 38.0)
    draws = np.random.default_rng(SEED).choice(37, size=(1000, 37))
    expected = [[np.average(values[rows, k], weights=weights[rows]) for k in range(2)] for rows in draws]
    np.testing.assert_allclose(resampled_means(values, weights), expected)


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
