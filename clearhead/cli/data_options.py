"""How files of pairs are named and read by the verbs that take them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..config import DataConfig
from ..config.messages import say
from ..errors import ConfigError
from .parser import Options, Parser, add_settings, given_settings

FILES = "a table (TSV, CSV), JSON lines, a folder of such, - for standard input, or two line-aligned files"

READING = {
    "data.source_column": ["--source-column", "--text"],
    "data.target_column": ["--target-column", "--label"],
    "data.separator": ["--separator"],
    "data.reverse": ["--reverse"],
}


def add_reading_options(parser: Parser) -> None:
    """How files of pairs are read; what is not given is as it was when the model was trained."""
    add_settings(parser, READING, READING, show_defaults=False)


def read_as_trained(
    folders: Sequence[str], files: Sequence[str], options: Options, references: Sequence[str] = ()
) -> Any:
    """What `files` hold for the task of the models, columns and direction as these were trained, where the options do
    not say otherwise.

    Lines of `references` are further targets of theirs.

    A ConfigError where the models were trained for different tasks or columns, so that no file fits them all.
    """
    from ..data.forms import PairForm
    from ..folder.model_folder import read_config
    from ..readers.references import read_with_references
    from ..tasks.registry import task_of

    given = {name: value for name, value in given_settings(options).items() if name in READING}
    configs = [read_config(Path(folder)).override(given) for folder in folders]
    tasks = [task_of(config) for config in configs]
    for folder, task in zip(folders, tasks):
        if task is not tasks[0]:
            raise ConfigError(
                f"{folders[0]} learnt to {tasks[0].verb} and {folder} to {task.verb}; expected models of one task"
            )
    ways = [_way(config.data) for config in configs]
    for folder, way in zip(folders, ways):
        for name, value in way.items():
            if value != ways[0][name]:
                raise ConfigError(
                    f"{folders[0]} was trained with {name} = {_spelled(ways[0][name])} and {folder} with "
                    f"{_spelled(value)}; expected models that read the same columns, or --{name}=... for all of them"
                )
    defaults = _way(DataConfig())
    kept = {name: value for name, value in ways[0].items() if name not in given and value != defaults[name]}
    if kept:
        settings = ", ".join(f"{name} = {_spelled(value)}" for name, value in kept.items())
        say(f"read as {folders[0]} was trained: {settings}; to read otherwise: --{next(iter(kept))}=...")
    data = configs[0].data
    if not references:
        return tasks[0].form.read(files, data)
    form = tasks[0].form
    if not isinstance(form, PairForm) or form.roles.labels:
        raise ConfigError(f"--references {' '.join(references)}: a model that learnt to {tasks[0].verb} has none")
    return read_with_references(files, references, data, form.roles, own_separator="data.separator" in given)


def _way(data: DataConfig) -> dict[str, str | bool]:
    return {name: getattr(data, name.split(".")[1]) for name in READING}


def _spelled(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
