"""Pages of a model: its summary for notebooks, and the page of one answer."""

import html
from typing import TYPE_CHECKING, Any

from ..errors import ModelError
from ..folder.checkpoint import FILM
from ..folder.manifest import read_json_object
from ..loading import LoadedModel
from ..scoring import score_labels
from ..training.report.metrics import read_metrics

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation
from ..tasks.base import example_of


def summary(loaded: LoadedModel, name: str) -> str:
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
        values = read_json_object(path)
        scores = f"{score_labels.spoken(values)} ({score_labels.count_of(values)})"
    except (ModelError, ValueError, TypeError, OverflowError, StopIteration):
        return ""
    return scores if values.get("weights") == loaded.weights_digest else ""


def _text(value: object) -> str:
    return html.escape(str(value))


def page_values(
    loaded: LoadedModel, explanation: "Explanation", *, name: str = "", command: str = "", live: bool = False
) -> dict[str, Any]:
    """Return what the page shows about an answer, with the film if the run was watched.

    Args:
        loaded: the model. Its search settings must be those of the answer.
        explanation: what `app.explain` returned.
        name: the name of the model (default: its path).
        command: the command that makes this page.
        live: leave out what a served page can ask for later.
    """
    from ..inspection.page.page_data import page_data

    film = loaded.path / FILM
    frames = read_metrics(film) if film.exists() else []
    name = name or str(loaded.path)
    return page_data(explanation, loaded.config, name=name, command=command, film=frames, live=live)


def write_page(loaded: LoadedModel, explanation: "Explanation", path: Any, command: str) -> None:
    """Write the page of an answer into one file.

    Args:
        loaded: the model. Its search settings must be those of the answer.
        explanation: what `app.explain` returned.
        path: the HTML file to write.
        command: the command that makes this page, which the page shows.
    """
    from ..folder.atomic import save_file
    from ..inspection.page.document import page_document

    save_file(path, page_document(page_values(loaded, explanation, command=command)).encode())
