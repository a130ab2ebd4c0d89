"""HTML summary of a model for notebooks: its task, sizes and scores."""

import html
from typing import Any

from ..errors import ModelError
from ..folder.manifest import parse_json_object, read_bytes
from ..loading.loaded import LoadedModel
from ..scoring import score_labels
from ..tasks.base import example_of


def page(loaded: LoadedModel, name: str) -> str:
    """Return an HTML summary of a model. It sets no colours, so that it suits light and dark themes."""
    from ..inspection.record.parts import count_parameters

    model, total = loaded.config.model, count_parameters(loaded.model)["total"]
    layers = [
        f"{number} {stack} layers"
        for stack, number in (("encoder", model.n_encoder_layers), ("decoder", model.n_decoder_layers))
        if model.topology in (f"{stack}-only", "encoder-decoder")
    ]
    sizes = f"{' and '.join(layers)}, d_model {model.d_model}, {model.n_heads} heads, d_ff {model.d_ff}"
    lines = [f"<b>{_text(name)}</b> of <code>{_text(loaded.path)}</code>", _text(sizes)]
    if scores := _scores(loaded):
        lines.append(_text(scores))
    lines.append(f"on the command line: <code>{_text(example_of(loaded.task, str(loaded.path), loaded.config))}</code>")
    rows = [_row("part", "parameters", "th"), *_rows(loaded.model), _row("total", f"{total:,}", "th")]
    return f"<p>{'<br>'.join(lines)}</p><table>{''.join(rows)}</table>"


def _rows(model: Any) -> list[str]:
    """Return a row for each component. Identical blocks share a row."""
    from ..inspection.record.parts import parts

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


def _scores(loaded: LoadedModel) -> str:
    """Return the stored scores if they're of the current weights and can be read, otherwise ""."""
    path = loaded.path / "evaluation.json"
    try:
        values = parse_json_object(path, read_bytes(path))
        scores = f"{score_labels.spoken(values)} ({score_labels.count_of(values)})"
    except (ModelError, ValueError, TypeError, OverflowError, StopIteration):
        return ""
    return scores if values.get("weights") == loaded.weights_digest else ""


def _text(value: object) -> str:
    return html.escape(str(value))
