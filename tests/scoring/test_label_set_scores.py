import numpy as np
import pytest

from clearhead.scoring.class_scores import average_precision, best_thresholds, label_set_scores, label_table

LABELS = ("bug", "login", "refund", "never")


def data(seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with ties, and labels that depend on them. The last label never occurs."""
    dice = np.random.default_rng(seed)
    p = dice.integers(0, 20, (n, len(LABELS))) / 20
    truth = dice.random(p.shape) < p
    truth[:, -1] = False
    return p, truth


def f1(said: np.ndarray, truth: np.ndarray) -> float:
    hits, false, missed = (said & truth).sum(), (said & ~truth).sum(), (~said & truth).sum()
    return 2 * hits / (2 * hits + false + missed)


@pytest.mark.parametrize("seed", range(5))
def test_the_scores_are_those_of_scikit_learn(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    p, truth = data(seed)
    thresholds = (0.3, 0.5, 0.7, 1.0)
    found, said = label_set_scores(p, truth, LABELS, thresholds), p >= np.array(thresholds)
    assert found.micro_f1 == pytest.approx(metrics.f1_score(truth, said, average="micro"))
    assert found.exact_match.mean == pytest.approx(metrics.accuracy_score(truth, said))
    seen = truth.any(0) | said.any(0)
    assert found.macro_f1 == pytest.approx(metrics.f1_score(truth[:, seen], said[:, seen], average="macro"))
    expected = metrics.average_precision_score(truth[:, :-1], p[:, :-1], average="macro")
    assert found.mean_average_precision == pytest.approx(expected)
    precision, recall, each, support = metrics.precision_recall_fscore_support(truth, said, zero_division=0)
    assert [it.precision for it in found.labels] == pytest.approx(precision.tolist())
    assert [it.recall for it in found.labels] == pytest.approx(recall.tolist())
    assert [it.f1 for it in found.labels] == pytest.approx(each.tolist())
    assert [it.support for it in found.labels] == support.tolist()


def test_average_precision_of_a_ranking_is_the_mean_precision_at_each_example() -> None:
    p, truth = np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, False, True, False])
    assert average_precision(p, truth) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(np.full(4, 0.5), truth) == pytest.approx(0.5)  # a tie has one precision


@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_is_better_than_the_one_chosen(seed: int) -> None:
    p, truth = data(seed)
    for c, chosen in enumerate(best_thresholds(p, truth)[:-1]):
        best = max(f1(p[:, c] >= it, truth[:, c]) for it in np.unique(p[:, c]))
        assert f1(p[:, c] >= chosen, truth[:, c]) == pytest.approx(best)


def test_a_label_of_few_examples_keeps_one_half_and_equal_thresholds_are_close_to_it() -> None:
    p = np.array([0.9] * 5 + [0.2] * 5)
    assert best_thresholds(p[:, None], (p > 0.5)[:, None]) == (pytest.approx(0.55),)
    assert best_thresholds(p[:, None], (np.arange(10) < 4)[:, None]) == (0.5,)
    every = np.linspace(0.6, 0.9, 5)
    assert best_thresholds(every[:, None], np.ones((5, 1), bool)) == (pytest.approx(0.3),)


def test_texts_without_labels_that_get_none_are_right() -> None:
    found = label_set_scores(np.zeros((2, 2)), np.zeros((2, 2), bool), LABELS[:2], (0.5, 0.5))
    assert (found.exact_match.mean, found.micro_f1, found.macro_f1, found.mean_average_precision) == (1, 1, 1, 0)


def test_the_table_has_the_most_frequent_labels_first() -> None:
    truth = np.zeros((20, 14), bool)
    truth[:, 3], truth[:4, 5] = True, True
    table = label_table(label_set_scores(truth * 0.9, truth, [f"l{i}" for i in range(14)], [0.5] * 14)).splitlines()
    assert [row.split()[:2] for row in table[1:3]] == [["l3", "20"], ["l5", "4"]]
    assert len(table) == 14 and table[3].split()[-1] == "-" and table[-1] == "and 2 more labels"
