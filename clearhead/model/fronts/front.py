"""The interface of a front, the first part of an encoder."""

from torch import Tensor, nn


class Front(nn.Module):
    """Turns inputs into embeddings (B, S, D), and masks padding.

    The rest of the stack adds positions and sees only embeddings and a mask. So inputs can be token ids, feature
    vectors, pictures or sounds.
    """

    def forward(self, inputs: Tensor) -> Tensor:  # (B, ...) -> (B, S, D)
        """Return one vector for each position."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(self, inputs)")

    def mask(self, inputs: Tensor) -> Tensor | None:  # (B, ...) -> (B, 1, 1, S)
        """Return True for positions that may be attended to, or None, the default, if all may."""
        return None
