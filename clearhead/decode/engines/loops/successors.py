"""The most likely successors of hypotheses: log-probabilities, and the best of them."""

import numpy as np

from .equations import ZERO, Float, Floats, exp
from .jit import compiled
from .search_arrays import Ruling, Top

_BLOCK = 64  # logits that are compared at once before they are compared one by one


@compiled
def largest(x: Floats) -> Float:
    """Return the maximum of x, found in _BLOCK parts so that it vectorises."""
    found = np.full(_BLOCK, -np.inf, np.float32)
    for first in range(0, len(x), _BLOCK):
        part = x[first : first + _BLOCK]
        for i in range(len(part)):
            found[i] = part[i] if part[i] > found[i] else found[i]
    for i in range(1, _BLOCK):
        found[0] = max(found[0], found[i])
    return found[0]


@compiled
def log_sum_exp(x: Floats) -> Float:
    """Return log(sum(exp(x))). (V,)"""
    highest, total = largest(x), ZERO
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
def reach(logits: Floats, normalizer: Float, least: Float) -> bool:
    """Return whether any log-probability is at least this."""
    found = 0
    for i in range(len(logits)):
        found += logits[i] - normalizer >= least
    return found > 0


@compiled
def offer_all(
    top: Top, count: int, logits: Floats, normalizer: Float, total: float, beam: int, too_short: bool, rules: Ruling
) -> int:
    """Offer every allowed successor of a beam. Return the number of candidates."""
    for first in range(0, len(logits), _BLOCK):
        end, enough = min(first + _BLOCK, len(logits)), -np.inf
        if count == len(top.totals):
            enough = top.totals[count - 1] - total
        if not reach(logits[first:end], normalizer, Float(enough)):
            continue
        for token in range(first, end):
            reached = total + np.float64(logits[token] - normalizer)
            if count == len(top.totals) and reached <= top.totals[count - 1]:
                continue
            if not (rules.suppressed[token] or (too_short and rules.ends[token])):
                count = offer(top, count, reached, beam, token, logits[token] - normalizer)
    return count
