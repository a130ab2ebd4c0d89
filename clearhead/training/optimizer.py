"""Adam (section 5.3), AdamW or Muon, and their state by the names of the weights."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..config import TrainConfig, chosen
from ..errors import ModelError
from ..model.linear import Linear
from .muon import Muon

_ADAM, _MUON = ("exp_avg", "exp_avg_sq", "step"), ("momentum",)  # what each keeps of a weight


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Over all weights. With adamw matrices decay, with muon those of the blocks; vectors (biases, gains) never do.

    Each step sets its own rate.
    """
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    decay = config.weight_decay if config.optimizer == "adamw" else 0.0
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    adam: dict[str, Any] = {"lr": 0.0, "betas": (config.beta1, config.beta2), "eps": config.eps, "fused": True}
    if config.optimizer == "muon":
        precision = torch.bfloat16 if config.precision == "bf16" else torch.float32
        return Muon(groups, _inner_linears(model), precision, decay=config.weight_decay, **adam)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[chosen(config.optimizer)](groups, **adam)


def _inner_linears(model: nn.Module) -> list[Linear]:
    """The linear layers of the blocks: not the projection to the vocabulary, whose rows are tokens."""
    return [part for block in model.modules() if isinstance(block, nn.ModuleList) for part in block.modules()
            if isinstance(part, Linear)]  # fmt: skip


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The moments and step counts: {"encoder.blocks.0.attention.out.weight.exp_avg": ...}; none before a step."""
    state = optimizer.state
    return {f"{name}.{moment}": state[p][moment] for name, p in model.named_parameters() for moment in state.get(p, ())}


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`, bit for bit; a missing tensor is a ModelError."""
    for name, p in model.named_parameters():
        if not p.requires_grad:  # it never moved, and has none
            continue
        keys = _MUON if f"{name}.{_MUON[0]}" in tensors else _ADAM
        missing = [key for key in keys if f"{name}.{key}" not in tensors]
        if missing:
            raise ModelError(f"the checkpoint lacks {name}.{missing[0]}; it is of another optimizer or model")
        optimizer.state[p] = {key: tensors[f"{name}.{key}"].to(p.device, copy=True) for key in keys}
