"""Embeddings of texts, images or recordings: the pooled output of an encoder, for every task whose model has one."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...config import Config
from ...config.values import require
from ...data.batches import Batches
from ...decode.model_handle import ModelHandle, as_module
from ...errors import ConfigError
from ..base import Task
from ..classify.task import Classification
from ..sequences import Sequences
from ..source_reader import SourceReader, TextReader
from ..transcribe.task import Transcription

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...model.transformer import Encoder


def embed_sources(
    task: Task, model: "ModelHandle | nn.Module", sources: Sequence[Any], config: Config
) -> NDArray[np.float32]:
    """Embed texts, images or recordings with the settings in `config`, and return the vectors. (N, D)

    Raises:
        ConfigError: the model has no encoder, or a custom task reads images or recordings.
    """
    import torch

    from ...inspection.record.parts import stacks
    from ...model.transformer import Encoder, evaluation

    if config.model.topology == "decoder-only":
        raise ConfigError(
            "a decoder-only model has no encoder, so it can't embed texts",
            expected="a model for another task than `generate`",
            fix="train an encoder on the same text with `train.task=fill`",
            name="model.topology",
            value=config.model.topology,
        )
    reader = reader_of(task)
    encoded, encoder = reader.joined(reader.encode(sources)[0]), stacks(as_module(model))["encoder"]
    assert isinstance(encoder, Encoder)
    sizes = reader.positions(encoded.lengths)
    found = np.zeros((len(sizes), encoder.d_model), np.float32)
    with evaluation(encoder), torch.inference_mode():
        for rows in Batches(sizes, np.zeros_like(sizes), config.decode.batch_tokens).epoch(0):
            vectors = embed_batch(encoder, reader.tensor(encoded, rows), config)
            found[rows] = vectors.float().cpu().numpy()
    return found


def embed_batch(encoder: "Encoder", inputs: "Tensor", config: Config) -> "Tensor":
    """Return the embeddings of what the encoder's front end reads. (B, S) -> (B, D)"""
    import torch

    from ...model.heads import pool

    mask = encoder.embedding.mask(inputs)
    x = encoder(inputs, mask=mask)
    real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]
    pooled = pool(x, real, config.model.pooling)
    return torch.nn.functional.normalize(pooled, dim=-1) if config.model.normalize else pooled


def reader_of(task: Task) -> SourceReader:
    """Return what encodes sources to embed. Long ones are truncated.

    Raises:
        ConfigError: a custom task reads images or recordings.
    """
    if isinstance(task, Classification | Transcription):
        return task.reader
    model = task.config.model
    what = "doesn't read texts, and its custom task has no embeddings"
    require(model.front == "tokens", "model.front", model.front, "a task derived from a built-in one", what=what)
    begins = model.begins or model.head == "span"  # a question begins with BOS
    longest = model.max_len - 1 - begins
    if not isinstance(task, Sequences):  # they read texts longer than those in training
        longest = min(task.config.data.max_len, longest)
    return TextReader(task.tokenizers.source, longest, begins, task.config)
