"""Work that a model can do on a batch of inputs, and the groups that do it. Runs on the model's thread."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..apps.answers import Embedded
from ..apps.app import App
from ..apps.language_model import LanguageModel
from ..apps.translator import Translator
from ..config import TASKS
from ..decode.writer import Writer
from ..errors import DataError
from .batching import Batcher
from .bodies import json_bytes
from .groups import AtOnce, Group, LiveGroup

EXPLAINING = ("explanations", "pages")  # keys of `METHODS` that can take a hundred times as long as an answer
_TOGETHER = 128  # inputs; more don't make a batch faster


@dataclass(frozen=True)
class Work:
    """A kind of work and its settings: a key of `METHODS`, or a kind that `open_group` has a writer for.

    Inputs with equal work are answered together.
    """

    method: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, method: str, options: Mapping[str, Any]) -> "Work":
        """Return work with these options. Lists become tuples."""
        fixed = {name: tuple(it) if isinstance(it, list) else it for name, it in options.items()}
        return cls(method, tuple(sorted(fixed.items())))


def open_group(app: App, work: Work) -> Group:
    """Return an empty group for some work of a model.

    Raises:
        ClearheadError: the model can't do it with these options.
    """
    if (writer := _writer(app, work.method, dict(work.options))) is not None:
        return LiveGroup(writer)
    # Scores gain nothing by waiting for others.
    return AtOnce(lambda inputs: _run(app, work, inputs), most=1 if work.method == "scores" else _TOGETHER)


def _writer(app: App, method: str, options: dict[str, Any]) -> Writer[Any] | None:
    """Return the writer for some work, or None if nothing is decoded."""
    if isinstance(app, Translator) and method == "results":
        return app.writer(**options)
    if isinstance(app, LanguageModel) and method in ("continuations", "completions"):
        return app.writer(**options) if method == "continuations" else app.completion_writer(**options)
    return None


def open_explanations(app: App, *, most: int, name: str) -> Batcher:
    """Return a queue for explanations, with its own thread and torch module, so that other answers don't wait.

    A computation ends with the next block of the model when its client has left.

    Args:
        app: the model to explain.
        most: maximum number of inputs that wait.
        name: name of the thread.
    """
    twin = cache(lambda: _interruptible(app, queue))
    queue = Batcher(lambda work: AtOnce(lambda inputs: _run(twin(), work, inputs), most=1), most=most, name=name)
    return queue


def _interruptible(app: App, queue: Batcher) -> App:
    from ..inspection.record.parts import stacks

    twin = type(app)(app.loaded.separate())
    for stack in stacks(twin.model).values():
        for block in stack.blocks:
            block.register_forward_pre_hook(lambda *_: queue.check_wanted())
    return twin


def _run(app: App, work: Work, inputs: list[Any]) -> Sequence[Any]:
    return METHODS[work.method](app, inputs, dict(work.options))


def warm(app: App) -> None:
    """Read the weights and answer once, so that the first request doesn't wait for it."""
    spec = TASKS.get(app.task.verb)
    if isinstance(app, LanguageModel):
        app.continuations([""], max_len=1, min_len=0, n_best=1)
    elif spec is not None and spec.example and "text" in app.task.modalities:
        _results(app, [spec.example], {})
    else:
        assert app.model is not None


def _results(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    return app.results(inputs, **options)


def _filled(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Fill texts one by one, so that one without a mask fails alone."""
    return [app.results([text], **options)[0] for text in inputs]


def _embeddings(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Embedded]:
    return list(map(Embedded, inputs, app.embed(inputs, **options)))


def _counted_embeddings(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[tuple[Embedded, int]]:
    """Return each text's embedding and number of tokens, without those that frame it."""
    found = _embeddings(app, inputs, options)
    return list(zip(found, map(len, app.tokenizers.source.encode_batch(inputs))))


def _scores(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Score pairs one by one, so that a pair that's too long fails alone."""
    found = []
    for pair in inputs:
        scored, report = app.score([pair], **options)
        if not scored:
            expected = "\n".join(report.skipped_rows())
            raise DataError("a pair can't be scored", expected=expected, name="pairs", value=pair)
        found.append(scored[0])
    return found


def _explanations(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    found = (app.explain(text, **options) for text in inputs)
    return [it.to_dict(it.main_place, 0, 0) for it in found]


def _pages(app: Any, inputs: list[Any], options: dict[str, Any]) -> Sequence[Any]:
    """Return what the page shows about each input, as JSON."""
    return [_page(app, source, **options) for source in inputs]


def _page(
    app: Any, source: str, name: str, off: Sequence[str] = (), prefix: Sequence[int] = (), context: str = ""
) -> bytes:
    from ..apps.pages import page_values

    more = [context] if app.task.verb == "answer" else []
    begun = {"prefix": prefix} if prefix else {}
    with app.without(*off):
        explanation = app.explain(source, *more, **begun)
        return json_bytes(page_values(app.loaded, explanation, name=name, live=True))


METHODS: Mapping[str, Callable[[Any, list[Any], dict[str, Any]], Sequence[Any]]] = {
    "results": _results,
    "filled": _filled,
    "embeddings": _embeddings,
    "counted_embeddings": _counted_embeddings,
    "scores": _scores,
    "explanations": _explanations,
    "pages": _pages,
}
