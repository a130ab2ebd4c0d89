"""Options for reading data files, and reading them for trained models."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..config import DataConfig
from ..config.messages import say
from ..errors import ConfigError
from .parser import Options, Parser
from .setting_options import add_settings, given_settings

if TYPE_CHECKING:
    from ..api import App

FILES = "a TSV, CSV, JSON or text file, a folder of texts, images or audio, two aligned files, or - for stdin"

READING = {
    "data.source_column": ["--source-column", "--text"],
    "data.target_column": ["--target-column", "--label"],
    "data.separator": ["--separator"],
    "data.quoting": [],
    "data.reverse": ["--reverse"],
}


def add_reading_options(parser: Parser) -> None:
    """Add the options that control how data files are read. They default to the settings used in training."""
    add_settings(parser, READING, READING, show_defaults=False)


def read_as_trained(
    apps: "Sequence[App]", files: Sequence[str], options: Options, references: Sequence[str] = ()
) -> Any:
    """Read files with the settings that the models were trained with, unless options override them.

    Raises ConfigError if the models have different tasks, or were trained on different columns. `references` are files
    with additional references for the same sources.
    """
    from ..data.forms import PairForm
    from ..readers.references import read_with_references

    given = {name: value for name, value in given_settings(options).items() if name in READING}
    first = apps[0]
    configs = [app.config.override(given, source="the command line") for app in apps]
    for app, config in zip(apps, configs):
        _expect_same(first, app, configs[0].data, config.data)
    data, defaults = configs[0].data, DataConfig()
    kept = [name for name in READING if name not in given and _value(data, name) != _value(defaults, name)]
    if kept:
        settings = ", ".join(f"{name}={_value(data, name)}" for name in kept)
        say(f"reading the data as in the training of {first.path}: {settings} (override with --{kept[0]}=...)")
    form = first.task.form
    if not references:
        return form.read(files, data)
    if not isinstance(form, PairForm) or form.roles.labels:
        what = f"--references doesn't apply to a model for `{first.task.verb}`"
        raise ConfigError(what, fix="leave it out", name="--references")
    return read_with_references(files, references, data, form.roles, own_separator="data.separator" in given)


def _expect_same(first: "App", other: "App", data: DataConfig, its_data: DataConfig) -> None:
    """Raise ConfigError unless two models have the same task and read the same columns."""
    if type(other.task) is not type(first.task):
        what = f"{first.path} is a model for `{first.task.verb}`, and {other.path} for `{other.task.verb}`"
        raise ConfigError(what, expected="models for one task", name=str(other.path), value=other.task.verb)
    for name in READING:
        if _value(its_data, name) != _value(data, name):
            one, its = _value(data, name), _value(its_data, name)
            what = f"{first.path} was trained with {name}={one}, and {other.path} with {name}={its}"
            expected, fix = "models trained on the same columns", f"set --{name}=... for all of them"
            raise ConfigError(what, expected=expected, fix=fix, name=name, value=its)


def _value(data: DataConfig, name: str) -> str:
    value = getattr(data, name.split(".")[1])
    return str(value).lower() if isinstance(value, bool) else repr(value)
