import pytest
import torch
from torch import Tensor, nn

from clearhead.model.norms import LayerNorm, RMSNorm
from clearhead.model.residual import AddNorm


def sublayer(x: Tensor) -> Tensor:
    return x.sin().roll(1, -1)


def randomised(norm: nn.Module) -> nn.Module:
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


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
