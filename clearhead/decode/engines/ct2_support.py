"""What CTranslate2 can run."""

from collections.abc import Mapping
from types import MappingProxyType

from ...config import ModelConfig
from ...config.custom_code import is_custom

SOURCE_END = "end"  # name of EOS in a source: one that has only its usual name would be skipped as empty
TOPOLOGIES = ("encoder-decoder", "decoder-only")
ACTIVATIONS: Mapping[str, int] = MappingProxyType(
    {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "swiglu": 2, "geglu": 1}
)  # numbers of activations; those of gated networks are the gate's
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary")


def ct2_obstacle(config: ModelConfig) -> str:
    """Return the reason why CTranslate2 can't run a model with this config, or "" if it can."""
    if config.topology not in TOPOLOGIES:
        return f"it doesn't support model.topology={config.topology!r}"
    for setting, supported in (
        ("front", config.front == "tokens"),
        ("copy", not config.copy),
        ("attention", config.attention == "softmax"),
        ("positions", config.positions in _POSITIONS),
        ("feed_forward", config.feed_forward in ACTIVATIONS),
        ("norm", not is_custom(config.norm)),
        ("window", config.window is None),
        ("rotary", ":" not in config.rotary),
    ):
        if not supported:
            return f"it doesn't support model.{setting}={getattr(config, setting)!r}"
    return ""
