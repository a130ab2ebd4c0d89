"""A batch of sequence pairs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class PairBatch:
    """The tensors of one micro-batch.

    Args:
        source: source tokens (B, S), or what another front end reads.
        ragged: whether the sources have different lengths, so that there's padding to mask.
        inputs: target tokens that the decoder reads (B, T).
        outputs: the next token after each input (B, T).
        n_tokens: the number of real tokens in `outputs`.
    """

    source: "Tensor"
    ragged: bool
    inputs: "Tensor"
    outputs: "Tensor"
    n_tokens: int
