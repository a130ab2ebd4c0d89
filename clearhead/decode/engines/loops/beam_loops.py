"""Greedy and beam search in one call: `decode.search` as loops over arrays, for several sources at once.

Axes: N sources, B of them at a time, W beams, T steps, V tokens.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .equations import ZERO, Float, Floats, Stack, copy, exp
from .jit import compiled
from .stacks import PLACE, POSITION, SOURCE, TOKEN, CacheArrays, Ints, new_cache, project, read, remember

_CHUNK = 128  # tokens of a prompt that are read at once
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
def _block_maxima(x: Floats) -> Floats:
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
def _log_sum_exp(x: Floats, maxima: Floats) -> Float:
    """Return log(sum(exp(x))). (V,), (V / _BLOCK,)"""
    highest, total = maxima[0], ZERO
    for i in range(1, len(maxima)):
        highest = max(highest, maxima[i])
    for i in range(len(x)):
        total += exp(x[i] - highest)
    return highest + Float(np.log(total))


@compiled
def _offer(top: Top, count: int, total: float, beam: int, token: int, log_probability: Float) -> int:
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
def _offer_all(
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
                count = _offer(top, count, reached, beam, token, logits[token] - normalizer)
    return count


@compiled
def _penalty(length: int, alpha: float) -> float:
    """Return the length penalty ((5 + |Y|) / 6)^alpha."""
    return ((5.0 + length) / 6.0) ** alpha


@compiled
def _precedes(found: AnswerArrays, source: int, at: int, score: float, finished: bool) -> bool:
    """Return whether an answer ranks before a new one: finished ones first, then the higher score, then the earlier."""
    if found.finished[source, at] != finished:
        return not finished
    return found.scores[source, at] >= score


@compiled
def _add_answer(
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
    score = total / _penalty(parts, rules.alpha)
    count = min(found.n_found[source], rules.beam)
    found.n_found[source] += 1
    at = count
    while at > 0 and not _precedes(found, source, at - 1, score, eos):
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
def _add_unfinished(
    found: AnswerArrays, beams: BeamArrays, slot: int, reached: NDArray[np.bool_], rules: Ruling
) -> None:
    """Add the live hypotheses of a source that has too few answers, except those that could be continued (W,)."""
    source, length = beams.source[slot], beams.length[slot]
    if found.n_found[source] >= rules.n_best or length == 0:
        return
    for w in range(rules.beam):
        if not reached[w] and beams.totals[slot, w] > -np.inf:
            _add_answer(found, source, beams, slot, w, length, beams.totals[slot, w], ZERO, -1, rules)


@compiled
def _enter(
    encoder: Stack, decoder: Stack, jobs: Jobs, source: int, slot: int, beams: BeamArrays, cache: CacheArrays
) -> None:
    """Read a source into a slot, and begin one empty hypothesis."""
    tokens = jobs.tokens[jobs.offsets[source] : jobs.offsets[source + 1]]
    beams.source[slot], beams.held[slot], beams.length[slot] = source, 0, 0
    for w in range(beams.totals.shape[1]):
        beams.totals[slot, w] = 0.0 if w == 0 else -np.inf
    if decoder.shape.cross:
        remember(encoder, decoder, tokens, slot, cache)
    else:
        kept = tokens[max(0, len(tokens) - decoder.shape.max_len + 1) :]
        _read_prompt(decoder, kept, slot * beams.totals.shape[1], cache)
        beams.held[slot] = len(kept)


@compiled
def _read_prompt(decoder: Stack, tokens: Ints, place: int, cache: CacheArrays) -> Floats:
    """Read a text from position 0 into a row of the cache. Return its last state (1, D), or none if it's empty."""
    last = np.empty((0, decoder.shape.d_model), np.float32)
    for first in range(0, len(tokens), _CHUNK):
        new = min(_CHUNK, len(tokens) - first)
        rows = np.zeros((new, 4), np.int64)
        for i in range(new):
            rows[i, TOKEN], rows[i, PLACE], rows[i, POSITION] = tokens[first + i], place, first + i
        last = read(decoder, rows, cache)[new - 1 :]
    return last


@compiled
def write_prompt(decoder: Stack, tokens: Ints, place: int, cache: CacheArrays, out: Floats) -> None:
    """Read a text from position 0 into a row of the cache.

    Args:
        decoder: the model.
        tokens: the text (S,).
        place: the row of the cache.
        cache: gets the keys and values of all tokens.
        out: gets the last state (1, D), if the text isn't empty.
    """
    last = _read_prompt(decoder, tokens, place, cache)
    for r in range(len(last)):
        copy(last[r], out[r])


@compiled
def _newest(jobs: Jobs, beams: BeamArrays, slot: int, beam: int, count: int) -> Ints:
    """Return the last tokens of a text: prompt, first input and output so far."""
    source, length, found = beams.source[slot], beams.length[slot], np.empty(count, np.int64)
    for i in range(count):
        back = count - 1 - i  # tokens after this one
        if back < length:
            found[i] = beams.tokens[slot, beam, length - 1 - back]
        elif back == length:
            found[i] = jobs.start[source]
        else:
            found[i] = jobs.tokens[jobs.offsets[source + 1] + length - back]
    return found


@compiled
def _read_beams(decoder: Stack, jobs: Jobs, beams: BeamArrays, cache: CacheArrays) -> Floats:
    """Read the last token of every live hypothesis. Return their states (R, D), in the order of `beams.rows`.

    When the table of positions ends, the newest half of a text is read again from position 0.
    """
    slots, width = beams.totals.shape
    tabled, half = not (decoder.shape.ring or decoder.shape.cross), max(1, decoder.shape.max_len // 2)
    rows, count, full = np.empty((slots * width, 4), np.int64), 0, 0
    again = np.empty((slots * width, decoder.shape.d_model), np.float32)
    for slot in range(slots):
        if beams.source[slot] < 0:
            continue
        refill = tabled and beams.held[slot] == decoder.shape.max_len
        for w in range(width):
            if beams.totals[slot, w] == -np.inf:
                continue
            if refill:
                text = _newest(jobs, beams, slot, w, half)
                copy(_read_prompt(decoder, text, slot * width + w, cache)[0], again[full])
                full += 1
                beams.rows[slot, w] = -full
            else:
                rows[count, TOKEN] = _newest(jobs, beams, slot, w, 1)[0]
                rows[count, PLACE], rows[count, SOURCE] = slot * width + w, slot
                rows[count, POSITION], beams.rows[slot, w] = beams.held[slot], count
                count += 1
        beams.held[slot] = half if refill else beams.held[slot] + 1
    states = read(decoder, rows[:count], cache)
    return _join(states, again[:full], beams.rows) if full else states


@compiled
def _join(states: Floats, more: Floats, rows: Ints) -> Floats:
    """Append more states. Their rows were numbered from -1 downwards. (R, D), (N, D), (B, W) -> (R + N, D)"""
    joined = np.empty((len(states) + len(more), states.shape[1]), np.float32)
    for r in range(len(joined)):
        copy(states[r] if r < len(states) else more[r - len(states)], joined[r])
    for slot in range(rows.shape[0]):
        for w in range(rows.shape[1]):
            if rows[slot, w] < 0:
                rows[slot, w] = len(states) - 1 - rows[slot, w]
    return joined


@compiled
def _advance(
    jobs: Jobs, rules: Ruling, beams: BeamArrays, slot: int, top: Top, count: int, found: AnswerArrays, history: Ints
) -> None:
    """End or continue the hypotheses of one source with its best candidates. A source that is done leaves its slot."""
    source, length, width = beams.source[slot], beams.length[slot], rules.beam
    reached, kept = np.zeros(width, np.bool_), 0
    order = np.empty(width, np.int64)
    for c in range(count):
        reached[top.beams[c]] = True
        if rules.ends[top.tokens[c]]:
            if c < width:
                last, token = top.log_probabilities[c], top.tokens[c]
                _add_answer(found, source, beams, slot, top.beams[c], length, top.totals[c], last, token, rules)
        elif kept < width:
            order[kept] = c
            kept += 1
    if kept == 0:
        _add_unfinished(found, beams, slot, reached, rules)
    _continue_beams(beams, slot, top, order, kept, history)
    leader, worst, limit = -np.inf, -np.inf, jobs.max_steps[source]
    for w in range(kept):
        leader = max(leader, beams.totals[slot, w])
    if found.n_found[source] >= rules.n_best:
        worst = found.scores[source, rules.n_best - 1]
    full = found.n_found[source] >= width and leader / _penalty(length + 1, rules.alpha) <= worst
    if full or leader / _penalty(limit, rules.alpha) <= worst or length + 1 >= limit:
        _add_unfinished(found, beams, slot, np.zeros(width, np.bool_), rules)
        beams.source[slot] = -1


@compiled
def _continue_beams(beams: BeamArrays, slot: int, top: Top, order: Ints, kept: int, history: Ints) -> None:
    """Append the chosen tokens to their hypotheses. A hypothesis may have several successors."""
    length, held, width = beams.length[slot], min(beams.held[slot], history.shape[1]), beams.totals.shape[1]
    moved = False
    for w in range(kept):
        moved = moved or top.beams[order[w]] != w
    if moved:
        tokens, parts = np.empty((width, length), np.int64), np.empty((width, length), np.float32)
        places = np.empty((width, held), np.int64)
        for w in range(width):
            copy(beams.tokens[slot, w, :length], tokens[w])
            copy(beams.log_probabilities[slot, w, :length], parts[w])
            copy(history[slot * width + w, :held], places[w])
        for w in range(kept):
            parent = top.beams[order[w]]
            copy(tokens[parent], beams.tokens[slot, w])
            copy(parts[parent], beams.log_probabilities[slot, w])
            copy(places[parent], history[slot * width + w])
    for w in range(width):
        beams.totals[slot, w] = -np.inf
    for w in range(kept):
        beams.totals[slot, w] = top.totals[order[w]]
        beams.tokens[slot, w, length] = top.tokens[order[w]]
        beams.log_probabilities[slot, w, length] = top.log_probabilities[order[w]]
    beams.length[slot] = length + 1


@compiled
def search(
    encoder: Stack, decoder: Stack, jobs: Jobs, rules: Ruling, slots: int, capacity: int, found: AnswerArrays
) -> None:
    """Decode all sources. A source that is done makes room for the next one.

    Args:
        encoder: reads the sources; it has no blocks if the model is a language model.
        decoder: writes the answers.
        jobs: N sources, with the limits of each.
        rules: rules of the search.
        slots: number of sources at a time.
        capacity: maximum number of tokens that a text needs in the cache.
        found: gets the answers.
    """
    sources, width, steps, longest = len(jobs.start), rules.beam, found.tokens.shape[2], 1
    for n in range(sources):
        longest = max(longest, jobs.offsets[n + 1] - jobs.offsets[n])
    cache = new_cache(decoder, slots, width, capacity, longest if decoder.shape.cross else 1)
    beams = BeamArrays(
        np.empty(slots, np.int64),
        np.empty(slots, np.int64),
        np.empty(slots, np.int64),
        np.empty((slots, width), np.float64),
        np.empty((slots, width, steps), np.int64),
        np.empty((slots, width, steps), np.float32),
        np.empty((slots, width), np.int64),
    )
    top = Top(
        np.empty(rules.considered, np.float64),
        np.empty(rules.considered, np.int64),
        np.empty(rules.considered, np.int64),
        np.empty(rules.considered, np.float32),
    )
    logits, waiting, live = np.empty((slots * width, len(rules.suppressed)), np.float32), 0, 0
    for slot in range(slots):
        beams.source[slot] = -1
    while waiting < sources or live:
        for slot in range(slots):
            if beams.source[slot] < 0 and waiting < sources:
                _enter(encoder, decoder, jobs, waiting, slot, beams, cache)
                waiting += 1
        project(_read_beams(decoder, jobs, beams, cache), decoder, logits)
        _choose(jobs, rules, beams, top, logits, found, cache.history)
        if found.failed[0] >= 0:
            return
        live = 0
        for slot in range(slots):
            live += beams.source[slot] >= 0


@compiled
def _choose(
    jobs: Jobs, rules: Ruling, beams: BeamArrays, top: Top, logits: Floats, found: AnswerArrays, history: Ints
) -> None:
    """Rank the successors of every hypothesis, and advance each source."""
    for slot in range(len(beams.source)):
        source, length, count = beams.source[slot], beams.length[slot], 0
        if source < 0:
            continue
        forced = jobs.prefixes[source, length] if length < jobs.prefixes.shape[1] else -1
        forced = rules.eos if jobs.max_len[source] == length else forced
        too_short = jobs.min_len[source] > length
        for w in range(rules.beam):
            total = beams.totals[slot, w]
            if total == -np.inf:
                continue
            row = beams.rows[slot, w]
            maxima = _block_maxima(logits[row])
            normalizer = _log_sum_exp(logits[row], maxima)
            if np.isnan(normalizer):
                found.failed[0], found.failed[1] = source, length + 1
                return
            if forced >= 0:
                part = logits[row, forced] - normalizer
                count = _offer(top, count, total + np.float64(part), w, forced, part)
            else:
                count = _offer_all(top, count, logits[row], maxima, normalizer, total, w, too_short, rules)
        _advance(jobs, rules, beams, slot, top, count, found, history)
