"""Data for the page: why the model chose each token, the alternatives, the search, and answers without parts."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...decode.rules import FloatArray
from ...decode.sampling import Sampling
from ...model.transformer import evaluation
from ..record.forward_pass import Pass
from ..record.switches import run_without_each, switches, without
from ..views.attribution import output_terms
from ..views.contrast import NO_LABEL, Choice, Labels, Words
from ..views.explanation import Explanation
from .document import counts_array, float_array

_LABELS = 100  # the most likely ones, of more
_LAST = {  # what the head's numbers go through, instead of a softmax of all
    "several": ("Sigmoid", "1 / (1 + exp(−z))"),
    "targets": ("Softmax", "exp(zᵢ) / Σ exp(zⱼ) of the same target"),
    "number": ("Scale", "z · deviation + mean"),
}
_ALTERNATIVES = 8  # at each step
_SURE = math.log(0.5)  # a token with more than half of the probability is the most likely one
_BIN, _BINS = 0.1, 300  # width and number of bins for the log-probabilities of tokens that aren't candidates
_TOGETHER = 4096  # tokens in a batch
_SEARCHES = 2e9  # the work of all new searches: tokens times parameters


def each_label(explanation: Explanation) -> Pass:
    """Return the pass of a classifier about its labels, the most likely first; of any other model, the same pass."""
    forward, choice = explanation.forward, explanation.choice
    if not isinstance(choice, Labels):
        return forward
    scores = _scores(explanation)
    order = sorted(range(len(scores)), key=lambda i: -scores[i])[:_LABELS]
    return replace(forward, targets=order, said=[choice.labels[i] for i in order])


def _scores(explanation: Explanation) -> list[float]:
    """Return the log-probabilities of all labels, or the number that was predicted."""
    assert explanation.forward.log_p is not None
    return explanation.forward.log_p(explanation.trace["head"].output.double())[0].tolist()


def predictions(explanation: Explanation, unsaid: Sequence[int]) -> dict[str, Any]:
    """Return the log-probability of each output token, and the likely alternatives: (text, log-probability, id).

    Labels also have whether they're in the answer.

    Args:
        unsaid: ids that aren't put in the place of a mask.
    """
    trace, choice = explanation.trace, explanation.choice
    if choice is None:
        return {}
    if isinstance(choice, Labels):
        scores, order = _scores(explanation), each_label(explanation).targets
        labels = [[choice.labels[i], scores[i], i, choice.labels[i] in choice.said] for i in order]
        kind = explanation.config.data.label_kind
        found: dict[str, Any] = {"labels": labels, "label_kind": kind, "measure": explanation.forward.measure}
        if kind in _LAST:
            found["last"] = _LAST[kind]
        if choice.scale is not None:  # decimals that tell numbers apart
            found["digits"] = min(max(2 - math.floor(math.log10(choice.scale[1])), 0), 20)
        return found
    writes = isinstance(choice, Words)
    logits = trace["decoder"].output[0] if writes else trace["head.projection"].output
    p, said = logits.float().log_softmax(-1).cpu(), torch.tensor(explanation.said or explanation.forward.targets)
    shown = p.clone()
    if not writes:
        shown[:, list(unsaid)] = -math.inf
    best = shown.topk(min(_ALTERNATIVES, p.size(-1))).indices
    missing = ~(best == said[:, None]).any(-1)
    best[missing, -1] = said[missing]
    names, values = [choice.pieces(row) for row in best.tolist()], p.gather(-1, best).tolist()
    alternatives = [list(zip(*it)) for it in zip(names, values, best.tolist())]
    filled = {} if writes else {"filled": choice.pieces(said.tolist())}
    own = p.gather(-1, said[:, None])[:, 0].tolist()
    return {"logprobs": own, "alternatives": alternatives, "vocabulary": p.size(-1), **filled}


def spans_data(explanation: Explanation) -> dict[str, Any]:
    """Return the log-probability of a start and of an end at each position, (S, 2), and the text of a window."""
    places = explanation.in_context
    first, last = next(filter(None, places)), next(filter(None, places[::-1]))
    return {
        "found": explanation.span,
        "logprobs": float_array(explanation.trace["head"].output[0].float().log_softmax(0).numpy(force=True)),
        "text": explanation.context[first[0] : last[1]],
        "places": [it and [n - first[0] for n in it] for it in places],
    }


def reasons(explanation: Explanation, candidates: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the contribution of each part to the logits of the candidates at each place.

    For a model that writes, a place is a token of the answer. For one with labels, or that fills a mask, there is one
    place.

    Args:
        candidates: ids of tokens or labels at each place, (R, K).

    Raises:
        ConfigError: this model's choices aren't a sum over its parts.
        ModelError: a custom norm can't be split.
    """
    readout, ids = explanation.chosen.readout(explanation.forward, explanation.trace), torch.tensor(candidates)
    rows = readout.rows(ids)  # (R, K, D)
    terms = output_terms(readout.stack, explanation.trace)
    parts = {name: (rows @ readout.read(term)[..., None])[..., 0] for name, term in terms}
    if readout.linear.bias is not None:
        parts["projection.bias"] = readout.biases(ids)
    if readout.scale is not None:
        parts["projection.mean"] = torch.full(ids.shape, readout.scale[0], dtype=torch.double)
    own, values = readout.logits.cpu().double().gather(-1, ids), torch.stack([*parts.values()])
    error = float((values.sum(0) - own).abs().max())
    return {"names": [*parts], "parts": float_array(values), "logits": float_array(own), "error": error}


def search_data(explanation: Explanation, candidates: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the search tree, and for sampling the probability of drawing each candidate: 0 if it was cut off.

    `others` counts the tokens that aren't candidates by their log-probability, so the page can change the temperature.

    Args:
        explanation: the recorded search.
        candidates: ids of tokens at each place of the answer, (T, K).
    """
    found, config = explanation.searched, explanation.config
    values, decode = found.to_dict() | {"verdict": found.verdict(), "sampled": config.decode.sample}, config.decode
    log_p = explanation.trace["decoder"].output[0].float().log_softmax(-1).numpy(force=True).copy()
    values["others"] = counts_array(_binned(log_p, candidates))
    plain = not decode.no_repeat_ngram and decode.repetition_penalty == 1 and not decode.suppress
    if decode.sample and plain:
        if decode.suppress_special:
            log_p[:, [i for i in config.model.special.never_generated if i < log_p.shape[1]]] = -np.inf
        sampling = Sampling(temperature=decode.temperature, top_k=decode.top_k, top_p=decode.top_p, min_p=decode.min_p)
        p = torch.from_numpy(sampling.probabilities(log_p)).gather(-1, torch.tensor(candidates))
        values["drawn_with"] = [[round(it, 6) for it in row] for row in p.tolist()]
    return values


def _binned(log_p: FloatArray, candidates: Sequence[Sequence[int]]) -> FloatArray:
    """Count tokens by log-probability, without the candidates of each row. (T, V), (T, K) -> (T, bins)"""
    bins = np.minimum(-log_p / _BIN, _BINS - 1).astype(int)
    counts = [np.bincount(np.delete(row, some), minlength=_BINS) for row, some in zip(bins, candidates)]
    return np.stack(counts)


def parts_off(forward: Pass, choice: Choice | None = None, *, search: bool = True) -> dict[str, dict[str, Any]]:
    """Return what changes without each part: the log-probabilities of the original output, and the new answer.

    Each part is off in one row of a batch. The answer is None if it isn't known, and "" if it's the same. It's searched
    for where it can have changed, the largest changes first, and only as often as is fast for a model of this size.

    Args:
        forward: the pass, which runs again. Of a classifier, it's that of `each_label`.
        choice: what the model chose, and from what.
        search: search for new answers.
    """
    answer = choice.answer if isinstance(choice, Labels) else None
    everything = replace(forward, targets=range(len(choice.labels))) if isinstance(choice, Labels) else forward
    model, size = forward.model, sum(map(len, forward.names.values()))
    found: dict[str, dict[str, Any]] = {}
    with evaluation(model), torch.inference_mode():
        known, together = list(switches(model)), max(_TOGETHER // size, 1)
        for start in range(0, len(known), together):
            names = known[start : start + together]
            whole, *rows = run_without_each(model, names, everything.log_probabilities)
            for name, row in zip(names, rows):
                if answer is None:
                    own, change = row.tolist(), float((row - whole).sum())
                    text = "" if min(own) > _SURE else None
                else:
                    own, change = row[list(forward.targets)].tolist(), float((row - whole)[forward.targets[0]])
                    old, text = (answer(it.cpu().numpy()) for it in (whole, row))
                    text = "" if text == old else text or NO_LABEL
                logprobs = [round(it, 5) for it in own]
                found[name] = {"logprobs": logprobs, "change": change, "text": text, "score": None}
        unsure = sorted((name for name, it in found.items() if it["text"] is None), key=lambda it: found[it]["change"])
        cost = size * sum(it.numel() for it in model.parameters())
        if search and forward.answer is not None:
            for name in unsure[: int(_SEARCHES / cost)]:
                with without(model, name):
                    found[name]["text"], found[name]["score"] = forward.answer()
    return found
