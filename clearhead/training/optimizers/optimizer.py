"""Make an optimizer (Adam as in section 5.3, AdamW or Muon), and store its state keyed by weight name."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...config import TrainConfig
from ...errors import ModelError
from ...model.linear import Linear
from ..distributed.shares import divided_like, gathered
from .muon import Muon

_ADAM, _MUON = ("exp_avg", "exp_avg_sq", "step"), ("momentum",)  # state per weight


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Return the optimizer named by `train.optimizer`, for all weights of a model.

    With adamw, weight decay applies to all matrices; with muon, only to those of the blocks. Vectors (biases, gains)
    never decay. The caller sets the learning rate at each step.
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    decay = config.weight_decay if config.optimizer == "adamw" else 0.0
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    *betas, eps = config.adam
    adam: dict[str, Any] = {"lr": 0.0, "betas": tuple(betas), "eps": eps, "fused": True}
    if config.optimizer == "muon":
        precision = torch.bfloat16 if config.precision == "bf16" else torch.float32
        return Muon(groups, _inner_linears(model), precision, decay=config.weight_decay, **adam)
    return (torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam)(groups, **adam)


def _inner_linears(model: nn.Module) -> list[Linear]:
    """Return the linear layers of the blocks, without the projection to the vocabulary, whose rows are tokens."""
    return [part for block in model.modules() if isinstance(block, nn.ModuleList) for part in block.modules()
            if isinstance(part, Linear)]  # fmt: skip


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """Return moments and step counts, such as {"decoder.norm.weight.exp_avg": ...}. Empty before the first step.

    If processes have divided the state, all of them have to call this.
    """
    state = optimizer.state
    return {
        f"{name}.{moment}": gathered(state[p][moment])
        for name, p in model.named_parameters()
        for moment in state.get(p, ())
    }


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore the state returned by `optimizer_tensors`, bit for bit.

    Raises:
        ModelError: a tensor is missing.
    """
    for name, p in model.named_parameters():
        if not p.requires_grad:  # frozen weights have no state
            continue
        keys = _MUON if f"{name}.{_MUON[0]}" in tensors else _ADAM
        missing = [key for key in keys if f"{name}.{key}" not in tensors]
        if missing:
            raise ModelError(
                f"the checkpoint has no {name}.{missing[0]}",
                expected="a checkpoint of the same optimizer and model",
                name=f"{name}.{missing[0]}",
            )
        found = {key: tensors[f"{name}.{key}"].to(p.device, copy=True) for key in keys}
        optimizer.state[p] = {key: divided_like(p, it) if it.shape == p.shape else it for key, it in found.items()}
