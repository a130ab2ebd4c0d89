"""Prepare each kind of model for `verify`, with tokenized texts, a loss, engines and a search."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ...config import Config, DecodeConfig, ModelConfig
from ...decode.beams import Hypothesis
from ...decode.engine import StepEngine
from ...decode.model_handle import as_handle
from ...decode.registry import open_engine, step_engines
from ...errors import ConfigError
from ...folder.model_folder import load_model_folder, load_weights, model_files, save_files
from ...inspection.promises.subject import Inputs, OpenEngine, Search, Subject
from ...model.transformer import EncoderDecoder, build
from ...tasks.answer.examples import Windows
from ...tasks.answer.task import Answering
from ...tasks.base import Task
from ...tasks.classify.examples import LabelledTexts
from ...tasks.classify.task import Classification
from ...tasks.examples import Examples
from ...tasks.generate.examples import Blocks
from ...tasks.generate.task import Generation
from ...tasks.sequences.task import Sequences
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import BOS, EOS, Tokenizers
from ..loaded import LoadedModel
from .promise_texts import describe, known, longest, pad, pick, random_ids

_LOSS_TEXTS = 3  # finite differences compute their loss hundreds of times
_PROMPTS = 3
_ANSWER_TOKENS = 16


def subject_of(loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject that `verify` checks, for a loaded model.

    Args:
        decode: the model's search settings.
        data: data from the task's reader (None: texts of the last evaluation, or random tokens).
        seed: random seed for choosing the texts.
    """
    on_cpu = loaded.config.override({"train.device": "cpu"})  # not every accelerator has float64
    task = type(loaded.task)(loaded.tokenizers, on_cpu)
    match task:
        case Sequences():
            return _of_sequences(task, loaded, decode, data, seed)
        case Generation():
            return _of_text(task, loaded, decode, data, seed)
        case Classification():
            return _of_labels(task, loaded, data, seed)
        case Answering():
            return _of_windows(task, loaded, data, seed)
    verb = task.verb
    raise ConfigError(f"`verify` doesn't support the task {verb!r}", name="train.task", value=verb)


def _of_sequences(task: Sequences, loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject for an encoder-decoder, with a search for several answers."""
    most = longest(loaded.config.model.max_len)
    pairs, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, pairs, most, seed):
        sources, targets = picked
    else:
        sizes, found = (loaded.config.model.src_vocab_size, loaded.config.model.tgt_vocab_size), ""
        first, second = (random_ids(size, most - 1, seed + side) for side, size in enumerate(sizes))
        sources, targets = [[*ids, EOS] for ids in first], [[BOS, *ids[: most - 2], EOS] for ids in reversed(second)]
    prompts = [ids[:-1] for ids in sources[:_PROMPTS]]
    search = _search(decode, min(_ANSWER_TOKENS, most - 1))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.session(cast(EncoderDecoder, model), search).answers(prompts)

    return _subject(
        loaded,
        Inputs(source=pad(sources), target=pad([ids[:-1] for ids in targets])),
        describe(found, len(sources)),
        loss=_loss(task, Examples(Ragged(sources), Ragged(targets)), loaded.config),
        engines=_engines(loaded.config.model),
        search=Search(prompts, answers, search.alpha),
    )


def _of_text(task: Generation, loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject for a language model: blocks of various lengths, whose beginnings serve as prompts."""
    most = longest(loaded.config.model.max_len)
    text, found = known(task, data, loaded.path, seed)
    running = None if text is None else task.hold_out(text).examples.documents.tokens
    size, max_len = loaded.config.model.tgt_vocab_size, loaded.config.model.max_len
    rows = random_ids(size, most, seed)
    if running is not None and len(running) > most:
        starts = np.random.default_rng(seed).integers(0, len(running) - most, len(rows))
        rows = [np.asarray(running[start : start + len(row)]).tolist() for start, row in zip(starts, rows)]
    else:
        found = ""
    prompts = [ids[: max(1, min(len(ids), max_len) // 2)] for ids in rows[:_PROMPTS]]
    search = _search(decode, max(1, min(_ANSWER_TOKENS, max_len - max(map(len, prompts)) - 1)))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.generator(model, search).session.answers(prompts)

    blocks = Blocks(Ragged(rows), max(1, (sum(map(len, rows)) - 1) // _LOSS_TEXTS))
    blocks = replace(blocks, length=min(blocks.length, most))
    return _subject(
        loaded,
        Inputs(target=pad(rows)),
        describe(found, len(rows)),
        loss=lambda model: task.loss(
            model, blocks, blocks.starts[:_LOSS_TEXTS], smoothing=loaded.config.train.label_smoothing
        ),
        engines=_engines(loaded.config.model),
        search=Search(prompts, answers, search.alpha),
    )


def _of_labels(task: Classification, loaded: LoadedModel, data: Any, seed: int) -> Subject:
    """Return the subject for a classifier."""
    most = longest(loaded.config.model.max_len)
    texts, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, texts, most, seed):
        sources, targets = picked
    else:
        begun, found = [BOS] * task.encoder.begins, ""
        ids = random_ids(loaded.config.model.src_vocab_size, max(1, most - 1 - len(begun)), seed)
        sources, targets = [[*begun, *it, EOS] for it in ids], [[i % len(task.labels)] for i in range(len(ids))]
    loss = _loss(task, LabelledTexts(Ragged(sources), Ragged(targets)), loaded.config)
    return _subject(loaded, Inputs(source=pad(sources)), describe(found, len(sources)), loss=loss)


def _of_windows(task: Answering, loaded: LoadedModel, data: Any, seed: int) -> Subject:
    """Return the subject for a question-answering model: questions with windows of their texts."""
    most = longest(loaded.config.model.max_len)
    corpus, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, corpus, most, seed):
        sources, places = picked
    else:
        ids, asked, found = random_ids(loaded.config.model.src_vocab_size, most - 6, seed), [5, 6], ""
        sources = [[BOS, *(2 * asked)[: 1 + i % 3], EOS, *it, EOS] for i, it in enumerate(ids)]
        places = [[len(it) - 2, len(it) - 2] for it in sources]
    # if the answer was cut off, the window counts as having no answer
    places = [place if max(place) < len(ids) - 1 else [0, 0] for place, ids in zip(places, sources)]
    windows = Windows(Ragged(sources), Ragged(places))
    batch = task.batch(windows, np.arange(len(windows)))
    inputs = Inputs(source=batch.tokens, types=batch.types, at=batch.of_text)
    return _subject(loaded, inputs, describe(found, len(windows)), loss=_loss(task, windows, loaded.config))


def _picked(task: Task, data: Any, most: int, seed: int) -> list[list[list[int]]] | None:
    """Return both sides of some examples from the data, or None if there are none."""
    examples = None if data is None else task.hold_out(data).examples
    return pick(*examples.sides, most=most, seed=seed) if examples is not None and len(examples) else None


def _engines(config: ModelConfig) -> dict[str, OpenEngine]:
    """Return all step engines that can run such a model, keyed by name."""
    return {name: partial(_open_step_engine, config, name) for name in step_engines(config)}


def _open_step_engine(config: ModelConfig, name: str, model: nn.Module, max_len: int) -> StepEngine:
    engine = open_engine(as_handle(model, replace(config, max_len=max_len)), DecodeConfig(engine=name))
    assert isinstance(engine, StepEngine)
    return engine


def _search(config: DecodeConfig, most: int) -> DecodeConfig:
    """Return search settings for several short answers, scored only by log-probability and length penalty."""
    beam = max(2, min(config.beam, 4))
    return DecodeConfig(
        beam=beam, n_best=beam, alpha=config.alpha, max_len=most, no_repeat_ngram=config.no_repeat_ngram,
        suppress=config.suppress,
    )  # fmt: skip


def _loss(task: Task, examples: Any, config: Config) -> Callable[[nn.Module], Tensor]:
    rows = np.arange(min(len(examples), _LOSS_TEXTS))
    return lambda model: task.loss(model, examples, rows, smoothing=config.train.label_smoothing)


def _subject(loaded: LoadedModel, inputs: Inputs, texts: str, **more: Any) -> Subject:
    def reload(model: nn.Module, folder: Path) -> nn.Module:
        return _reloaded(model, folder, loaded.config, loaded.tokenizers)

    return Subject(loaded.model, inputs, texts, loaded.config.model.max_len, reload=reload, **more)


def _reloaded(model: nn.Module, folder: Path, config: Config, tokenizers: Tokenizers) -> nn.Module:
    """Save the model to a folder as training does, and load it as `clearhead.load` does.

    If building from the settings gives different modules, load the weights into a blanked copy of the model instead.
    """
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=model.state_dict(), card="")
    save_files(folder, files)
    found = load_model_folder(folder, allow_custom_code=True)  # the caller's own model, written two lines above
    with torch.random.fork_rng(devices=()):  # leaves the caller's random state alone
        fresh: nn.Module = build(found.config.model)
    if [type(part) for part in fresh.modules()] != [type(part) for part in model.modules()]:
        fresh = deepcopy(model)
        with torch.no_grad():
            for it in fresh.state_dict().values():
                it.fill_(float("nan") if it.is_floating_point() else 0)
    fresh = fresh.to(next(model.parameters()).dtype)
    load_weights(fresh, found.weights)
    return fresh
