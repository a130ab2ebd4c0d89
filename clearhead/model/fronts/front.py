"""Interface of a front end, the first module of an encoder."""

from torch import Tensor, nn


class Front(nn.Module):
    """Turns inputs into embeddings (B, S, D), and masks padding.

    The rest of the stack sees only embeddings and a mask, so inputs can be token ids, feature vectors, images or audio.
    """

    pad: int = 0
    """The value that marks padding in a batch of inputs of different lengths."""

    def forward(self, inputs: Tensor) -> Tensor:  # (B, ...) -> (B, S, D)
        """Return one vector for each position."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, inputs)")

    def mask(self, inputs: Tensor) -> Tensor | None:  # (B, ...) -> (B, 1, 1, S)
        """Return True for positions that may be attended to, or None, the default, if all may."""
        return None

    def names(self, inputs: Tensor) -> list[list[str]] | None:
        """Return a name for each position of each row, (B, S), such as "r2c5". None, the default, if there is none."""
        return None

    def augment(self, inputs: Tensor) -> Tensor:  # (B, ...) -> (B, ...)
        """Return inputs changed at random, as training reads them. By default, nothing changes."""
        return inputs
