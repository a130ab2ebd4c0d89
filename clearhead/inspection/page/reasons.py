"""What each part of a model contributed to the logit of everything that it weighed saying."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ...model.fronts.tokens import Projection
from ...model.heads import ClassPredictor, TokenPredictor
from ...model.linear import Linear
from ...model.transformer import Decoder
from ..record.parts import stacks
from ..views.attribution import output_terms
from ..views.explanation import Explanation
from .arrays import float_array


def reasons(explanation: Explanation, candidates: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the contribution of each part to the logits of the candidates at each place.

    For a model that writes, a place is a token of the answer. For one with labels, or that fills a mask, there is one
    place.

    Args:
        explanation: the recorded pass.
        candidates: ids of tokens or labels at each place, (R, K).

    Raises:
        ConfigError: this model's choices aren't a sum over its parts.
        ModelError: a custom norm can't be split.
    """
    *_, last = stacks(explanation.model).values()
    ids = torch.tensor(candidates)
    if isinstance(last, Decoder):
        linear: nn.Module = last.projection
        logits = explanation.trace["decoder.projection"].output[0]
    else:
        reading = explanation.contrast().reading.double()  # raises an error if there's no sum
        head = explanation.model.get_submodule("head")
        assert isinstance(head, ClassPredictor | TokenPredictor)
        linear = head.linear if isinstance(head, ClassPredictor) else head.projection
        logits = explanation.trace["head" if isinstance(head, ClassPredictor) else "head.projection"].output[:1]
    assert isinstance(linear, Linear)
    rows = linear.weight.detach()[ids].double().cpu()  # (R, K, D)
    if isinstance(linear, Projection):
        rows = rows * linear.scale
    names, values = list[str](), list[Tensor]()
    for name, term in output_terms(last, explanation.trace):
        read = term if isinstance(last, Decoder) else reading[None] @ term
        names.append(name)
        values.append((rows @ read[..., None])[..., 0])
    if linear.bias is not None:
        names.append("projection.bias")
        values.append(linear.bias.detach()[ids].double().cpu())
    own = logits.cpu().double().gather(-1, ids)
    parts = torch.stack(values)
    error = float((parts.sum(0) - own).abs().max())
    return {"names": names, "parts": float_array(parts), "logits": float_array(own), "error": error}
