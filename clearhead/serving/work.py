"""What a model can be asked to do with a batch of inputs. Runs on the model's thread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..apps.answers import Embedded
from ..apps.app import App
from ..config import TASKS
from ..errors import DataError
from ..readers.skipped import Report
from .bodies import json_bytes

EXPLAINING = ("explanations", "pages")  # keys of `METHODS` that can take a hundred times as long as an answer


@dataclass(frozen=True)
class Work:
    """What to do with inputs, and how: a key of `METHODS`, or what `open_group` has a writer for.

    Inputs with equal work are answered together.
    """

    method: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, method: str, options: Mapping[str, Any]) -> "Work":
        """Return work with these options. Lists become tuples."""
        fixed = {name: tuple(it) if isinstance(it, list) else it for name, it in options.items()}
        return cls(method, tuple(sorted(fixed.items())))


@dataclass(frozen=True)
class Seeded:
    """A text to continue, with its own random seed."""

    text: str
    seed: int


def run_work(app: App, work: Work, inputs: list[Any]) -> Sequence[Any]:
    """Return the answer to each input."""
    return METHODS[work.method](app, inputs, dict(work.options))


def warm(app: App) -> None:
    """Read the weights and answer once, so that the first request doesn't wait for it."""
    verb, spec = app.task.verb, TASKS.get(app.task.verb)
    if verb == "generate":
        _warm_up(app)
    elif spec is not None and spec.example and "text" in app.task.modalities:
        _results(app, [spec.example], {})
    else:
        assert app.model is not None


def _warm_up(app: Any) -> None:
    app.continuations([""], max_len=1, min_len=0, n_best=1)


def _results(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    return app.results(inputs, **options)


def _answers(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    return app.results(inputs, options.pop("context"), **options)


def _filled(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Fill texts one by one, so that one without a mask fails alone."""
    return [app.results([text], **options)[0] for text in inputs]


def _embeddings(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Embedded]:
    return list(map(Embedded, inputs, app.embed(inputs, **options)))


def _counted_embeddings(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[tuple[Embedded, int]]:
    """Return each text's embedding and number of tokens."""
    return list(zip(_embeddings(app, inputs, options), map(len, app.tokenizers.source.encode_batch(inputs))))


def _scores(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Score pairs one by one, so that a pair that's too long fails alone."""
    return [_score(app, pair, options) for pair in inputs]


def _score(app: Any, pair: tuple[str, str], options: dict[str, Any]) -> Any:
    scored, report = app.score([pair], **options)
    if not scored:
        raise DataError("a pair can't be scored", expected=_why(report), name="pairs", value=pair)
    return scored[0]


def _why(report: Report) -> str:
    return "\n".join(report.skipped_rows())


def _explanations(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    context = (options.pop("context"),) if "context" in options else ()
    found = (app.explain(text, *context, **options) for text in inputs)
    return [it.to_dict(it.main_place, 0, 0) for it in found]


def _pages(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Return what the page shows about each input, as JSON."""
    return [_page(app, source, **options) for source in inputs]


def _page(
    app: Any, source: str, name: str, off: Sequence[str] = (), prefix: Sequence[int] = (), context: str = ""
) -> bytes:
    from ..folder.checkpoint import FILM
    from ..inspection.page.page_data import page_data
    from ..training.report.metrics import read_metrics

    film = app.path / FILM
    more = [context] if app.task.verb == "answer" else []
    begun = {"prefix": prefix} if prefix else {}
    with app.without(*off):
        explanation = app.explain(source, *more, **begun)
        frames = read_metrics(film) if film.exists() else []
        return json_bytes(page_data(explanation, app.config, name=name, film=frames, live=True))


METHODS: Mapping[str, Callable[[Any, list[Any], dict[str, Any]], Sequence[Any]]] = {
    "results": _results,
    "answers": _answers,
    "filled": _filled,
    "embeddings": _embeddings,
    "counted_embeddings": _counted_embeddings,
    "scores": _scores,
    "explanations": _explanations,
    "pages": _pages,
}
