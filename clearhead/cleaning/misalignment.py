"""Pairs whose sides don't belong together: shifted against each other, unrelated, truncated or merged.

A pair's evidence is a log-likelihood ratio, calibrated on pairs that are deliberately wrong. A hidden Markov model over
the lines finds where the targets are shifted by some lines, or unrelated. Pairs that are deliberately cut or joined
show what truncated and merged ones look like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..data.split import spelling
from .character_model import Floats, Ints, sums
from .lexical_model import MOST, LexicalModel, Stems

_FEWEST = 200  # minimum number of pairs to learn from
_SHIFTS = (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5)  # lines by which targets may be shifted
_APART = 0.95  # minimum share of wrong pairs that score below the median right one
_NEAR = 11  # distance of the lines that half of the wrong pairs are made of
_DOUBT, _AROUND = 2.0, 6  # evidence below which a pair is doubtful, and lines around one that may be shifted
_SURE = 10.0  # maximum evidence of a pair, of either kind
_ENTER, _ENTER_LONE, _LEAVE, _WRAP = np.log(1e-4), np.log(3e-3), np.log(0.05), np.log(0.1)
_WORDS = 5  # minimum words, with punctuation, of the longer side of a pair that may be cut or joined
_SAMPLE, _KEPT = 5000, (0.3, 0.7)  # pairs to cut or join, and how much of a text is left
_ROUNDS = 2  # of learning what is cut or joined

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
    found.odd.extend(_cut_or_joined(evidence, usable * (states == 0) * (right > -_DOUBT)))
    return found


class _Evidence:
    """Log-likelihood ratios for a source and a target to belong together."""

    def __init__(self, sources: Sequence[str], targets: Sequence[str], usable: Floats) -> None:
        self.source, self.target = Stems.of(sources), Stems.of(targets)
        self._models = LexicalModel(self.source, self.target, usable), LexicalModel(self.target, self.source, usable)
        self._all = np.arange(len(sources))
        self._keys = tuple([spelling(text) for text in side] for side in (sources, targets))
        self.words = self.word_scores(self.source, self.target, are_counted=True)
        self._right = right = _per_pair(self.source, self.target, self.words)
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
        features = self._features(np.where(inside, places, lines), lines) if shift else self._right[lines]
        found = np.clip(features @ self._weights[1:] + self._weights[0], -_SURE, _SURE)
        return np.where(inside, found, -_SURE)

    def _differ(self, one: int, other: int) -> bool:
        return all(keys[one] != keys[other] for keys in self._keys)

    def word_scores(self, source: Stems, target: Stems, *, are_counted: bool = False) -> tuple[Floats, Floats]:
        """Return the score of each source word, and of each target word."""
        back = self._models[1].word_scores(target, source, are_counted=are_counted)
        return back, self._models[0].word_scores(source, target, are_counted=are_counted)

    def _features(self, places: Ints, lines: Ints) -> Floats:
        """Return the features of the sources of some lines with the targets at some places."""
        source, target = self.source.take(lines), self.target.take(places)
        return _per_pair(source, target, self.word_scores(source, target))


def _per_pair(source: Stems, target: Stems, words: tuple[Floats, Floats]) -> Floats:
    """Return the mean score of the two sides of pairs, and that score per word (N, 2)."""
    score = (sums(source.texts, words[0]) + sums(target.texts, words[1])) / 2
    return np.stack([score, score / ((source.lengths + target.lengths) / 2)], 1)


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


def _cut_or_joined(evidence: "_Evidence", usable: Floats) -> Faults:
    """Return pairs that belong together, but one side lacks what the end of the other says, or goes on.

    Two logistic regressions tell pairs as they are from pairs that are deliberately cut or joined, by the ratio of
    lengths and by how well the ends of both sides are explained.
    """
    source, target, rng = evidence.source, evidence.target, np.random.default_rng(0)
    usable = usable * (np.maximum(source.lengths, target.lengths) >= _WORDS)
    usable *= np.maximum(source.lengths, target.lengths) < MOST
    some = np.flatnonzero(usable)
    if len(some) < _FEWEST:
        return []
    usual = _UsualLengths.of(source.take(some), target.take(some))
    right = _ends(source, target, evidence.words, usual)
    some = some[:: max(1, len(some) // _SAMPLE)]
    first, second, others = source.take(some), target.take(some), np.roll(some, len(some) // 2)

    def made(source: Stems, target: Stems) -> Floats:
        return _ends(source, target, evidence.word_scores(source, target), usual)

    def cut(stems: Stems) -> Stems:
        return stems.cut(np.ceil(stems.lengths * rng.uniform(*_KEPT, len(stems.lengths))).astype(np.int64))

    wrong = {
        "less": [made(first, cut(second)), made(first.join(source.take(others)), second)],
        "more": [made(cut(first), second), made(first, second.join(target.take(others)))],
    }
    found = Faults()
    for kind, examples in wrong.items():
        x = np.concatenate([right, *examples])
        x = (x - x.mean(0)) / (x.std(0) + 1e-9)
        odds, is_learned = np.zeros(len(right)), np.zeros(len(x), bool)
        for _ in range(_ROUNDS):  # the second one learns without the wrong pairs that the first one found
            is_learned[some], is_learned[len(right) :] = odds[some] <= 0, True
            weights = _logistic_regression(x[is_learned], (np.flatnonzero(is_learned) >= len(right)).astype(float))
            odds = x[: len(right)] @ weights[1:] + weights[0]
            share = _share(odds[usable > 0])
            odds += np.log(share / (1 - share))
        reason = f"the target says {kind} than its source: one of them was cut, or joined with another line"
        found += [(place, reason) for place in np.flatnonzero((odds > 0) & (usable > 0)).tolist()]
    return sorted(found)


def _share(odds: Floats) -> float:
    """Return the most probable share of wrong pairs by EM (Saerens et al. 2002), given log odds at a share of half."""
    share = 0.01
    for _ in range(100):  # steps, by which it hardly changes any more
        share = max(float(np.mean(1 / (1 + np.exp(-odds) * (1 - share) / share))), 1e-6)
    return share


@dataclass(frozen=True)
class _UsualLengths:
    """The usual logarithm of the ratio of target to source length, and its deviation, by the length of the source."""

    lengths: Floats
    middles: Floats
    spreads: Floats

    @classmethod
    def of(cls, source: Stems, target: Stems) -> "_UsualLengths":
        ratios = _ratios(source, target)
        order = np.argsort(source.lengths, kind="stable")
        groups = np.array_split(order, max(1, len(order) // 1000))
        middles = [float(np.median(ratios[it])) for it in groups]
        spreads = [1.4826 * np.median(np.abs(ratios[it] - mid)) + 0.1 for it, mid in zip(groups, middles)]
        return cls(np.array([source.lengths[it].mean() for it in groups]), np.array(middles), np.array(spreads))

    def deviations(self, source: Stems, target: Stems) -> Floats:
        """Return how many deviations the ratio of each pair is above the usual one."""
        middle, spread = (np.interp(source.lengths, self.lengths, it) for it in (self.middles, self.spreads))
        return (_ratios(source, target) - middle) / spread


def _ratios(source: Stems, target: Stems) -> Floats:
    return np.log((target.lengths + 2) / (source.lengths + 2))


def _ends(source: Stems, target: Stems, words: tuple[Floats, Floats], usual: _UsualLengths) -> Floats:
    """Return features of pairs (N, F): of their lengths, and of how well the other side explains the ends of each.

    Args:
        source: the sources (N).
        target: their targets (N).
        words: the score of each source word, and of each target word.
        usual: the usual ratios of lengths.
    """
    features = [usual.deviations(source, target), np.log(source.lengths + 1)]
    for stems, scores in zip((source, target), words):
        texts, ends = stems.texts, np.cumsum(stems.lengths)
        part = stems.within / stems.lengths[texts]
        features += [sums(texts, scores * chosen) for chosen in (part >= 2 / 3, part >= 1 / 2, part < 1 / 2)]
        before = np.cumsum(scores)
        features.append(np.minimum.reduceat(before[ends - 1][texts] - before + scores, ends - stems.lengths))
    return np.stack(features, 1)
