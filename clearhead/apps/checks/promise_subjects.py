"""Prepare each kind of model for `verify`, with real or random inputs, a loss, engines and a search."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...config import DecodeConfig
from ...config.front_geometry import PAD_SAMPLE, hop_length, position_samples
from ...data.media_encoding import AudioLoader, ImageLoader, Loader
from ...errors import ConfigError
from ...inspection.promises.subject import Inputs, Subject
from ...loading import LoadedModel
from ...tasks.answer.task import QuestionAnswering
from ...tasks.answer.windows import Windows
from ...tasks.base import Task
from ...tasks.classify.task import Classification, MediaClassification
from ...tasks.embed import TextEmbedding
from ...tasks.examples import Examples
from ...tasks.generate.examples import Blocks
from ...tasks.generate.prompts import AnswerExamples, AnswerGeneration
from ...tasks.generate.task import Generation
from ...tasks.sequences import Sequences
from ...tasks.transcribe import Transcription
from ...tokenization.ragged import Ragged
from .subject_maker import ANSWER_TOKENS, LONGEST, LOSS_TEXTS, PROMPTS, TEXTS, SubjectMaker

_LOUD = 3000  # standard deviation of random samples, of at most 32,767

Arrays = list[NDArray[Any]]


def subject_of(loaded: LoadedModel, decode: DecodeConfig, data: Any = None, seed: int = 0) -> Subject:
    """Return the subject that `verify` checks, for a loaded model.

    Args:
        data: data from the task's reader (None: texts of the last evaluation, or random inputs).
        seed: random seed for choosing the inputs, or for making random ones.

    Raises:
        ConfigError: a custom task reads images or audio, so the shape of its inputs is unknown.
    """
    on_cpu = loaded.config.override({"train.device": "cpu"})  # not every accelerator has float64
    task, front = type(loaded.task)(loaded.tokenizers, on_cpu), loaded.config.model.front
    maker = SubjectMaker(task, loaded, decode, data, seed)
    match task:
        case MediaClassification() | Transcription():
            return _of_media(task, maker)
        case _ if front != "tokens":
            what = f"`verify` can't make inputs for model.front={front!r} of a custom task"
            raise ConfigError(what, expected="a task derived from a built-in one", name="model.front", value=front)
        case Sequences():
            return _of_sequences(task, maker)
        case Generation():
            return _of_text(task, maker)
        case Classification():
            return _of_labels(task, maker)
        case QuestionAnswering():
            return _of_windows(task, maker)
    return _of_any(task, maker)


def _of_any(task: Task, maker: SubjectMaker) -> Subject:
    """Return the subject for any task, given only its topology. It has a loss if there is data."""
    model = maker.model
    examples, found = maker.examples() if maker.data is not None else (None, "")
    sides = [] if examples is None else maker.pick(examples)
    used = {"encoder-only": [0], "decoder-only": [1], "encoder-decoder": [0, 1]}[model.topology]
    rows = [row for row in zip(*sides) if all(row[side] for side in used)]
    if not rows:
        sizes, found = (model.src_vocab_size or model.tgt_vocab_size, model.tgt_vocab_size or model.src_vocab_size), ""
        first, second = (maker.random_ids(size, maker.most, side) for side, size in enumerate(sizes))
        rows = [*zip(first, reversed(second))]
    source, target = (maker.padded([row[side] for row in rows]) if side in used else None for side in (0, 1))
    loss = None if examples is None or isinstance(task, TextEmbedding) else maker.loss(examples)
    return maker.subject(Inputs(source=source, target=target, special=task.special), found, loss=loss)


def _of_sequences(task: Sequences, maker: SubjectMaker) -> Subject:
    """Return the subject for an encoder-decoder, with a search for several answers."""
    model, special, most = maker.model, task.special, maker.most
    examples, found = maker.examples()
    if examples is not None:
        sources, targets = maker.pick(examples)
    else:
        sizes = (model.src_vocab_size, model.tgt_vocab_size)
        first, second = (maker.random_ids(size, most - 1 - model.begins, side) for side, size in enumerate(sizes))
        sources = [special.source(ids, begins=model.begins) for ids in first]
        targets = [special.target(ids[: most - 2]) for ids in reversed(second)]
    prompts = [ids[:-1] if special.ends else ids for ids in sources[:PROMPTS]]
    search = maker.search(
        sources[:PROMPTS],
        min(ANSWER_TOKENS, most - 1),
        lambda model, settings: task.session(model, settings).answers(prompts),
    )
    inputs = Inputs(maker.padded(sources), maker.padded([ids[:-1] for ids in targets]), special=special)
    loss = maker.loss(Examples(Ragged(sources), Ragged(targets)))
    return maker.subject(inputs, found, loss=loss, search=search)


def _of_text(task: Generation, maker: SubjectMaker) -> Subject:
    """Return the subject for a language model: blocks of various lengths, whose beginnings serve as prompts."""
    most, max_len = maker.most, maker.model.max_len
    text, found = maker.sample()
    running: Any = [] if text is None else task.hold_out(text).examples.sides[1].tokens
    rows = maker.random_ids(maker.model.tgt_vocab_size, most)
    if len(running) > most:
        starts = np.random.default_rng(maker.seed).integers(0, len(running) - most, len(rows))
        rows = [np.asarray(running[start : start + len(row)]).tolist() for start, row in zip(starts, rows)]
    else:
        found = ""
    prompts = [ids[: max(1, min(len(ids), max_len) // 2)] for ids in rows[:PROMPTS]]
    search = maker.search(
        prompts,
        max(1, min(ANSWER_TOKENS, max_len - max(map(len, prompts)) - 1)),
        lambda model, settings: task.generator(model, settings).session.answers(prompts),
    )
    inputs = Inputs(target=maker.padded(rows), special=task.special)
    if isinstance(task, AnswerGeneration):
        whole = [ids for ids in rows if len(ids) > 1]  # all tokens but the first are predicted
        loss = maker.loss(AnswerExamples(Ragged([[1, len(ids)] for ids in whole]), Ragged(whole)))
        return maker.subject(inputs, found, loss=loss, search=search)
    blocks = Blocks(Ragged(rows), max(1, (sum(map(len, rows)) - 1) // LOSS_TEXTS), task.special.pad)
    blocks = replace(blocks, length=min(blocks.length, most))
    loss = maker.loss(blocks, blocks.starts[:LOSS_TEXTS])
    return maker.subject(inputs, found, loss=loss, search=search)


def _of_labels(task: Classification, maker: SubjectMaker) -> Subject:
    """Return the subject for a classifier."""
    examples, found = maker.examples()
    if examples is not None:
        sources, targets = maker.pick(examples)
    else:
        begins = maker.model.begins
        ids = maker.random_ids(maker.model.src_vocab_size, max(1, maker.most - 1 - begins))
        sources = [task.special.source(it, begins=begins) for it in ids]
        targets = [task.any_target(i) for i in range(len(ids))]
    loss = maker.loss(task.examples((Ragged(sources), Ragged(targets))))
    return maker.subject(Inputs(source=maker.padded(sources), special=task.special), found, loss=loss)


def _of_windows(task: QuestionAnswering, maker: SubjectMaker) -> Subject:
    """Return the subject for a question-answering model: questions with windows of their texts."""
    examples, found = maker.examples()
    if examples is not None:
        sources, places = maker.pick(examples)
    else:
        size, special = maker.model.src_vocab_size, task.special
        asked = special.ordinary(size)[1:3]
        ids = enumerate(maker.random_ids(size, maker.most - 6))
        sources = [[*special.source((2 * asked)[: 1 + i % 3], begins=True), *it, special.eos] for i, it in ids]
        places = [[len(it) - 2, len(it) - 2] for it in sources]
    # if the answer was cut off, the window counts as having no answer
    places = [place if max(place) < len(ids) - 1 else [0, 0] for place, ids in zip(places, sources)]
    windows = Windows(Ragged(sources), Ragged(places))
    batch = task.batch(windows, np.arange(len(windows)))
    inputs = Inputs(source=batch.tokens, types=batch.types, at=batch.of_text, special=task.special)
    return maker.subject(inputs, found, loss=maker.loss(windows))


def _of_media(task: MediaClassification | Transcription, maker: SubjectMaker) -> Subject:
    """Return the subject for a model that reads images or audio."""
    loader, most = task.reader.loader, maker.most
    arrays, targets, texts = _media_examples(task, maker)
    if isinstance(loader, AudioLoader):
        arrays = [it[: position_samples(most, loader.sample_rate)] for it in arrays]
    sources = Ragged.joined(arrays, loader.dtype)
    source = torch.from_numpy(loader.batch(sources, np.arange(len(arrays))))
    inputs, search = Inputs(source=source, pad=PAD_SAMPLE, special=task.special), None
    if isinstance(task, Transcription):
        inputs = replace(inputs, target=maker.padded([ids[:-1] for ids in targets]))
        prompts: Any = arrays[:PROMPTS]
        search = maker.search(
            prompts,
            min(ANSWER_TOKENS, most - 1),
            lambda model, settings: task.session(model, settings).answers(prompts),
        )
    loss = maker.loss(task.examples((sources, Ragged(targets))))
    return maker.subject(inputs, "", texts=texts, loss=loss, search=search)


def _media_examples(
    task: MediaClassification | Transcription, maker: SubjectMaker
) -> tuple[Arrays, list[list[int]], str]:
    """Return the numbers of some images or recordings, their targets, and a description."""
    most, noun, writes = maker.most, task.units.sources, isinstance(task, Transcription)
    examples, found = maker.examples() if maker.data is not None else (None, "")
    if examples is not None:
        first, second = examples.sides
        rows = maker.choose(len(examples))
        arrays = [np.array(first[row], task.reader.loader.dtype) for row in rows]
        targets = [maker.cut(second[row]) if writes else second[row] for row in rows]
        shortened = f", at most {LONGEST} positions each" * isinstance(task.reader.loader, AudioLoader)
        return arrays, targets, f"{len(rows)} {found.replace('texts', noun, 1)}{shortened}"
    arrays = _random_media(task.reader.loader, most, maker.seed)
    if isinstance(task, Transcription):
        ids = maker.random_ids(maker.model.tgt_vocab_size, most - 1)
        targets = [task.special.target(it[: most - 2]) for it in ids]
    else:
        targets = [task.any_target(i) for i in range(len(arrays))]
    return arrays, targets, f"{len(arrays)} random {noun} (no data given)"


def _random_media(loader: Loader, most: int, seed: int) -> Arrays:
    """Return images of random pixels, or noise: the longest recording allowed, a short one, and some in between."""
    dice = np.random.default_rng(seed)
    if isinstance(loader, ImageLoader):
        size = loader.channels * loader.size**2
        return [dice.integers(0, 256, size, dtype=np.uint8) for _ in range(TEXTS)]
    assert isinstance(loader, AudioLoader)
    longest, shortest = position_samples(most, loader.sample_rate), hop_length(loader.sample_rate)
    lengths = [longest, shortest, *dice.integers(shortest, longest, TEXTS - 2)]
    return [(_LOUD * dice.standard_normal(length)).round().clip(-32767, 32767).astype(np.int16) for length in lengths]
