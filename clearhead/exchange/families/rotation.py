"""Rotary positions of Llama and its relatives, and what stretches them for longer texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...config import ModelConfig
from ...config.notations import RotaryWavelengths, read_rotary
from ...errors import ModelError
from .hf_config import HfConfig

_SCALINGS: Mapping[str, Sequence[str]] = {  # their names for the numbers of each scaling, in our order
    "none": (),
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


def read_rotation(hf_config: HfConfig, width: int) -> dict[str, Any]:
    """Return our settings for rotary positions: those of Transformers 5, or the two of older versions.

    `width` is that of a head.
    """
    old, new = hf_config.get("rope_scaling", {}), hf_config.get("rope_parameters", {})
    rope = HfConfig(hf_config.path, old or new)
    kind = rope.get("rope_type", rope.get("type", "default"))
    name = "none" if kind in ("default", "dynamic") else kind
    label = "rope_type" if "rope_type" in rope.values else "type"
    if name not in _SCALINGS:
        raise rope.unsupported(label, expected="default, linear, dynamic, llama3 or yarn")
    rope.expect("partial_rotary_factor", 1)
    hf_config.expect("partial_rotary_factor", 1)
    longest = hf_config.get("max_position_embeddings", 2048)
    if kind == "dynamic":
        hf_config.notes.append(
            f"a text has at most {longest} tokens at once; dynamic scaling would change only longer ones"
        )
    length = hf_config.get("original_max_position_embeddings", rope.get("original_max_position_embeddings", longest))
    numbers = {it: length if "max_position" in it else rope.get(it) for it in _SCALINGS[name]}
    if missing := [it for it, number in numbers.items() if number is None]:
        raise ModelError(f"{hf_config.path} has {label}={kind!r} without {missing[0]}", name=missing[0])
    base = float(rope.get("rope_theta", hf_config.get("rope_theta", 10_000.0)))
    own: dict[str, Any] = {}
    if name == "yarn":
        short, long = _yarn_range(rope, width, base, length)
        numbers |= {"short": short, "long": long}
        own = {"model.attention_scale": _yarn_scale(rope) ** 2 / math.sqrt(width)}
    return {"model.rotary": str(RotaryWavelengths(base, name, tuple(map(float, numbers.values())))), **own}


def _yarn_range(rope: HfConfig, width: int, base: float, length: int) -> tuple[float, float]:
    """Return the wavelengths between which YaRN blends. Theirs is a range of dimensions."""
    turns = (rope.get("beta_fast", 32), rope.get("beta_slow", 1))
    low, high = (width * math.log(length / (it * 2 * math.pi)) / (2 * math.log(base)) for it in turns)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = low + 0.001 if low == high else high
    short, long = (2 * math.pi * base ** (2 * it / width) for it in (low, high))
    return short, long


def _yarn_scale(rope: HfConfig) -> float:
    """Return the factor of cosines and sines."""

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(rope.get("factor")) + 1 if rope.get("factor") > 1 else 1.0

    both = (rope.get("mscale"), rope.get("mscale_all_dim"))
    return float(rope.get("attention_factor", scale(both[0]) / scale(both[1]) if all(both) else scale(1)))


def written_rotation(model: ModelConfig) -> dict[str, Any]:
    """Return their settings for rotary positions, apart from the base."""
    _, kind, numbers = read_rotary(model.rotary)
    found: dict[str, Any] = {"rope_type": "default" if kind == "none" else kind}
    found |= dict(zip(_SCALINGS[kind], map(_plain, numbers)))
    if kind != "yarn":
        return found
    factor, short, long = numbers
    length = max(1, round(model.max_len / factor))
    scale = 1 if model.attention_scale is None else model.attention_scale * math.sqrt(model.head_width)
    return found | {
        "original_max_position_embeddings": length,
        "beta_fast": length / short,
        "beta_slow": length / long,
        "truncate": False,
        "attention_factor": math.sqrt(scale),
    }


def _plain(number: float) -> float:
    """Return whole numbers as int, so that they're written without a decimal point."""
    return int(number) if number.is_integer() else number
