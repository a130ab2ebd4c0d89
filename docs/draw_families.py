"""Draw the published models and the table of their settings, from the code: `python docs/draw_families.py`.

It writes one picture for each model to docs/images and the table to docs/family.md. What differs from the paper's base
model is yellow in a picture and bold in the table.
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch

from clearhead import Config, build, published
from clearhead.config import FAMILIES, ModelConfig, preset

DOCS = Path(__file__).parent
PAGE, IMAGES = DOCS / "family.md", DOCS / "images"
BASE = "paper"
WIDTH, HEIGHT, GAP, FRAME, COLUMN, MARGIN = 190, 34, 14, 12, 290, 16
NONE = "–"  # in the table
BEGIN, END = "<!-- drawn by docs/draw_families.py -->", "<!-- end -->"
ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "gelu_tanh": "GELU", "swiglu": "SwiGLU"}
ON_SCORES = ("rotary", "relative")  # position schemes that work inside attention
HEADS = {"class": "class head: {n_classes:,} labels", "token": "token head: {src_vocab_size:,} logits"}


@dataclass(frozen=True)
class Box:
    """A step of a stack, `inside` a block or not. An "add" closes the residual connection around a sub-layer."""

    title: str
    detail: str = ""
    inside: bool = False


def models() -> dict[str, ModelConfig]:
    """Return the paper's base model, with its vocabulary (section 5.1), and the published ones."""
    sizes = {"model.src_vocab_size": 37_000, "model.tgt_vocab_size": 37_000}
    base = Config().override(preset("base") | sizes).model
    return {BASE: base} | {name: Config().override(published(name)).model for name in FAMILIES}


# --- the table


def rows(model: ModelConfig) -> dict[str, str]:
    """Return the settings that tell the models apart, as text."""
    layers = {"encoder-only": f"{model.n_encoder_layers}", "decoder-only": f"{model.n_decoder_layers}"}
    with torch.device("meta"):
        n_parameters = sum(it.numel() for it in build(model).parameters())
    sizes = {f"{size:,}" for size in model.vocabulary_sizes.values()}
    return {
        "`topology`": model.topology,
        "blocks": layers.get(model.topology, f"{model.n_encoder_layers} + {model.n_decoder_layers}"),
        "`d_model`, `n_heads`, `d_ff`": f"{model.d_model}, {model.n_heads}, {model.d_ff:,}",
        "`front`": model.front,
        "`positions`": model.positions,
        "`pre_norm`": str(model.pre_norm).lower(),
        "`norm`": model.norm,
        "`embedding_norm`": str(model.embedding_norm).lower(),
        "`feed_forward`": model.feed_forward,
        "`bias`": str(model.bias).lower(),
        "`embedding_scale`": f"√{model.d_model}" if model.embedding_scale is None else f"{model.embedding_scale:g}",
        "`attention_scale`": f"1/√{model.head_width}" if model.attention_scale is None else "1",
        "`logit_scale`": "1" if model.logit_scale == 1 else f"1/√{round(model.logit_scale**-2)}",
        "`tie`": model.tie if sizes else NONE,
        "`head`": model.head,
        "`n_token_types`": str(model.n_token_types),
        "`dropout`": f"{model.dropout:g}",
        "`max_len`": "any" if model.positions == "sinusoidal" else f"{model.max_len:,}",
        "vocabulary": ", ".join(sizes) or NONE,
        "parameters": f"{n_parameters:,}",
    }


def table() -> str:
    """Return the settings of all models in Markdown, one column for each."""
    columns = {name: rows(model) for name, model in models().items()}
    titles = ["`base`, the paper", *(f"`{name}`" for name in FAMILIES)]
    lines = [f"| setting | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    for row, usual in columns[BASE].items():
        cells = [it[row] for it in columns.values()]
        if row not in ("vocabulary", "parameters"):
            cells = [value if value in (usual, NONE) else f"**{value}**" for value in cells]
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page: str) -> str:
    """Return the page with the table of today."""
    return re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table()}\n{END}", page, flags=re.DOTALL)


# --- the pictures


def boxes(model: ModelConfig, stack: str) -> list[Box]:
    """Return the steps of a stack, from its input to its output."""
    norm = {"layer": "LayerNorm", "rms": "RMSNorm"}[model.norm]
    found = [Box("patches", f"of {model.patch_size} x {model.patch_size} pixels, and a class token")]
    if model.front == "tokens" or stack == "decoder":
        scaled = model.embedding_scale is None
        found = [Box("token embedding", f"times √{model.d_model}" if scaled else "not scaled")]
    if model.n_token_types:
        found.append(Box("add token types", f"{model.n_token_types} of them"))
    if model.positions not in ON_SCORES:
        found.append(Box("add positions", model.positions))
    if model.embedding_norm:
        found.append(Box(norm, "of the embeddings"))
    for title, detail in sublayers(model, stack):
        parts = [Box(title, detail, True), Box("add", "", True), Box(norm, "", True)]
        found += [parts[2], *parts[:2]] if model.pre_norm else parts
    if model.pre_norm if model.final_norm is None else model.final_norm:
        found.append(Box(norm, "of the stack's output"))
    if stack == "decoder":
        tied = model.tie in ("all", "target")
        found.append(Box("projection to logits", "shares the embedding's matrix" if tied else "has its own matrix"))
    elif model.topology == "encoder-only":
        pooled = "reads the class token" if model.head == "class" else "dense layer, GELU and norm first"
        found.append(Box(HEADS[model.head].format(**vars(model)), pooled))
    return found


def sublayers(model: ModelConfig, stack: str) -> list[tuple[str, str]]:
    """Return the sub-layers of a block."""
    mask = "causal, " if stack == "decoder" else ""
    scheme = f"{model.positions} positions" if model.positions in ON_SCORES else f"{model.n_heads} heads"
    found = [("self-attention", mask + scheme)]
    if stack == "decoder" and model.topology == "encoder-decoder":
        found.append(("cross-attention", "to the encoder's output"))
    biases = "" if model.bias else ", no biases"
    return [*found, ("feed-forward", ACTIVATIONS[model.feed_forward] + biases)]


def likeness(box: Box) -> tuple[str, str]:
    """Return what two boxes have in common if they do the same: sizes don't count."""
    return box.title, re.sub(r"\d+", "N", box.detail)


def draw(name: str) -> str:
    """Return the picture of a model as SVG."""
    known = models()
    model, base = known[name], known[BASE]
    columns = {it: boxes(model, it) for it in ("encoder", "decoder") if model.topology in (f"{it}-only", base.topology)}
    height = max(sum(box_height(box) + GAP for box in it) for it in columns.values()) + 2 * FRAME + 60
    width = len(columns) * COLUMN + MARGIN
    body, tops = [], {}
    for number, (stack, steps) in enumerate(columns.items()):
        usual = {likeness(box) for box in boxes(base, stack)}
        if model.pre_norm:  # the paper has no norm before a sub-layer
            usual = {it for it in usual if not it[0].endswith("Norm")}
        left = MARGIN + 34 + number * COLUMN
        drawn, tops[stack] = column(steps, usual, left, height - 44, model)
        body += [f'<text x="{left + WIDTH / 2:g}" y="{height - 14:g}" font-size="13" font-weight="bold">{stack}</text>']
        body += [frame(steps, tops[stack], left, getattr(model, f"n_{stack}_layers")), *drawn]
    if len(columns) == 2:  # from the last box of the encoder to cross-attention
        cross = [box.title for box in columns["decoder"]].index("cross-attention")
        x, top, y = MARGIN + 34 + WIDTH / 2, tops["encoder"][-1] - GAP, tops["decoder"][cross] + HEIGHT / 2
        body.append(arrow(f"M{x:g} {top:g} H{x + WIDTH / 2 + 32:g} V{y:g} H{x - WIDTH / 2 + COLUMN:g}"))
    tip = '<path d="M0 0 L8 4 L0 8 z" fill="#555"/>'
    marker = (
        f'<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">{tip}'
    )
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        'font-family="sans-serif" text-anchor="middle" fill="#222">',
        f"<defs>{marker}{tip}</marker></defs>",
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
        *body,
        "</svg>\n",
    ])  # fmt: skip


def box_height(box: Box) -> float:
    """Return the height of a box: less without a second line."""
    return HEIGHT if box.detail else 22


def column(
    steps: list[Box], usual: set[tuple[str, str]], left: float, bottom: float, model: ModelConfig
) -> tuple[list[str], list[float]]:
    """Draw a stack upwards from its input. Return its SVG, and the top of each box."""
    tops, y = list[float](), bottom - GAP
    for before, box in zip([Box(""), *steps], steps):
        y -= box_height(box) + (FRAME if box.inside != before.inside else 0)
        tops.append(y)
        y -= GAP
    middle, right, branch = left + WIDTH / 2, left + WIDTH, 2 if model.pre_norm else 1
    drawn = [arrow(f"M{middle:g} {tops[-1]:g} V{tops[-1] - GAP:g}")]
    for i, (box, top) in enumerate(zip(steps, tops)):
        drawn.append(arrow(f"M{middle:g} {tops[i - 1] if i else bottom:g} V{top + box_height(box):g}"))
        drawn.append(rectangle(box, left, top, "#eaf1fb" if likeness(box) in usual else "#ffe9a8"))
        if box.title == "add":  # around the sub-layer, with its norm if that comes first
            first = i - branch
            low = tops[first] + box_height(steps[first]) + GAP / 2
            y = top + box_height(box) / 2
            drawn.append(arrow(f"M{middle:g} {low:g} H{right + 14:g} V{y:g} H{right:g}"))
    return drawn, tops


def frame(steps: list[Box], tops: list[float], left: float, n_blocks: int) -> str:
    """Return the frame around the parts of a block, with the number of blocks."""
    inside = [i for i, box in enumerate(steps) if box.inside]
    top, bottom = tops[inside[-1]] - FRAME, tops[inside[0]] + box_height(steps[inside[0]]) + FRAME
    size = f'x="{left - 12:g}" y="{top:g}" width="{WIDTH + 36:g}" height="{bottom - top:g}"'
    times = f'<text x="{left - 32:g}" y="{top + 18:g}" font-size="13">{n_blocks} ×</text>'
    return f'<rect {size} rx="8" fill="none" stroke="#999" stroke-dasharray="4 3"/>\n{times}'


def rectangle(box: Box, left: float, top: float, fill: str) -> str:
    """Return a box as SVG."""
    size = f'x="{left:g}" y="{top:g}" width="{WIDTH}" height="{box_height(box):g}"'
    drawn = [f'<rect {size} rx="6" fill="{fill}" stroke="#3b5b8c"/>']
    for line, (text, points) in enumerate(((box.title, 12), (box.detail, 10.5))):
        place = f'x="{left + WIDTH / 2:g}" y="{top + 15 + 13.5 * line:g}" font-size="{points}"'
        drawn.append(f"<text {place}>{escape(text)}</text>" if text else "")
    return "\n".join(filter(None, drawn))


def arrow(path: str) -> str:
    """Return an arrow along a path."""
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#tip)"/>'


def picture(name: str) -> Path:
    """Return the file of a model's picture."""
    return IMAGES / f"family-{name}.svg"


if __name__ == "__main__":
    for name in models():
        picture(name).write_text(draw(name), encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
