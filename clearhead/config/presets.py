"""Named groups of settings: model size presets, and the model that each task needs."""

from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError, suggestion

# The model of each task, by the task's name.
TASKS: dict[str, dict[str, Any]] = {
    "translate": {"model.topology": "encoder-decoder"},
    "generate": {"model.topology": "decoder-only"},
    "classify": {"model.topology": "encoder-only", "model.head": "class"},
    "answer": {"model.topology": "encoder-only", "model.head": "span"},
    "summarize": {"model.topology": "encoder-decoder"},
}

# Section 6.2, table 3, and smaller ones. The warmup of the small ones was measured.
PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "model.d_model": d_model,
        "model.n_heads": n_heads,
        "model.d_ff": d_ff,
        "model.n_encoder_layers": n_layers,
        "model.n_decoder_layers": n_layers,
        "model.dropout": dropout,
        "train.warmup": warmup,
    }
    for name, d_model, n_heads, d_ff, n_layers, dropout, warmup in (
        ("nano", 128, 4, 256, 2, 0.1, 600),
        ("mini", 256, 4, 512, 3, 0.1, 300),
        ("tiny", 128, 4, 256, 4, 0.3, 2000),
        ("small", 256, 4, 1024, 4, 0.1, 1000),
        ("base", 512, 8, 2048, 6, 0.1, 4000),
        ("big", 1024, 16, 4096, 6, 0.3, 4000),
    )
}


def preset(name: str) -> dict[str, Any]:
    """Return the settings of a preset, its name among them. Raises a ConfigError for an unknown name."""
    if not isinstance(name, str) or name not in PRESETS:
        raise ConfigError(
            f"train.preset={name!r} isn't a preset",
            expected=f"one of {', '.join(PRESETS)}",
            fix=suggestion(str(name), PRESETS),
            name="train.preset",
            value=name,
        )
    return PRESETS[name] | {"train.preset": name}


def check_task(task: str | None) -> None:
    """Raise a ConfigError for a task that is neither known nor a custom `package.module:Task`."""
    if task is not None and task not in TASKS and ":" not in task:
        raise unknown_task(task, TASKS)


def unknown_task(task: str, known: Iterable[str]) -> ConfigError:
    """Return the error about a task that isn't among the known ones."""
    return ConfigError(
        f"train.task={task!r} isn't a task",
        expected=f"{', '.join(known)} or package.module:Class",
        fix=suggestion(task, known),
        name="train.task",
        value=task,
    )
