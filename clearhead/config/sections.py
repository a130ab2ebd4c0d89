"""Registry of the configuration's sections and settings, keyed by dotted name such as train.steps."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..errors import ConfigError, suggestion
from .data_config import DataConfig
from .decode_config import DecodeConfig
from .model_config import ModelConfig
from .renamed import renamed
from .train_config import TrainConfig
from .values import read_value, spell, within

SECTIONS: dict[str, type[Any]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "train": TrainConfig,
    "decode": DecodeConfig,
}


@dataclass(frozen=True)
class Setting:
    """Name, type, default and help text of a setting, or of a fact: what the data or a vocabulary decide."""

    name: str
    type: Any
    default: Any
    help: str
    fact: bool = False


@cache
def settings() -> Mapping[str, Setting]:
    """Return all settings, keyed by dotted name, in the order of the sections."""
    found = {}
    for section, kind in SECTIONS.items():
        types = typing.get_type_hints(kind)
        for it in dataclasses.fields(kind):
            name = f"{section}.{it.name}"
            found[name] = Setting(name, types[it.name], it.default, it.metadata["help"], "fact" in it.metadata)
    return found


@cache
def default_sections() -> Mapping[str, Any]:
    """Return all sections with their default values, keyed by name."""
    return {section: kind() for section, kind in SECTIONS.items()}


def read_setting(name: str, value: Any, source: str) -> Any:
    """Convert a value to the type of the setting `name`. Error messages start with `source`."""
    if name not in settings():
        if new := renamed(name):
            error = ConfigError(f"{name} is now part of {new}", fix=f"set {new}: {settings()[new].help}", name=name)
            raise within(source, error)
        fix, expected = suggestion(str(name), settings()), "a setting such as train.steps or decode.beam"
        raise within(source, ConfigError(f"unknown setting {name!r}", expected=expected, fix=fix, name=str(name)))
    return read_value(value, settings()[name].type, name, source=source)


def flatten(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Flatten nested dictionaries into one keyed by dotted name. Error messages start with `source`."""
    flat: dict[str, Any] = {}
    if not isinstance(values, Mapping):
        expected = "a dictionary of sections, such as {'train': {'steps': 300}}"
        raise ConfigError(f"{source} is {spell(values)}", expected=expected, name=source, value=values)
    for section, table in values.items():
        if section not in SECTIONS:
            fix = suggestion(str(section), SECTIONS)
            expected = f"one of {', '.join(f'[{it}]' for it in SECTIONS)}"
            error = ConfigError(f"unknown section [{section}]", expected=expected, fix=fix, name=section)
            raise within(source, error)
        if not isinstance(table, Mapping):
            what, expected = f"{section}={spell(table)} isn't a section", f"[{section}] with settings below it"
            raise within(source, ConfigError(what, expected=expected, name=section, value=table))
        flat |= {f"{section}.{key}": value for key, value in table.items()}
    return flat
