"""The hypotheses of a search: the live ones, their most likely successors, and the best answers found so far.

Axes: N sources, B of them at a time, W beams, T steps, V tokens.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .equations import ZERO, Float, Floats, copy, exp
from .jit import compiled
from .stacks import Ints

_BLOCK = 64  # logits that are compared at once before they are compared one by one
_LEAST, _ALL_BUT_SIGN = np.int32(-(2**31)), np.int32(2**31 - 1)


class Jobs(NamedTuple):
    """What to decode, and within which limits."""

    tokens: Ints  # the sources, one after the other
    offsets: Ints  # (N + 1,): where each begins
    start: Ints  # (N,): the token before the output
    max_steps: Ints  # (N,)
    min_len: Ints  # (N,)
    max_len: Ints  # (N,), or -1
    prefixes: Ints  # (N, P), filled up with -1


class Ruling(NamedTuple):
    """Rules of the search: those of `rules.Rules` that the loops know."""

    eos: int
    beam: int
    alpha: float
    n_best: int
    suppressed: NDArray[np.bool_]  # (V,)
    ends: NDArray[np.bool_]  # (V,): tokens that finish a hypothesis
    considered: int  # candidates of a source


class AnswerArrays(NamedTuple):
    """The W best answers to each source, best first."""

    tokens: Ints  # (N, W, T), with the end token
    log_probabilities: Floats  # (N, W, T), the same
    lengths: Ints  # (N, W): numbers of log-probabilities
    totals: NDArray[np.float64]  # (N, W)
    scores: NDArray[np.float64]  # (N, W)
    finished: NDArray[np.bool_]  # (N, W)
    n_found: Ints  # (N,): answers found, of which at most W are kept
    failed: Ints  # (2,): the source and step where a probability was NaN, or -1


class BeamArrays(NamedTuple):
    """The live hypotheses. A total of -inf marks an empty slot."""

    source: Ints  # (B,): index of the source, or -1
    held: Ints  # (B,): tokens in the cache
    length: Ints  # (B,): tokens of the output
    totals: NDArray[np.float64]  # (B, W)
    tokens: Ints  # (B, W, T)
    log_probabilities: Floats  # (B, W, T)
    rows: Ints  # (B, W): the row of each hypothesis in the current step


class Top(NamedTuple):
    """The best candidates of one source, best first: 2 W, and W for each further end token."""

    totals: NDArray[np.float64]
    beams: Ints
    tokens: Ints
    log_probabilities: Floats


@compiled
def block_maxima(x: Floats) -> Floats:
    """Return the maximum of every _BLOCK numbers. (V,) -> (V / _BLOCK,)

    They're compared as integers, since a maximum that respects NaN isn't vectorised. NaN counts as more than infinity.
    """
    bits, found = x.view(np.int32), np.empty((len(x) + _BLOCK - 1) // _BLOCK, np.float32)
    for block in range(len(found)):
        part, highest = bits[block * _BLOCK : (block + 1) * _BLOCK], _LEAST
        for i in range(len(part)):
            key = np.int32(part[i] ^ ((part[i] >> np.int32(31)) & _ALL_BUT_SIGN))  # ordered as the numbers are
            highest = max(highest, key)
        found[block] = np.int32(highest ^ ((highest >> np.int32(31)) & _ALL_BUT_SIGN)).view(np.float32)
    return found


@compiled
def log_sum_exp(x: Floats, maxima: Floats) -> Float:
    """Return log(sum(exp(x))). (V,), (V / _BLOCK,)"""
    highest, total = maxima[0], ZERO
    for i in range(1, len(maxima)):
        highest = max(highest, maxima[i])
    for i in range(len(x)):
        total += exp(x[i] - highest)
    return highest + Float(np.log(total))


@compiled
def offer(top: Top, count: int, total: float, beam: int, token: int, log_probability: Float) -> int:
    """Insert a candidate into the best ones, after those with the same total. Return their new number."""
    at = count
    while at > 0 and top.totals[at - 1] < total:
        at -= 1
    if at == len(top.totals):
        return count
    end = min(count, len(top.totals) - 1)
    for i in range(end, at, -1):
        top.totals[i], top.beams[i], top.tokens[i] = top.totals[i - 1], top.beams[i - 1], top.tokens[i - 1]
        top.log_probabilities[i] = top.log_probabilities[i - 1]
    top.totals[at], top.beams[at], top.tokens[at], top.log_probabilities[at] = total, beam, token, log_probability
    return end + 1


@compiled
def offer_all(
    top: Top,
    count: int,
    logits: Floats,
    maxima: Floats,
    normalizer: Float,
    total: float,
    beam: int,
    too_short: bool,
    rules: Ruling,
) -> int:
    """Offer every allowed successor of a beam. Return the number of candidates. (V,), (V / _BLOCK,)"""
    for block in range(len(maxima)):
        if count == len(top.totals) and maxima[block] - normalizer < Float(top.totals[count - 1] - total):
            continue
        for token in range(block * _BLOCK, min((block + 1) * _BLOCK, len(logits))):
            reached = total + np.float64(logits[token] - normalizer)
            if count == len(top.totals) and reached <= top.totals[count - 1]:
                continue
            if not (rules.suppressed[token] or (too_short and rules.ends[token])):
                count = offer(top, count, reached, beam, token, logits[token] - normalizer)
    return count


@compiled
def penalty(length: int, alpha: float) -> float:
    """Return the length penalty ((5 + |Y|) / 6)^alpha."""
    return ((5.0 + length) / 6.0) ** alpha


@compiled
def precedes(found: AnswerArrays, source: int, at: int, score: float, finished: bool) -> bool:
    """Return whether an answer ranks before a new one: finished ones first, then the higher score, then the earlier."""
    if found.finished[source, at] != finished:
        return not finished
    return found.scores[source, at] >= score


@compiled
def add_answer(
    found: AnswerArrays,
    source: int,
    beams: BeamArrays,
    slot: int,
    beam: int,
    length: int,
    total: float,
    last: Float,
    end: int,
    rules: Ruling,
) -> None:
    """Add the first `length` tokens of a hypothesis to the answers, and the end token if it isn't -1."""
    eos = end >= 0
    parts = length + 1 if eos else length
    score = total / penalty(parts, rules.alpha)
    count = min(found.n_found[source], rules.beam)
    found.n_found[source] += 1
    at = count
    while at > 0 and not precedes(found, source, at - 1, score, eos):
        at -= 1
    if at == rules.beam:
        return
    for i in range(min(count, rules.beam - 1), at, -1):
        copy(found.tokens[source, i - 1], found.tokens[source, i])
        copy(found.log_probabilities[source, i - 1], found.log_probabilities[source, i])
        found.lengths[source, i] = found.lengths[source, i - 1]
        found.totals[source, i], found.scores[source, i] = found.totals[source, i - 1], found.scores[source, i - 1]
        found.finished[source, i] = found.finished[source, i - 1]
    copy(beams.tokens[slot, beam, :length], found.tokens[source, at])
    copy(beams.log_probabilities[slot, beam, :length], found.log_probabilities[source, at])
    if eos:
        found.tokens[source, at, length], found.log_probabilities[source, at, length] = end, last
    found.lengths[source, at], found.totals[source, at] = parts, total
    found.scores[source, at], found.finished[source, at] = score, eos


@compiled
def add_unfinished(
    found: AnswerArrays, beams: BeamArrays, slot: int, reached: NDArray[np.bool_], rules: Ruling
) -> None:
    """Add the live hypotheses of a source that has too few answers, except those that could be continued (W,)."""
    source, length = beams.source[slot], beams.length[slot]
    if found.n_found[source] >= rules.n_best or length == 0:
        return
    for w in range(rules.beam):
        if not reached[w] and beams.totals[slot, w] > -np.inf:
            add_answer(found, source, beams, slot, w, length, beams.totals[slot, w], ZERO, -1, rules)
