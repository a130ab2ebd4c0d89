"""Open the queues of a model: one that answers inputs together, and one for explanations."""

from functools import cache

from ..apps.app import App
from .batching import Batcher
from .decoders import decoder_of
from .groups import AtOnce, Group
from .live_groups import LiveGroup
from .work import Work, run_work

_TOGETHER = 128  # inputs; more don't make a batch faster


def open_group(app: App, work: Work) -> Group:
    """Return an empty group for some work of a model.

    Raises:
        ClearheadError: the model can't do it with these options.
    """
    decoder = decoder_of(app, work)
    if decoder is not None:
        return LiveGroup(decoder)
    # Scores gain nothing by waiting for others.
    return AtOnce(lambda inputs: run_work(app, work, inputs), most=1 if work.method == "scores" else _TOGETHER)


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
