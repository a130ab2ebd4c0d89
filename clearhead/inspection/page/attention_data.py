"""The attention modules of a recorded pass, as arrays for the page."""

from collections.abc import Callable
from typing import Any

from ..record.calls import AttentionCall
from ..views.explanation import Explanation
from ..views.head_grid import heads_of
from .arrays import bits_array, bytes_array, float_array, weights_array


def attention_data(explanation: Explanation, leave_out: Callable[[str, str], None]) -> dict[str, Any]:
    """Return the weights of each attention module, and what made its scores."""
    modules = {}
    for name, calls in explanation.trace.calls.items():
        call = calls[-1]
        if call.known_weights is None:
            leave_out(name, f"{call.kind} doesn't report its weights")
            continue
        weights = call.weights.values[0]
        modules[name] = {
            "weights": weights_array(weights.numpy(force=True)),
            "entropy": [round(it.entropy, 6) for it in heads_of(call.weights.select(row=0))],
            **_scores(call),
        }
    return modules


def _scores(call: AttentionCall) -> dict[str, Any]:
    """Return what made the scores of Equation 1: queries, keys, the mask, and the logarithm of each row's sum."""
    if call.kind != "Attend":
        return {}
    scores = call.masked_scores[0].double()
    sums = scores.logsumexp(-1)
    given = {"lse": float_array(sums.numpy(force=True)), "q": bytes_array(call.q[0].float().numpy(force=True))}
    given["k"] = bytes_array(call.k[0].float().numpy(force=True))
    if call.mask is not None:
        whole = (*call.q.shape[:3], call.k.size(2))
        given["mask"] = bits_array(call.mask.expand(whole)[0, 0].numpy(force=True))
    return given
