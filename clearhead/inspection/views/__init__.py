"""Views of a trace: text for the terminal, plain values, pictures.

This file stays light, since the command line imports it for its options.
"""

from collections.abc import Mapping
from types import MappingProxyType

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "encoder.self": "each input token attends to the input tokens",
        "decoder.self": "each output token attends to itself and earlier output tokens",
        "decoder.cross": "each output token, while it's being chosen, attends to the source",
    }
)
"""Attention modules of a Transformer, and what attends to what."""
