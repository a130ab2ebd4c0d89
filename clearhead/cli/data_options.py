"""Options that say how data files are read, for the verbs that take such files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import Config, DataConfig
from ..config.messages import say
from ..errors import ConfigError
from .parser import Options, Parser, add_settings, given_settings

FILES = "a table (TSV, CSV), JSON Lines, a folder of these, two line-aligned files, or - for standard input"

READING = {
    "data.source_column": ["--source-column", "--text"],
    "data.target_column": ["--target-column", "--label"],
    "data.separator": ["--separator"],
    "data.reverse": ["--reverse"],
}


def add_reading_options(parser: Parser) -> None:
    """Add the options that say how files are read; the default of each is the model's own setting."""
    add_settings(parser, READING, READING, show_defaults=False)


def read_as_trained(
    folders: Sequence[str], files: Sequence[str], options: Options, references: Sequence[str] = ()
) -> Any:
    """Read files for the task of some models, with the columns and direction they were trained with.

    Args:
        folders: model folders.
        files: the data files.
        options: of the command line; those that say how to read take precedence.
        references: files with more references for the sources.

    Raises:
        ConfigError: the models have different tasks, or read different columns.
    """
    from ..data.forms import PairForm
    from ..folder.model_folder import read_config
    from ..readers.references import read_with_references
    from ..tasks.registry import task_of

    given = {name: value for name, value in given_settings(options).items() if name in READING}
    configs = {folder: read_config(Path(folder)).override(given) for folder in folders}
    tasks = {folder: task_of(config) for folder, config in configs.items()}
    first = folders[0]
    for folder, task in tasks.items():
        if task is not tasks[first]:
            raise ConfigError(
                f"{first} is a model for {tasks[first].verb!r}, but {folder} is one for {task.verb!r}",
                expected="models for the same task",
                name="train.task",
                value=task.verb,
            )
    _expect_same_columns(configs)
    data, task = configs[first].data, tasks[first]
    defaults = _reading(DataConfig())
    kept = {name: it for name, it in _reading(data).items() if name not in given and it != defaults[name]}
    if kept:
        said = ", ".join(f"{name}={_spelled(value)}" for name, value in kept.items())
        say(f"read as {first} was trained: {said}; to read otherwise: --{next(iter(kept))}=...")
    if not references:
        return task.form.read(files, data)
    if not isinstance(task.form, PairForm) or task.form.roles.labels:
        raise ConfigError(
            f"--references can't be used with a model for {task.verb!r}", name="--references", value=tuple(references)
        )
    return read_with_references(files, references, data, task.form.roles, own_separator="data.separator" in given)


def _expect_same_columns(configs: dict[str, Config]) -> None:
    (first, config), *others = configs.items()
    for folder, other in others:
        for name, value in _reading(other.data).items():
            own = _reading(config.data)[name]
            if value != own:
                raise ConfigError(
                    f"{first} was trained with {name}={_spelled(own)}, but {folder} with {_spelled(value)}",
                    expected="models that read the same columns",
                    fix=f"pass --{name}=... to read the same for all of them",
                    name=name,
                    value=value,
                )


def _reading(data: DataConfig) -> dict[str, str | bool]:
    return {name: getattr(data, name.split(".")[1]) for name in READING}


def _spelled(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
