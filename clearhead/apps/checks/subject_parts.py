"""Parts that the subjects of `verify` have in common: engines, a search, a loss, and saving."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...config import Config, DecodeConfig, ModelConfig
from ...decode.engine import StepEngine
from ...decode.model_handle import as_handle
from ...decode.registry import IN_MEMORY, float32_engines, open_engine, step_engines
from ...folder.manifest import read_verified
from ...folder.model_folder import WEIGHTS, load_weights, model_files, read_config, save_files, weights_from_bytes
from ...inspection.promises.subject import Inputs, OpenEngine, Subject
from ...loading.loaded import LoadedModel
from ...model.transformer import build
from ...tasks.base import Task
from ...tokenization.source_and_target import Tokenizers

LOSS_TEXTS = 3  # finite differences compute their loss hundreds of times
PROMPTS = 3
ANSWER_TOKENS = 16


def engines(config: ModelConfig) -> dict[str, OpenEngine]:
    """Return all step engines that can run such a model, keyed by name."""
    return {name: partial(_open_step_engine, config, name) for name in step_engines(config)}


def _open_step_engine(config: ModelConfig, name: str, model: nn.Module, max_len: int) -> StepEngine:
    engine = open_engine(as_handle(model, replace(config, max_len=max_len)), DecodeConfig(engine=name))
    assert isinstance(engine, StepEngine)
    return engine


def short_search(config: DecodeConfig, most: int) -> DecodeConfig:
    """Return search settings for several short answers, scored only by log-probability and length penalty."""
    beam = max(2, min(config.beam, 4))
    return DecodeConfig(
        beam=beam, n_best=beam, alpha=config.alpha, max_len=most, no_repeat_ngram=config.no_repeat_ngram,
        suppress=config.suppress, suppress_special=config.suppress_special, engine=IN_MEMORY,
    )  # fmt: skip


def loss_of(task: Task, examples: Any, config: Config) -> Callable[[nn.Module], Tensor]:
    """Return a function that computes a model's loss on the first few examples."""
    rows = np.arange(min(len(examples), LOSS_TEXTS))
    return lambda model: task.loss(model, examples, rows, smoothing=config.train.label_smoothing)


def subject(loaded: LoadedModel, inputs: Inputs, texts: str, **more: Any) -> Subject:
    """Return a subject that can be saved and loaded. `more` are its other attributes."""

    def reload(model: nn.Module, folder: Path) -> nn.Module:
        return _reloaded(model, folder, loaded.config, loaded.tokenizers)

    single = float32_engines(loaded.config.model)
    return Subject(
        loaded.model, inputs, texts, loaded.config.model.max_len, float32_engines=single, reload=reload, **more
    )


def _reloaded(model: nn.Module, folder: Path, config: Config, tokenizers: Tokenizers) -> nn.Module:
    """Save the model to a folder as training does, and load it as `clearhead.load` does.

    If building from the settings gives different modules, load the weights into a blanked copy of the model instead.
    """
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=model.state_dict(), card="")
    save_files(folder, files)
    own = read_config(folder, allow_custom_code=True).model  # the caller's own model, written two lines above
    weights = weights_from_bytes(folder / WEIGHTS, read_verified(folder, (WEIGHTS,))[WEIGHTS])
    with torch.random.fork_rng(devices=()):  # leaves the caller's random state alone
        fresh: nn.Module = build(own)
    if [type(part) for part in fresh.modules()] != [type(part) for part in model.modules()]:
        fresh = deepcopy(model)
        with torch.no_grad():
            for it in fresh.state_dict().values():
                it.fill_(float("nan") if it.is_floating_point() else 0)
    fresh = fresh.to(next(model.parameters()).dtype)
    load_weights(fresh, weights)
    return fresh
