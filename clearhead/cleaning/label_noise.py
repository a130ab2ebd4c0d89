"""Labels that are probably wrong: cross-fitted linear classifiers disagree with them confidently.

Each classifier is multinomial logistic regression on the words and pairs of words, trained on the other folds. Among
the texts whose label it's surest of, hardly any disagreement is its own error, so their share is the share of wrong
labels in all texts. That many labels are doubted: those that it finds the least probable. If wrong labels are drawn
from all others alike, no other order is better for calibrated probabilities, since nothing else about a text tells
whether its label is wrong.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from .character_model import Floats, Ints, sums

_FEWEST, _PER_LABEL = 200, 10  # minimum number of texts, and of texts for a label
_FOLDS, _STEPS = 10, 60
_DECAY = 0.5  # of the weights
_SUREST = 0.3  # share of the texts that the error rate of the labels is measured on
_GAIN = 0.01  # in log-likelihood, by which the texts have to tell the labels better than the shares of the labels do
_FEATURES = 1 << 18  # the most frequent ones
_LONGEST = 400  # words of a text that count
_WORD = re.compile(r"\w+|[^\w\s]")

_Matrix = tuple[Tensor, Tensor, Tensor]  # columns, where each row begins, values: ordered by rows


def label_noise(texts: Sequence[str], labels: Sequence[str]) -> tuple[list[tuple[int, str]], list[str]]:
    """Return the indices of texts whose label is probably wrong, with reasons, and notes on what wasn't checked."""
    names, numbers = np.unique(np.array(labels, object), return_inverse=True)
    if len(texts) < _FEWEST or len(names) < 2 or len(names) * _PER_LABEL > len(texts):
        return [], [f"labels weren't checked: fewer than {_FEWEST} texts, or {_PER_LABEL} for each label"]
    p = cross_fitted(texts, numbers, len(names))
    shares = np.bincount(numbers)[numbers] / len(numbers)
    if not np.mean(np.log(p[np.arange(len(p)), numbers] + 1e-9) - np.log(shares)) >= _GAIN:
        return [], ["labels weren't checked: the words don't predict them"]
    found = confident_disagreements(p, numbers)
    best = p.argmax(1)
    return [(i, f"more likely {names[best[i]]}, {p[i, best[i]]:.0%}") for i in found.tolist()], []


def confident_disagreements(p: Floats, numbers: Ints) -> Ints:
    """Return the texts whose label is probably wrong.

    Args:
        p: cross-fitted probabilities of the labels (N, C).
        numbers: the labels that the texts have (N,).
    """
    given, wrong = p[np.arange(len(p)), numbers], p.argmax(1) != numbers
    top = np.sort(p, 1)
    surest = np.argsort(top[:, -2] - top[:, -1], kind="stable")[: max(1, round(_SUREST * len(p)))]
    order = np.argsort(given, kind="stable")
    return np.sort(order[wrong[order]][: round(float(np.mean(wrong[surest])) * len(p))])


def cross_fitted(texts: Sequence[str], numbers: Ints, n_labels: int) -> Floats:
    """Return the probability of each label of each text (N, C), by a classifier that hasn't seen the text.

    Args:
        texts: the texts (N).
        numbers: the number of each text's given label (N,).
        n_labels: the number of labels C.
    """
    features = _Features(texts)
    folds = np.random.default_rng(0).permutation(len(texts)) % _FOLDS
    p = np.zeros((len(texts), n_labels))
    for fold in range(_FOLDS):
        p[folds == fold] = features.classifier(numbers, n_labels, folds != fold)[folds == fold]
    return p


class _Features:
    """The features of texts, as a sparse matrix that's stored by rows and by columns."""

    def __init__(self, texts: Sequence[str]) -> None:
        rows, found = self._of(texts)
        size = found.max(initial=0) + 1
        rows, found = np.divmod(np.unique(rows * size + found), size)
        frequency = np.bincount(found)
        frequent = np.zeros(len(frequency), bool)
        frequent[np.argsort(-frequency, kind="stable")[:_FEATURES]] = True
        shared = (frequent & (frequency > 1))[found]  # in another text, too
        rows, (kept, columns) = rows[shared], np.unique(found[shared], return_inverse=True)
        weights = np.log((1 + len(texts)) / (1 + frequency[kept]))[columns]
        norms = np.sqrt(sums(rows, weights**2, len(texts)))
        values = weights / np.maximum(norms, 1e-9)[rows]
        order = np.argsort(columns, kind="stable")
        self.n = len(kept)
        self._by_row = _sparse(rows, columns, values, len(texts))
        self._by_column = _sparse(columns[order], rows[order], values[order], self.n)

    @staticmethod
    def _of(texts: Sequence[str]) -> tuple[Ints, Ints]:
        vocabulary: dict[tuple[str, ...], int] = {}
        rows, found = list[int](), list[int]()
        for row, text in enumerate(texts):
            words = _WORD.findall(text.lower())[:_LONGEST]
            terms = [*((word,) for word in words), *zip(["<s>", *words], words)]
            found += [vocabulary.setdefault(it, len(vocabulary)) for it in terms]
            rows += [row] * len(terms)
        return np.array(rows, np.int64), np.array(found, np.int64)

    def classifier(self, numbers: Ints, n_labels: int, chosen: NDArray[np.bool_]) -> Floats:
        """Train on the chosen texts, and return the probabilities of the labels of all texts. (N, C)"""
        is_chosen = torch.from_numpy(chosen.astype(np.float32))[:, None]
        target = F.one_hot(torch.from_numpy(numbers), n_labels).float()
        w, momentum, square = (torch.zeros(self.n, n_labels) for _ in range(3))
        for step in range(1, _STEPS + 1):
            p = _product(self._by_row, w).softmax(1)
            gradient = _product(self._by_column, (p - target) * is_chosen) + _DECAY * w
            momentum = 0.9 * momentum + 0.1 * gradient
            square = 0.99 * square + 0.01 * gradient**2
            w = w - 0.5 * (momentum / (1 - 0.9**step)) / ((square / (1 - 0.99**step)).sqrt() + 1e-3)
        return _product(self._by_row, w).softmax(1).double().numpy()


def _sparse(rows: Ints, columns: Ints, values: Floats, n_rows: int) -> _Matrix:
    offsets = np.searchsorted(rows, np.arange(n_rows))
    return torch.from_numpy(columns), torch.from_numpy(offsets), torch.from_numpy(values.astype(np.float32))


def _product(matrix: _Matrix, dense: Tensor) -> Tensor:
    columns, offsets, values = matrix
    return F.embedding_bag(columns, dense, offsets, mode="sum", per_sample_weights=values)
