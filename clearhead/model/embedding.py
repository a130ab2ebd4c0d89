"""Tokens to vectors and back (section 3.4)."""

import math

import torch
from torch import Tensor, nn

from ..errors import ModelError
from .linear import Linear


class Embedding(nn.Module):
    """A learned vector a token, times sqrt(d_model).

    The vectors start at N(0, 1/sqrt(d_model)), so that what enters the first block has a variance of 1.
    """

    def __init__(self, vocab_size: int, d_model: int = 512) -> None:
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) * d_model**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, T) -> (B, T, D)
        try:
            return nn.functional.embedding(tokens, self.weight) * self.scale
        except IndexError as error:
            raise ModelError(
                f"token {int(tokens.max())} is beyond the vocabulary of {len(self.weight)}; "
                "encode the text with the tokenizer of this model"
            ) from error


class TokenTypes(nn.Module):
    """A learned vector a type of token, added to its embedding: the segments of BERT (Devlin et al. 2019), such as a
    question and what it is asked of."""

    def __init__(self, n_types: int, d_model: int = 512) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_types, d_model) * d_model**-0.5)

    def forward(self, types: Tensor) -> Tensor:  # (B, S) -> (B, S, D)
        try:
            return nn.functional.embedding(types, self.weight)
        except IndexError as error:
            raise ModelError(
                f"token type {int(types.max())} is beyond the {len(self.weight)} types of this model "
                "(model.n_token_types), which are counted from 0"
            ) from error


def projection(d_model: int, vocab_size: int, *, tied: Embedding | None = None) -> Linear:
    """The last linear layer, (B, T, D) -> logits (B, T, V): an embedding's own matrix without a bias, or one with."""
    linear = Linear(d_model, vocab_size, bias=tied is None)
    if tied is not None:
        linear.weight = tied.weight
    return linear
