"""What a model says without one of its parts: each head, attention module and feed-forward network in turn."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ...model.transformer import evaluation
from ..record.switches import switches, without
from ..views.token_attribution import Replay

_SURE = -0.69314718056  # a token of more than half the probability is certainly the likeliest
_SECONDS = 3.0  # for searching again


def parts_off(
    model: nn.Module, replay: Replay, again: Callable[[], tuple[str, float]] | None = None
) -> dict[str, dict[str, Any]]:
    """Return what changes without each part: the log-probabilities of what was said, and the new answer.

    The answer is searched for again only where it can have changed, the largest changes first, and within a few
    seconds; otherwise it's None.

    Args:
        model: the model.
        replay: runs it on the same input.
        again: answers the same input and returns the answer and its score.
    """
    found: dict[str, dict[str, Any]] = {}
    with evaluation(model), torch.inference_mode():
        whole = replay.run(1)[0]
        for name in switches(model):
            with without(model, name):
                log_p = replay.run(1)[0]
            found[name] = {"logprobs": [round(it, 5) for it in log_p.tolist()], "text": None, "score": None}
            found[name]["change"] = float((log_p - whole).sum())
        unsure = [name for name, it in found.items() if min(it["logprobs"]) < _SURE]
        started = time.monotonic()
        for name in sorted(unsure, key=lambda name: found[name]["change"]):
            if again is None or time.monotonic() - started > _SECONDS:
                break
            with without(model, name):
                found[name]["text"], found[name]["score"] = again()
        for name in found.keys() - {*unsure}:
            found[name]["text"] = ""  # the same
    return found
