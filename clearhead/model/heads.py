"""What stands on an encoder: one answer a text, a passage of it, or its hidden tokens (BERT, Devlin et al. 2019).

Every head is given the encoder's output x (B, S, D), and which of its tokens it may read.
"""

from torch import Tensor, nn

from ..errors import ModelError
from .dropout import Dropout
from .fronts.tokens import Embedding, projection
from .linear import Linear


class Classifier(nn.Module):
    """The scores of each class: one vector for the whole text, dropout, a linear layer.

    mean: the mean of its tokens' vectors;  first: that of its first token.
    """

    def __init__(
        self, d_model: int, n_classes: int, pooling: str = "mean", dropout: float = 0.1, *, bias: bool = True
    ) -> None:
        super().__init__()
        if pooling not in ("mean", "first"):
            raise ModelError(
                f"pooling={pooling!r} is unknown", expected="'mean' or 'first'", name="pooling", value=pooling
            )
        self.pooling, self.dropout, self.linear = pooling, Dropout(dropout), Linear(d_model, n_classes, bias=bias)

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        """(B, S, D), real (B, S) -> (B, C)

        `real` is True for the tokens that are pooled. Of a text that has none the mean is zero, and the first token
        that which stands there.
        """
        if self.pooling == "first":
            pooled = x.take_along_dim(real.long().argmax(1)[:, None, None], 1).squeeze(1)
        else:
            pooled = (x * real[..., None]).sum(1) / real.sum(1).clamp(min=1)[:, None]
        return self.linear(self.dropout(pooled))


class SpanFinder(nn.Module):
    """A score for every token as the first, and one as the last, of the passage that answers."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = Linear(d_model, 1, 1)

    def forward(self, x: Tensor, allowed: Tensor) -> Tensor:
        """(B, S, D), allowed (B, S) -> (B, S, 2), start and end; -inf where `allowed` is False

        The first token stands for "there is no answer", and is allowed always: so every text has a finite score.
        """
        barred = ~allowed
        barred[:, 0] = False
        return self.linear(x).masked_fill(barred[..., None], float("-inf"))


class TokenPredictor(nn.Module):
    """The scores of every token of the vocabulary, at the places where the text was hidden: to learn from text alone.

    A tied one is the transpose of the embedding, as in section 3.4 the decoder's projection is.
    """

    def __init__(self, d_model: int, vocab_size: int, *, tied: Embedding | None = None) -> None:
        super().__init__()
        self.projection = projection(d_model, vocab_size, tied=tied)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        """(B, S, D), at (N,) -> (N, V)

        `at` says which tokens: their numbers in the batch, counted row by row, or True at each in (B, S). A GPU likes
        numbers better: of what is True it has to be asked how many there are.
        """
        return self.projection(x.flatten(0, 1)[at.flatten()])
