"""The two stacks of the model, as loops over arrays.

Axes: R rows, S positions of the source, T positions in a cache, P cache rows, G key-value heads. D, H, K as in the
paper.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import stack_parts as parts
from .equations import ZERO, Float, Floats, Stack, activate, copy, normalize, part_of, rotate, softmax
from .jit import compiled
from .linear_layers import linear, write_linear

Ints = NDArray[np.int64]
TOKEN, PLACE, SOURCE, POSITION = range(4)  # columns of the rows to read: a token, its row in the cache, its source ...


class CacheArrays(NamedTuple):
    """Keys (0) and values (1) of the tokens read so far, and of the sources."""

    past: Floats  # (2, L, P, T, G K)
    history: Ints  # (P, T): the row that holds a row's token, since beams share their past
    memory: Floats  # (2, L, B, S, G K)
    memory_rows: Ints  # (B, S): the number of each source
    lengths: Ints  # (B,) of the sources


@compiled
def new_cache(stack: Stack, sources: int, beam: int, tokens: int, memory: int) -> CacheArrays:
    """Return memory for keys and values.

    Args:
        stack: the decoder.
        sources: number of sources at a time, B.
        beam: number of hypotheses of each source.
        tokens: maximum number of tokens of a hypothesis, T.
        memory: maximum number of tokens of a source, S.
    """
    shape, rows = stack.shape, sources * beam
    narrow, crossed = shape.kv_heads * shape.d_head, shape.layers if shape.cross else 0
    memory_rows = np.empty((sources, memory), np.int64)
    for n in range(sources):
        for s in range(memory):
            memory_rows[n, s] = n
    return CacheArrays(
        np.empty((2, shape.layers, rows, tokens, narrow), np.float32),
        np.empty((rows, tokens), np.int64),
        np.empty((2, crossed, sources, memory, narrow), np.float32),
        memory_rows,
        np.zeros(sources, np.int64),
    )


@compiled
def _embed(stack: Stack, rows: Ints) -> Floats:
    """Embeddings times their scale, plus positions. (R, 4) -> (R, D)"""
    shape, embedding, positions = stack.shape, part_of(stack, 0, parts.EMBEDDING), part_of(stack, 0, parts.POSITIONS)
    width, size = shape.d_model, stack.places[0, parts.EMBEDDING, 1]
    x = np.empty((len(rows), width), np.float32)
    for r in range(len(rows)):
        token = rows[r, TOKEN] if 0 <= rows[r, TOKEN] < size else 0  # padding beyond the vocabulary
        for d in range(width):
            x[r, d] = embedding[token * width + d] * shape.embedding_scale
        if len(positions):
            for d in range(width):
                x[r, d] += positions[rows[r, POSITION] * width + d]
    return normalize(x, stack, 0, parts.EMBEDDING_NORM) if shape.embedding_norm else x


@compiled
def _before(x: Floats, stack: Stack, layer: int, norm: int) -> Floats:
    """Return the input of a sub-layer: norm(x) in a pre-norm block, else x."""
    return normalize(x, stack, layer, norm) if stack.shape.pre_norm else x


@compiled
def _after(x: Floats, added: Floats, stack: Stack, layer: int, norm: int) -> Floats:
    """x + sublayer(norm(x)) in a pre-norm block, else norm(x + sublayer(x))."""
    for r in range(len(x)):
        for d in range(x.shape[1]):
            added[r, d] += x[r, d]
    return added if stack.shape.pre_norm else normalize(added, stack, layer, norm)


@compiled
def _feed_forward(x: Floats, stack: Stack, layer: int) -> Floats:
    """f(x W_1) W_2, or (f(x W_1) * x W_3) W_2 if gated, with the residual connection. (R, D) -> (R, D)"""
    width = stack.shape.d_ff
    inner = linear(_before(x, stack, layer, parts.NORM_3), stack, layer, parts.INNER)
    for r in range(len(x)):
        activate(inner[r, :width], stack.shape.activation)
    if stack.shape.gated:
        gated = np.empty((len(x), width), np.float32)
        for r in range(len(x)):
            for i in range(width):
                gated[r, i] = inner[r, i] * inner[r, width + i]
        inner = gated
    return _after(x, linear(inner, stack, layer, parts.OUTER), stack, layer, parts.NORM_3)


@compiled
def _attend(
    stack: Stack, q: Floats, keys: Floats, values: Floats, places: Ints, first: int, end: int, query: int, out: Floats
) -> None:
    """softmax(q K^T + bias) V for one query, over the keys at positions first to end - 1 (Equation 1).

    (H K,), keys and values (P, T, G K), places (T,) -> (H K,). The scale of the scores is part of W_Q. Only tokens of
    the same stack have a position to compare: `query` is -1 for those of the other.
    """
    heads, width, groups = stack.shape.heads, stack.shape.d_head, stack.shape.kv_heads
    scores, capacity, share = np.empty((heads, end - first), np.float32), keys.shape[1], heads // groups
    for s in range(first, end):
        at = s % capacity
        key = keys[places[at], at]  # for all heads, since reading memory in order is fastest
        for g in range(groups):
            theirs = key[g * width : (g + 1) * width]
            for h in range(g * share, (g + 1) * share):
                mine, score = q[h * width : (h + 1) * width], ZERO
                for i in range(width):
                    score += mine[i] * theirs[i]
                scores[h, s - first] = score
    if query >= 0:
        _add_bias(stack, scores, first - query)
    for h in range(heads):
        softmax(scores[h])
    for i in range(heads * width):
        out[i] = ZERO
    for s in range(first, end):
        at = s % capacity
        value = values[places[at], at]
        for g in range(groups):
            theirs = value[g * width : (g + 1) * width]
            for h in range(g * share, (g + 1) * share):
                mixed, weight = out[h * width : (h + 1) * width], scores[h, s - first]
                for i in range(width):
                    mixed[i] += weight * theirs[i]


@compiled
def _add_bias(stack: Stack, scores: Floats, first: int) -> None:
    """Add the bias of relative positions or ALiBi to scores (H, S). The first key is at the distance `first`."""
    near, slopes = part_of(stack, 0, parts.NEAR), part_of(stack, 0, parts.SLOPES)
    width = stack.places[0, parts.NEAR, 2]
    farthest = width // 2
    for h in range(stack.places[0, parts.NEAR, 1]):
        for s in range(scores.shape[1]):
            scores[h, s] += near[h * width + min(max(first + s, -farthest), farthest) + farthest]
    for h in range(len(slopes)):
        for s in range(scores.shape[1]):
            scores[h, s] -= slopes[h] * Float(abs(first + s))


@compiled
def _encode(stack: Stack, tokens: Ints) -> Floats:
    """Read a source. (S,) -> (S, D)"""
    shape, length = stack.shape, len(tokens)
    wide, narrow = shape.heads * shape.d_head, shape.kv_heads * shape.d_head
    past = np.empty((2, 1, length, narrow), np.float32)
    rows, places = np.zeros((length, 4), np.int64), np.zeros(length, np.int64)
    for s in range(length):
        rows[s, TOKEN], rows[s, POSITION] = tokens[s], s
    x = _embed(stack, rows)
    for layer in range(shape.layers):
        qkv = linear(_before(x, stack, layer, parts.NORM_1), stack, layer, parts.QKV)
        for s in range(length):
            rotate(qkv[s], shape.heads + shape.kv_heads, s, stack.frequencies)
            copy(qkv[s, wide : wide + narrow], past[0, 0, s])
            copy(qkv[s, wide + narrow :], past[1, 0, s])
        mixed = np.empty((length, wide), np.float32)
        for s in range(length):
            _attend(stack, qkv[s], past[0], past[1], places, 0, length, s, mixed[s])
        x = _after(x, linear(mixed, stack, layer, parts.OUT), stack, layer, parts.NORM_1)
        x = _feed_forward(x, stack, layer)
    return normalize(x, stack, 0, parts.FINAL_NORM) if shape.final_norm else x


@compiled
def remember(encoder: Stack, decoder: Stack, tokens: Ints, source: int, cache: CacheArrays) -> None:
    """Encode a source, and write its keys and values for every block of the decoder.

    Args:
        encoder: reads the source.
        decoder: projects the encoder's output to keys and values.
        tokens: the source (S,).
        source: its number in the cache.
        cache: changed in place.
    """
    states, narrow = _encode(encoder, tokens), decoder.shape.kv_heads * decoder.shape.d_head
    for layer in range(decoder.shape.layers):
        both = linear(states, decoder, layer, parts.CROSS_KV)
        for s in range(len(tokens)):
            copy(both[s, :narrow], cache.memory[0, layer, source, s])
            copy(both[s, narrow:], cache.memory[1, layer, source, s])
    cache.lengths[source] = len(tokens)


@compiled
def read(stack: Stack, rows: Ints, cache: CacheArrays) -> Floats:
    """Read tokens with the decoder. (R, 4) -> states (R, D)

    Tokens of one text may be read at once: all keys are written before any query attends.

    Args:
        stack: the decoder.
        rows: the tokens to read, each with its place in the cache, source and position.
        cache: keys and values of earlier tokens. Those of the new ones are added.
    """
    shape, count = stack.shape, len(rows)
    wide, narrow, capacity = shape.heads * shape.d_head, shape.kv_heads * shape.d_head, cache.past.shape[3]
    x, mixed = _embed(stack, rows), np.empty((count, wide), np.float32)
    for layer in range(shape.layers):
        keys, values = cache.past[0, layer], cache.past[1, layer]
        qkv = linear(_before(x, stack, layer, parts.NORM_1), stack, layer, parts.QKV)
        for r in range(count):
            place, position, at = rows[r, PLACE], rows[r, POSITION], rows[r, POSITION] % capacity
            rotate(qkv[r], shape.heads + shape.kv_heads, position, stack.frequencies)
            copy(qkv[r, wide : wide + narrow], keys[place, at])
            copy(qkv[r, wide + narrow :], values[place, at])
            cache.history[place, at] = place
        for r in range(count):
            places, end = cache.history[rows[r, PLACE]], rows[r, POSITION] + 1
            first = max(0, end - min(shape.window, capacity))
            _attend(stack, qkv[r], keys, values, places, first, end, end - 1, mixed[r])
        x = _after(x, linear(mixed, stack, layer, parts.OUT), stack, layer, parts.NORM_1)
        if shape.cross:
            keys, values = cache.memory[0, layer], cache.memory[1, layer]
            q = linear(_before(x, stack, layer, parts.NORM_2), stack, layer, parts.CROSS_Q)
            for r in range(count):
                source = rows[r, SOURCE]
                _attend(stack, q[r], keys, values, cache.memory_rows[source], 0, cache.lengths[source], -1, mixed[r])
            x = _after(x, linear(mixed, stack, layer, parts.CROSS_OUT), stack, layer, parts.NORM_2)
        x = _feed_forward(x, stack, layer)
    return normalize(x, stack, 0, parts.FINAL_NORM) if shape.final_norm else x


@compiled
def write_states(stack: Stack, rows: Ints, cache: CacheArrays, out: Floats) -> None:
    """Do the same as `read`, and write the states. (R, 4) -> (R, D)

    Args:
        stack: the decoder.
        rows: the tokens to read.
        cache: keys and values of earlier tokens. Those of the new ones are added.
        out: gets the states.
    """
    states = read(stack, rows, cache)
    for r in range(len(rows)):
        copy(states[r], out[r])


@compiled
def project(x: Floats, stack: Stack, logits: Floats) -> None:
    """Score the vocabulary. (R, D) -> logits (R, V)

    Args:
        x: states of the decoder, which are scaled in place.
        stack: the decoder.
        logits: gets the scores in its first rows.
    """
    if stack.shape.logit_scale != Float(1):
        for r in range(len(x)):
            for d in range(x.shape[1]):
                x[r, d] *= stack.shape.logit_scale
    write_linear(x, stack, 0, parts.PROJECTION, logits)
