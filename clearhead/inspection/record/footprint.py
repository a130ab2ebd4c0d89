"""Memory that a model takes, computed from its shapes."""

from torch import nn

from ...model.blocks import DecoderBlock
from .parts import count_parameters, stacks

_FLOAT32, _BFLOAT16 = 4, 2  # bytes
_TRAINING = 4  # numbers for each weight: the weight, its gradient and Adam's two moments


def footprint(model: nn.Module) -> dict[str, int]:
    """Return bytes, keyed by use.

    "float32" and "bfloat16" are the weights. "training" adds gradients and Adam's moments, but no activations. "cache"
    is the keys and values that a decoder keeps for one token, in float32; 0 without a decoder.
    """
    n = count_parameters(model)["total"]
    return {
        "float32": _FLOAT32 * n,
        "bfloat16": _BFLOAT16 * n,
        "training": _TRAINING * _FLOAT32 * n,
        "cache": _FLOAT32 * _numbers_per_token(model),
    }


def render_footprint(model: nn.Module) -> str:
    """Render a table of `footprint`."""
    found = footprint(model)
    rows = [
        ("weights in float32", "float32", ""),
        ("weights in bfloat16", "bfloat16", ""),
        ("training", "training", "weights, gradients and Adam's moments in float32, without activations"),
        ("cache per token", "cache", "keys and values of every decoder block in float32"),
    ]
    return "\n".join(f"{name:<34}{_spoken(found[use]):>14}  {note}".rstrip() for name, use, note in rows if found[use])


def _numbers_per_token(model: nn.Module) -> int:
    decoder = stacks(model).get("decoder")
    blocks = [] if decoder is None else [it for it in decoder.blocks if isinstance(it, DecoderBlock)]
    return sum(2 * block.attention.n_kv_heads * block.attention.d_head for block in blocks)


def _spoken(n_bytes: int) -> str:
    size, units = float(n_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.3g} {units[0]}"
