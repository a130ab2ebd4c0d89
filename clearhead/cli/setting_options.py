"""Command-line options for settings, such as `--train.steps=300`, and the Config that they make with a file."""

import argparse
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ..config import PRESETS, Config, Setting, settings
from ..config.renamed import carried_over
from ..config.values import read_toml
from .parser import Options, Parser

_LONG = 24  # maximum width of an option's values in the short help
Layer = dict[str, Any]  # settings grouped by section, as in a TOML file


def add_settings(
    parser: Parser,
    names: Iterable[str],
    short: Mapping[str, Sequence[str]],
    *,
    rare: Iterable[str] = (),
    helps: Mapping[str, str] | None = None,
    show_defaults: bool = True,
) -> None:
    """Add an option for each setting. Options that aren't given are absent from the parsed result.

    Args:
        names: dotted names of the settings.
        short: extra spellings, such as {"train.preset": ["--preset"]}. These settings come first in the help, in this
            order. The others are grouped by section and shown only by `--help-all`.
        rare: settings with a short spelling that are shown only by `--help-all`.
        helps: help texts that replace those of the settings.
    """
    known, helps, rare = settings(), helps or {}, set(rare)
    groups: dict[str, argparse._ActionsContainer] = {}
    place = {name: number for number, name in enumerate(short)}
    for name in sorted(names, key=lambda name: place.get(name, len(place))):
        section = "" if name in short else name.split(".")[0]
        if section not in groups:
            groups[section] = parser.add_argument_group(f"settings [{section}]") if section else parser
        text = helps.get(name) or (_help(known[name]) if show_defaults else known[name].help)
        text = text.replace("%", "%%")  # argparse formats help with %
        hidden = known[name].fact or (not parser.full and (name not in short or name in rare))
        _add(groups[section], known[name], short.get(name, ()), argparse.SUPPRESS if hidden else text, parser.full)


def given_settings(options: Options) -> dict[str, Any]:
    """Return the settings given as options, keyed by dotted name."""
    return {name: value for name, value in vars(options).items() if "." in name}


def configure(options: Options, defaults: dict[str, Any] | None = None) -> Config:
    """Return the configuration of `defaults`, overridden by the TOML file `options.config`, overridden by options.

    Values are checked after merging, because some are only valid in combination.
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


def _add(to: argparse._ActionsContainer, setting: Setting, short: Sequence[str], help_text: str, full: bool) -> None:
    shared: dict[str, Any] = {"dest": setting.name, "default": argparse.SUPPRESS, "help": help_text}
    if short and setting.type is bool:  # `--sample` alone means true
        to.add_argument(*short, action="store_const", const="true", **shared)
        short, shared["help"] = (), help_text if full else argparse.SUPPRESS
    values = _values(setting, full)
    if values in ("FILE", "TOKEN"):  # of other lists, commas separate the items
        shared |= {"nargs": "+", "action": "extend"}
    to.add_argument(*short, f"--{setting.name}", metavar=values, **shared)


def _help(setting: Setting) -> str:
    if setting.default is None or setting.default in ((), "") or "(default" in setting.help:
        return setting.help
    default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
    default = ",".join(map(str, default)) if isinstance(default, tuple) else default
    if setting.help.endswith(")"):
        return f"{setting.help[:-1]}; default: {default})"
    return f"{setting.help} (default: {default})"


def _values(setting: Setting, full: bool) -> str:
    """Return the placeholder for a setting's value in the help."""
    choices = _choices(setting)
    if choices and (full or len(choices) <= _LONG):
        return choices
    if choices:
        return setting.name.split(".")[1].upper()
    kind = _plain(setting.type)
    numbers = {int: "N", float: "X"}
    if typing.get_origin(kind) is tuple:
        lists = {
            "data.normalise": "NAME,...",
            "model.augment": "NAME,...",
            "train.freeze": "NAME,...",
            "train.adapter": "lora,...",
            "decode.suppress": "TOKEN",
        }
        number = numbers.get(typing.get_args(kind)[0])
        return f"{number},..." if number else lists.get(setting.name, "FILE")
    named = {"train.budget": "TIME", "train.init_from": "DIR", "data.store": "DIR", "train.watch": "TEXT"}
    return ({bool: "true|false"} | numbers).get(kind, named.get(setting.name, "NAME"))


def _choices(setting: Setting) -> str:
    if setting.name == "train.preset":
        return "|".join(PRESETS)
    kind = _plain(setting.type)
    return "|".join(filter(None, typing.get_args(kind))) if typing.get_origin(kind) is Literal else ""


def _plain(kind: Any) -> Any:
    """Return `T` for an optional type `T | None`."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return next(arm for arm in typing.get_args(kind) if arm is not types.NoneType)
    return kind
