import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.model.fronts.tokens import Projection
from clearhead.tasks import loss as module
from clearhead.tasks.loss import projected_cross_entropy, smoothed_cross_entropy

V, PAD = 5, 0
TARGETS = torch.tensor([3, 0, 1, 4, 0, 2])
SMOOTHINGS = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])


@pytest.fixture
def logits() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(TARGETS), V, generator=generator, dtype=torch.float64, requires_grad=True)


def wanted(target: int, smoothing: float, pad: int, size: int = V) -> list[float]:
    """q: what the smoothed target gives to each token."""
    spread = [0.0 if v == pad else smoothing / (size - 1) for v in range(size)]
    return [share + (1 - smoothing) * (v == target) for v, share in enumerate(spread)]


def written_out(rows: list[list[float]], targets: list[int], smoothing: float, pad: int) -> float:
    total = 0.0
    for row, target in zip(rows, targets):
        if target != pad:
            largest = max(row)
            normaliser = largest + math.log(sum(math.exp(logit - largest) for logit in row))
            q = wanted(target, smoothing, pad, len(row))
            total -= sum(share * (logit - normaliser) for share, logit in zip(q, row))
    return total


ROWS = st.lists(st.lists(st.floats(-50, 50), min_size=V, max_size=V), min_size=1, max_size=4)


@given(ROWS, st.lists(st.integers(0, V - 1), min_size=4, max_size=4), st.floats(0, 0.9), st.integers(0, V - 1))
@settings(deadline=None)
def test_the_loss_is_the_formula_written_out(rows, targets, smoothing, pad) -> None:
    targets = targets[: len(rows)]
    loss = smoothed_cross_entropy(
        torch.tensor(rows, dtype=torch.float64), torch.tensor(targets), smoothing=smoothing, pad=pad
    )
    assert loss.shape == ()
    assert math.isclose(loss, written_out(rows, targets, smoothing, pad), rel_tol=1e-12, abs_tol=1e-12)


def test_without_smoothing_it_is_torchs_cross_entropy(logits) -> None:
    theirs = F.cross_entropy(logits, TARGETS, ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(smoothed_cross_entropy(logits, TARGETS, pad=PAD), theirs, rtol=0, atol=1e-12)


@SMOOTHINGS
def test_it_is_torchs_cross_entropy_with_the_smoothed_targets_as_probabilities(logits, smoothing) -> None:
    real = TARGETS != PAD
    q = torch.tensor([wanted(target, smoothing, PAD) for target in TARGETS[real].tolist()], dtype=torch.float64)
    theirs = F.cross_entropy(logits[real], q, reduction="sum")
    ours = smoothed_cross_entropy(logits, TARGETS, smoothing=smoothing, pad=PAD)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@SMOOTHINGS
def test_the_gradient_is_p_minus_q_and_padding_rows_get_none(logits, smoothing) -> None:
    smoothed_cross_entropy(logits, TARGETS, smoothing=smoothing, pad=PAD).backward()
    for row, target, gradient in zip(logits.detach(), TARGETS.tolist(), logits.grad):
        if target == PAD:
            assert not gradient.any()
        else:
            q = torch.tensor(wanted(target, smoothing, PAD), dtype=torch.float64)
            torch.testing.assert_close(gradient, row.softmax(-1) - q, rtol=0, atol=1e-12)
            assert math.isclose(gradient[PAD], row.softmax(-1)[PAD])  # no mass of the target falls on padding
            assert math.isclose(q.sum(), 1.0)


@SMOOTHINGS
def test_gradients_agree_with_differences(logits, smoothing) -> None:
    assert torch.autograd.gradcheck(
        lambda logits: smoothed_cross_entropy(logits, TARGETS, smoothing=smoothing, pad=PAD), (logits,)
    )


@SMOOTHINGS
def test_padding_rows_do_not_count_whatever_they_hold(logits, smoothing) -> None:
    real = TARGETS != PAD
    alone = smoothed_cross_entropy(logits[real], TARGETS[real], smoothing=smoothing, pad=PAD)
    noisy = logits.detach().clone()
    noisy[~real] = 1e6 * torch.randn(V, dtype=torch.float64)
    for rows in (logits, noisy):
        loss = smoothed_cross_entropy(rows, TARGETS, smoothing=smoothing, pad=PAD)
        torch.testing.assert_close(loss, alone, rtol=1e-15, atol=0)
    assert smoothed_cross_entropy(logits, torch.full_like(TARGETS, PAD), smoothing=smoothing, pad=PAD) == 0


@SMOOTHINGS
def test_it_is_smallest_where_the_model_gives_what_the_smoothed_target_wants(logits, smoothing) -> None:
    q = torch.tensor([wanted(3, smoothing, PAD)], dtype=torch.float64)
    best = smoothed_cross_entropy(q.clamp(min=1e-300).log(), torch.tensor([3]), smoothing=smoothing, pad=PAD)
    entropy = -sum(share * math.log(share) for share in q[0].tolist() if share)
    assert math.isclose(best, entropy, rel_tol=1e-9, abs_tol=1e-12)
    for row in logits.detach():
        assert smoothed_cross_entropy(row[None], torch.tensor([3]), smoothing=smoothing, pad=PAD) > best


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_summed_in_float32(logits, dtype) -> None:
    rough = logits.detach().to(dtype)
    loss = smoothed_cross_entropy(rough, TARGETS, smoothing=0.1, pad=PAD)
    assert loss.dtype == torch.float32
    assert loss.equal(smoothed_cross_entropy(rough.float(), TARGETS, smoothing=0.1, pad=PAD))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_padding_beyond_the_vocabulary_is_ignored_and_every_token_gets_mass(smoothing: float) -> None:
    """The loss is that of a larger vocabulary whose padding has no probability."""
    logits = torch.randn(4, V, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([2, V, 4, 0])
    larger = torch.cat((torch.full((4, 1), -torch.inf, dtype=torch.float64), logits.detach()), 1).nan_to_num(
        neginf=-1e9
    )
    shifted = (targets + 1) % (V + 1)
    loss = smoothed_cross_entropy(logits, targets, smoothing=smoothing, pad=V)
    torch.testing.assert_close(loss, smoothed_cross_entropy(larger, shifted, smoothing=smoothing, pad=0))
    assert torch.autograd.gradcheck(
        lambda it: smoothed_cross_entropy(it, targets, smoothing=smoothing, pad=V), (logits,)
    )
    loss.backward()
    assert logits.grad is not None and not logits.grad[1].any()


def projected(dtype: torch.dtype, rows: int = 6, **options) -> tuple[Tensor, Projection]:
    """Vectors of width 4, and a projection to V tokens."""
    torch.manual_seed(0)
    projection = Projection(4, V, **options).to(dtype)
    if projection.bias is not None:
        torch.nn.init.normal_(projection.bias)
    return torch.randn(rows, 4, dtype=dtype, requires_grad=True), projection


@SMOOTHINGS
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"scale": 0.5}])
@pytest.mark.parametrize(("pad", "together"), [(PAD, 6), (PAD, 4), (V, 1)])
def test_the_projected_loss_is_that_of_the_logits_however_many_rows_are_computed_together(
    smoothing: float, options, pad: int, together: int, monkeypatch
) -> None:
    monkeypatch.setattr(module, "_PROJECTED", together * V)
    targets = torch.where(TARGETS == PAD, pad, TARGETS)
    found = []
    for way in (
        lambda x, projection, targets, **settings: smoothed_cross_entropy(projection(x), targets, **settings),
        projected_cross_entropy,
    ):
        x, projection = projected(torch.float64, **options)
        loss = way(x, projection, targets, smoothing=smoothing, pad=pad)
        (3 * loss).backward()
        found.append([loss.detach(), x.grad, *(p.grad for p in projection.parameters())])
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("frozen", ["x", "weight", "bias"])
def test_frozen_parts_get_no_gradient_and_the_others_the_same(frozen: str) -> None:
    found = []
    for off in ("", frozen):
        x, projection = projected(torch.float64)
        parts = {"x": x, **dict(projection.named_parameters())}
        if off:
            parts[off].requires_grad_(False)
        projected_cross_entropy(x, projection, TARGETS, pad=PAD).backward()
        found.append({name: part.grad for name, part in parts.items()})
    assert found[1].pop(frozen) is None
    assert all(gradient.equal(found[0][name]) for name, gradient in found[1].items())


def test_without_gradients_the_projected_loss_is_the_same() -> None:
    x, projection = projected(torch.float32)
    expected = projected_cross_entropy(x, projection, TARGETS, smoothing=0.1, pad=PAD)
    with torch.no_grad():
        loss = projected_cross_entropy(x, projection, TARGETS, smoothing=0.1, pad=PAD)
    assert loss.equal(expected.detach()) and not loss.requires_grad


def test_under_autocast_products_are_bfloat16_and_sums_float32() -> None:
    x, projection = projected(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = projected_cross_entropy(x, projection, TARGETS, smoothing=0.1, pad=PAD)
        expected = smoothed_cross_entropy(projection(x), TARGETS, smoothing=0.1, pad=PAD)
    loss.backward()
    assert loss.dtype == x.grad.dtype == projection.weight.grad.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0)  # its probabilities are bfloat16
    own, x.grad = x.grad, None
    smoothed_cross_entropy(projection(x), TARGETS, smoothing=0.1, pad=PAD).backward()
    torch.testing.assert_close(own, x.grad, rtol=0.05, atol=0.02)


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that any operator returns."""

    size = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        found = operator(*args, **(kwargs or {}))
        if isinstance(found, Tensor):
            self.size = max(self.size, found.numel())
        return found


def test_the_logits_of_all_rows_never_exist(monkeypatch) -> None:
    monkeypatch.setattr(module, "_PROJECTED", 8 * V)
    x, projection = projected(torch.float32, rows=128)
    targets = torch.randint(1, V, (128,))
    with Largest() as largest:
        projected_cross_entropy(x, projection, targets, smoothing=0.1, pad=PAD).backward()
    assert largest.size == x.numel() < 128 * V


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_target_too_unlikely_for_a_float_has_its_true_loss(dtype) -> None:
    """exp(-1000) is 0 in every dtype."""
    projection = Projection(2, 3, bias=False).to(dtype)
    projection.weight.data.copy_(torch.tensor([[0.0, 0.0], [1000.0, 0.0], [0.0, 1.0]]))
    x = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=dtype, requires_grad=True)
    loss = projected_cross_entropy(x, projection, torch.tensor([2, 2]), pad=3)
    loss.backward()
    assert math.isclose(loss.detach(), 1000 + math.log(3), rel_tol=1e-3)
    assert x.grad is not None and x.grad[0].tolist() == [1000.0, -1.0]


@pytest.mark.parametrize("rows", [1, 63, 64, 65])
def test_rows_that_fill_up_a_piece_change_nothing_whatever_padding_holds(rows: int) -> None:
    x, projection = projected(torch.float64, rows=rows)
    targets = torch.randint(1, V, (rows,))
    alone = projected_cross_entropy(x, projection, targets, smoothing=0.1, pad=PAD)
    more, padding = torch.full((2, 4), torch.inf, dtype=torch.float64), torch.full((2,), PAD)
    loss = projected_cross_entropy(torch.cat((x, more)), projection, torch.cat((targets, padding)), smoothing=0.1)
    torch.testing.assert_close(loss, alone, rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(gradient, torch.autograd.grad(alone, x)[0], rtol=1e-12, atol=1e-12)
