"""From options to a Config: defaults, below the preset, below the configuration file, below the command line."""

from pathlib import Path
from typing import Any

from ..config import Config
from ..config.values import read_toml
from .parser import Options, given_settings

Layer = dict[str, Any]  # settings by section, as TOML holds them


def configure(options: Options, below: dict[str, Any] | None = None) -> tuple[Config, set[str]]:
    """The configuration, and the names that the file and the command line set; a preset's values are not among them.

    What is in `below`, {"model.tie": "none"}, takes the place of a default. Everything is checked together, since a
    value may fit only with one of another layer.
    """
    flags = _sections(given_settings(options))
    file = read_toml(Path(options.config)) if options.config else {}
    origin = f"{options.config} or the command line" if options.config else "the command line"
    config = Config.from_dict(_merged(_sections(below or {}), file, flags), origin=origin)
    return config, {f"{section}.{key}" for layer in (file, flags) for section in layer for key in layer[section]}


def _sections(dotted: dict[str, Any]) -> Layer:
    layer: Layer = {}
    for name, value in dotted.items():
        section, key = name.split(".")
        layer.setdefault(section, {})[key] = value
    return layer


def _merged(*layers: Layer) -> Layer:
    """Later layers over earlier ones; a section that is no table stays as it is, to be refused."""
    merged: Layer = {}
    for layer in layers:
        for section, values in layer.items():
            below = merged.get(section, {})
            if isinstance(below, dict):
                merged[section] = below | values if isinstance(values, dict) else values
    return merged
