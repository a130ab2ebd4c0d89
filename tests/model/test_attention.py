"""Equation 1 and its twins; what stands around it is tested in test_multi_head_attention.py."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.errors import ModelError
from clearhead.model import attention, piecewise
from clearhead.model.attention import Attend, fused_attention, masked_softmax, scaled_dot_product_attention
from clearhead.model.masks import causal_mask, padding_mask
from clearhead.model.positions import Alibi

B, H, T, S, K, KV = 2, 3, 4, 5, 6, 7
TOLERANCE = [pytest.param(torch.float32, 1e-5, id="float32"), pytest.param(torch.float64, 1e-12, id="float64")]
SOMEWHERE_NOTHING = torch.tensor([[True, True, False], [False, False, False], [True, False, False]])


def first_keys(lengths: list[int], n_keys: int) -> Tensor:
    """A mask that opens as many first keys of each row: (B, 1, 1, S)."""
    return padding_mask((torch.arange(n_keys) < torch.tensor(lengths)[:, None]).long())


MASKS = {
    "no mask": None,
    "one for all": torch.tensor([True, False, True, True, False]),
    "padding": padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])),
    "causal": causal_mask(T, S),
    "a length a query": (torch.arange(S) < torch.tensor([[1, 2, 0, 5], [3, 3, 3, 3]])[..., None])[:, None],
    "a row with nothing": first_keys([0, 4], S),
    "nothing at all": torch.zeros(1, 1, dtype=torch.bool),
    "a head": torch.tensor([True, False, True])[None, :, None, None],
}
BIASES = {"no bias": None, "a bias for all rows": (1, H, T, S), "a bias a row": (B, H, 1, S)}


@pytest.fixture(params=MASKS, ids=lambda name: name)
def mask(request: pytest.FixtureRequest) -> Tensor | None:
    return MASKS[request.param]


@pytest.fixture(params=BIASES, ids=lambda name: name)
def bias(request: pytest.FixtureRequest) -> Tensor | None:
    shape = BIASES[request.param]
    return None if shape is None else torch.randn(shape, requires_grad=True)


def queries_keys_values(dtype: torch.dtype = torch.float64, shared: int = H) -> list[Tensor]:
    shapes = [(B, H, T, K), (B, shared, S, K), (B, shared, S, KV)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def equation_1(q: Tensor, k: Tensor, v: Tensor, open_to: list[bool], bias: list[float]) -> tuple[list, list]:
    """One query (K), its keys (S, K) and values (S, Kv), which keys it may attend to: the output and the weights."""
    scores = [sum(x * y for x, y in zip(q.tolist(), key)) / math.sqrt(len(q)) + b for key, b in zip(k.tolist(), bias)]
    powers = [math.exp(score) if may else 0.0 for score, may in zip(scores, open_to)]
    weights = [power / sum(powers) if any(open_to) else 0.0 for power in powers]
    return [sum(w * value for w, value in zip(weights, column)) for column in v.T.tolist()], weights


def test_attention_is_equation_1_for_every_query(mask, bias) -> None:
    q, k, v = queries_keys_values()
    output, weights = scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)
    assert output.shape == (B, H, T, KV) and weights.shape == (B, H, T, S)
    may = (torch.ones(1, dtype=torch.bool) if mask is None else mask).expand(B, H, T, S)
    added = (torch.zeros(1) if bias is None else bias).expand(B, H, T, S)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                there = (b, h, t)
                expected = equation_1(q[there], k[b, h], v[b, h], may[there].tolist(), added[there].tolist())
                torch.testing.assert_close(output[there], torch.tensor(expected[0]), rtol=0, atol=1e-12)
                torch.testing.assert_close(weights[there], torch.tensor(expected[1]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
def test_the_fused_kernel_and_the_open_equation_agree_in_output_and_gradients(
    mask, bias, dtype, atol, gradients
) -> None:
    inputs = queries_keys_values(dtype)
    bias = None if bias is None else bias.detach().to(dtype).requires_grad_()
    learned = inputs if bias is None else [*inputs, bias]
    fused = fused_attention(*inputs, mask=mask, bias=bias)
    written_out, _ = scaled_dot_product_attention(*inputs, mask=mask, bias=bias)
    torch.testing.assert_close(fused, written_out, rtol=0, atol=atol)
    torch.testing.assert_close(gradients(fused, *learned), gradients(written_out, *learned), rtol=0, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
def test_both_agree_with_torch_where_every_query_may_attend_somewhere(dtype, atol, gradients) -> None:
    inputs, mask = queries_keys_values(dtype), causal_mask(T, S)
    theirs = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
    for path in (fused_attention, lambda *inputs, mask: scaled_dot_product_attention(*inputs, mask=mask)[0]):
        ours = path(*inputs, mask=mask)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)
        again = F.scaled_dot_product_attention(*inputs, attn_mask=mask)
        torch.testing.assert_close(gradients(ours, *inputs), gradients(again, *inputs), rtol=0, atol=atol)


@pytest.mark.parametrize("bias_dtype", [None, torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("fused", [False, True])
def test_a_row_that_may_attend_nowhere_is_exactly_zero_with_finite_gradients(fused, dtype, bias_dtype) -> None:
    q, k, v = (torch.randn(2, 2, 3, 4, dtype=dtype, requires_grad=True) for _ in range(3))
    bias = None if bias_dtype is None else torch.randn(1, 2, 3, 3, dtype=bias_dtype, requires_grad=True)
    if fused:
        output = fused_attention(q, k, v, mask=SOMEWHERE_NOTHING, bias=bias)
    else:
        output, weights = scaled_dot_product_attention(q, k, v, mask=SOMEWHERE_NOTHING, bias=bias)
        assert not weights[:, :, 1].any()
    assert output.dtype == dtype
    assert not output[:, :, 1].any() and output[:, :, [0, 2]].all()
    output.float().square().sum().backward()
    learned = (q, k, v) if bias is None else (q, k, v, bias)
    assert all(tensor.grad.isfinite().all() for tensor in learned)
    assert not q.grad[:, :, 1].any()


class Kernel:
    """torch's fused kernel, and what it was called with."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.kernel = F.scaled_dot_product_attention

    def __call__(self, *inputs: Tensor, **named: Any) -> Tensor:
        self.calls.append(named)
        return self.kernel(*inputs, **named)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    spy = Kernel()
    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", spy)
    return spy


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_what_the_kernel_is_given_to_add_is_finite_in_every_precision(dtype, kernel) -> None:
    q, k, v = (torch.randn(1, 1, 3, 4, dtype=dtype) for _ in range(3))
    fused_attention(q, k, v, mask=SOMEWHERE_NOTHING, bias=torch.randn(1, 1, 3, 3, dtype=torch.float32))
    added = kernel.calls[0]["attn_mask"]
    assert added.dtype == dtype and added.isfinite().all()


def fused_as_expanded(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The kernel with a mask that was written out for every row, head, query and key."""
    written_out = mask.expand(*q.shape[:-1], k.size(-2)).contiguous()
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=written_out)
    return output.masked_fill(~mask.any(-1, keepdim=True), 0.0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("kind", ["padding", "causal", "both"])
def test_a_broadcast_or_causal_mask_gives_the_bits_of_the_expanded_one(kind, dtype, gradients) -> None:
    length = 300
    inputs = [torch.randn(2, 2, length, 8, dtype=dtype, requires_grad=True) for _ in range(3)]
    masks = {"padding": first_keys([length, 120], length), "causal": causal_mask(length)}
    mask = masks.get(kind, masks["padding"] & masks["causal"])
    found = []
    for attend in (fused_attention, fused_as_expanded):
        output = attend(*inputs, mask=mask)
        found.append([output, *gradients(output, *inputs)])
    assert all(ours.equal(theirs) for ours, theirs in zip(*found))


def test_the_kernel_is_told_that_a_mask_is_causal_only_if_it_still_is(kernel) -> None:
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    changed = causal_mask(4)
    changed[..., 0] = False
    masks = [causal_mask(4), causal_mask(3, 4), causal_mask(4) & padding_mask(torch.tensor([[1, 1, 1, 0]])), changed]
    for mask in masks:
        fused_attention(q[:, :, : mask.size(2)], k, v, mask=mask)
    fused_attention(q, k, v, mask=causal_mask(4), bias=torch.zeros(1, 2, 4, 4))
    with torch.inference_mode():
        fused_attention(q, k, v, mask=causal_mask(4))
    assert [call.get("is_causal", False) for call in kernel.calls] == [True, False, False, False, False, True]


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        tensors = [it for it in (found if isinstance(found, tuple) else (found,)) if isinstance(it, Tensor)]
        stored = (it.untyped_storage().nbytes() // it.element_size() for it in tensors)
        self.numel = max([self.numel, *stored])
        return found


@pytest.mark.parametrize("kind", ["padding", "causal", "alibi"])
def test_no_mask_of_every_row_head_query_and_key_is_made_forwards_or_backwards(kind) -> None:
    rows, heads, length, width = 2, 4, 256, 8
    q, k, v = (torch.randn(rows, heads, length, width, dtype=torch.float32, requires_grad=True) for _ in range(3))
    at = torch.arange(length)[None]
    given = {
        "padding": {"mask": first_keys([length, 99], length)},
        "causal": {"mask": causal_mask(length)},
        "alibi": {"bias": Alibi(heads).bias(at, at).float(), "mask": causal_mask(length)},
    }[kind]
    with Largest() as largest:
        fused_attention(q, k, v, **given).square().sum().backward()
    assert largest.numel <= (heads if kind == "alibi" else rows) * length**2


def biased(kind: str, n_queries: int, n_keys: int) -> Tensor | None:
    shapes = {"bias": (1, 2, n_queries, n_keys), "bias of the keys": (2, 1, 1, n_keys)}
    return torch.randn(shapes[kind], requires_grad=True) if kind in shapes else None


@pytest.mark.parametrize("kind", ["plain", "bias", "bias of the keys"])
@pytest.mark.parametrize("piece", [1, 3, 100])
def test_long_attention_with_dropout_is_the_equation_for_a_few_queries_at_a_time(
    piece: int, kind: str, gradients, monkeypatch
) -> None:
    monkeypatch.setattr(piecewise, "_PIECE", piece * 2 * 2 * 7)
    q, k, v = (torch.randn(2, 2, length, 4, requires_grad=True) for length in (5, 7, 7))
    mask, bias = torch.rand(2, 1, 5, 7) < 0.7, biased(kind, 5, 7)
    learned = [q, k, v, *([] if bias is None else [bias])]

    def written_out() -> Tensor:
        parts = []
        for start in range(0, 5, piece):
            at = slice(start, start + piece)
            added = bias[..., at, :] if kind == "bias" else bias
            parts.append(
                scaled_dot_product_attention(q[:, :, at], k, v, mask=mask[:, :, at], bias=added, dropout=0.4)[0]
            )
        return torch.cat(parts, 2)

    found = []
    for attend in (lambda: fused_attention(q, k, v, mask=mask, bias=bias, dropout=0.4), written_out):
        torch.manual_seed(0)
        output = attend()
        found.append([output, torch.rand(()), *gradients(output, *learned)])  # both draw as many numbers
    for ours, theirs in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_long_attention_with_dropout_never_has_all_weights(monkeypatch) -> None:
    length, few = 256, 8
    monkeypatch.setattr(piecewise, "_PIECE", 2 * few * length)
    q, k, v = (torch.randn(1, 2, length, 4, requires_grad=True) for _ in range(3))
    with Largest() as largest:
        fused_attention(q, k, v, mask=causal_mask(length), dropout=0.1).square().sum().backward()
    assert largest.numel == length**2  # the mask itself, which all heads share


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masked_softmax_is_the_softmax_of_the_keys_that_are_left(dtype) -> None:
    scores = torch.randn(2, 3, 3, 3, dtype=dtype)
    weights = masked_softmax(scores, SOMEWHERE_NOTHING)
    assert weights.dtype == dtype
    for t, row in enumerate(SOMEWHERE_NOTHING):
        torch.testing.assert_close(weights[..., t, row], scores[..., t, row].softmax(-1))
        assert not weights[..., t, ~row].any()
    assert masked_softmax(scores).equal(scores.softmax(-1))


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=6), st.integers(0, 63))
@settings(deadline=None)
def test_masked_softmax_is_finite_and_sums_to_one_or_to_nothing_whatever_the_scores(scores, bits) -> None:
    mask = torch.tensor([bool(bits >> s & 1) for s in range(len(scores))])
    row = torch.tensor(scores, requires_grad=True)
    weights = masked_softmax(row[None, None, None], mask)[0, 0, 0]
    assert not weights[~mask].any()
    assert math.isclose(weights.sum().item(), 1.0 if mask.any() else 0.0, abs_tol=1e-12)
    weights[0].backward()
    assert row.grad.isfinite().all()


@pytest.mark.parametrize("path", [fused_attention, scaled_dot_product_attention, Attend(), Attend(fused_from=1)])
def test_a_mask_that_does_not_fit_is_refused_on_every_path(path) -> None:
    inputs = queries_keys_values()
    with pytest.raises(ModelError) as caught:
        path(*inputs, mask=torch.ones(4, 4, dtype=torch.bool))
    assert (caught.value.name, caught.value.value) == ("mask", (4, 4))
    with pytest.raises(ModelError, match=r"torch\.float64"):
        path(*inputs, mask=torch.ones(T, S))


def test_weights_are_reported_before_dropout() -> None:
    q, k = torch.randn(1, 1, 8, 4), torch.randn(1, 1, 64, 4)
    values = torch.eye(64)[None, None]  # so that the output is the weights that were used
    _, expected = scaled_dot_product_attention(q, k, values)
    output, weights = scaled_dot_product_attention(q, k, values, dropout=0.5)
    assert weights.equal(expected)
    torch.testing.assert_close(output[output != 0], 2 * weights[output != 0])
    assert 0.35 < (output == 0).double().mean() < 0.65


@pytest.mark.parametrize("fused_from", [1, 10**9])
def test_attend_drops_weights_while_training_only(fused_from) -> None:
    attend, values = Attend(0.5, fused_from), torch.eye(64)[None, None]
    q, k = torch.randn(1, 1, 8, 4), torch.randn(1, 1, 64, 4)
    whole, thinned = attend.eval()(q, k, values), attend.train()(q, k, values)
    assert whole.all()
    torch.testing.assert_close(thinned[thinned != 0], 2 * whole[thinned != 0])
    assert 0.35 < (thinned == 0).double().mean() < 0.65


@pytest.mark.parametrize(("dtype", "atol"), TOLERANCE)
@pytest.mark.parametrize("shared", [1, H])
def test_where_attend_changes_its_path_changes_nothing(mask, bias, shared, dtype, atol, gradients) -> None:
    inputs = queries_keys_values(dtype, shared)
    bias = None if bias is None else bias.detach().to(dtype)
    written_out = Attend(fused_from=S + 1)(*inputs, mask=mask, bias=bias)
    fused = Attend(fused_from=S)(*inputs, mask=mask, bias=bias)
    torch.testing.assert_close(fused, written_out, rtol=0, atol=atol)
    torch.testing.assert_close(gradients(fused, *inputs), gradients(written_out, *inputs), rtol=0, atol=atol)


def test_the_fused_kernel_takes_over_at_fused_from_keys(monkeypatch) -> None:
    lengths: list[int] = []

    def spy(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
        lengths.append(k.size(-2))
        return v

    monkeypatch.setattr(attention, "fused_attention", spy)
    for n_keys in range(1, 9):
        Attend(fused_from=6)(*(torch.randn(1, 1, n_keys, 4) for _ in range(3)))
    assert lengths == [6, 7, 8]


@pytest.mark.parametrize("shared", [1, 2, 4])
@pytest.mark.parametrize("fused_from", [1, 10**9])
def test_neighbouring_query_heads_share_a_head_of_keys_and_values(fused_from, shared) -> None:
    q, (k, v) = torch.randn(2, 4, T, K), (torch.randn(2, shared, S, K) for _ in range(2))
    output = Attend(fused_from=fused_from)(q, k, v)
    for h in range(4):
        theirs = slice(h * shared // 4, h * shared // 4 + 1)
        alone, _ = scaled_dot_product_attention(q[:, h : h + 1], k[:, theirs], v[:, theirs])
        torch.testing.assert_close(output[:, h : h + 1], alone, rtol=0, atol=1e-12)
