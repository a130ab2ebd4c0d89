"""Prepare models of images and audio for `verify`: real files, or random numbers in their shape."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...config import DecodeConfig
from ...config.front_geometry import PAD_SAMPLE, hop_length, position_samples
from ...data.media_encoding import AudioLoader, ImageLoader, Loader
from ...decode.beams import Hypothesis
from ...errors import ConfigError
from ...inspection.promises.subject import Inputs, Subject, SubjectSearch
from ...loading.loaded import LoadedModel
from ...model.transformer import EncoderDecoder
from ...tasks.base import Task
from ...tasks.classify.media import MediaClassification
from ...tasks.transcribe.task import Transcription
from ...tokenization.ragged import Ragged
from .promise_texts import LONGEST, TEXTS, choose_rows, cut, known, longest, pad, random_ids
from .subject_parts import ANSWER_TOKENS, PROMPTS, engines, loss_of, short_search, subject

_LOUD = 3000  # standard deviation of random samples, of at most 32,767

Arrays = list[NDArray[Any]]


def media_subject(task: Task, loaded: LoadedModel, decode: DecodeConfig, data: Any, seed: int) -> Subject:
    """Return the subject for a model that reads images or audio. See `subject_of`.

    Raises:
        ConfigError: the task isn't a built-in one, so the shape of its inputs is unknown.
    """
    if not isinstance(task, MediaClassification | Transcription):
        front = loaded.config.model.front
        raise ConfigError(
            f"`verify` can't make inputs for model.front={front!r} of a custom task",
            expected="a task derived from a built-in one",
            name="model.front",
            value=front,
        )
    loader, most = task.loader, longest(loaded.config.model.max_len)
    arrays, targets, texts = _examples(task, loaded, data, seed)
    if isinstance(loader, AudioLoader):
        arrays = [it[: position_samples(most, loader.sample_rate)] for it in arrays]
    rows, sources = np.arange(len(arrays)), Ragged.joined(arrays, loader.dtype)
    examples = task.examples((sources, Ragged(targets)))
    inputs = Inputs(source=torch.from_numpy(loader.batch(sources, rows)), pad=PAD_SAMPLE, special=task.special)
    loss = loss_of(task, examples, loaded.config)
    if not isinstance(task, Transcription):
        return subject(loaded, inputs, texts, loss=loss)
    inputs = replace(inputs, target=pad([ids[:-1] for ids in targets], task.special.pad))
    search, prompts = short_search(decode, min(ANSWER_TOKENS, most - 1)), [*arrays[:PROMPTS]]

    def answers(model: nn.Module) -> list[list[Hypothesis]]:
        return task.session(cast(EncoderDecoder, model), search).answers(cast(Any, prompts))

    found = SubjectSearch(cast(Any, prompts), answers, search.alpha)
    return subject(loaded, inputs, texts, loss=loss, engines=engines(loaded.config.model), search=found)


def _examples(
    task: MediaClassification | Transcription, loaded: LoadedModel, data: Any, seed: int
) -> tuple[Arrays, list[list[int]], str]:
    """Return the numbers of some images or recordings, their targets, and a description."""
    most, model, noun = longest(loaded.config.model.max_len), loaded.config.model, task.units.sources
    sample, found = (None, "") if data is None else known(task, data, loaded.path, seed)
    examples = None if sample is None else task.hold_out(sample).examples
    if examples is not None and len(examples):
        first, second = examples.sides
        rows = choose_rows(len(examples), seed)
        arrays = [np.array(first[row], task.loader.dtype) for row in rows]
        targets = [second[row] for row in rows]
        if isinstance(task, Transcription):
            targets = [cut(ids, most, task.special.eos) for ids in targets]
        shortened = f", at most {LONGEST} positions each" * isinstance(task.loader, AudioLoader)
        return arrays, targets, f"{len(rows)} {found.replace('texts', noun, 1)}{shortened}"
    arrays = _random(task.loader, most, seed)
    if isinstance(task, Transcription):
        ids = random_ids(model.tgt_vocab_size, most - 1, seed, task.special)
        targets = [task.special.target(it[: most - 2]) for it in ids]
    else:
        targets = [[i % len(task.labels)] for i in range(len(arrays))]
    return arrays, targets, f"{len(arrays)} random {noun} (no data given)"


def _random(loader: Loader, most: int, seed: int) -> Arrays:
    """Return images of random pixels, or noise: the longest recording allowed, a short one, and some in between."""
    dice = np.random.default_rng(seed)
    if isinstance(loader, ImageLoader):
        size = loader.channels * loader.size**2
        return [dice.integers(0, 256, size, dtype=np.uint8) for _ in range(TEXTS)]
    assert isinstance(loader, AudioLoader)
    longest_audio = position_samples(most, loader.sample_rate)
    shortest = hop_length(loader.sample_rate)
    lengths = [longest_audio, shortest, *dice.integers(shortest, longest_audio, TEXTS - 2)]
    return [(_LOUD * dice.standard_normal(length)).round().clip(-32767, 32767).astype(np.int16) for length in lengths]
