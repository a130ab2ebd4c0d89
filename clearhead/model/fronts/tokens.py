"""Token embeddings and the output projection (section 3.4)."""

import math

from torch import Tensor, nn

from ...errors import ModelError, beyond_vocabulary
from ..linear import Linear, learned_table
from ..masks import padding_mask
from .front import Front


class Embedding(Front):
    """A learned vector for each token, times `scale` (default: sqrt(d_model)). Padding is masked.

    If `pad` is beyond the vocabulary, padding is embedded as token 0.

    Weights are drawn from N(0, 1/d_model), so the input of the first block has variance 1.
    """

    def __init__(self, vocab_size: int, d_model: int = 512, pad: int = 0, scale: float | None = None) -> None:
        super().__init__()
        self.scale, self.pad = math.sqrt(d_model) if scale is None else scale, pad
        self.weight = learned_table(vocab_size, d_model)

    def forward(self, inputs: Tensor) -> Tensor:  # (B, T) -> (B, T, D)
        if self.pad >= len(self.weight):
            inputs = inputs.masked_fill(inputs == self.pad, 0)
        try:
            return nn.functional.embedding(inputs, self.weight) * self.scale
        except IndexError as error:
            raise beyond_vocabulary(int(inputs.max()), len(self.weight)) from error

    def mask(self, inputs: Tensor) -> Tensor:  # (B, S) -> (B, 1, 1, S)
        return padding_mask(inputs, self.pad)


class TokenTypes(nn.Module):
    """A learned vector for each token type, added to the embeddings.

    BERT calls types segments (Devlin et al. 2019), for example a question and its context.
    """

    def __init__(self, n_types: int, d_model: int = 512) -> None:
        super().__init__()
        self.weight = learned_table(n_types, d_model)

    def forward(self, types: Tensor) -> Tensor:  # (B, S) -> (B, S, D)
        try:
            return nn.functional.embedding(types, self.weight)
        except IndexError as error:
            found, n_types = int(types.max()), len(self.weight)
            what = f"token type {found} is beyond the {n_types} types of this model"
            expected = f"types from 0 to {n_types - 1} (model.n_token_types = {n_types})"
            raise ModelError(what, expected=expected, name="types", value=found) from error


class Projection(Linear):
    """The output projection, which scores the vocabulary. A tied projection shares an embedding's matrix.

    Args:
        d_model: the width of the inputs.
        vocab_size: the number of tokens.
        tied: the embedding to share the matrix of.
        bias: whether to add a bias (default: only without `tied`).
        scale: a factor of the inputs.
    """

    def __init__(
        self,
        d_model: int,
        vocab_size: int,
        *,
        tied: Embedding | None = None,
        bias: bool | None = None,
        scale: float = 1.0,
    ) -> None:
        super().__init__(d_model, vocab_size, bias=tied is None if bias is None else bias)
        self.scale = scale
        if tied is not None:
            self.weight = tied.weight

    def forward(self, x: Tensor) -> Tensor:  # (B, T, D) -> (B, T, V)
        return super().forward(self.scaled(x))

    def scaled(self, x: Tensor) -> Tensor:
        """Return what the product reads. (B, T, D) -> (B, T, D)"""
        return x if self.scale == 1 else x * self.scale
