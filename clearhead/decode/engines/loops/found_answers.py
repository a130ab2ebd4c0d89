"""The best answers found so far, which finished hypotheses enter by their scores."""

import numpy as np
from numpy.typing import NDArray

from .equations import ZERO, Float, copy
from .jit import compiled
from .search_arrays import Beams, Found, Ruling


@compiled
def penalty(length: int, alpha: float) -> float:
    """Return the length penalty ((5 + |Y|) / 6)^alpha."""
    return ((5.0 + length) / 6.0) ** alpha


@compiled
def precedes(found: Found, source: int, at: int, score: float, finished: bool) -> bool:
    """Return whether an answer ranks before a new one: finished ones first, then the higher score, then the earlier."""
    if found.finished[source, at] != finished:
        return not finished
    return found.scores[source, at] >= score


@compiled
def add_answer(
    found: Found,
    source: int,
    beams: Beams,
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
def add_unfinished(found: Found, beams: Beams, slot: int, reached: NDArray[np.bool_], rules: Ruling) -> None:
    """Add the live hypotheses of a source that has too few answers, except those that could be continued (W,)."""
    source, length = beams.source[slot], beams.length[slot]
    if found.n_found[source] >= rules.n_best or length == 0:
        return
    for w in range(rules.beam):
        if not reached[w] and beams.totals[slot, w] > -np.inf:
            add_answer(found, source, beams, slot, w, length, beams.totals[slot, w], ZERO, -1, rules)
