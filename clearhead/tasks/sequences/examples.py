"""A batch of sequence pairs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The tensors of one micro-batch.

    Args:
        source: source tokens (B, S).
        source_mask: True where a source token is real (B, 1, 1, S), or None if there is no padding.
        inputs: target tokens that the decoder reads (B, T).
        outputs: the next token after each input (B, T).
        n_tokens: the number of real tokens in `outputs`.
    """

    source: "Tensor"
    source_mask: "Tensor | None"
    inputs: "Tensor"
    outputs: "Tensor"
    n_tokens: int
