import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.model.norms import AddNorm, LayerNorm, RMSNorm, layer_norm, rms_norm

EPS = [1e-5, 0.5]  # the second is large enough that its place, inside the root, shows


def normalised(values: list[float], eps: float) -> list[float]:
    """The definition for one vector."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    return [(value - mean) / math.sqrt(variance + eps) for value in values]


def randomised(norm: LayerNorm | RMSNorm) -> LayerNorm | RMSNorm:
    for parameter in norm.parameters():
        torch.nn.init.normal_(parameter)
    return norm


@pytest.mark.parametrize("eps", EPS)
def test_layer_norm_is_its_definition_for_every_vector(eps) -> None:
    x, norm = torch.randn(2, 3, 5), randomised(LayerNorm(5, eps))
    for vector, result in zip(x.flatten(0, 1), norm(x).flatten(0, 1)):
        expected = torch.tensor(normalised(vector.tolist(), eps)) * norm.weight + norm.bias
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("eps", EPS)
def test_layer_norm_over_several_dimensions_takes_them_as_one_vector(eps) -> None:
    x, norm = torch.randn(2, 3, 5), randomised(LayerNorm((3, 5), eps))
    for matrix, result in zip(x, norm(x)):
        expected = torch.tensor(normalised(matrix.flatten().tolist(), eps)).view(3, 5) * norm.weight + norm.bias
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(layer_norm(x, 2, eps) * norm.weight + norm.bias, norm(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("eps", EPS)
def test_rms_norm_is_its_definition_for_every_vector(eps) -> None:
    x, norm = torch.randn(2, 3, 5), randomised(RMSNorm(5, eps))
    for vector, result in zip(x.flatten(0, 1), norm(x).flatten(0, 1)):
        root = math.sqrt(sum(value**2 for value in vector.tolist()) / 5 + eps)
        torch.testing.assert_close(result, vector / root * norm.weight, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("shape", [5, (3, 5)])
def test_the_fused_layer_norm_and_the_open_one_agree_in_value_and_gradient(shape, dtype, atol, gradients) -> None:
    x = torch.randn(2, 3, 5, dtype=dtype, requires_grad=True)
    norm = randomised(LayerNorm(shape)).to(dtype)
    open_one = layer_norm(x, len(norm.shape)) * norm.weight + norm.bias
    torch.testing.assert_close(norm(x), open_one, rtol=0, atol=atol)
    inputs = (x, norm.weight, norm.bias)
    torch.testing.assert_close(gradients(norm(x), *inputs), gradients(open_one, *inputs), rtol=0, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_rms_norm_agrees_with_torch_in_value_and_gradient(dtype, atol, gradients) -> None:
    x = torch.randn(2, 3, 5, dtype=dtype, requires_grad=True)
    norm = randomised(RMSNorm(5)).to(dtype)
    theirs = F.rms_norm(x, (5,), norm.weight, norm.eps)
    torch.testing.assert_close(norm(x), theirs, rtol=0, atol=atol)
    inputs = (x, norm.weight)
    torch.testing.assert_close(gradients(norm(x), *inputs), gradients(theirs, *inputs), rtol=0, atol=atol)


def test_a_new_norm_changes_nothing_but_mean_and_variance() -> None:
    x = 3 + 2 * torch.randn(4, 64)
    torch.testing.assert_close(LayerNorm(64)(x), layer_norm(x))
    torch.testing.assert_close(layer_norm(x).mean(-1), torch.zeros(4), rtol=0, atol=1e-12)
    torch.testing.assert_close(layer_norm(x, eps=1e-12).var(-1, correction=0), torch.ones(4))
    torch.testing.assert_close(RMSNorm(64)(x), rms_norm(x))
    torch.testing.assert_close(rms_norm(x, eps=1e-12).square().mean(-1), torch.ones(4))


def test_a_constant_vector_becomes_zeros_with_a_finite_gradient(gradients) -> None:
    x = torch.full((2, 5), 7.0, requires_grad=True)
    for output in (LayerNorm(5)(x), layer_norm(x)):
        assert not output.any()
        assert gradients(output, x)[0].isfinite().all()


def test_a_norm_without_affine_has_nothing_to_learn() -> None:
    norm, x = LayerNorm((3, 5), elementwise_affine=False), torch.randn(2, 3, 5)
    assert not list(norm.parameters())
    torch.testing.assert_close(norm(x), layer_norm(x, 2))


def test_a_norm_counts_a_gain_and_for_layer_norm_a_bias_for_each_value() -> None:
    assert sum(p.numel() for p in LayerNorm((3, 5)).parameters()) == 2 * 3 * 5
    assert sum(p.numel() for p in RMSNorm(5).parameters()) == 5


def sublayer(x: Tensor) -> Tensor:
    return x.sin().roll(1, -1)


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_post_norm_normalises_the_sum(kind) -> None:
    x, norm = torch.randn(2, 3, 4), randomised(kind(4))
    assert AddNorm(norm).eval()(x, sublayer).equal(norm(x + sublayer(x)))


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_pre_norm_normalises_what_the_sub_layer_reads_and_leaves_the_residual_alone(kind) -> None:
    x, norm = torch.randn(2, 3, 4), randomised(kind(4))
    assert AddNorm(norm, pre_norm=True).eval()(x, sublayer).equal(x + sublayer(norm(x)))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_dropout_falls_on_the_sub_layers_output_and_never_on_the_residual(pre_norm) -> None:
    x = torch.randn(1, 50, 40)
    add_norm = AddNorm(nn.Identity(), 0.5, pre_norm=pre_norm)
    added = add_norm(x, sublayer) - x
    torch.testing.assert_close(added[added != 0], (2 * sublayer(x))[added != 0])
    assert 0.45 < (added == 0).double().mean() < 0.55


@pytest.mark.parametrize("pre_norm", [False, True])
def test_the_sub_layer_runs_once(pre_norm) -> None:
    calls: list[Tensor] = []
    AddNorm(LayerNorm(4), pre_norm=pre_norm)(torch.randn(2, 3, 4), lambda x: calls.append(x) or x)
    assert len(calls) == 1
