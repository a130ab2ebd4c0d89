"""What cross-attention aligns: words of an answer with source words, and tokens of a transcript with times."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rich.cells import cell_len
from torch import Tensor

from .text_columns import cut, left, wrapped

_SHOWN, _LEAST = 4, 0.1  # maximum number of source words to show for each word, and their minimum share of attention
_WORD = 20  # columns of a word


def alignment_layer(n_layers: int) -> int:
    """Return the layer whose cross-attention is closest to an alignment: the second to last (Garg et al. 2019).

    With fewer than three layers, it's the last.
    """
    return n_layers - 2 if n_layers >= 3 else n_layers - 1


def align(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> list[tuple[int, int]]:
    """Return pairs (i, j): word j of the target attends most to word i of the source. (T, S) -> one pair for each j

    Rows and columns without a word (-1, and the end tokens) are ignored.

    Args:
        weights: attention weights, averaged over heads.
        source_words: see `word_weights`.
        target_words: see `word_weights`.
    """
    by_word = word_weights(weights, source_words, target_words)
    return [(int(source), target) for target, source in enumerate(by_word.argmax(1))] if by_word.numel() else []


def word_weights(weights: Tensor, source_words: Sequence[int], target_words: Sequence[int]) -> Tensor:
    """Return the attention weights between words instead of tokens.

    (T, S) -> (words of the target, words of the source): weights are summed over a source word's tokens, and averaged
    over a target word's tokens.

    Args:
        weights: attention weights, averaged over heads. T and S may include end tokens.
        source_words: the index of the word that each source token belongs to, at most S; -1 for none.
        target_words: the same for target tokens, at most T. Each belongs to a word.
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
    """Render the pairs as i-j in one line, then each word of the target with the source words it attended to.

    Args:
        pairs: the result of `align`.
        weights: the result of `word_weights`.
        source: the words of the source.
        target: the words of the target.
        layer: the layer of the cross-attention.
    """
    lines = [" ".join(f"{i}-{j}" for i, j in pairs), ""]
    label = min(_WORD, max(map(cell_len, target), default=0))
    for word, shares in zip(target, weights.tolist()):
        most = sorted(zip(shares, source), key=lambda it: -it[0])[:_SHOWN]
        attended = [f"{cut(name, _WORD)} {share:.0%} " for share, name in most if share >= _LEAST]
        lines += wrapped(left(word, label) + "  ", attended or ["nothing in particular"])
    return "\n".join([*lines, "", f"decoder.cross, layer {layer}, mean of all heads; shares of at least {_LEAST:.0%}"])


# --- times

_SMOOTHING = np.array([1, 2, 3, 2, 1]) / 9  # over five positions of 40 ms: attention often jumps between two of them


@dataclass(frozen=True)
class TokenTiming:
    """A token, and the stretch of the recording that it attends to, in seconds."""

    token: str
    start: float
    end: float


def centres(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position that each token attends to most, in an order that never goes back. (T, S) -> (T,)

    Of all such sequences, the one with the largest sum of weights is returned.
    """
    best = np.empty_like(weights)
    total = np.zeros(weights.shape[1])
    for token, row in enumerate(weights):
        best[token] = total + row
        total = np.maximum.accumulate(best[token])
    found, last = np.empty(len(weights), np.int64), weights.shape[1]
    for token in range(len(weights) - 1, -1, -1):
        found[token] = int(best[token, :last].argmax())
        last = found[token] + 1
    return found


def timings(
    weights: NDArray[np.float64], tokens: Sequence[str], seconds: float, length: float
) -> tuple[TokenTiming, ...]:
    """Return the stretch around each token's centre where its share is at least half of that at the centre.

    The share of a token is its part of all tokens' attention to a position, smoothed over time: some positions, such
    as the end of a recording, get attention from every token. Between the centres of two neighbours, each stretch ends
    halfway at the latest.

    Args:
        weights: cross-attention, averaged over heads, (T, S). T may include the end token.
        tokens: the tokens without the end token.
        seconds: the time from one position to the next.
        length: the length of the recording in seconds.
    """
    shares = _smoothed(weights / weights.sum(0).clip(1e-12))
    peaks, found = centres(shares), []
    for number, token in enumerate(tokens):
        peak, row = int(peaks[number]), shares[number]
        low = 0 if not number else (int(peaks[number - 1]) + peak + 1) // 2
        high = len(row) - 1 if number + 1 == len(peaks) else (peak + int(peaks[number + 1]) + 1) // 2 - 1
        start = end = peak
        while start > low and row[start - 1] >= row[peak] / 2:
            start -= 1
        while end < high and row[end + 1] >= row[peak] / 2:
            end += 1
        edges = (max(0.0, (start - 0.5) * seconds), min(length, (end + 0.5) * seconds))
        found.append(TokenTiming(token, round(edges[0], 3), round(edges[1], 3)))
    return tuple(found)


def _smoothed(values: NDArray[np.float64]) -> NDArray[np.float64]:
    margin = len(_SMOOTHING) // 2
    return np.stack([np.convolve(np.pad(row, margin), _SMOOTHING, "valid") for row in values])
