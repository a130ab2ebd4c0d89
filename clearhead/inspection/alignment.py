"""Which word of the source each word of a translation looked at."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def words_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[int]:
    """The word, counted from 0, that each token belongs to; words are what white space separates in the text.

    White space before the first word belongs to it, and any other to the word before. None may be unknown, as in an
    answer, since decoding passes over it; of any text `Tokenizer.word_numbers` tells.
    """
    return [max(len(decode(ids[: end + 1]).split()) - 1, 0) for end in range(len(ids))]


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> list[tuple[int, int]]:
    """(i, j): word i of the source has most of the attention of word j of the target. (T, S) -> a pair for each j

    A word of several tokens has the sum of their weights. Rows and columns beyond the words (the end tokens) count not.
    """
    n_source, n_target = (max(words, default=-1) + 1 for words in (source_words, target_words))
    if not n_source:
        return []
    weights, at = weights.float(), weights.device  # a half-precision number cannot name word 257
    by_column = weights.new_zeros(len(weights), n_source)
    by_column.index_add_(1, torch.tensor(source_words, device=at, dtype=torch.long), weights[:, : len(source_words)])
    by_word = weights.new_zeros(n_target, n_source)
    by_word.index_add_(0, torch.tensor(target_words, device=at, dtype=torch.long), by_column[: len(target_words)])
    return [(int(source), target) for target, source in enumerate(by_word.argmax(1))]
