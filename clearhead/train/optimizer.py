"""Adam (section 5.3) and AdamW, and their state by the names of the weights."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..errors import ModelError

_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Over all weights; with adamw matrices decay, and vectors (biases, gains) do not. Each step sets its own rate."""
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.optimizer]
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    decay = config.weight_decay if config.optimizer == "adamw" else 0.0
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    return kind(groups, lr=0.0, betas=(config.beta1, config.beta2), eps=config.eps, fused=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The moments and step counts: {"encoder.blocks.0.attention.out.weight.exp_avg": ...}"""
    state = optimizer.state
    return {f"{name}.{moment}": state[p][moment] for name, p in model.named_parameters() for moment in state.get(p, ())}


def load_optimizer(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`, bit for bit; a missing tensor is a ModelError."""
    for name, p in model.named_parameters():
        missing = [moment for moment in _MOMENTS if f"{name}.{moment}" not in tensors]
        if missing:
            raise ModelError(f"the checkpoint lacks {name}.{missing[0]}; it is of another optimizer or model")
        optimizer.state[p] = {m: tensors[f"{name}.{m}"].to(p.device, copy=True) for m in _MOMENTS}
