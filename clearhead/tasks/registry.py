"""The classes of the tasks in `config.task_spec`, by name, imported when needed. Importing a task doesn't import torch.

A custom task needs no entry: set `train.task = "package.module:Class"`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..config import Config
from ..config.custom_code import import_class, is_custom
from ..config.presets import unknown_task
from ..errors import ConfigError
from .base import Task


@dataclass(frozen=True)
class Entry:
    """The class of a task, as `module:Class`; `others` has its class for images or audio."""

    task: str
    others: Mapping[str, str] = field(default_factory=dict)


TASKS = {
    "translate": Entry("clearhead.tasks.translate.task:Translation"),
    "generate": Entry("clearhead.tasks.generate.task:Generation"),
    "classify": Entry(
        "clearhead.tasks.classify.task:Classification",
        {
            "image": "clearhead.tasks.classify.media:ImageClassification",
            "audio": "clearhead.tasks.classify.media:AudioClassification",
        },
    ),
    "answer": Entry("clearhead.tasks.answer.task:Answering"),
    "summarize": Entry("clearhead.tasks.summarize.task:Summarization"),
    "transcribe": Entry("clearhead.tasks.transcribe.task:Transcription"),
    "fill": Entry("clearhead.tasks.fill.task:Filling"),
    "embed": Entry("clearhead.tasks.embed.task:Embedding"),
}


def task_of(config: Config) -> type[Task]:
    """Return the class of a configuration's task, for its modality.

    Raises:
        ConfigError: the task doesn't read data of this modality.
    """
    name, modality = config.train.task or "translate", config.data.modality
    entry = TASKS.get(name)
    if entry is not None and modality in entry.others:
        found: type[Task] = _imported(entry.others[modality])
        return found
    task = task_named(name)
    if entry is not None and modality not in ("text", *task.modalities):  # text may just be the default
        able = [it for it in TASKS if modality in (*TASKS[it].others, *task_named(it).modalities)]
        raise ConfigError(
            f"task {name!r} can't read data.modality={modality!r}",
            expected=" or ".join(task.modalities),
            fix=f"choose another task: `train.task={' or '.join(able)}`",
            name="train.task",
            value=name,
        )
    return task


def task_named(name: str) -> type[Task]:
    """Return the class of a task by its name in the registry, or as `package.module:Class`.

    Raises:
        ConfigError: there is no such task, or it isn't a `Task`.
    """
    if name in TASKS:
        found: type[Task] = _imported(TASKS[name].task)
        return found
    if is_custom(name):
        return import_class("train.task", name, Task)  # type: ignore[type-abstract]
    raise unknown_task(name, TASKS)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
