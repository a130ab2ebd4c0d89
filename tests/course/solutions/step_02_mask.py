import math

import torch
from step_01_attention import softmax


def causal_mask(n):
    places = torch.arange(n)
    return places[None, :] <= places[:, None]


def masked_softmax(scores, mask):
    weights = softmax(scores.masked_fill(~mask, -1e9))
    return weights.masked_fill(~mask, 0.0)


def masked_attention(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
    weights = masked_softmax(scores, mask)
    return weights @ v, weights
