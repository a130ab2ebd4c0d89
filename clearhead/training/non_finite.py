"""Where a number that is none arose: what the error says when a loss, a gradient or a weight is not finite."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def bad_weights(model: nn.Module) -> list[str]:
    """The names of the weights that are not finite."""
    return [name for name, p in model.named_parameters() if not p.isfinite().all()]


def where_forward(model: nn.Module, forward: Callable[[], object]) -> str:
    """The weights that are not finite; where all are, the first part of the model whose output is not.

    `forward` computes the loss once more.
    """
    if weights := bad_weights(model):
        return f"not finite are the weights {shown(weights)}"
    found: list[str] = []

    def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                found.append(name)

        return hook

    handles = [part.register_forward_hook(look(name)) for name, part in model.named_modules() if name]
    try:
        with torch.no_grad():
            forward()
    finally:
        for handle in handles:
            handle.remove()
    return f"it arose in {found[0]}" if found else "every part's output is finite, so it arose in the loss itself"


def where_backward(model: nn.Module) -> str:
    """The gradients that are not finite."""
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    bad = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    if not bad:
        return "each is finite, but the norm of all is too large for a number"
    return f"it arose on the way back; not finite are the gradients of {shown(bad)}"


def shown(names: list[str]) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
