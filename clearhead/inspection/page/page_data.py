"""Everything that the page shows, as plain values: the contract between Python and the page's scripts.

The page and the trace agree to every digit shown. What doesn't fit within the size limit is left out, and named.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import nn

from ... import __version__
from ...config import Config
from ...errors import ConfigError, ModelError
from ..record.calls import AttentionCall
from ..record.parts import count_parameters, named_parts, stacks
from ..views.explanation import Explanation
from ..views.head_grid import heads_of
from ..views.part_table import part_rows
from .arrays import bits_array, bytes_array, float_array, weights_array
from .parts_off import parts_off

FORMAT_VERSION = 1
_ALTERNATIVES = 8  # at each step
_VALUES = 8  # of a token's vector


@dataclass
class PageData:
    """What the page shows. `left_out` says what is missing and why."""

    values: dict[str, Any]
    left_out: list[dict[str, str]] = field(default_factory=list)

    def leave_out(self, what: str, why: str) -> None:
        """Record that something is missing."""
        self.left_out.append({"what": what, "why": why})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "kind": "page",
            "version": __version__,
            **self.values,
            "left_out": self.left_out,
        }


def page_data(
    explanation: Explanation, config: Config, *, name: str, command: str, film: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Collect what the page shows.

    Args:
        explanation: one answer and the record of the pass.
        config: the settings of the model.
        name: the name of the model.
        command: the command that makes this page.
        film: the frames of a watched run.
    """
    found = PageData(
        {"task": config.train.task or "translate", "command": command, "model": _model(explanation, config, name)}
    )
    values = found.values
    values |= {"source": explanation.text, "text": explanation.answer, "values": dict(explanation.values)}
    values |= {"tokens": _tokens(explanation, config)}
    values |= _predictions(explanation)
    values["parts"] = _parts(explanation)
    values["attention"] = _attention(explanation, found)
    if "decoder.cross" in explanation.places:
        values["alignment_layer"] = explanation.alignment_layer
    if explanation.said:
        values["lens"] = explanation.lens.to_dict()["layers"]
        values["residuals"] = [[it, *norms] for it, *norms in explanation.trace.residuals()]
    if explanation.search is not None:
        values["search"] = explanation.search.to_dict() | {"verdict": explanation.search.verdict()}
    if explanation.contrast is not None:
        values["why"] = _reasons(explanation, found)
    if explanation.replay is not None:
        values["words"] = _words(explanation)
        values["off"] = parts_off(explanation.model, explanation.replay, explanation.again)
    if film:
        values["film"] = list(film)
    return found.to_dict()


def _model(explanation: Explanation, config: Config, name: str) -> dict[str, Any]:
    model = config.model
    return {
        "name": name,
        "topology": model.topology,
        "layers": {stack: len(module.blocks) for stack, module in stacks(explanation.model).items()},
        "heads": model.n_heads,
        "d_model": model.d_model,
        "d_head": model.head_width,
        "d_ff": model.d_ff,
        "pre_norm": model.pre_norm,
        "positions": model.positions,
        "parameters": count_parameters(explanation.model)["total"],
        "beam": config.decode.beam,
        "alpha": config.decode.alpha,
    }


def _tokens(explanation: Explanation, config: Config) -> dict[str, Any]:
    """Return the tokens that each stack read and what was said, each with its kind: text, or the name of a special."""
    special, trace = config.model.special, explanation.trace
    kinds = {
        special.pad: "pad",
        special.bos: "start",
        special.start: "start",
        special.unk: "unknown",
        special.eos: "end",
    }
    ids: dict[str, Sequence[int]] = {"outputs": explanation.said}
    for stack in explanation.tokens:
        read = trace[f"{stack}.embedding"].inputs[0][0]
        ids[stack] = read.tolist() if read.dtype == torch.long else []

    def named(key: str, names: Sequence[str]) -> list[dict[str, str]]:
        known = [kinds.get(i, "text") for i in ids[key]] or ["text"] * len(names)
        return [{"text": text, "kind": kind} for text, kind in zip(names, known)]

    found = {key: named(key, names) for key, names in (*explanation.tokens.items(), ("outputs", explanation.outputs))}
    begins = len(explanation.said) - len(explanation.replay.said) if explanation.said and explanation.replay else 0
    return found | {"begins": begins}


def _predictions(explanation: Explanation) -> dict[str, Any]:
    """Return the log-probability of everything said, and the likeliest alternatives with theirs."""
    if explanation.said:
        p = explanation.trace["decoder"].output[0].float().log_softmax(-1)
        said = p.gather(-1, torch.tensor(explanation.said, device=p.device)[:, None])[:, 0]
        best, ids = p.topk(min(_ALTERNATIVES, p.size(-1)))
        names = [explanation.pieces(row) for row in ids.tolist()]
        alternatives = [list(zip(*it)) for it in zip(names, best.tolist(), ids.tolist())]
        return {"logprobs": said.tolist(), "alternatives": alternatives, "vocabulary": p.size(-1)}
    if explanation.labels:
        p = explanation.trace["head"].output[0].float().log_softmax(-1)
        return {"labels": sorted(zip(explanation.labels, p.tolist()), key=lambda it: -it[1])}
    return {}


def _parts(explanation: Explanation) -> list[dict[str, Any]]:
    modules, found = dict(named_parts(explanation.model)), []
    for row in part_rows(explanation.model, explanation.trace):
        part = _module(explanation.model, row.name, modules)
        values = _first_values(explanation, row.name)
        source = "" if part is None else _source(part)
        found.append(
            asdict(row) | {"shape": list(row.shape), "class": type(part).__name__, "code": source, "values": values}
        )
    return found


def _module(model: nn.Module, name: str, modules: Mapping[str, nn.Module]) -> nn.Module | None:
    """Return the module of a part. An attention's name is that of its `attend`; its own module projects the heads."""
    stack, *place = name.split(".")
    if len(place) == 2 and place[1] in ("self", "cross"):
        block = stacks(model)[stack].blocks[int(place[0])]
        return getattr(block, "attention" if place[1] == "self" else "cross_attention")
    return modules.get(name)


def _source(part: nn.Module) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(type(part).forward))
    except (OSError, TypeError):
        return ""


def _first_values(explanation: Explanation, name: str) -> list[list[float]]:
    """Return the first numbers of each position's vector after a part."""
    trace = explanation.trace
    inside = [it for it in (f"{name}.out", name) if it in trace.parts]
    if not inside:
        return []
    output = trace[inside[0]].output[0]
    return [[float(f"{x:.4g}") for x in row] for row in output.reshape(-1, output.size(-1))[:, :_VALUES].tolist()]


def _attention(explanation: Explanation, found: PageData) -> dict[str, Any]:
    modules = {}
    for name, calls in explanation.trace.calls.items():
        call = calls[-1]
        if call.known_weights is None:
            found.leave_out(name, f"{call.kind} doesn't report its weights")
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


def _reasons(explanation: Explanation, found: PageData) -> dict[str, Any]:
    """Return what each part contributed to each thing said."""
    reasons = {}
    for key, word in _explainable(explanation):
        try:
            attribution = explanation.why(word)
        except (ConfigError, ModelError) as error:
            found.leave_out("why", error.what)
            return {}
        reasons[key] = {
            "said": attribution.said,
            "logit": attribution.difference,
            "error": attribution.error,
            "parts": [[it.part, round(it.value, 5)] for it in attribution.contributions],
        }
    return reasons


def _explainable(explanation: Explanation) -> list[tuple[str, str | None]]:
    """Return what `why` can explain: the place of its first token, and the word."""
    if not explanation.said:
        return [("0", None)]
    words = explanation.answer.split() if explanation.target_words else []
    firsts = {word: place for place, word in reversed(list(enumerate(explanation.target_words)))}
    return [(str(firsts[n]), word) for n, word in enumerate(words) if n in firsts and words.index(word) == n]


def _words(explanation: Explanation) -> dict[str, Any]:
    words = explanation.words
    arrays = {name: float_array(getattr(words, name).numpy()) for name in ("whole", "nothing", "falls", "gradients")}
    return arrays | {"error": words.error}
