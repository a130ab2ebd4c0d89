"""Losses that need no model: those of the frequencies of tokens, of pairs of tokens, or of labels."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config import Recipe
from ...tasks.base import Task
from ...tasks.classify.examples import LabelledExamples
from ...tasks.generate.examples import Blocks
from ...tasks.sequences import Sequences
from ...tokenization.ragged import IntArray

_MOST = 500_000  # tokens to count


@dataclass(frozen=True)
class Floors:
    """Mean losses on held-out targets, in nats per prediction. A model that learns should get below them.

    Attributes:
        unigram: the loss of the frequencies of tokens or labels in the training data.
        bigram: the loss of their frequencies after each token; None for labels.
    """

    unigram: float
    bigram: float | None

    @property
    def lowest(self) -> float:
        return self.unigram if self.bigram is None else min(self.unigram, self.bigram)

    @classmethod
    def of(cls, task: Task, examples: Any, held_out: Any) -> "Floors | None":
        """Count the targets of training examples, and score those of others. Return None if that says nothing.

        Args:
            task: knows what the targets are.
            examples: training examples, to count.
            held_out: examples to score.
        """
        known, new = _targets(task, examples), _targets(task, held_out)
        if known is None or new is None or not len(known[0]) or not len(new[0]):
            return None
        (tokens, before), (asked, after) = known, new
        size = int(max(tokens.max(), asked.max())) + 1
        if size < 2:
            return None
        p = _frequencies(tokens, size)
        unigram = float(-np.log(p[asked]).mean())
        if before is None or after is None:
            return cls(unigram, None)
        return cls(unigram, _bigram(tokens, before, asked, after, p))


def surprisal_gaps(known: NDArray[np.integer[Any]], new: NDArray[np.integer[Any]]) -> tuple[float, float]:
    """Return how much more new running tokens surprise than known ones: by frequencies, and by those of pairs.

    Counted tokens surprise less than others, so every tenth of a hundred parts of the known tokens is left out of the
    counts, and compared with the new ones. In nats per token; near 0 for tokens of the same kind.
    """
    parts = np.array_split(np.asarray(known[:_MOST], np.int64), 100)
    asked = np.asarray(new[:_MOST], np.int64)
    rest, left_out = (
        np.concatenate([it for n, it in enumerate(parts) if (n % 10 == 5) == out]) for out in (False, True)
    )
    p = _frequencies(rest, int(max(it.max() for it in (rest, left_out, asked))) + 1)
    tokens = [-np.log(p[it]).mean() for it in (asked, left_out)]
    pairs = [_bigram(rest[1:], rest[:-1], it[1:], it[:-1], p) for it in (asked, left_out)]
    return float(tokens[0] - tokens[1]), pairs[0] - pairs[1]


def _frequencies(tokens: IntArray, size: int) -> Any:
    return (np.bincount(tokens, minlength=size) + 0.5) / (len(tokens) + 0.5 * size)


def _bigram(tokens: IntArray, before: IntArray, asked: IntArray, after: IntArray, p: Any) -> float:
    """Return the loss of pairs, interpolated with that of single tokens (Witten and Bell 1991)."""
    size = len(p)
    pairs, counts = np.unique(before * size + tokens, return_counts=True)
    total = np.bincount(before, minlength=size)
    kinds = np.bincount(pairs // size, minlength=size)  # different tokens that follow each token
    wanted = after * size + asked
    place = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    seen = np.where(pairs[place] == wanted, counts[place], 0)
    follows = np.maximum(total[after] + kinds[after], 1)
    known = total[after] > 0
    return float(-np.log(np.where(known, (seen + kinds[after] * p[asked]) / follows, p[asked])).mean())


def smoothing_floor(smoothing: float, size: int) -> float:
    """Return the lowest loss with label smoothing over `size` tokens: the entropy of the smoothed targets, in nats."""
    if not smoothing or size < 2:
        return 0.0
    rest = smoothing / size
    right = 1 - smoothing + rest
    return -right * math.log(right) - (size - 1) * rest * math.log(rest)


def memorises(trained: float, best: float, config: Recipe) -> bool:
    """Return whether a training loss is below the best validation loss, apart from label smoothing.

    A validation loss that rises while it isn't shows a run that is unstable, and not one that overfits.

    Args:
        trained: the newest training loss, with the label smoothing of `config`, in nats.
        best: the lowest validation loss, without it.
        config: the settings of the run.
    """
    size = config.model.tgt_vocab_size or config.model.n_classes
    return not trained - smoothing_floor(config.train.label_smoothing, size) >= best


def _targets(task: Task, examples: Any) -> tuple[IntArray, IntArray | None] | None:
    """Return the predicted tokens of some examples, and the token before each, or None for labels."""
    if isinstance(examples, Blocks):
        tokens = np.asarray(examples.documents.tokens[:_MOST], np.int64)
        return tokens[1:], tokens[:-1]
    if isinstance(examples, LabelledExamples) and not task.config.data.label_kind:
        return examples.numbers, None
    if isinstance(task, Sequences):
        flat, lengths = np.asarray(examples.targets.tokens[:_MOST], np.int64), examples.targets.lengths
        is_first = np.zeros(len(flat) + 1, bool)
        starts = examples.targets.starts[:-1]
        is_first[starts[(starts < len(flat)) & (lengths > 0)]] = True
        return flat[~is_first[:-1]], flat[:-1][~is_first[1:-1]]
    return None
