"""Pictures of a training run: the loss curve, attention weights, a confusion matrix."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DataError, ModelError
from .canvas import INK, PALE, STRONG, WARM, drawing, readable, separate_cells, tick_pieces

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


@dataclass(frozen=True)
class Curve:
    """A validation score to draw below the loss."""

    key: str  # key in the records, without `valid_`
    name: str
    digits: str = ".1f"  # format of the best value
    lower: bool = False  # lower is better


BLEU = Curve("bleu", "BLEU")


def loss_curve(
    metrics: Sequence[Mapping[str, Any]], path: Path, score: Curve = BLEU, training: str = "training (with dropout)"
) -> None:
    """Draw the training and validation loss by step, and below them a validation score, if it was measured.

    Non-finite values are skipped, as are the scores of averaged checkpoints, which don't belong to a step.

    Args:
        metrics: the records of `metrics.jsonl`.
        path: the PNG or SVG file to write.
        training: the legend label of the training loss.

    Raises:
        DataError: no record has a loss.
    """
    metrics = [record for record in metrics if "averaged" not in record]
    train, valid, scored = (_series(metrics, name) for name in ("loss", "valid_loss", f"valid_{score.key}"))
    if not train[0] and not valid[0]:
        what = "the records have no loss to draw"
        raise DataError(what, expected="records with 'step' and 'loss', as in metrics.jsonl", name="loss")
    with drawing(path, again="continue with `resume=True`") as figure:
        rows = 2 if scored[0] else 1
        figure.set_size_inches(7.2, 3.4 + 1.7 * (rows - 1))
        panels = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=[2, 1][:rows])[:, 0]
        for series, label, style in (
            (train, training, {"color": PALE, "linewidth": 1.4}),
            (valid, "validation", {"color": STRONG, "linewidth": 1.8}),
        ):
            if series[0]:
                panels[0].plot(*series, label=label, **style, **_dots(series))
        panels[0].set_title("Loss (nats)")
        panels[0].legend(loc="upper right")
        if scored[0]:
            _draw_score(panels[1], scored, score)
        panels[-1].set_xlabel("step")
        panels[-1].set_xlim(left=0)
        panels[-1].locator_params(axis="x", integer=True)
        panels[-1].xaxis.set_major_formatter("{x:,.0f}")


def attention_heatmap(
    weights: npt.ArrayLike,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    path: Path | None,
    title: str = "",
    *,
    names: Sequence[str] = (),
    across: int = 4,
) -> "Figure":
    """Draw attention weights, with a row for each query and a column for each key.

    Args:
        weights: (T, S), or (H, T, S) for several heads.
        source_pieces: the labels of the S keys.
        target_pieces: the labels of the T queries.
        path: the PNG or SVG file to write (None: only return the figure).
        names: the label of each head (default: its number).
        across: the number of heads to draw side by side.

    Returns:
        The figure.

    Raises:
        ModelError: the weights don't have T rows and S columns.
    """
    heads = _heads(weights, len(target_pieces), len(source_pieces))
    columns = min(len(heads), across)
    rows = math.ceil(len(heads) / columns)
    width, height = columns * len(source_pieces), rows * len(target_pieces)  # in cells
    cell = min(0.34 if len(heads) == 1 else 0.22, 24 / max(width, height))  # in inches
    darkest = np.fmax.reduce(heads, axis=None, initial=1e-9)
    with drawing(path, layout="compressed") as figure:
        figure.set_size_inches(cell * width + 0.25 * columns + 2.2, cell * height + 0.35 * rows + 1.6)
        panels = figure.subplots(rows, columns, squeeze=False)
        for panel in panels.flat[len(heads) :]:
            panel.set_visible(False)
        for number, (panel, head) in enumerate(zip(panels.flat, heads)):
            image = _cells(panel, head, cell, darkest)
            above, left = source_pieces if number < columns else (), target_pieces if number % columns == 0 else ()
            tick_pieces(panel, cell, above, left)
            if len(heads) > 1:
                panel.set_xlabel(names[number] if names else f"head {number}", fontsize=8 if names else None)
        bar = figure.colorbar(image, ax=panels, shrink=0.6, aspect=24, pad=0.02)
        bar.set_label("attention weight")
        bar.outline.set_visible(False)
        figure.suptitle(readable(title, 60), fontweight="bold", parse_math=False)
    return figure


def confusion_matrix(counts: npt.ArrayLike, labels: Sequence[str], path: Path) -> None:
    """Draw a confusion matrix, with each cell coloured by its share of the row.

    Args:
        counts: (C, C), with a row for each correct label and a column for each predicted one.
        labels: the C labels.
        path: the PNG or SVG file to write.

    Raises:
        ModelError: the counts don't have a row and a column for each label.
    """
    array = np.asarray(counts, dtype=np.int64)
    if array.shape != (len(labels), len(labels)) or not len(labels):
        what = f"the confusion matrix has shape {array.shape}"
        expected = f"{(len(labels),) * 2}, for {len(labels)} labels" if labels else "at least one label"
        raise ModelError(what, expected=expected, name="counts", value=array.shape)
    shares = array / array.sum(1, keepdims=True).clip(min=1)
    cell = min(0.6, 16 / len(labels))  # in inches
    with drawing(path, layout="compressed", again="continue with `resume=True`") as figure:
        figure.set_size_inches(cell * len(labels) + 2.4, cell * len(labels) + 1.8)
        panel = figure.subplots()
        _cells(panel, shares, cell, 1.0)
        tick_pieces(panel, cell, labels, labels)
        for row, column in zip(*np.nonzero(array)) if cell > 0.4 else ():
            ink = "white" if shares[row, column] > 0.6 else INK
            panel.text(column, row, f"{array[row, column]:,}", ha="center", va="center", fontsize=8, color=ink)
        panel.set_ylabel("correct label")
        panel.set_xlabel("predicted label")


def _cells(panel: "Axes", values: npt.NDArray[np.float64], cell: float, darkest: float) -> "AxesImage":
    """Draw values (T, S) as blue cells, `cell` inches wide."""
    image = panel.imshow(values, cmap="Blues", vmin=0, vmax=darkest, interpolation="nearest")
    separate_cells(panel, values.shape, lines=cell > 0.1)
    return image


def _heads(weights: npt.ArrayLike, n_target: int, n_source: int) -> npt.NDArray[np.float64]:
    """Check the weights and return them as (H, T, S)."""
    array = np.asarray(weights, dtype=np.float64)
    heads = array[None] if array.ndim == 2 else array
    if heads.ndim != 3 or 0 in heads.shape or heads.shape[1:] != (n_target, n_source):
        what = f"the attention weights have shape {array.shape}"
        expected = f"(T, S) or (H, T, S) with T={n_target} target and S={n_source} source pieces, and none of them 0"
        raise ModelError(what, expected=expected, name="weights", value=array.shape)
    return heads


def _series(metrics: Sequence[Mapping[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Return the steps and the finite values logged under a name."""
    logged = [record for record in metrics if "step" in record and math.isfinite(record.get(name, math.nan))]
    return [record["step"] for record in logged], [record[name] for record in logged]


def _dots(series: tuple[list[float], list[float]]) -> dict[str, Any]:
    """Return a style that marks the points if there are few, so the line doesn't suggest more measurements."""
    return {"marker": "o", "markersize": 4} if len(series[0]) <= 30 else {}


def _draw_score(panel: "Axes", series: tuple[list[float], list[float]], score: Curve) -> None:
    panel.plot(*series, color=WARM, linewidth=1.8, **_dots(series))
    panel.set_title(f"{score.name[0].upper()}{score.name[1:]} (validation)")
    if score.lower:  # leave room for the label above the best value, which may be far from 0
        panel.margins(y=0.25)
    else:
        panel.set_ylim(bottom=0, top=1.25 * max(series[1]) or 1)
    sign = -1 if score.lower else 1
    step, value = max(zip(*series), key=lambda it: (sign * it[1], it[0]))  # ties go to the newest step, as in training
    style: dict[str, Any] = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "fontweight": "bold"}
    panel.annotate(f"{value:{score.digits}}", (step, value), color=WARM, **style)
