"""What an encoder reads of texts, images or recordings, for every task whose model has an encoder."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...decode.model_handle import ModelHandle, as_module
from ...errors import ConfigError
from ...tokenization.ragged import IntArray, Ragged
from ..base import Task
from ..classify.task import Classification
from ..sequences.task import Sequences
from ..transcribe.task import Transcription

if TYPE_CHECKING:
    from torch import Tensor, nn


def embed_sources(
    task: Task, model: "ModelHandle | nn.Module", sources: Sequence[Any], config: Config
) -> NDArray[np.float32]:
    """Embed texts, images or recordings with the settings in `config`, and return the vectors. (N, D)

    Raises:
        ConfigError: the model has no encoder, or a custom task reads images or recordings.
    """
    if config.model.topology == "decoder-only":
        raise ConfigError(
            "a decoder-only model has no encoder, so it can't embed texts",
            expected="a model for another task than `generate`",
            fix="train an encoder on the same text with `train.task=fill`",
            name="model.topology",
            value=config.model.topology,
        )
    from ...inspection.record.parts import stacks
    from ...model.transformer import Encoder
    from .pooling import embed

    inputs, sizes = _read_by(task, sources)
    encoder = stacks(as_module(model))["encoder"]
    assert isinstance(encoder, Encoder)
    return embed(
        encoder,
        inputs,
        sizes,
        together=config.decode.batch_tokens,
        pooling=config.model.pooling,
        normalize=config.model.normalize,
    )


def _read_by(task: Task, sources: Sequence[Any]) -> "tuple[Callable[[IntArray], Tensor], IntArray]":
    """Encode sources as the task does. Long ones are truncated.

    Returns:
        A function that returns the encoder's input for the sources in some rows, and the positions of each source.
    """
    if isinstance(task, Classification):
        ragged = task.ragged(task.encoder.tokens(sources)[0])
        return lambda rows: task.inputs(ragged, rows), task.sizes(ragged)
    if isinstance(task, Transcription):
        samples, _ = task.sources(sources)
        ragged, sizes = Ragged.joined(samples, task.loader.dtype), np.array([task.size(it) for it in samples], np.int64)
        return lambda rows: _tensor(task, task.padded(ragged, rows)), sizes
    ragged = Ragged(text_ids(task, sources)[0])
    return lambda rows: _tensor(task, ragged.padded(rows, task.special.pad)), ragged.lengths


def text_ids(task: Task, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
    """Return the ids that the encoder reads of each text, and how many of its tokens were cut off.

    Raises:
        ConfigError: a custom task reads images or recordings.
    """
    model = task.config.model
    if model.front != "tokens":
        raise ConfigError(
            f"model.front={model.front!r} doesn't read texts, and its custom task has no embeddings",
            expected="a task derived from a built-in one",
            name="model.front",
            value=model.front,
        )
    begins = model.begins or model.head == "span"  # a question begins with BOS
    longest = model.max_len - 1 - begins
    if not isinstance(task, Sequences):  # they read texts longer than those in training
        longest = min(task.config.data.max_len, longest)
    encoded = task.tokenizers.source.encode_batch(texts)
    ids = [task.special.source(it[:longest], begins=begins) for it in encoded]
    return ids, [max(len(it) - longest, 0) for it in encoded]


def _tensor(task: Task, numbers: NDArray[Any]) -> "Tensor":
    import torch

    return torch.from_numpy(numbers).to(task.config.train.device)
