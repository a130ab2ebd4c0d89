from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import DataError
from clearhead.scoring.costs import Costs

KNOWN = ("a", "b", "c, d")


def read(tmp_path: Path, text: str) -> Costs:
    path = tmp_path / "costs.csv"
    path.write_text(text, encoding="utf-8")
    return Costs.read(path, {*KNOWN, "only in the data"}, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "label\tpredicted\tcost\na\tc, d\t2.5\nonly in the data\ta\t0\na\t\t0.5\n\t\t0.25\n",
        'Cost,Label,Predicted\n2.5,a,"c, d"\n\n 0 ,only in the data,a\n0.5,a,\n0.25,,\n',
        "sep=;\nlabel;predicted;cost\na;c, d;2.5\nonly in the data;a;0\na;;0.5\n;;0.25",
    ],
)
def test_pairs_have_their_costs_and_other_mistakes_cost_1(tmp_path: Path, text: str) -> None:
    costs = read(tmp_path, text)
    assert [costs.of("a", "c, d"), costs.of("only in the data", "a"), costs.of("a", "b"), costs.of("a", "a")] == [
        2.5, 0, 1, 0
    ]  # fmt: skip
    assert [costs.of("a", ""), costs.of("b", "")] == [0.5, 0.25]
    assert Costs({("a", ""): 3}).of("b", "") == 1


@pytest.mark.parametrize(
    ("text", "said", "line"),
    [
        ("", "is empty", None),
        ("a,b,2\n", "label, predicted, cost", None),
        ("label,predicted,cost,more\n", "label, predicted, cost", None),
        ("label,predicted,cost\nA,b,2\n", "unknown label 'A'", None),
        ("label,predicted,cost\n,b,2\n", "no label in the column label", None),
        ("label,predicted,cost\na,only in the data,2\n", "'only in the data' in the column predicted", None),
        ("label,predicted,cost\na,b,-1\n", "the cost '-1'", 2),
        ("label,predicted,cost\na,b,inf\n", "the cost 'inf'", 2),
        ("label,predicted,cost\na,b,dear\n", "the cost 'dear'", 2),
        ("label,predicted,cost\na,b, \n", "no cost", 2),
        ("label,predicted,cost\na,b,1\n\na,b,1\n", "repeats the pair 'a', 'b'", 4),
        ("label,predicted,cost\na,b\n", "2 cells", 2),
        ('label,predicted,cost\na,"b,1\n', "unclosed quote", 2),
    ],
)
def test_a_file_that_has_no_costs(tmp_path: Path, text: str, said: str, line: int | None) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert said in str(caught.value) and caught.value.line == line


def test_rejecting_below_each_confidence_costs_what_it_costs_one_by_one() -> None:
    dice = np.random.default_rng(0)
    labels, answers = (dice.choice(["a", "b"], 50).tolist() for _ in range(2))
    sure = dice.integers(1, 9, 50) / 10
    costs = Costs({("a", "b"): 5.0, ("", ""): 0.4, ("b", ""): 0.7})
    found = costs.rejecting(labels, answers, sure)
    assert [it[0] for it in found] == [*np.unique(sure), 1]
    for least, share, mean in found:
        paid = [costs.of(one, other if own >= least else "") for one, other, own in zip(labels, answers, sure)]
        assert (share, mean) == (pytest.approx((sure < least).mean()), pytest.approx(np.mean(paid)))
    best = min(found, key=lambda it: it[2])
    values = costs.to_dict(labels, answers, sure)
    assert values["cheapest_rejection"] == dict(zip(("confidence", "rejected", "mean_cost"), best))
    assert values["mean_cost"] == pytest.approx(found[0][2])


def test_without_a_cost_of_rejecting_or_confidence_there_is_no_threshold() -> None:
    assert set(Costs({("a", "b"): 2.0}).to_dict(["a"], ["b"], np.ones(1))) == {"mean_cost", "mean_cost_interval"}
    assert set(Costs({("", ""): 2.0}).to_dict(["a"], ["b"])) == {"mean_cost", "mean_cost_interval"}
