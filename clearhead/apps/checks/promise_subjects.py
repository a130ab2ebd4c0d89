"""Prepare each kind of model for `verify`, with tokenized texts, a loss, engines and a search."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
from torch import nn

from ...config import DecodeConfig
from ...decode.beams import Hypothesis
from ...inspection.promises.subject import Inputs, Subject, SubjectSearch
from ...loading.loaded import LoadedModel
from ...model.transformer import EncoderDecoder
from ...tasks.answer.examples import Windows
from ...tasks.answer.task import QuestionAnswering
from ...tasks.base import Task
from ...tasks.classify.examples import LabelledExamples
from ...tasks.classify.task import Classification
from ...tasks.embed.task import TextEmbedding
from ...tasks.examples import Examples
from ...tasks.generate.examples import Blocks
from ...tasks.generate.task import Generation
from ...tasks.sequences import Sequences
from ...tokenization.ragged import Ragged
from .media_subjects import media_subject
from .promise_texts import describe, known, longest, pad, pick, random_ids
from .subject_parts import ANSWER_TOKENS, LOSS_TEXTS, PROMPTS, engines, loss_of, short_search, subject


def subject_of(loaded: LoadedModel, decode: DecodeConfig, data: Any = None, seed: int = 0) -> Subject:
    """Return the subject that `verify` checks, for a loaded model.

    Args:
        decode: the model's search settings.
        data: data from the task's reader (None: texts of the last evaluation, or random tokens).
        seed: random seed for choosing the texts.
    """
    on_cpu = loaded.config.override({"train.device": "cpu"})  # not every accelerator has float64
    task = type(loaded.task)(loaded.tokenizers, on_cpu)
    if loaded.config.model.front != "tokens":
        return media_subject(task, loaded, decode, data, seed)
    match task:
        case Sequences():
            return _of_sequences(task, loaded, decode, data, seed)
        case Generation():
            return _of_text(task, loaded, decode, data, seed)
        case Classification():
            return _of_labels(task, loaded, data, seed)
        case QuestionAnswering():
            return _of_windows(task, loaded, data, seed)
    return _of_any(task, loaded, data, seed)


def _of_any(task: Task, loaded: LoadedModel, data: Any, seed: int) -> Subject:
    """Return the subject for any task, of which only the topology is known. There's a loss if there is data."""
    model, special = loaded.config.model, task.special
    most = longest(model.max_len)
    examples, found = None, ""
    sides: list[list[list[int]]] = []
    if data is not None:
        sample, found = known(task, data, loaded.path, seed)
        examples = task.hold_out(sample).examples
        sides = pick(*examples.sides, most=most, seed=seed, eos=special.eos)
    used = {"encoder-only": [0], "decoder-only": [1], "encoder-decoder": [0, 1]}[model.topology]
    rows = [row for row in zip(*sides) if all(row[side] for side in used)]
    if not rows:
        sizes, found = (model.src_vocab_size or model.tgt_vocab_size, model.tgt_vocab_size or model.src_vocab_size), ""
        first, second = (random_ids(size, most, seed + side, special) for side, size in enumerate(sizes))
        rows = [*zip(first, reversed(second))]
    source, target = (pad([row[side] for row in rows], special.pad) if side in used else None for side in (0, 1))
    inputs = Inputs(source=source, target=target, special=special)
    learns = examples is not None and len(examples) and not isinstance(task, TextEmbedding)
    loss = loss_of(task, examples, loaded.config) if learns else None
    return subject(loaded, inputs, describe(found, len(inputs)), loss=loss, engines=engines(model))


def _of_sequences(task: Sequences, loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject for an encoder-decoder, with a search for several answers."""
    most, special, begins = longest(loaded.config.model.max_len), task.special, loaded.config.model.begins
    pairs, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, pairs, most, seed):
        sources, targets = picked
    else:
        sizes, found = (loaded.config.model.src_vocab_size, loaded.config.model.tgt_vocab_size), ""
        first, second = (random_ids(size, most - 1 - begins, seed + side, special) for side, size in enumerate(sizes))
        sources = [special.source(ids, begins=begins) for ids in first]
        targets = [special.target(ids[: most - 2]) for ids in reversed(second)]
    prompts = [ids[:-1] if special.ends else ids for ids in sources[:PROMPTS]]
    search = short_search(decode, min(ANSWER_TOKENS, most - 1))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.session(cast(EncoderDecoder, model), search).answers(prompts)

    return subject(
        loaded,
        Inputs(pad(sources, special.pad), pad([ids[:-1] for ids in targets], special.pad), special=special),
        describe(found, len(sources)),
        loss=loss_of(task, Examples(Ragged(sources), Ragged(targets)), loaded.config),
        engines=engines(loaded.config.model),
        search=SubjectSearch(sources[:PROMPTS], answers, search.alpha),
    )


def _of_text(task: Generation, loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject for a language model: blocks of various lengths, whose beginnings serve as prompts."""
    most = longest(loaded.config.model.max_len)
    text, found = known(task, data, loaded.path, seed)
    running = None if text is None else task.hold_out(text).examples.documents.tokens
    size, max_len = loaded.config.model.tgt_vocab_size, loaded.config.model.max_len
    rows, pad_id = random_ids(size, most, seed, task.special), task.special.pad
    if running is not None and len(running) > most:
        starts = np.random.default_rng(seed).integers(0, len(running) - most, len(rows))
        rows = [np.asarray(running[start : start + len(row)]).tolist() for start, row in zip(starts, rows)]
    else:
        found = ""
    prompts = [ids[: max(1, min(len(ids), max_len) // 2)] for ids in rows[:PROMPTS]]
    search = short_search(decode, max(1, min(ANSWER_TOKENS, max_len - max(map(len, prompts)) - 1)))

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.generator(model, search).session.answers(prompts)

    blocks = Blocks(Ragged(rows), max(1, (sum(map(len, rows)) - 1) // LOSS_TEXTS), pad_id)
    blocks = replace(blocks, length=min(blocks.length, most))
    return subject(
        loaded,
        Inputs(target=pad(rows, pad_id), special=task.special),
        describe(found, len(rows)),
        loss=lambda model: task.loss(
            model, blocks, blocks.starts[:LOSS_TEXTS], smoothing=loaded.config.train.label_smoothing
        ),
        engines=engines(loaded.config.model),
        search=SubjectSearch(prompts, answers, search.alpha),
    )


def _of_labels(task: Classification, loaded: LoadedModel, data: Any, seed: int) -> Subject:
    """Return the subject for a classifier."""
    most = longest(loaded.config.model.max_len)
    texts, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, texts, most, seed):
        sources, targets = picked
    else:
        begins, found = loaded.config.model.begins, ""
        ids = random_ids(loaded.config.model.src_vocab_size, max(1, most - 1 - begins), seed, task.special)
        sources = [task.special.source(it, begins=begins) for it in ids]
        targets = [[i % len(task.labels)] for i in range(len(ids))]
    loss = loss_of(task, LabelledExamples(Ragged(sources), Ragged(targets)), loaded.config)
    inputs = Inputs(source=pad(sources, task.special.pad), special=task.special)
    return subject(loaded, inputs, describe(found, len(sources)), loss=loss)


def _of_windows(task: QuestionAnswering, loaded: LoadedModel, data: Any, seed: int) -> Subject:
    """Return the subject for a question-answering model: questions with windows of their texts."""
    most = longest(loaded.config.model.max_len)
    corpus, found = known(task, data, loaded.path, seed)
    if picked := _picked(task, corpus, most, seed):
        sources, places = picked
    else:
        size, special, found = loaded.config.model.src_vocab_size, task.special, ""
        asked = special.ordinary(size)[1:3]
        ids = enumerate(random_ids(size, most - 6, seed, special))
        sources = [[*special.source((2 * asked)[: 1 + i % 3], begins=True), *it, special.eos] for i, it in ids]
        places = [[len(it) - 2, len(it) - 2] for it in sources]
    # if the answer was cut off, the window counts as having no answer
    places = [place if max(place) < len(ids) - 1 else [0, 0] for place, ids in zip(places, sources)]
    windows = Windows(Ragged(sources), Ragged(places))
    batch = task.batch(windows, np.arange(len(windows)))
    inputs = Inputs(source=batch.tokens, types=batch.types, at=batch.of_text, special=task.special)
    return subject(loaded, inputs, describe(found, len(windows)), loss=loss_of(task, windows, loaded.config))


def _picked(task: Task, data: Any, most: int, seed: int) -> list[list[list[int]]] | None:
    """Return both sides of some examples from the data, or None if there are none."""
    examples = None if data is None else task.hold_out(data).examples
    if examples is None or not len(examples):
        return None
    return pick(*examples.sides, most=most, seed=seed, eos=task.special.eos)
