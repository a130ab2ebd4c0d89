"""The weights of an attention, computed once more beside what it gave: by Equation 1, or by what it tells itself."""

from torch import Tensor, nn

from ...errors import ModelError
from ...model.attention import Attend, scaled_dot_product_attention

_TOLD = "expected weights(q, k, *, mask, bias) -> (B, H, T, S), or no such method"


def class_name(part: nn.Module) -> str:
    """The name of its class, and of an attention of one's own that is called like ours, where it is from."""
    kind = type(part)
    return f"{kind.__module__}.{kind.__name__}" if kind.__name__ == "Attend" and kind is not Attend else kind.__name__


def told_weights(
    name: str,
    part: nn.Module,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    bias: Tensor | None,
    output: Tensor,
) -> tuple[Tensor | None, float]:
    """The weights of an attention, and how far the output by them lies from its own; None where it cannot tell them.

    ModelError: it has a method for them that does not work.
    """
    shape = (*q.shape[:3], k.size(2))
    groups = q.size(1) // k.size(1)
    if type(part) is Attend:
        every = (it.repeat_interleave(groups, 1) for it in (k, v))
        again, weights = scaled_dot_product_attention(q, *every, mask=mask, bias=bias)
    elif callable(own := getattr(type(part), "weights", None)):  # of the class: a parameter may be called so, too
        try:
            weights = own(part, q, k, mask=mask, bias=bias)
        except Exception as error:  # somebody else wrote it
            raise ModelError(
                f"{name}: {class_name(part)}.weights raises {type(error).__name__}: {error}; {_TOLD}"
            ) from error
        if not isinstance(weights, Tensor) or weights.shape != shape:
            found = tuple(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
            raise ModelError(f"{name}: {class_name(part)}.weights gives {found} instead of {shape}; {_TOLD}")
        again = weights.to(v.dtype) @ v.repeat_interleave(groups, 1)
    else:
        return None, 0.0
    return weights, float((again - output).abs().max()) if output.numel() else 0.0
