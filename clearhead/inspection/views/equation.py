"""Show Equation 1 step by step for one head of a recorded attention call, with the shape and values of each step."""

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

_CORNER = 3  # rows and columns of a step to show
_LABEL = 12  # columns for a row's token


@dataclass(frozen=True)
class EquationStep:
    """One step, with its name, its formula, its shape for all heads, and its values in one head."""

    name: str
    formula: str
    shape: tuple[int, ...]  # (B, H, T, S), or (B, H, T, K)
    values: Tensor  # (T, S), or (T, K)

    def to_dict(self) -> dict[str, Any]:
        values = self.values.tolist()
        return {"name": self.name, "formula": self.formula, "shape": list(self.shape), "values": values}


def equation_steps(attention: AttentionCall, head: int, row: int = 0) -> list[EquationStep]:
    """Return the steps of softmax(Q K^T / sqrt(d_k) + bias) V for one head and one row of the batch.

    Each step is computed from the one before, and equals the model's own values except for rounding. Custom attention
    can follow another equation, so only its weights and output are shown.

    Args:
        attention: the recorded call.
        head: the number of the head, from 0.
        row: the row of the batch.

    Raises:
        ConfigError: there's no such head.
    """
    n_heads, d_head = attention.q.size(1), attention.q.size(3)
    if not 0 <= head < n_heads:
        what = f"head {head} doesn't exist"
        raise ConfigError(what, expected=f"a head from 0 to {n_heads - 1}", name="head", value=head)
    q, k, v = (x[row, head] for x in (attention.q, attention.k, attention.v))
    steps: list[EquationStep] = []

    def step(name: str, formula: str, values: Tensor) -> Tensor:
        steps.append(EquationStep(name, formula, (*attention.q.shape[:2], *values.shape), values))
        return values

    step("queries", "Q", q)
    step("keys", "K", k)
    step("values", "V", v)
    if attention.kind != "Attend":
        return steps + _custom_steps(attention, head, row)
    scores = step("scores", "Q K^T", q @ k.mT)
    scores = step("scaled", f"divided by sqrt({d_head}) = {math.sqrt(d_head):.2f}", scores / math.sqrt(d_head))
    whole = (*attention.q.shape[:3], attention.k.size(2))
    if attention.bias is not None:
        scores = step("biased", "plus the position bias", scores + attention.bias.expand(whole)[row, head])
    mask = torch.ones_like(scores, dtype=torch.bool)
    if attention.mask is not None:
        mask = attention.mask.expand(whole)[row, head]
    rule = "nothing is masked here" if mask.all() else "-inf where masked"
    step("masked", rule, scores.masked_fill(~mask, -math.inf))
    weights = step("weights", "softmax: each row sums to 1", masked_softmax(scores, mask))
    step("output", "weights times V", weights @ v)
    return steps


def _custom_steps(attention: AttentionCall, head: int, row: int) -> list[EquationStep]:
    """Return the weights of a custom attention module, if it reports them, and its output."""
    found = []
    if attention.known_weights is not None:
        weights = attention.known_weights.values
        formula = f"of {attention.kind}"
        found.append(EquationStep("weights", formula, tuple(weights.shape), weights[row, head]))
    output = attention.output
    return [*found, EquationStep("output", f"of {attention.kind}", tuple(output.shape), output[row, head])]


def render_steps(steps: Sequence[EquationStep], rows: Sequence[str], columns: Sequence[str]) -> str:
    """Render each step with its name, formula, shape, and the first rows and columns of its values.

    Args:
        steps: the result of `equation_steps`.
        rows: the tokens of the queries, (T,).
        columns: the tokens of the keys, (S,), which label the rows of K and V.
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
    """Render a matrix with a token for each row and column, split into tables of at most 80 columns.

    Args:
        matrix: numbers, which are shown with two decimals, (T, S).
        rows: the tokens of the rows, (T,).
        columns: the tokens of the columns, (S,).

    Raises:
        ModelError: the numbers of tokens don't match the shape.
    """
    if tuple(matrix.shape) != (len(rows), len(columns)):
        what = f"a matrix of shape {tuple(matrix.shape)} has {len(rows)} row labels and {len(columns)} column labels"
        raise ModelError(what, expected="one label for each row and column", name="matrix", value=tuple(matrix.shape))
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
