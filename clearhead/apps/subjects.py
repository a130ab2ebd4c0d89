"""What the promises of each app are tried on: texts as tokens, the loss of its task, its engines and its search."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..config import Config, DecodeConfig, ModelConfig
from ..decode.beams import Hypothesis
from ..decode.engine import StepEngine
from ..decode.model_handle import as_handle
from ..decode.registry import open_engine, step_engines
from ..folder.model_folder import load_model_folder, load_weights, model_files, save_files
from ..inspection.promises.subject import Inputs, Search, Subject
from ..model.transformer import EncoderDecoder, build
from ..tasks.answer.examples import Windows
from ..tasks.answer.task import Answering
from ..tasks.base import Task
from ..tasks.classify.examples import LabelledTexts
from ..tasks.classify.task import Classification
from ..tasks.examples import Examples
from ..tasks.generate.examples import Blocks
from ..tasks.generate.task import Generation
from ..tasks.sequences.task import Sequences
from ..tokenization.ragged import Ragged
from ..tokenization.tokenizer import BOS, EOS, Tokenizers
from .app import App
from .samples import drawn, in_words, known, longest, some, tensor

_LEARNT = 3  # texts of the loss: finite differences ask for it hundreds of times
_ANSWERED = 3  # texts that are searched for
_WRITTEN = 16  # tokens of an answer


def of_sequences(app: App, data: Any, seed: int) -> Subject:
    """An encoder-decoder, with a search of several hypotheses."""
    task, most = _on_a_processor(app), longest(app.config.model.max_len)
    assert isinstance(task, Sequences)
    pairs, found = known(app.task, data, app.path, seed)
    examples = None if pairs is None else task.hold_out(pairs).examples
    if examples is not None and len(examples):
        sources, targets = some(*examples.sides, most=most, seed=seed)
    else:
        sizes, found = (app.config.model.src_vocab_size, app.config.model.tgt_vocab_size), ""
        written, said = (drawn(size, most - 1, seed + side) for side, size in enumerate(sizes))
        sources, targets = [[*ids, EOS] for ids in written], [[BOS, *ids[: most - 2], EOS] for ids in reversed(said)]
    prompts = [ids[:-1] for ids in sources[:_ANSWERED]]
    search = _search(app.decode_config(), min(_WRITTEN, most - 1))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.session(cast(EncoderDecoder, model), search).answers(prompts)

    return _subject(
        app,
        Inputs(source=tensor(sources), target=tensor([ids[:-1] for ids in targets])),
        in_words(found, len(sources)),
        loss=_loss(task, Examples(Ragged(sources), Ragged(targets)), app.config),
        engines=_engines(app),
        search=Search(prompts, answers, search.alpha),
    )


def of_text(app: App, data: Any, seed: int) -> Subject:
    """A language model, whose texts are blocks of various lengths, and their beginnings prompts."""
    task, most = _on_a_processor(app), longest(app.config.model.max_len)
    assert isinstance(task, Generation)
    text, found = known(app.task, data, app.path, seed)
    running = None if text is None else task.hold_out(text).examples.documents.tokens
    size, max_len = app.config.model.tgt_vocab_size, app.config.model.max_len
    rows = drawn(size, most, seed)
    if running is not None and len(running) > most:
        starts = np.random.default_rng(seed).integers(0, len(running) - most, len(rows))
        rows = [np.asarray(running[start : start + len(row)]).tolist() for start, row in zip(starts, rows)]
    else:
        found = ""
    prompts = [ids[: max(1, min(len(ids), max_len) // 2)] for ids in rows[:_ANSWERED]]
    search = _search(app.decode_config(), max(1, min(_WRITTEN, max_len - max(map(len, prompts)) - 1)))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.generator(model, search).session.answers(prompts)

    blocks = Blocks(Ragged(rows), max(1, (sum(map(len, rows)) - 1) // _LEARNT))
    blocks = replace(blocks, length=min(blocks.length, most))
    return _subject(
        app,
        Inputs(target=tensor(rows)),
        in_words(found, len(rows)),
        loss=lambda model: task.loss(
            model, blocks, blocks.starts[:_LEARNT], smoothing=app.config.train.label_smoothing
        ),
        engines=_engines(app),
        search=Search(prompts, answers, search.alpha),
    )


def of_labels(app: App, data: Any, seed: int) -> Subject:
    """A classifier."""
    task, most = _on_a_processor(app), longest(app.config.model.max_len)
    assert isinstance(task, Classification)
    texts, found = known(app.task, data, app.path, seed)
    examples = None if texts is None else task.hold_out(texts).examples
    if examples is not None and len(examples):
        sources, targets = some(*examples.sides, most=most, seed=seed)
    else:
        begun, found = [BOS] * task.encoder.begins, ""
        ids = drawn(app.config.model.src_vocab_size, max(1, most - 1 - len(begun)), seed)
        sources, targets = [[*begun, *it, EOS] for it in ids], [[i % len(task.labels)] for i in range(len(ids))]
    loss = _loss(task, LabelledTexts(Ragged(sources), Ragged(targets)), app.config)
    return _subject(app, Inputs(source=tensor(sources)), in_words(found, len(sources)), loss=loss)


def of_windows(app: App, data: Any, seed: int) -> Subject:
    """A finder of passages, with questions beside parts of their texts."""
    task, most = _on_a_processor(app), longest(app.config.model.max_len)
    assert isinstance(task, Answering)
    corpus, found = known(app.task, data, app.path, seed)
    examples = None if corpus is None else task.hold_out(corpus).examples
    if examples is not None and len(examples):
        sources, places = some(*examples.sides, most=most, seed=seed)
    else:
        ids, asked, found = drawn(app.config.model.src_vocab_size, most - 6, seed), [5, 6], ""
        sources = [[BOS, *(2 * asked)[: 1 + i % 3], EOS, *it, EOS] for i, it in enumerate(ids)]
        places = [[len(it) - 2, len(it) - 2] for it in sources]
    places = [place if max(place) < len(ids) - 1 else [0, 0] for place, ids in zip(places, sources)]  # it was cut off
    windows = Windows(Ragged(sources), Ragged(places))
    batch = task.batch(windows, np.arange(len(windows)))
    inputs = Inputs(source=batch.tokens, types=batch.types, at=batch.of_text)
    return _subject(app, inputs, in_words(found, len(windows)), loss=_loss(task, windows, app.config))


def _engines(app: App) -> dict[str, Callable[[nn.Module], StepEngine]]:
    """Return every step engine that can run the app's model, by name."""
    config = app.config.model
    return {name: partial(_open_step_engine, config, name) for name in step_engines(config)}


def _open_step_engine(config: ModelConfig, name: str, model: nn.Module) -> StepEngine:
    engine = open_engine(as_handle(model, config), name)
    assert isinstance(engine, StepEngine)
    return engine


def _on_a_processor(app: App) -> Task:
    """The task of an app, with its batches on a processor, which alone has float64 on every machine."""
    return type(app.task)(app.tokenizers, app.config.override({"train.device": "cpu"}))


def _search(config: DecodeConfig, most: int) -> DecodeConfig:
    """As the model searches, for several answers of at most so many tokens, whose scores hold nothing but
    log-probabilities and the length penalty."""
    beam = max(2, min(config.beam, 4))
    return DecodeConfig(
        beam=beam, n_best=beam, alpha=config.alpha, max_len=most, no_repeat_ngram=config.no_repeat_ngram,
        suppress=config.suppress,
    )  # fmt: skip


def _loss(task: Task, examples: Any, config: Config) -> Callable[[nn.Module], Tensor]:
    rows = np.arange(min(len(examples), _LEARNT))
    return lambda model: task.loss(model, examples, rows, smoothing=config.train.label_smoothing)


def _subject(app: App, inputs: Inputs, texts: str, **more: Any) -> Subject:
    def reload(model: nn.Module, folder: Path) -> nn.Module:
        return _reloaded(model, folder, app.config, app.tokenizers)

    return Subject(app.model, inputs, texts, app.config.model.max_len, reload=reload, **more)


def _reloaded(model: nn.Module, folder: Path, config: Config, tokenizers: Tokenizers) -> nn.Module:
    """The model, written into a folder as training writes it, and loaded as `clearhead.load` does.

    Where it has parts that no setting describes, their weights are loaded into a copy that has lost its own.
    """
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=model.state_dict(), card="")
    save_files(folder, files)
    found = load_model_folder(folder)
    with torch.random.fork_rng(devices=()):  # the caller's generator goes on as if nothing was drawn
        fresh: nn.Module = build(found.config.model)
    if [type(part) for part in fresh.modules()] != [type(part) for part in model.modules()]:
        fresh = deepcopy(model)
        with torch.no_grad():
            for it in fresh.state_dict().values():
                it.fill_(float("nan") if it.is_floating_point() else 0)
    fresh = fresh.to(next(model.parameters()).dtype)
    load_weights(fresh, found.weights)
    return fresh
