"""The class of each task in `config.task_spec`, imported when needed, since some import torch."""

from importlib import import_module

from ..config import TASKS, Config
from ..config.custom_code import import_class
from ..config.presets import check_task
from ..errors import ConfigError
from .base import Task


def task_of(config: Config) -> type[Task]:
    """Return the class of a configuration's task, for its modality, prompts with answers, or several labels.

    Raises:
        ConfigError: the task doesn't read data of this modality.
    """
    name, modality = config.train.task or "translate", config.data.modality
    spec = TASKS.get(name)
    variants = {} if spec is None else spec.variants
    kinds = ["prompts"] * bool(config.train.loss_on) + [modality, config.data.label_kind.partition(":")[0]]
    if kind := next((it for it in kinds if it in variants), ""):
        return _imported(variants[kind])
    task = task_named(name)
    if spec is not None and modality not in ("text", *task.modalities):  # text may just be the default
        able = [it for it in TASKS if modality in (*TASKS[it].variants, *task_named(it).modalities)]
        what = f"task {name!r} can't read data.modality={modality!r}"
        fix = f"choose another task: `train.task={' or '.join(able)}`"
        raise ConfigError(what, expected=" or ".join(task.modalities), fix=fix, name="train.task", value=name)
    return task


def task_named(name: str) -> type[Task]:
    """Return the class of a task by its name in `TASKS`, or as `package.module:Class`.

    Raises:
        ConfigError: there is no such task, or it isn't a `Task`.
    """
    if name in TASKS:
        return _imported(TASKS[name].task)
    check_task(name)
    return import_class("train.task", name, Task)  # type: ignore[type-abstract]


def classes_of(name: str) -> list[type[Task]]:
    """Return the classes of a built-in task, for all data that it reads."""
    return [*map(_imported, (TASKS[name].task, *TASKS[name].variants.values()))]


def _imported(name: str) -> type[Task]:
    module, class_name = name.split(":")
    return getattr(import_module(f"{__package__}.{module}"), class_name)
