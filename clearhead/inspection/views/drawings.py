"""Draw the views of an explanation: heads, alignment, lens, attribution, search."""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...pictures.canvas import FAINT, INK, PALE, STRONG, WARM, drawing, readable
from ...pictures.figures import attention_heatmap
from .attribution import Attribution
from .explanation import Explanation
from .head_grid import heads_of
from .lens import Lens, LensLayer
from .search_tree import Node, SearchTree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STRIP = 12  # maximum number of positions side by side
_NOTE = 60  # characters in a line of a note
_FADED = "#e3e7ec"
_FATES = {"kept": STRONG, "ended": WARM, "dropped": FAINT}


def draw_heads(explanation: Explanation, place: str, layer: int | None, path: Path) -> None:
    """Draw the weights of all heads of a layer, or of all layers (one row each), with the entropy below each head.

    Args:
        explanation: the recorded pass.
        place: such as "encoder.self" or "decoder.cross".
        layer: the number of the layer, from 0. None draws all layers.
        path: the PNG or SVG file to write.
    """
    rows, columns = explanation.axes(place)
    layers = range(explanation.n_layers(place)) if layer is None else [layer]
    weights, names = [], []
    for number in layers:
        named = explanation.labelled_weights(place, number)
        weights.append(named.numpy())
        where = f"layer {number}, " * (len(layers) > 1)
        names += [f"{where}head {it.number}\n{it.entropy:.2f} bits" for it in heads_of(named)]
    across = len(weights[0]) if len(layers) > 1 else 4
    title = place if layer is None else f"{place}, layer {layer}"
    attention_heatmap(np.concatenate(weights), columns, rows, path, title, names=names, across=across)


def draw_alignment(explanation: Explanation, layer: int | None, path: Path) -> None:
    """Draw the attention of each word of the answer (a row) to each word of the text, averaged over heads.

    Args:
        explanation: the recorded pass.
        layer: the number of the layer, from 0. None draws its `alignment_layer`.
        path: the PNG or SVG file to write.
    """
    weights, words = explanation.word_weights(layer).numpy(force=True), explanation.answer_words
    number = explanation.alignment_layer if layer is None else layer
    attention_heatmap(weights, explanation.text.split(), words, path, f"decoder.cross, layer {number}, by word")


def draw_lens(lens: Lens, path: Path) -> None:
    """Draw each layer's most likely token at each position. The last layer is on top; darker means more likely."""
    layers, n_positions = lens.layers[::-1], len(lens.outputs)
    starts = range(0, n_positions, _STRIP)
    with drawing(path) as figure:
        figure.set_size_inches(1.0 * min(n_positions, _STRIP) + 1.4, len(starts) * (0.45 * len(layers) + 0.5) + 0.6)
        for start, panel in zip(starts, figure.subplots(len(starts), 1, squeeze=False)[:, 0]):
            here = range(start, min(start + _STRIP, n_positions))
            shades = [[layer.probabilities[t][0] for t in here] for layer in layers]
            panel.imshow(shades, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
            for row, layer in enumerate(layers):
                for t in here:
                    _guess(panel, t - start, row, layer, t)
            panel.grid(visible=False)
            panel.set_xlim(-0.5, min(n_positions, _STRIP) - 0.5)
            panel.set_yticks(range(len(layers)), [it.name for it in layers])
            panel.set_xticks(range(len(here)), [readable(lens.outputs[t], 11) for t in here], parse_math=False)
            panel.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
            panel.spines[:].set_visible(False)
        figure.suptitle("Predictions of each layer", fontweight="bold", fontsize=11)
        key = "top: the answer; bold: the layer agrees"
        figure.supxlabel("\n".join([key, *textwrap.wrap(lens.note, _NOTE)]), fontsize=9)


def _guess(panel: "Axes", x: int, y: int, layer: LensLayer, place: int) -> None:
    """Write a layer's most likely token at a position."""
    token, share = layer.tokens[place][0], layer.probabilities[place][0]
    ink = "white" if share > 0.6 else INK
    bold = "bold" if layer.ranks[place] == 0 else "normal"  # agrees with the answer
    panel.text(x, y - 0.14, readable(token, 11), ha="center", va="center", fontsize=9, color=ink, fontweight=bold,
               parse_math=False)  # fmt: skip
    panel.text(x, y + 0.3, f"{share:.0%}", ha="center", va="center", fontsize=6, color=ink)


def draw_attribution(why: Attribution, path: Path) -> None:
    """Draw a bar for each part, to the right if it favoured the answer."""
    parts = why.contributions[::-1]
    with drawing(path) as figure:
        figure.set_size_inches(7.2, 0.22 * len(parts) + 1.2)
        panel = figure.subplots()
        values = [it.value for it in parts]
        panel.barh(range(len(parts)), values, color=[STRONG if value >= 0 else WARM for value in values])
        panel.set_yticks(range(len(parts)), [it.part for it in parts], fontsize=8)
        panel.axvline(0, color=FAINT, linewidth=0.8)
        panel.margins(y=0.01)
        against = "" if why.other is None else f', not "{readable(why.other)}"'
        panel.set_title(
            f'Why "{readable(why.said)}"{against}: {why.difference:+.2f} in {why.measure}s', parse_math=False
        )
        added = f"contribution to the {'difference' if why.other else why.measure}"
        panel.set_xlabel("\n".join([added, *textwrap.wrap(why.note, _NOTE)]))


def draw_search(tree: SearchTree, path: Path) -> None:
    """Draw the search as a tree from left to right, one column per step.

    Below the tree are the lengths of the cache before each step, then the scores of the answers.
    """
    places: dict[int, tuple[float, float]] = {-1: (0.0, 0.0)}
    for step in tree.steps:
        places |= {node.number: (float(node.step), float(row)) for row, node in enumerate(step)}
    last = tree.answers[0].node if tree.answers else None
    winner = set() if last is None else {it.number for it in tree.path(last)}
    tallest = max((len(step) for step in tree.steps), default=1)
    with drawing(path, layout="compressed") as figure:
        figure.set_size_inches(1.15 * len(tree.steps) + 1.6, 0.42 * tallest + 1.6)
        panel = figure.subplots()
        for node in tree.nodes:
            (x0, y0), (x1, y1) = places[node.parent], places[node.number]
            won, lost = node.number in winner, node.fate == "dropped"
            color, width = (WARM, 2.0) if won else (_FADED if lost else PALE, 0.6 if lost else 1.2)
            panel.plot([x0, x1], [y0, y1], color=color, linewidth=width, zorder=1 + won - 0.5 * lost)
        for node in tree.nodes:
            _box(panel, *places[node.number], _label(node), _FATES[node.fate], FAINT if node.fate == "dropped" else INK)
        _box(panel, 0, 0, "start", INK, INK)
        for number, length in enumerate(tree.cache_lengths[: len(tree.steps)], start=1):
            panel.text(number, tallest, f"cache {length}", ha="center", va="center", fontsize=7, color=FAINT)
        panel.set_ylim(tallest + 0.4, -0.6)
        panel.set_xlim(-0.5, len(tree.steps) + 0.5)
        panel.axis("off")
        panel.set_title("Hypotheses kept (blue), finished (orange) and dropped (grey)")
        panel.text(0, -0.01, _reason(tree), transform=panel.transAxes, va="top", fontsize=8, parse_math=False)


def _box(panel: "Axes", x: float, y: float, text: str, edge: str, ink: str) -> None:
    box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": edge}
    panel.text(x, y, text, ha="center", va="center", fontsize=7, bbox=box, zorder=3, color=ink, parse_math=False)


def _label(node: Node) -> str:
    """Return a candidate's token with its total, or its score if it's an answer."""
    ended = node.fate == "ended"
    number = round(node.score if ended else node.total, 2) + 0.0  # no -0.00
    return f"{readable(node.token, 12)}\n{'score ' * ended}{number:.2f}"


def _reason(tree: SearchTree) -> str:
    """Return the caption: a key, the scores of the first answers, the verdict and the note."""
    lines = [
        f"{it.score:.4f} = {it.total:.4f} / {it.penalty:.4f}, {it.length} tokens: {readable(it.text, 60)}"
        for it in tree.answers[:3]
    ]
    key = "thick: the path to the first answer; cache: tokens that each beam held before a step"
    return "\n".join([key, "", *lines, *tree.verdict(), *textwrap.wrap(tree.note, _NOTE)])
