"""Options of Marian, and what they are in a config.json of Transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ModelError
from .marian_yaml import Options

_LONGEST = 1024  # tokens; nothing in a model limits them
# The values of options that are supported. Any other one would change what the model computes.
_SUPPORTED: Mapping[str, tuple[str | list[str], ...]] = {
    "type": ("transformer",),
    "right-left": ("false",),
    "transformer-decoder-autoreg": ("self-attention",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-ffn-activation": ("swish", "relu"),
    "transformer-ffn-depth": ("2",),
    "transformer-no-projection": ("false",),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-postprocess-top": ("",),
    "transformer-preprocess": ("",),
    "transformer-tied-layers": ([],),
    "transformer-train-position-embeddings": ("false",),
}
_COUNTS = {
    "d_model": "dim-emb",
    "encoder_layers": "enc-depth",
    "decoder_layers": "dec-depth",
    "encoder_attention_heads": "transformer-heads",
    "decoder_attention_heads": "transformer-heads",
    "encoder_ffn_dim": "transformer-dim-ffn",
    "decoder_ffn_dim": "transformer-dim-ffn",
}


def layer_settings(path: Path, options: Options) -> dict[str, Any]:
    """Return the settings of the layers.

    Args:
        path: the file of the options, for messages.
        options: those of a model. Absent ones have the first supported value.

    Raises:
        ModelError: an option isn't supported.
    """
    for name, values in _SUPPORTED.items():
        if (value := options.get(name, values[0])) not in values:
            what = f"{path} has {name}={value!r}, which isn't supported"
            raise ModelError(what, expected=" or ".join(map(repr, values)), name=name, value=value)
    counts: dict[str, Any] = {ours: count(path, options, name) for ours, name in _COUNTS.items()}
    activation = options.get("transformer-ffn-activation", "swish")
    return counts | {"activation_function": activation, "scale_embedding": True, "max_position_embeddings": _LONGEST}


def count(path: Path, options: Options, name: str) -> int:
    """Return an option that is a positive integer. Raise ModelError if it's absent or anything else."""
    value = options.get(name)
    if not isinstance(value, str) or not value.isdecimal() or not int(value):
        raise ModelError(f"{path} has {name}={value!r}", expected="a positive integer", name=name, value=value)
    return int(value)
