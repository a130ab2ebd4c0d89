"""How the inputs of some work are answered together."""

from ..apps.app import App
from .decoders import decoder_of
from .groups import AtOnce, Group
from .live_groups import LiveGroup
from .work import Work, run_work

_TOGETHER = 128  # inputs; more don't make a batch faster
_ALONE = ("explanations", "pages", "scores")  # nothing is gained by waiting for others


def open_group(app: App, work: Work) -> Group:
    """Return an empty group for some work of a model.

    Raises:
        ClearheadError: the model can't do it with these options.
    """
    decoder = decoder_of(app, work)
    if decoder is not None:
        return LiveGroup(decoder)
    return AtOnce(lambda inputs: run_work(app, work, inputs), most=1 if work.method in _ALONE else _TOGETHER)
