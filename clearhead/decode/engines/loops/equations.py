"""The equations of the model, as loops over arrays. Axes: R rows, D inputs, F outputs, H heads, K width of a head."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .jit import compiled

Float = np.float32
Floats = NDArray[np.float32]
ZERO, ONE, HALF = Float(0), Float(1), Float(0.5)
RELU, GELU, GELU_TANH, SILU = range(4)

_LOG2_E, _LN2_HIGH, _LN2_LOW = Float(1.4426950408889634), Float(0.693359375), Float(-2.12194440e-4)
_LOWEST, _HIGHEST = Float(-87.0), Float(88.0)


class Stack(NamedTuple):
    """The weights of a stack of L blocks, in one array, since many arrays take long to compile."""

    shape: np.record  # the numbers of the model, as in weight_arrays.SHAPE
    floats: Floats
    places: NDArray[np.int64]  # (L, 25, 3): where each matrix begins, and its dimensions F and D; 0 if there is none
    frequencies: NDArray[np.float64]  # (K/2,) of rotary positions
    codes: NDArray[np.int8]  # the matrices of linear layers, if they're in int8


@compiled
def part_of(stack: Stack, layer: int, part: int) -> Floats:
    """Flatten a matrix: row after row, or in panels if it belongs to a linear layer. (F * D,)

    Args:
        stack: has the weights.
        layer: the number of the block.
        part: the number of the matrix in `stack_parts`.
    """
    at, rows, columns = stack.places[layer, part, 0], stack.places[layer, part, 1], stack.places[layer, part, 2]
    return stack.floats[at : at + rows * columns]


@compiled
def copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    """Copy numbers to the beginning of another array. A slice on the left of = would take long to compile."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled
def exp(x: Float) -> Float:
    """e^x, as 2^k times a polynomial, which vectorises."""
    x = _LOWEST if x < _LOWEST else x
    x = _HIGHEST if x > _HIGHEST else x
    k = np.floor(x * _LOG2_E + HALF)
    r = x - k * _LN2_HIGH - k * _LN2_LOW
    p = Float(1.9875691500e-4)
    p = p * r + Float(1.3981999507e-3)
    p = p * r + Float(8.3334519073e-3)
    p = p * r + Float(4.1665795894e-2)
    p = p * r + Float(1.6666665459e-1)
    p = p * r + HALF
    power = np.int32((np.int32(k) + np.int32(127)) << np.int32(23)).view(np.float32)
    return (p * r * r + r + ONE) * power


@compiled
def activate(x: Floats, kind: int) -> None:
    """Apply an activation function in place. (F,)"""
    if kind == RELU:
        for i in range(len(x)):
            x[i] = x[i] if x[i] > ZERO else ZERO
    elif kind == SILU:
        for i in range(len(x)):
            x[i] = x[i] / (ONE + exp(-x[i]))
    elif kind == GELU_TANH:
        for i in range(len(x)):
            inner = Float(0.7978845608028654) * (x[i] + Float(0.044715) * x[i] * x[i] * x[i])
            x[i] = x[i] - x[i] / (ONE + exp(inner + inner))  # (1 + tanh u) / 2 = 1 - 1 / (1 + e^2u)
    else:
        for i in range(len(x)):
            x[i] = HALF * x[i] * (ONE + Float(math.erf(x[i] * Float(0.7071067811865476))))


@compiled
def normalize(x: Floats, stack: Stack, layer: int, part: int) -> Floats:
    """(x - mean) / sqrt(variance + eps) * gain + bias; RMSNorm has no mean. (R, D), gain and bias (2, D) -> (R, D)

    Args:
        x: the inputs.
        stack: has the gain and bias, and says which of the two norms it is.
        layer: the number of the block.
        part: the number of the norm in `stack_parts`.
    """
    norm, out, width = part_of(stack, layer, part), np.empty(x.shape, np.float32), x.shape[1]
    for r in range(len(x)):
        mean, square = ZERO, ZERO
        if not stack.shape.rms:
            for d in range(width):
                mean += x[r, d]
            mean /= Float(width)
        for d in range(width):
            square += (x[r, d] - mean) * (x[r, d] - mean)
        scale = ONE / Float(math.sqrt(square / Float(width) + stack.shape.eps))
        for d in range(width):
            out[r, d] = (x[r, d] - mean) * scale * norm[d] + norm[width + d]
    return out


@compiled
def softmax(scores: Floats) -> None:
    """Replace scores (S,) by probabilities."""
    highest, total = scores[0], ZERO
    for s in range(1, len(scores)):
        highest = max(highest, scores[s])
    for s in range(len(scores)):
        scores[s] = exp(scores[s] - highest)
        total += scores[s]
    for s in range(len(scores)):
        scores[s] /= total


@compiled
def rotate(x: Floats, heads: int, position: int, frequencies: NDArray[np.float64]) -> None:
    """Rotate each pair (x_i, x_{i + K/2}) of the first heads by its angle, in place. (H*K,), (K/2,)

    Args:
        x: queries or keys of one token, head after head.
        heads: the number of heads to rotate.
        position: the position of the token.
        frequencies: radians per token; none for positions of another kind.
    """
    half = len(frequencies)
    for i in range(half):
        cos, sin = Float(math.cos(position * frequencies[i])), Float(math.sin(position * frequencies[i]))
        for head in range(heads):
            a = 2 * half * head + i
            b = a + half
            x[a], x[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
