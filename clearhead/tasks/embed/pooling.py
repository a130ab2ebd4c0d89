"""Embeddings of sources: the pooled output of an encoder."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.batches import Batches
from ...model.heads import pool
from ...model.transformer import Encoder, evaluation
from ...tokenization.ragged import IntArray


def embed(
    encoder: Encoder,
    inputs: Callable[[IntArray], Tensor],
    sizes: IntArray,
    *,
    together: int,
    pooling: str,
    normalize: bool,
) -> NDArray[np.float32]:
    """Embed sources in batches of similar length, and return the vectors in the original order. (N, D)

    Args:
        encoder: the encoder.
        inputs: function that returns the encoder's input for the sources in these rows.
        sizes: the positions of each source in the encoder, (N,).
        together: maximum number of positions in a batch.
        pooling: "mean" of all positions but padding, or the "first" one.
        normalize: scale each vector to length 1.
    """
    found = np.zeros((len(sizes), encoder.d_model), np.float32)
    with evaluation(encoder), torch.inference_mode():
        for rows in Batches(sizes, np.zeros_like(sizes), together).epoch(0):
            vectors = embed_batch(encoder, inputs(rows), pooling, normalize=normalize)
            found[rows] = vectors.float().cpu().numpy()
    return found


def embed_batch(encoder: Encoder, inputs: Tensor, pooling: str, *, normalize: bool) -> Tensor:
    """Return the embeddings of what the encoder's front end reads. (B, S) -> (B, D)"""
    mask = encoder.embedding.mask(inputs)
    x = encoder(inputs, mask=mask)
    real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]
    pooled = pool(x, real, pooling)
    return torch.nn.functional.normalize(pooled, dim=-1) if normalize else pooled
