"""The views of an explanation as pictures, by matplotlib without a screen: heads, lens, reasons, search."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..canvas import FAINT, INK, PALE, STRONG, WARM, drawing, readable
from ..figures import attention_heatmap
from .attribution import Attribution
from .heads import heads_of
from .labelled import Labelled
from .lens import Lens
from .search_tree import Node, SearchTree

if TYPE_CHECKING:
    from .explanation import Explanation

_AGAIN = "give the command again"
_FATES = {"kept": STRONG, "ended": WARM, "dropped": FAINT}


def draw_heads(explanation: "Explanation", place: str, layer: int | None, path: Path) -> None:
    """The weights of all heads of a layer, or of all layers, of which each is a row; below each head its entropy."""
    rows, columns = explanation.axes(place)
    layers = range(explanation.n_layers(place)) if layer is None else [layer]
    weights, names = [], []
    for number in layers:
        call = explanation.attention(place, number).weights.select(row=0)
        weights.append(call.numpy())
        named = Labelled(call.values, call.axes, {"query": rows, "key": columns})
        where = f"layer {number}, " * (len(layers) > 1)
        names += [f"{where}head {it.number}\n{it.entropy:.2f} bits" for it in heads_of(named)]
    across = len(weights[0]) if len(layers) > 1 else 4
    title = place if layer is None else f"{place}, layer {layer}"
    attention_heatmap(np.concatenate(weights), columns, rows, path, title, names=names, across=across)


def draw_lens(lens: Lens, path: Path) -> None:
    """A row a layer, the last above, and a column a place: the likeliest token, dark where it is sure."""
    n_layers, n_places = len(lens.layers), len(lens.outputs)
    with drawing(path, layout="compressed", again=_AGAIN) as figure:
        figure.set_size_inches(1.1 * n_places + 1.4, 0.45 * n_layers + 1.2)
        panel = figure.subplots()
        shades = [[layer.probabilities[t][0] for t in range(n_places)] for layer in reversed(lens.layers)]
        panel.imshow(shades, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        for row, layer in enumerate(reversed(lens.layers)):
            for t in range(n_places):
                ink = "white" if layer.probabilities[t][0] > 0.6 else INK
                bold = "bold" if layer.ranks[t] == 0 else "normal"  # it says already what is said in the end
                token = readable(layer.tokens[t][0], 11)
                panel.text(t, row, token, ha="center", va="center", color=ink, fontweight=bold, parse_math=False)
        panel.grid(visible=False)
        panel.set_yticks(range(n_layers), [it.name for it in reversed(lens.layers)])
        panel.set_xticks(range(n_places), [readable(it, 11) for it in lens.outputs], parse_math=False)
        panel.tick_params(length=0, top=False, labeltop=True, bottom=False, labelbottom=False)
        panel.spines[:].set_visible(False)
        panel.set_xlabel("above: what was said; bold: the layer would have said the same")


def draw_attribution(why: Attribution, path: Path) -> None:
    """A bar a part, to the right where it spoke for what was said."""
    parts = why.contributions[::-1]
    with drawing(path, again=_AGAIN) as figure:
        figure.set_size_inches(7.2, 0.22 * len(parts) + 1.2)
        panel = figure.subplots()
        values = [it.value for it in parts]
        panel.barh(range(len(parts)), values, color=[STRONG if value >= 0 else WARM for value in values])
        panel.set_yticks(range(len(parts)), [it.part for it in parts], fontsize=8)
        panel.axvline(0, color=FAINT, linewidth=0.8)
        panel.margins(y=0.01)
        against = "" if why.other is None else f', not "{readable(why.other)}"'
        panel.set_title(f'Why "{readable(why.said)}"{against}: {why.difference:+.2f} in logits', parse_math=False)
        panel.set_xlabel("what each part added to the difference" if why.other else "what each part added to the logit")


def draw_search(tree: SearchTree, path: Path) -> None:
    """The beams from left to right: a column a step, a line from each beginning to what was tried behind it."""
    places: dict[int, tuple[float, float]] = {-1: (0.0, 0.0)}
    for step in tree.steps:
        for row, node in enumerate(step):
            places[node.number] = (float(node.step), float(row))
    winner = {*_ancestors(tree, tree.answers[0].node)} if tree.answers else set()
    tallest = max((len(step) for step in tree.steps), default=1)
    with drawing(path, layout="compressed", again=_AGAIN) as figure:
        figure.set_size_inches(1.35 * len(tree.steps) + 1.6, 0.42 * tallest + 1.2)
        panel = figure.subplots()
        for node in tree.nodes:
            (x0, y0), (x1, y1) = places[node.parent], places[node.number]
            won = node.number in winner
            color, width = (WARM, 2.0) if won else (PALE, 0.8)
            panel.plot([x0, x1], [y0, y1], color=color, linewidth=width, zorder=1 + won)
        for node in tree.nodes:
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": _FATES[node.fate]}
            panel.text(*places[node.number], _label(node), ha="center", va="center", fontsize=7, bbox=box, zorder=3,
                       color=FAINT if node.fate == "dropped" else INK, parse_math=False)  # fmt: skip
        panel.text(0, 0, "start", ha="center", va="center", fontsize=7, zorder=3, color=INK,
                   bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": INK})  # fmt: skip
        panel.invert_yaxis()
        panel.margins(x=0.04, y=0.08)
        panel.axis("off")
        panel.set_title("What the search kept (blue), ended (orange) and dropped (grey)")


def _label(node: Node) -> str:
    return f"{readable(node.token, 12)}\n{node.total:.2f}"


def _ancestors(tree: SearchTree, number: int | None) -> list[int]:
    found = []
    while number is not None and number >= 0:
        found.append(number)
        number = tree.nodes[number].parent
    return found
