"""Open the queues of a model: one that answers inputs together, and one for explanations."""

from functools import cache
from typing import Any

from ..apps.app import App
from ..apps.language_model import LanguageModel
from ..apps.translator import Translator
from ..decode.writer import Writer
from .batching import Batcher
from .groups import AtOnce, Group
from .live_groups import LiveGroup
from .work import Work, run_work

_TOGETHER = 128  # inputs; more don't make a batch faster


def open_group(app: App, work: Work) -> Group:
    """Return an empty group for some work of a model.

    Raises:
        ClearheadError: the model can't do it with these options.
    """
    if (writer := _writer(app, work.method, dict(work.options))) is not None:
        return LiveGroup(writer)
    # Scores gain nothing by waiting for others.
    return AtOnce(lambda inputs: run_work(app, work, inputs), most=1 if work.method == "scores" else _TOGETHER)


def _writer(app: App, method: str, options: dict[str, Any]) -> Writer[Any] | None:
    """Return the writer for some work, or None if nothing is decoded."""
    if isinstance(app, Translator) and method == "results":
        return app.writer(**options)
    if isinstance(app, LanguageModel) and method in ("continuations", "completions"):
        return app.writer(**options) if method == "continuations" else app.completion_writer(**options)
    return None


def open_explanations(app: App, *, most: int, name: str) -> Batcher:
    """Return a queue for explanations, with a thread and a torch module of its own, so that others don't wait.

    A computation ends with the next block of the model when its client has left.
    """
    twin = cache(lambda: _interruptible(app, queue))
    queue = Batcher(lambda work: AtOnce(lambda inputs: run_work(twin(), work, inputs), most=1), most=most, name=name)
    return queue


def _interruptible(app: App, queue: Batcher) -> App:
    from ..inspection.record.parts import stacks

    twin = type(app)(app.loaded.separate())
    for stack in stacks(twin.model).values():
        for block in stack.blocks:
            block.register_forward_pre_hook(lambda *_: queue.check_wanted())
    return twin
