"""Embeddings of sources: the pooled output of an encoder."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...data.batches import Batches
from ...model.heads import pool
from ...model.transformer import Encoder, evaluation
from .sources import Sources


def embed(encoder: Encoder, sources: Sources, *, together: int, pooling: str, normalize: bool) -> NDArray[np.float32]:
    """Embed sources in batches of similar length, and return the vectors in the original order. (N, D)

    Args:
        encoder: the encoder.
        sources: what it reads.
        together: maximum number of positions in a batch.
        pooling: "mean" of all positions but padding, or the "first" one.
        normalize: scale each vector to length 1.
    """
    found = np.zeros((len(sources.sizes), encoder.d_model), np.float32)
    with evaluation(encoder), torch.inference_mode():
        for rows in Batches(sources.sizes, np.zeros_like(sources.sizes), together).epoch(0):
            vectors = embed_batch(encoder, sources.inputs(rows), pooling, normalize=normalize)
            found[rows] = vectors.float().cpu().numpy()
    return found


def embed_batch(encoder: Encoder, inputs: Tensor, pooling: str, *, normalize: bool) -> Tensor:
    """Return the embeddings of what the encoder's front end reads. (B, S) -> (B, D)"""
    mask = encoder.embedding.mask(inputs)
    x = encoder(inputs, mask=mask)
    real = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask[:, 0, 0]
    pooled = pool(x, real, pooling)
    return torch.nn.functional.normalize(pooled, dim=-1) if normalize else pooled
