"""How a model in use shows itself in a notebook: what it does, how large it is, how good it was found to be."""

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..inspection.record.parts import count_parameters, parts
from ..scoring import score_labels

if TYPE_CHECKING:
    from .app import App


def page(app: "App") -> str:
    """HTML without a colour of its own, so that it is read on light and dark pages; all texts are escaped."""
    model, total = app.config.model, count_parameters(app.model)["total"]
    layers = [
        f"{number} {stack} layers"
        for stack, number in (("encoder", model.n_encoder_layers), ("decoder", model.n_decoder_layers))
        if model.topology in (f"{stack}-only", "encoder-decoder")
    ]
    sizes = f"{' and '.join(layers)}, width {model.d_model}, {model.n_heads} heads, inner width {model.d_ff}"
    lines = [f"<b>{_text(type(app).__name__)}</b> of <code>{_text(app.path)}</code>", _text(sizes)]
    if scores := _evaluation(app):
        lines.append(_text(f"{score_labels.spoken(scores)} ({score_labels.count_of(scores)})"))
    lines.append(f"on the command line: <code>{_text(app.task.example(str(app.path)))}</code>")
    rows = [_row("part", "parameters", "th"), *_rows(app.model), _row("total", f"{total:,}", "th")]
    return f"<p>{'<br>'.join(lines)}</p><table>{''.join(rows)}</table>"


def _rows(model: Any) -> list[str]:
    """A row for each part of a stack; blocks that are alike are one."""
    found = []
    for stack in parts(model):
        for part in stack.parts or (stack,):
            name = stack.name if part is stack else f"{stack.name}: {part.name}"
            times = f" ({part.times} of them)" if part.times > 1 else ""
            found.append(_row(name + times, f"{part.total:,}" + (f", {part.note}" if part.note else ""), "td"))
    return found


def _row(name: str, value: str, cell: str) -> str:
    style = " style='text-align:left'"
    return f"<tr><{cell}{style}>{_text(name)}</{cell}><{cell}{style}>{_text(value)}</{cell}></tr>"


def _evaluation(app: "App") -> dict[str, Any]:
    """The scores that the folder keeps of these very weights; nothing where there are none that can be read."""
    try:
        values = json.loads((Path(app.path) / "evaluation.json").read_text(encoding="utf-8"))
        score_labels.count_of(values)
    except (OSError, ValueError, TypeError, StopIteration):
        return {}
    return values if values.get("weights") == app.weights_digest else {}


def _text(value: object) -> str:
    return html.escape(str(value))
