"""Pairs whose sides don't belong together: shifted against each other, unrelated, truncated or merged.

A pair's evidence is a log-likelihood ratio, calibrated on pairs that are deliberately wrong. A hidden Markov model over
the lines finds where the targets are shifted by some lines, or unrelated.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..data.split import spelling
from .character_model import Floats, Ints
from .lexical_model import LexicalModel, Stems

_FEWEST = 200  # minimum number of pairs to learn from
_SHIFTS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)  # lines by which targets may be shifted
_APART = 0.95  # minimum share of wrong pairs that score below the median right one
_NEAR = 11  # distance of the lines that half of the wrong pairs are made of
_DOUBT, _AROUND = 2.0, 6  # evidence below which a pair is doubtful, and lines around one that may be shifted
_SURE = 10.0  # maximum evidence of a pair, of either kind
_ENTER, _ENTER_LONE, _LEAVE, _WRAP = np.log(1e-4), np.log(3e-3), np.log(0.05), np.log(0.1)
_LONG = 6.0  # deviations of a length ratio
_WORDS = 4  # minimum difference in words of a truncated text

Faults = list[tuple[int, str]]


class AlignmentFaults(NamedTuple):
    """The indices of faulty pairs, each with a reason, and notes on what wasn't checked.

    `partners` are the pairs that have the targets of shifted ones: {index: index}.
    """

    shifted: Faults
    unrelated: Faults
    odd: Faults
    notes: list[str]
    partners: dict[int, int]


def alignment_faults(
    lines: Sequence[int], sources: Sequence[str], targets: Sequence[str], shunned: set[int]
) -> AlignmentFaults:
    """Find shifted, unrelated, and truncated or merged pairs.

    Args:
        lines: the line of each pair, for the reasons.
        shunned: indices of pairs not to learn from or to judge.
    """
    found = AlignmentFaults([], [], [], [], {})
    n = len(sources)
    if n < _FEWEST:
        found.notes.append(f"alignment wasn't checked: fewer than {_FEWEST} pairs")
        return found
    usable = np.ones(n)
    usable[sorted(shunned)] = 0
    evidence = _Evidence(sources, targets, usable)
    if evidence.apart < _APART:
        found.notes.append("alignment wasn't checked: too few words are translated often enough to tell")
        return found
    right = evidence.of(0) * usable
    doubtful = np.flatnonzero(np.convolve(right < _DOUBT, np.ones(2 * _AROUND + 1), "same") > 0)
    shifted = np.full((len(_SHIFTS), n), -_SURE) * usable
    for row, shift in zip(shifted, _SHIFTS):
        row[doubtful] = evidence.of(shift, doubtful) * usable[doubtful]
    states = _states(right, shifted)
    near = np.convolve((states > 0) & (states <= len(_SHIFTS)), [1, 1, 1], "same") > 0
    for place in np.flatnonzero((states > 0) & (usable > 0)).tolist():
        state = states[place]
        if state <= len(_SHIFTS):
            found.partners[place] = place + _SHIFTS[state - 1]
            found.shifted.append((place, f"its target is on line {lines[found.partners[place]]:,}"))
        elif near[place]:
            found.shifted.append((place, "at the edge of a shifted block"))
        else:
            found.unrelated.append((place, "no words that translate each other"))
    found.odd.extend(_odd_lengths(evidence, usable * (states == 0) * (right > -_DOUBT)))
    return found


class _Evidence:
    """Log-likelihood ratios for a source and a target to belong together."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str], usable: Floats) -> None:
        self.source, self.target = Stems.of(sources), Stems.of(targets)
        self._models = LexicalModel(self.source, self.target, usable), LexicalModel(self.target, self.source, usable)
        self._all = np.arange(len(sources))
        self._keys = tuple([spelling(text) for text in side] for side in (sources, targets))
        right = self._features(self._all)
        shift = np.where(self._all % 2, _NEAR, len(sources) // 3)
        others = (self._all + shift) % len(sources)
        differ = np.array([self._differ(i, k) for i, k in enumerate(others.tolist())]) & (usable > 0)
        wrong = self._features(others, self._all)
        self.apart = float(np.mean(wrong[differ, 0] < np.median(right[usable > 0, 0])))
        x = np.concatenate([right[usable > 0], wrong[differ]])
        y = np.concatenate([np.ones(int(usable.sum())), np.zeros(int(differ.sum()))])
        self._weights = _logistic_regression(x, y)

    def of(self, shift: int, lines: Ints | None = None) -> Floats:
        """Return the evidence that the targets of some lines (default: all) are on the lines `shift` below."""
        lines = self._all if lines is None else lines
        places = lines + shift
        inside = (places >= 0) & (places < len(self._all))
        features = self._features(np.where(inside, places, lines), lines if shift else None)
        found = np.clip(features @ self._weights[1:] + self._weights[0], -_SURE, _SURE)
        return np.where(inside, found, -_SURE)

    def _differ(self, one: int, other: int) -> bool:
        return all(keys[one] != keys[other] for keys in self._keys)

    def _features(self, places: Ints, lines: Ints | None = None) -> Floats:
        """Return the score of some sources with the targets at some places, and the score per word.

        Without `lines`, the sources are all of them, and each place is that of its own target.
        """
        source, target = (
            (self.source, self.target) if lines is None else (self.source.take(lines), self.target.take(places))
        )
        forward = self._models[0].scores(source, target, are_counted=lines is None)
        back = self._models[1].scores(target, source, are_counted=lines is None)
        score = (forward + back) / 2
        words = (source.lengths + target.lengths) / 2
        return np.stack([score, score / words], 1)


def _logistic_regression(x: Floats, y: Floats) -> Floats:
    """Return the weights of a logistic regression, the constant first, by Newton's method."""
    x = np.column_stack([np.ones(len(x)), x])
    weights = np.zeros(x.shape[1])
    for _ in range(15):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-3 * np.eye(len(weights))
        weights += np.linalg.solve(hessian, x.T @ (y - p) - 1e-3 * weights)
    return weights


def _states(right: Floats, shifted: Floats) -> Ints:
    """Return the most probable state of each line (N,): 0 aligned, 1 to K shifted, K + 1 unrelated.

    Args:
        right: the evidence for each pair (N,).
        shifted: the evidence for each pair shifted by some lines (K, N).
    """
    n_states = len(shifted) + 2
    emitted = np.vstack([right, shifted, np.zeros(len(right))])
    move = np.full((n_states, n_states), _ENTER + _LEAVE)  # from a row to a column
    move[0, 1:-1], move[0, -1] = _ENTER, _ENTER_LONE
    move[1:-1, 0], move[-1, 0] = _LEAVE, np.log(0.5)
    move[1:-1, -1] = move[-1, 1:-1] = _WRAP + _LEAVE
    np.fill_diagonal(move, 0)
    move[-1, -1] = np.log(0.5)
    best, before = emitted[:, 0] + move[0], np.zeros(emitted.shape, np.int8)
    for place in range(1, emitted.shape[1]):
        ways = best[:, None] + move
        before[:, place] = ways.argmax(0)
        best = ways.max(0) + emitted[:, place]
    states = np.zeros(emitted.shape[1], np.int64)
    states[-1] = best.argmax()
    for place in range(len(states) - 1, 0, -1):
        states[place - 1] = before[states[place], place]
    return states


def _odd_lengths(evidence: _Evidence, usable: Floats) -> Faults:
    """Return pairs that belong together, but whose lengths are far from the usual ratio of sources as long."""
    lengths, found = evidence.source.lengths, Faults()
    ratios = np.log((evidence.target.lengths + 2) / (lengths + 2))
    order = np.argsort(lengths, kind="stable")
    for group in np.array_split(order, max(1, len(order) // 1000)):
        middle = np.median(ratios[group])
        spread = 1.4826 * np.median(np.abs(ratios[group] - middle)) + 0.1
        more = evidence.target.lengths[group] - lengths[group] * np.exp(middle)
        odd = (np.abs(ratios[group] - middle) > _LONG * spread) & (np.abs(more) >= _WORDS) & (usable[group] > 0)
        for place, is_longer in zip(group[odd].tolist(), (more[odd] > 0).tolist()):
            found.append((place, f"the target is much {'longer' if is_longer else 'shorter'} than usual"))
    return sorted(found)
