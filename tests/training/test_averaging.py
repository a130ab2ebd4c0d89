"""Means of weights against their sums written out."""

import weakref

import pytest
import torch
from torch import nn

from clearhead.training.selection import MovingAverage, mean_weights


def test_the_mean_of_weights_is_taken_name_by_name_in_their_own_type() -> None:
    each = [{"a": torch.full((2,), float(n)), "b": torch.full((1,), 2.0 * n, dtype=torch.float64)} for n in (1, 2, 6)]
    mean, count = mean_weights(each)
    assert count == 3
    assert mean["a"].tolist() == [3.0, 3.0] and mean["a"].dtype == torch.float32
    assert mean["b"].tolist() == [6.0] and mean["b"].dtype == torch.float64


def test_the_mean_of_one_is_itself_bit_for_bit() -> None:
    weights = {"a": torch.randn(50)}
    mean, count = mean_weights([weights])
    assert torch.equal(mean["a"], weights["a"]) and count == 1


def test_the_mean_is_summed_in_float64_in_order_and_leaves_the_weights_as_they_are() -> None:
    each = [torch.randn(500, dtype=dtype) * 10**n for n, dtype in enumerate([torch.float32, torch.float64] * 3)]
    for some in (each[::2], each[1::2]):
        kept = [weight.clone() for weight in some]
        mean, _ = mean_weights({"a": weight} for weight in some)
        expected = (kept[0].double() + kept[1].double() + kept[2].double()) / 3
        assert torch.equal(mean["a"], expected.to(some[0].dtype))
        assert all(map(torch.equal, some, kept))


def test_no_more_than_one_of_the_models_is_held_while_the_next_is_read() -> None:
    seen: list[weakref.ref] = []

    def each():
        for _ in range(5):
            weights = {"a": torch.randn(3)}
            seen.append(weakref.ref(weights["a"]))
            assert sum(it() is not None for it in seen) <= 2
            yield weights

    assert mean_weights(each())[1] == len(seen) == 5


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_a_moving_average_follows_its_recurrence(decay: float) -> None:
    model = nn.Linear(3, 2)
    average = MovingAverage(model, decay)
    expected = model.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3))
        average.update(step)
        d = min(decay, (1 + step) / (10 + step))
        expected = d * expected + (1 - d) * model.weight.detach()
    torch.testing.assert_close(average.weights["weight"], expected)


def test_an_applied_average_leaves_no_trace_also_after_an_error() -> None:
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.9)
    before = model.weight.detach().clone()
    with torch.no_grad():
        model.weight.mul_(2)
    with pytest.raises(ZeroDivisionError), average.applied():
        assert torch.equal(model.weight, before)
        raise ZeroDivisionError
    assert torch.equal(model.weight, 2 * before)
    assert torch.equal(average.weights["weight"], before)


def test_a_tied_weight_is_averaged_once() -> None:
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    model[1].weight = model[0].weight
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        model[0].weight.zero_()
    with average.applied():
        assert model[0].weight is model[1].weight and model[1].weight.abs().sum() > 0


def test_a_loaded_average_goes_on_bit_for_bit() -> None:
    model = nn.Linear(3, 2)
    first, second = MovingAverage(model, 0.9), MovingAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1)
    first.update(1)
    second.load(first.weights)
    first.update(2), second.update(2)
    assert torch.equal(first.weights["weight"], second.weights["weight"])
