"""Scores of predicted numbers, compared with their definitions written out."""

import math
from statistics import correlation as of_statistics

import numpy as np
import pytest

from clearhead.scoring.class_scores import correlation, number_scores, ranks, spelled

X, Y = [1.0, 2.0, 2.0, 5.0, -3.0], [2.0, 1.0, 4.0, 4.0, -1.0]


def test_errors_and_correlations_are_those_of_their_definitions() -> None:
    found = number_scores(np.array(X), np.array(Y))
    squares = [(x - y) ** 2 for x, y in zip(X, Y)]
    values = found.to_dict()
    assert found.mse.values.tolist() == squares
    assert values["mse"] == pytest.approx(sum(squares) / 5) and values["rmse"] == pytest.approx(
        math.sqrt(sum(squares) / 5)
    )
    assert values["pearson"] == pytest.approx(of_statistics(X, Y))
    assert values["spearman"] == pytest.approx(of_statistics([2, 3.5, 3.5, 5, 1], [3, 2, 4.5, 4.5, 1]))
    low, high = values["mse_interval"]
    assert low < values["mse"] < high and values["texts"] == 5


def test_equal_values_share_their_mean_rank() -> None:
    assert ranks(np.array([7.0, 7.0, 1.0, 7.0, 9.0])).tolist() == [3, 3, 1, 3, 5]


def test_a_constant_has_no_correlation() -> None:
    assert correlation(np.ones(3), np.array([1.0, 2.0, 3.0])) == 0 == correlation(np.array([1.0, 2.0]), np.ones(2))


@pytest.mark.parametrize(("number", "text"), [(4.0, "4"), (-0.1234567, "-0.123457"), (1e9, "1e+09")])
def test_a_number_is_printed_with_six_digits(number: float, text: str) -> None:
    assert spelled(number) == text
