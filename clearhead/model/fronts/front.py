"""The interface of a front, the first part of an encoder."""

from torch import Tensor, nn


class Front(nn.Module):
    """Turns inputs into embeddings (B, S, D), and says which of the S positions hold something.

    The stack behind it adds positions and sees nothing but embeddings and a mask. Inputs can therefore be token ids,
    feature vectors, pictures or sounds.
    """

    def forward(self, inputs: Tensor) -> Tensor:  # (B, ...) -> (B, S, D)
        """Return one vector for each position."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, inputs)")

    def mask(self, inputs: Tensor) -> Tensor | None:  # (B, ...) -> (B, 1, 1, S)
        """Return True where a position may be attended to; None, the default, if every one may."""
        return None
