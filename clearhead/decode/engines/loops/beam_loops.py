"""Greedy and beam search in one call: `decode.search` as loops over arrays, for several sources at once."""

import numpy as np

from .equations import Floats, Stack, copy
from .hypotheses import (
    AnswerArrays,
    BeamArrays,
    Jobs,
    Ruling,
    Top,
    add_answer,
    add_unfinished,
    block_maxima,
    log_sum_exp,
    offer,
    offer_all,
    penalty,
)
from .jit import compiled
from .stacks import PLACE, POSITION, SOURCE, TOKEN, CacheArrays, Ints, new_cache, project, read, remember

CHUNK = 128  # tokens of a prompt that are read at once


@compiled
def enter(
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
        read_prompt(decoder, kept, slot * beams.totals.shape[1], cache)
        beams.held[slot] = len(kept)


@compiled
def read_prompt(decoder: Stack, tokens: Ints, place: int, cache: CacheArrays) -> Floats:
    """Read a text from position 0 into a row of the cache. Return its last state (1, D), or none if it's empty."""
    last = np.empty((0, decoder.shape.d_model), np.float32)
    for first in range(0, len(tokens), CHUNK):
        new = min(CHUNK, len(tokens) - first)
        rows = np.zeros((new, 4), np.int64)
        for i in range(new):
            rows[i, TOKEN], rows[i, PLACE], rows[i, POSITION] = tokens[first + i], place, first + i
        last = read(decoder, rows, cache)[new - 1 :]
    return last


@compiled
def write_prompt(decoder: Stack, tokens: Ints, place: int, cache: CacheArrays, out: Floats) -> None:
    """Read a text from position 0 into a row of the cache, and write its last state (1, D) if it isn't empty."""
    last = read_prompt(decoder, tokens, place, cache)
    for r in range(len(last)):
        copy(last[r], out[r])


@compiled
def newest(jobs: Jobs, beams: BeamArrays, slot: int, beam: int, count: int) -> Ints:
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
def read_beams(decoder: Stack, jobs: Jobs, beams: BeamArrays, cache: CacheArrays) -> Floats:
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
                copy(read_prompt(decoder, newest(jobs, beams, slot, w, half), slot * width + w, cache)[0], again[full])
                full += 1
                beams.rows[slot, w] = -full
            else:
                rows[count, TOKEN] = newest(jobs, beams, slot, w, 1)[0]
                rows[count, PLACE], rows[count, SOURCE] = slot * width + w, slot
                rows[count, POSITION], beams.rows[slot, w] = beams.held[slot], count
                count += 1
        beams.held[slot] = half if refill else beams.held[slot] + 1
    states = read(decoder, rows[:count], cache)
    return join(states, again[:full], beams.rows) if full else states


@compiled
def join(states: Floats, more: Floats, rows: Ints) -> Floats:
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
def advance(
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
                add_answer(found, source, beams, slot, top.beams[c], length, top.totals[c], last, token, rules)
        elif kept < width:
            order[kept] = c
            kept += 1
    if kept == 0:
        add_unfinished(found, beams, slot, reached, rules)
    continue_beams(beams, slot, top, order, kept, history)
    leader, worst, limit = -np.inf, -np.inf, jobs.max_steps[source]
    for w in range(kept):
        leader = max(leader, beams.totals[slot, w])
    if found.n_found[source] >= rules.n_best:
        worst = found.scores[source, rules.n_best - 1]
    full = found.n_found[source] >= width and leader / penalty(length + 1, rules.alpha) <= worst
    if full or leader / penalty(limit, rules.alpha) <= worst or length + 1 >= limit:
        add_unfinished(found, beams, slot, np.zeros(width, np.bool_), rules)
        beams.source[slot] = -1


@compiled
def continue_beams(beams: BeamArrays, slot: int, top: Top, order: Ints, kept: int, history: Ints) -> None:
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
    """Decode all sources, at most `slots` at a time. A source that is done makes room for the next one.

    `capacity` is the maximum number of tokens that a text needs in the cache.
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
                enter(encoder, decoder, jobs, waiting, slot, beams, cache)
                waiting += 1
        project(read_beams(decoder, jobs, beams, cache), decoder, logits)
        choose(jobs, rules, beams, top, logits, found, cache.history)
        if found.failed[0] >= 0:
            return
        live = 0
        for slot in range(slots):
            live += beams.source[slot] >= 0


@compiled
def choose(
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
            maxima = block_maxima(logits[row])
            normalizer = log_sum_exp(logits[row], maxima)
            if np.isnan(normalizer):
                found.failed[0], found.failed[1] = source, length + 1
                return
            if forced >= 0:
                part = logits[row, forced] - normalizer
                count = offer(top, count, total + np.float64(part), w, forced, part)
            else:
                count = offer_all(top, count, logits[row], maxima, normalizer, total, w, too_short, rules)
        advance(jobs, rules, beams, slot, top, count, found, history)
