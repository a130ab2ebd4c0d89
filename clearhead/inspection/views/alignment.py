"""Align each word of an answer with the source words that it attended to."""

from collections.abc import Callable, Sequence

import torch
from rich.cells import cell_len
from torch import Tensor

from .text_columns import cut, left, wrapped

_SHOWN, _LEAST = 4, 0.1  # maximum number of source words to show for each word, and their minimum share of attention
_WORD = 20  # columns of a word


def words_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[int]:
    """Return the index of the word that each token belongs to. Words are separated by whitespace.

    Whitespace before the first word belongs to that word, other whitespace to the word before it. The ids must not
    include unknown tokens, which decoding skips. Answers never do; for other texts, use `word_indices`.
    """
    return [max(len(decode(ids[: end + 1]).split()) - 1, 0) for end in range(len(ids))]


def alignment_layer(n_layers: int) -> int:
    """Return the layer whose cross-attention is closest to an alignment: the second to last (Garg et al. 2019).

    With fewer than three layers, it's the last.
    """
    return n_layers - 2 if n_layers >= 3 else n_layers - 1


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs (i, j): word j of the target attends most to word i of the source. (T, S) -> one pair for each j

    Words are weighted as in `word_weights`. Rows and columns without a word (-1, and the end tokens) are ignored.
    """
    by_word = word_weights(weights, source_words, target_words)
    return [(int(source), target) for target, source in enumerate(by_word.argmax(1))] if by_word.numel() else []


def word_weights(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """Return the attention weights between words instead of tokens.

    (T, S) -> (words of the target, words of the source): weights are summed over a source word's tokens, and averaged
    over a target word's tokens.
    """
    n_source, n_target = (max(words, default=-1) + 1 for words in (source_words, target_words))
    weights, at = weights.float(), weights.device  # half precision can't represent 257
    by_column = weights.new_zeros(len(weights), n_source)
    columns = torch.tensor(source_words, device=at, dtype=torch.long)
    real = columns >= 0
    by_column.index_add_(1, columns[real], weights[:, : len(source_words)][:, real])
    by_word = weights.new_zeros(n_target, n_source)
    places = torch.tensor(target_words, device=at, dtype=torch.long)
    by_word.index_add_(0, places, by_column[: len(target_words)])
    return by_word / torch.bincount(places, minlength=n_target).clamp(min=1)[:, None]


def render_alignment(
    pairs: Sequence[tuple[int, int]], weights: Tensor, source: Sequence[str], target: Sequence[str], layer: int
) -> str:
    """Render the pairs as i-j in one line, then each word of the target with the source words it attended to."""
    lines = [" ".join(f"{i}-{j}" for i, j in pairs), ""]
    label = min(_WORD, max(map(cell_len, target), default=0))
    for word, shares in zip(target, weights.tolist()):
        most = sorted(zip(shares, source), key=lambda it: -it[0])[:_SHOWN]
        attended = [f"{cut(name, _WORD)} {share:.0%} " for share, name in most if share >= _LEAST]
        lines += wrapped(left(word, label) + "  ", attended or ["nothing in particular"])
    return "\n".join([*lines, "", f"decoder.cross, layer {layer}, mean of all heads; shares of at least {_LEAST:.0%}"])
