"""Which word of the source each word of a translation looked at."""

from collections.abc import Callable, Sequence

import torch
from rich.cells import cell_len
from torch import Tensor

from .text_columns import cut, left, wrapped

_LOOKED_AT, _LEAST = 4, 0.1  # words that are shown of those that one looked at, and from which share on
_WORD = 20  # columns of a word


def words_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[int]:
    """The word, counted from 0, that each token belongs to; words are what white space separates in the text.

    White space before the first word belongs to it, and any other to the word before. None may be unknown, as in an
    answer, since decoding passes over it; of any text `Tokenizer.word_indices` tells.
    """
    return [max(len(decode(ids[: end + 1]).split()) - 1, 0) for end in range(len(ids))]


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> list[tuple[int, int]]:
    """(i, j): word i of the source has most of the attention of word j of the target. (T, S) -> a pair for each j

    A word of several tokens has the sum of their weights. Rows and columns beyond the words (the end tokens) count not.
    """
    by_word = word_weights(weights, source_words, target_words)
    return [(int(source), target) for target, source in enumerate(by_word.argmax(1))] if by_word.numel() else []


def word_weights(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """How much of the attention of each word of the target each word of the source has: the sum over the tokens of
    that, the mean over those of this. (T, S) -> (words of the target, words of the source)
    """
    n_source, n_target = (max(words, default=-1) + 1 for words in (source_words, target_words))
    weights, at = weights.float(), weights.device  # a half-precision number cannot name word 257
    by_column = weights.new_zeros(len(weights), n_source)
    by_column.index_add_(1, torch.tensor(source_words, device=at, dtype=torch.long), weights[:, : len(source_words)])
    by_word = weights.new_zeros(n_target, n_source)
    places = torch.tensor(target_words, device=at, dtype=torch.long)
    by_word.index_add_(0, places, by_column[: len(target_words)])
    return by_word / torch.bincount(places, minlength=n_target).clamp(min=1)[:, None]


def render_alignment(
    pairs: Sequence[tuple[int, int]], weights: Tensor, source: Sequence[str], target: Sequence[str], layer: int
) -> str:
    """A line of pairs i-j, and below it for each word of the target which words of the source it looked at."""
    lines = [" ".join(f"{i}-{j}" for i, j in pairs), ""]
    label = min(_WORD, max(map(cell_len, target), default=0))
    for word, shares in zip(target, weights.tolist()):
        most = sorted(zip(shares, source), key=lambda it: -it[0])[:_LOOKED_AT]
        looked = [f"{cut(name, _WORD)} {share:.0%} " for share, name in most if share >= _LEAST]
        lines += wrapped(left(word, label) + "  ", looked or ["nothing in particular"])
    return "\n".join([*lines, "", f"by the mean of the heads of decoder.cross, layer {layer}; from {_LEAST:.0%} on"])
