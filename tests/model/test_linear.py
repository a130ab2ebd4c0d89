import math

import pytest
import torch
from torch import Tensor

from clearhead.model.attention import CrossAttention, MultiHeadAttention, SelfAttention
from clearhead.model.feed_forward import FeedForward, SwiGLU
from clearhead.model.linear import Linear, learned_table, rounded_up

D, F = 32, 96


def xavier(rows: int, columns: int) -> float:
    return math.sqrt(6 / (rows + columns))


def reach(block: Tensor) -> float:
    """The largest weight as a share of the block's own bound."""
    return block.detach().abs().max().item() / xavier(*block.shape)


@pytest.mark.parametrize("blocks", [(8,), (8, 8, 8), (32, 4, 4), (96, 96)])
def test_one_product_gives_what_separate_matrices_give(blocks) -> None:
    linear, x = Linear(D, *blocks), torch.randn(2, 3, D)
    torch.nn.init.normal_(linear.bias)
    matrices, biases = linear.matrices(linear.weight), linear.matrices(linear.bias)
    assert [len(matrix) for matrix in matrices] == list(blocks)
    separate = torch.cat([x @ matrix.T + bias for matrix, bias in zip(matrices, biases)], dim=-1)
    torch.testing.assert_close(linear(x), separate, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("fused", "blocks"),
    [
        pytest.param(lambda: SelfAttention(D, 4).qkv, [D, D, D], id="queries, keys and values"),
        pytest.param(lambda: SelfAttention(D, 4, n_kv_heads=2).qkv, [D, D // 2, D // 2], id="grouped"),
        pytest.param(lambda: CrossAttention(D, 4).kv, [D, D], id="keys and values of the memory"),
        pytest.param(lambda: SwiGLU(D, F).inner, [F, F], id="gate and value"),
    ],
)
def test_a_fused_weight_starts_within_the_bound_of_each_block_and_beyond_that_of_the_stack(fused, blocks) -> None:
    linear = fused()
    assert [len(block) for block in linear.matrices(linear.weight)] == blocks
    for block in linear.matrices(linear.weight):
        assert 0.97 < reach(block) <= 1
        assert block.abs().max() > xavier(*linear.weight.shape)
        assert math.isclose(block.std().item(), xavier(*block.shape) / math.sqrt(3), rel_tol=0.1)  # of a uniform draw


@pytest.mark.parametrize(
    ("part", "width"), [(MultiHeadAttention, 4), (SelfAttention, 4), (CrossAttention, 4), (FeedForward, F), (SwiGLU, F)]
)
def test_every_linear_layer_starts_xavier_uniform_with_biases_of_zero(part, width) -> None:
    linears = [module for module in part(D, width).modules() if isinstance(module, torch.nn.Linear)]
    assert len(linears) >= 2
    for linear in linears:
        assert isinstance(linear, Linear)
        assert all(0.97 < reach(block) <= 1 for block in linear.matrices(linear.weight))
        assert not linear.bias.any()


def test_without_a_bias_there_is_none() -> None:
    parts = [MultiHeadAttention(D, 4, bias=False), SelfAttention(D, 4, bias=False), CrossAttention(D, 4, bias=False)]
    for part in [*parts, FeedForward(D, F, bias=False), SwiGLU(D, F, bias=False)]:
        assert not [name for name, _ in part.named_parameters() if name.endswith("bias")]


def test_a_learned_table_has_variance_one_over_its_width_and_none_is_drawn_where_there_are_no_numbers() -> None:
    torch.manual_seed(0)
    table = learned_table(2000, 64)
    assert table.requires_grad and float(table.detach().var()) * 64 == pytest.approx(1, rel=0.05)
    state = torch.get_rng_state()
    with torch.device("meta"):
        assert learned_table(2000, 64).shape == (2000, 64)
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1,), (3, 7), (2, 127), (17, 16)])
def test_products_in_bfloat16_and_their_gradients_do_not_depend_on_rows_that_fill_them_up(shape, bias) -> None:
    torch.manual_seed(0)
    linear, x = Linear(8, 4, 4, bias=bias).float(), torch.randn(*shape, 8, dtype=torch.float32, requires_grad=True)
    upstream = torch.randn(*shape, 8).bfloat16()
    found = []
    for forward in (linear, lambda x: torch.nn.functional.linear(x, linear.weight, linear.bias)):
        with torch.autocast("cpu", torch.bfloat16):
            y = forward(x)
        found.append((y, *torch.autograd.grad(y, (x, *linear.parameters()), upstream)))
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(found[0], found[1], rtol=0.01, atol=0.03)
    assert found[0][0].equal(found[1][0])


def test_a_frozen_matrix_gets_no_gradient_in_bfloat16() -> None:
    linear, x = Linear(8, 8).float().requires_grad_(False), torch.randn(3, 8, dtype=torch.float32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        linear(x).float().sum().backward()
    assert linear.weight.grad is linear.bias.grad is None
    torch.testing.assert_close(x.grad, linear.weight.sum(0).expand(3, 8), rtol=0.02, atol=0.02)


def test_an_empty_batch_in_bfloat16() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert Linear(8, 4).float()(torch.zeros(0, 8, dtype=torch.float32)).shape == (0, 4)


def test_numbers_of_rows_are_rounded_up_to_few_and_by_an_eighth_at_most() -> None:
    rounded = [rounded_up(n) for n in range(1, 5000)]
    assert all(n <= up <= max(n * 9 / 8, n + 31) for n, up in enumerate(rounded, 1))
    assert len({up for n, up in enumerate(rounded, 1) if n >= 2048}) <= 16 and rounded_up(0) == 0
