"""What a model says without one of its parts: each head, attention module and feed-forward network in turn."""

from typing import Any

import torch

from ...model.transformer import evaluation
from ..record.forward_pass import Pass
from ..record.switches import run_without_each, switches, without

_SURE = -0.69314718056  # a token of more than half the probability is certainly the likeliest
_TOGETHER = 4096  # tokens in a batch
_SEARCHES = 2e9  # the work of all new searches: tokens times parameters


def parts_off(forward: Pass, *, search: bool = True) -> dict[str, dict[str, Any]]:
    """Return what changes without each part: the log-probabilities of what was said, and the new answer.

    Each part is off in one row of a batch. The answer is None if it isn't known, and "" if it's the same. It's searched
    for where it can have changed, the largest changes first, and only as often as is fast for a model of this size.

    Args:
        forward: the pass, which runs again.
        search: search for new answers.
    """
    model, size = forward.model, sum(map(len, forward.names.values()))
    found: dict[str, dict[str, Any]] = {}
    with evaluation(model), torch.inference_mode():
        known, together = list(switches(model)), max(_TOGETHER // size, 1)
        for start in range(0, len(known), together):
            names = known[start : start + together]
            whole, *rows = run_without_each(model, names, forward.log_probabilities)
            for name, row in zip(names, rows):
                logprobs = [round(it, 5) for it in row.tolist()]
                same = "" if min(logprobs) > _SURE else None
                found[name] = {"logprobs": logprobs, "change": float((row - whole).sum()), "text": same, "score": None}
        unsure = sorted((name for name, it in found.items() if it["text"] is None), key=lambda it: found[it]["change"])
        cost = size * sum(it.numel() for it in model.parameters())
        if search and forward.answer is not None:
            for name in unsure[: int(_SEARCHES / cost)]:
                with without(model, name):
                    found[name]["text"], found[name]["score"] = forward.answer()
    return found
