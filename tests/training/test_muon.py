"""Muon: the orthogonal update, each matrix of a fused product on its own, and Adam for everything else."""

import pytest
import torch
from torch import nn

from clearhead.config import TrainConfig
from clearhead.model.linear import Linear
from clearhead.training.optimizers import Muon, make_optimizer, orthogonalize

ADAM = {"lr": 0.0, "betas": (0.9, 0.98), "eps": 1e-9}


class Net(nn.Module):
    """One block with a fused product, and a projection outside of any block."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Linear(8, 8, 4, 4)])
        self.projection = Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.projection(self.blocks[0](x))


def muon(linears: list[Linear], lr: float, weights: list[torch.Tensor]) -> Muon:
    optimizer = Muon([{"params": weights}], linears, torch.float32, **ADAM)
    optimizer.param_groups[0]["lr"] = lr
    return optimizer


@pytest.mark.parametrize("shape", [(8, 8), (16, 8), (8, 16), (40, 40)])
def test_orthogonalize_keeps_the_singular_vectors_and_brings_the_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(3, *shape, dtype=torch.float64), full_matrices=False)
    values = torch.logspace(-2, 0, min(shape), dtype=torch.float64)
    result = u.mT @ orthogonalize(u @ torch.diag_embed(values.expand(3, -1)) @ v) @ v.mT
    torch.testing.assert_close(result - torch.diag_embed(result.diagonal(dim1=-2, dim2=-1)), torch.zeros_like(result))
    found = result.diagonal(dim1=-2, dim2=-1)
    assert found.min() > 0.68 and found.max() < 1.33


@pytest.mark.parametrize("rank", [1, 2, 64])
@pytest.mark.parametrize("shape", [(64, 64), (128, 64), (64, 256)])
def test_no_singular_value_runs_away_in_bfloat16_whatever_the_matrix(shape: tuple[int, int], rank: int) -> None:
    torch.manual_seed(0)
    for size in (1e-6, 1.0, 1e4):
        matrices = size * torch.randn(8, shape[0], rank) @ torch.randn(8, rank, shape[1])
        result = orthogonalize(matrices.bfloat16()).float()
        assert torch.linalg.matrix_norm(result, 2).max() < 1.35


def test_its_size_does_not_matter_and_nothing_stays_nothing() -> None:
    matrix = torch.randn(1, 6, 4, dtype=torch.float64)
    torch.testing.assert_close(orthogonalize(matrix), orthogonalize(1e3 * matrix), rtol=1e-6, atol=1e-6)
    assert not orthogonalize(torch.zeros(1, 6, 4)).any()


def test_an_update_is_the_orthogonal_nesterov_momentum_at_the_size_of_adams() -> None:
    linear = Linear(8, 16, bias=False).double()
    optimizer = muon([linear], 0.5, [linear.weight])
    running = torch.zeros(16, 8, dtype=torch.float64)
    for seed in range(3):
        before = linear.weight.detach().clone()
        gradient = torch.randn(16, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        linear.weight.grad = gradient.clone()
        optimizer.precision = torch.float64
        optimizer.step()
        running = 0.95 * running + 0.05 * gradient
        ahead = 0.95 * running + 0.05 * gradient
        expected = before - 0.5 * 0.2 * 16**0.5 * orthogonalize(ahead[None])[0]
        torch.testing.assert_close(linear.weight.detach(), expected)


def test_the_matrices_of_a_fused_product_move_as_if_each_were_alone() -> None:
    fused, parts = Linear(8, 8, 4, 4, bias=False), [Linear(8, rows, bias=False) for rows in (8, 4, 4)]
    with torch.no_grad():
        for part, block in zip(parts, fused.matrices(fused.weight)):
            part.weight.copy_(block)
    gradient = torch.randn(16, 8)
    fused.weight.grad = gradient.clone()
    for part, block in zip(parts, fused.matrices(gradient)):
        part.weight.grad = block.clone()
    muon([fused], 0.1, [fused.weight]).step()
    muon(parts, 0.1, [part.weight for part in parts]).step()
    torch.testing.assert_close(fused.weight, torch.cat([part.weight for part in parts]))


def test_matrices_of_blocks_decay_by_the_rate_and_nothing_else_does() -> None:
    nets = {decay: Net() for decay in (0.0, 0.5)}
    before = dict(Net().named_parameters())
    for decay, net in nets.items():
        optimizer = make_optimizer(net, TrainConfig(optimizer="muon", precision="fp32", weight_decay=decay))
        torch.manual_seed(0)
        for p in net.parameters():
            p.grad = torch.randn_like(p)
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        optimizer.step()
    for (name, plain), decayed in zip(nets[0.0].named_parameters(), nets[0.5].parameters()):
        less = 0.1 * 0.5 * before[name] if name == "blocks.0.weight" else 0
        torch.testing.assert_close(decayed, plain - less)


def test_only_the_matrices_of_blocks_are_muons_and_everything_else_moves_as_with_adam() -> None:
    nets = {kind: Net() for kind in ("muon", "adam")}
    for kind, net in nets.items():
        optimizer = make_optimizer(net, TrainConfig(optimizer=kind, precision="fp32"))
        for seed in range(2):
            torch.manual_seed(seed)
            for p in net.parameters():
                p.grad = torch.randn_like(p)
            for group in optimizer.param_groups:
                group["lr"] = 0.01
            optimizer.step()
            optimizer.zero_grad()
    weights = {kind: dict(net.named_parameters()) for kind, net in nets.items()}
    differ = [name for name in weights["muon"] if not torch.equal(weights["muon"][name], weights["adam"][name])]
    assert differ == ["blocks.0.weight"]


@pytest.mark.parametrize("frozen", ["blocks.0", "projection"])
def test_frozen_matrices_stay_and_the_others_move(frozen: str) -> None:
    net = nn.Sequential(Net(), Net())
    net[0].get_submodule(frozen).requires_grad_(False)
    optimizer = make_optimizer(net, TrainConfig(optimizer="muon", precision="fp32", weight_decay=0.1))
    before = {name: p.clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = torch.randn_like(p) if p.requires_grad else None
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    optimizer.step()
    moved = {name for name, p in net.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {name for name in before if not name.startswith(f"0.{frozen}")}
