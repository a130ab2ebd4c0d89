"""Named groups of settings: presets for the model size, and the model that each task needs."""

from collections.abc import Iterable
from typing import Any

from ..errors import ConfigError, suggestion

# The model settings of each task.
TASKS: dict[str, dict[str, Any]] = {
    "translate": {"model.topology": "encoder-decoder"},
    "generate": {"model.topology": "decoder-only"},
    "classify": {"model.topology": "encoder-only", "model.head": "class"},
    "answer": {"model.topology": "encoder-only", "model.head": "span"},
    "summarize": {"model.topology": "encoder-decoder"},
    "transcribe": {"model.topology": "encoder-decoder"},
    "fill": {"model.topology": "encoder-only", "model.head": "token"},
    "embed": {"model.topology": "encoder-only", "model.head": "none"},
}

# base and big are those of table 3 (section 6.2). The warmup of the smaller ones was tuned by experiment.
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
    """Return the settings of a preset, including train.preset itself. Raise ConfigError if the name is unknown."""
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
    """Raise ConfigError unless a task is None, built in, or custom (`package.module:Task`)."""
    if task is not None and task not in TASKS and ":" not in task:
        raise unknown_task(task, TASKS)


def unknown_task(task: str, known: Iterable[str]) -> ConfigError:
    """Return the ConfigError for an unknown task. The message lists the `known` ones."""
    return ConfigError(
        f"train.task={task!r} isn't a task",
        expected=f"{', '.join(known)} or package.module:Class",
        fix=suggestion(task, known),
        name="train.task",
        value=task,
    )
