"""Equation 1 step by step, for one head of one recorded attention: each step with its shape and its values."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.cells import cell_len
from torch import Tensor

from ...errors import ConfigError, ModelError
from ...model.attention import masked_softmax
from ..record.calls import AttentionCall
from .text_columns import WIDTH, left, right

_CORNER = 3  # rows and columns of a step that are shown
_LABEL = 12  # columns of the token of a row


@dataclass(frozen=True)
class EquationStep:
    """One step: what it is called, its formula, its shape over all heads, and its values in the head that is shown."""

    name: str
    formula: str
    shape: tuple[int, ...]  # (B, H, T, S), or (B, H, T, K)
    values: Tensor  # (T, S), or (T, K)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        values = self.values.tolist()
        return {"name": self.name, "formula": self.formula, "shape": list(self.shape), "values": values}


def equation_steps(attention: AttentionCall, head: int, row: int = 0) -> list[EquationStep]:
    """softmax(Q K^T / sqrt(d_k) + bias) V of one head of row `row` of the batch, from Q, K and V to the output.

    The last step is computed here, from the steps before it, and lies within rounding of what the model used. Of an
    attention of one's own, which may be another equation, only its weights and its output are shown. A head that is not
    there is a ConfigError.
    """
    n_heads, d_head = attention.q.size(1), attention.q.size(3)
    if not 0 <= head < n_heads:
        raise ConfigError(f"head {head} is not there; expected 0 to {n_heads - 1}")
    q, k, v = (x[row, head] for x in (attention.q, attention.k, attention.v))
    steps: list[EquationStep] = []

    def step(name: str, formula: str, values: Tensor) -> Tensor:
        steps.append(EquationStep(name, formula, (*attention.q.shape[:2], *values.shape), values))
        return values

    step("queries", "Q", q)
    step("keys", "K", k)
    step("values", "V", v)
    if attention.kind != "Attend":
        return steps + _own_steps(attention, head, row)
    scores = step("scores", "Q K^T", q @ k.mT)
    scores = step("scaled", f"divided by sqrt({d_head}) = {math.sqrt(d_head):.2f}", scores / math.sqrt(d_head))
    whole = (*attention.q.shape[:3], attention.k.size(2))
    if attention.bias is not None:
        scores = step("biased", "plus the positions' bias", scores + attention.bias.expand(whole)[row, head])
    mask = torch.ones_like(scores, dtype=torch.bool)
    if attention.mask is not None:
        mask = attention.mask.expand(whole)[row, head]
    barred = "nothing is barred here" if mask.all() else "-inf where attending is barred"
    step("masked", barred, scores.masked_fill(~mask, -math.inf))
    weights = step("weights", "softmax: each row sums to 1", masked_softmax(scores, mask))
    step("output", "weights times V", weights @ v)
    return steps


def _own_steps(attention: AttentionCall, head: int, row: int) -> list[EquationStep]:
    """What can be said of an attention of one's own: its weights, where it tells them, and what came out."""
    found = []
    if attention.known_weights is not None:
        weights = attention.known_weights.values
        formula = f"of {attention.kind}"
        found.append(EquationStep("weights", formula, tuple(weights.shape), weights[row, head]))
    output = attention.output
    return [*found, EquationStep("output", f"of {attention.kind}", tuple(output.shape), output[row, head])]


def render_steps(steps: Sequence[EquationStep], rows: Sequence[str], columns: Sequence[str]) -> str:
    """The steps below each other: name, formula, shape, and the first rows and columns of the values.

    Rows are called by their tokens, of the queries (T) or, in K and V, of the keys (S).
    """
    blocks = []
    for step in steps:
        lines = [f"{step.name:<9} {step.formula:<34} {step.shape}"]
        names = columns if step.name in ("keys", "values") else rows
        sums = step.values.sum(-1) if step.name == "weights" else None
        more = " ..." if step.values.size(1) > _CORNER else ""
        for number, values in enumerate(step.values[:_CORNER].tolist()):
            shown = " ".join(f"{_number(value):>9}" for value in values[:_CORNER])
            total = f"   row sum {sums[number]:.4f}" if sums is not None else ""
            lines.append(f"  {left(names[number], _LABEL)} {shown}{more}{total}")
        if len(step.values) > _CORNER:
            lines.append("  ...")
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def render_matrix(matrix: Tensor, rows: Sequence[str], columns: Sequence[str]) -> str:
    """A matrix (T, S) as a table with a token for each row and column, in as many tables as 80 columns need.

    ModelError: the tokens are not as many as the rows and columns.
    """
    if tuple(matrix.shape) != (len(rows), len(columns)):
        sizes = f"{len(rows)} rows and {len(columns)} columns"
        raise ModelError(f"a matrix of shape {tuple(matrix.shape)} was given names of {sizes}; expected one for each")
    label = min(14, max(map(cell_len, rows), default=0))
    cell = min(10, max(4, *map(cell_len, columns)))
    at_once = max(1, (WIDTH - label) // (cell + 1))
    tables = []
    for start in range(0, len(columns), at_once):
        part = slice(start, start + at_once)
        lines = [" " * label + "".join(f" {right(name, cell)}" for name in columns[part])]
        for name, values in zip(rows, matrix[:, part].tolist()):
            lines.append(left(name, label) + "".join(f" {_number(value, 2):>{cell}}" for value in values))
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else f"{value}"
