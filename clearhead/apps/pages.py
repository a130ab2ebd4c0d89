"""The page of one answer of an app."""

from typing import TYPE_CHECKING, Any

from ..folder.checkpoint import FILM
from ..training.report.metrics import read_metrics
from .app import App

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation


def page_values(app: App, explanation: "Explanation", *, command: str = "", live: bool = False) -> dict[str, Any]:
    """Return what the page shows about an answer of an app, with the film if the run was watched.

    Args:
        app: the app. Its search settings must be those of the answer.
        explanation: what `app.explain` returned.
        command: the command that makes this page.
        live: leave out what a served page can ask for later.
    """
    from ..inspection.page.page_data import page_data

    film = app.path / FILM
    frames = read_metrics(film) if film.exists() else []
    return page_data(explanation, app.config, name=str(app.path), command=command, film=frames, live=live)


def write_page(app: App, explanation: "Explanation", path: Any, command: str) -> None:
    """Write the page of an answer into one file."""
    from ..folder.atomic import write_file, writing
    from ..inspection.page.document import page_document

    data = page_values(app, explanation, command=command)
    with writing(path.parent, again="run the command again"):
        write_file(path, page_document(data).encode())
