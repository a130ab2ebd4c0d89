"""Merge defaults, configuration file and command line into one Config. Later sources take precedence."""

from pathlib import Path
from typing import Any

from ..config import Config
from ..config.renamed import carried_over
from ..config.values import read_toml
from .parser import Options
from .setting_options import given_settings

Layer = dict[str, Any]  # settings grouped by section, as in a TOML file


def configure(options: Options, defaults: dict[str, Any] | None = None) -> Config:
    """Build the configuration from parsed options.

    Values are checked after merging, because some are only valid in combination.

    Args:
        options: parsed options. `options.config` can name a TOML file.
        defaults: values that replace the built-in defaults, such as {"model.tie": "none"}.
    """
    flags = _sections(given_settings(options))
    file = carried_over(read_toml(Path(options.config)), whole=False) if options.config else {}
    source = f"{options.config} or the command line" if options.config else "the command line"
    return Config.from_dict(_merged(_sections(defaults or {}), file, flags), source=source)


def _sections(dotted: dict[str, Any]) -> Layer:
    layer: Layer = {}
    for name, value in dotted.items():
        section, key = name.split(".")
        layer.setdefault(section, {})[key] = value
    return layer


def _merged(*layers: Layer) -> Layer:
    """Merge later layers over earlier ones. A section that isn't a table is kept and rejected later."""
    merged: Layer = {}
    for layer in layers:
        for section, values in layer.items():
            below = merged.get(section, {})
            if isinstance(below, dict):
                merged[section] = below | values if isinstance(values, dict) else values
    return merged
