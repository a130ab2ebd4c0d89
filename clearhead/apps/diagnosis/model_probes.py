"""Probes of the trained weights: parts that never changed, dead units, attention, use of the sources, the search."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...config import settings
from ...decode.registry import IN_MEMORY
from ...inspection.record.recorder import record
from ...model.feed_forward import FeedForward
from ...model.transformer import evaluation
from ...tasks.classify.task import Classification
from ...tasks.generate.task import Generation
from ...tasks.sequences import Sequences
from .causes import Blame, Finding, certainty
from .diagnosed_run import Subject, mean_loss


def model_probes(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about the trained weights, as numbers and in use."""
    if not subject.config.train.begins_trained or (subject.config.train.freeze and subject.start is not None):
        yield _changes(subject)
    if subject.data is None:
        return
    yield from _activity(subject)
    if (found := _sources(subject)) is not None:
        yield found
    for probe in (_objective, _logged):
        if (found := probe(subject)) is not None:
            yield found
    if subject.data.valid is not None and type(subject.task).searches:
        yield from _search(subject)


def _changes(subject: Subject) -> Finding:
    """Compare the weights with those that the seed gives."""
    before = dict(subject.initial().named_parameters())
    same = total = 0
    moved: dict[str, list[float]] = {}
    for name, weight in subject.model.named_parameters():
        was = before[name].detach()
        if weight.dim() < 2:  # biases are zero at first, and factors one
            continue
        distance = float((weight.detach() - was).norm() / was.norm().clamp(min=1e-9))
        same, total = same + weight.numel() * (distance == 0), total + weight.numel()
        moved.setdefault(_part(name), []).append(distance)
    share = same / max(total, 1)
    listed = ", ".join(f"{part} {np.median(values):.0%}" for part, values in moved.items())
    measured = f"{share:.0%} of the weights haven't changed since the first step; median change of a matrix: {listed}"
    frozen = bool(subject.config.train.freeze)
    title = "parts of the model are frozen with random weights"
    doubt = 1.0
    if subject.start is not None:  # these may be as good as they should be
        doubt, title = subject.unlearned, "the frozen parts of the model keep it from learning"
    cause = Blame("train.freeze" if frozen else "frozen", certainty(share, 0.25) * doubt, "", title)
    other = "" if subject.start is not None else ", or start from a trained model with --init-from"
    remedy = f"leave out --freeze{other}" if frozen else ""
    return Finding("changed weights", measured, {"unchanged": share} | moved, [replace(cause, remedy=remedy)])


def _part(name: str) -> str:
    """Return the stack and the kind of a weight: encoder.blocks.0.attention.qkv.weight is in encoder blocks."""
    stack, *rest = name.split(".")
    return f"{stack} {rest[0]}" if rest and not rest[0].isdecimal() and rest[0] != "weight" else stack


def _block(name: str) -> str:
    """Return the block that a weight is in, such as decoder.blocks.1, or else its part."""
    parts = name.split(".")
    return ".".join(parts[: parts.index("blocks") + 2] if "blocks" in parts else parts[:2])


def _activity(subject: Subject) -> Iterator[Finding]:
    """Look for units that are never active, and for attention that is spread evenly."""
    active: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            active[name] = active.get(name, torch.zeros((), dtype=torch.bool)) | (output > 0).flatten(0, -2).any(0)

        return hook

    layers = {name: it for name, it in subject.model.named_modules() if isinstance(it, FeedForward)}
    rows, model = subject.held_batches[0][:8], subject.model
    loss, weights = subject.task.loss(model, subject.held_out, rows, smoothing=0.0), dict(model.named_parameters())
    norms: dict[str, float] = {}
    for name, gradient in zip(weights, torch.autograd.grad(loss, [*weights.values()], allow_unused=True)):
        if gradient is not None:
            norms[_block(name)] = math.hypot(norms.get(_block(name), 0.0), float(gradient.norm()))
    listed = ", ".join(f"{name} {norm:.2g}" for name, norm in norms.items())
    yield Finding("gradients by layer", f"norms of the gradient of one batch: {listed}", norms)
    handles = [it.inner.register_forward_hook(watch(name)) for name, it in layers.items()]
    with evaluation(subject.model), torch.no_grad(), record(subject.model) as trace:
        subject.task.loss(subject.model, subject.held_out, rows, smoothing=0.0)
    for handle in handles:
        handle.remove()
    if active:
        dead = float(torch.cat([~it for it in active.values()]).float().mean())
        measured = f"{dead:.0%} of the feed-forward units are inactive for all tokens of {len(rows)} examples"
        yield Finding("dead units", measured, {"dead": dead}, [Blame("dead", certainty(dead - 0.5, 0.3))])
    spread = [it for calls in trace.calls.values() if calls and (it := _evenness(calls[-1])) is not None]
    if spread:
        measured = f"attention is {np.mean(spread):.0%} as even as it could be"
        yield Finding(
            "attention", measured, {"evenness": spread}, [Blame("attention", certainty(min(spread) - 0.9, 0.1))]
        )


def _evenness(call: Any) -> float | None:
    """Return the entropy of attention weights divided by the largest possible, on average over queries and heads."""
    if call.known_weights is None:
        return None
    weights = torch.as_tensor(call.known_weights.values).float()
    keys = (weights > 0).sum(-1)
    entropy = -(weights.clamp(min=1e-12).log() * weights).sum(-1)
    several = keys > 1
    return float((entropy[several] / keys[several].float().log()).mean()) if several.any() else None


def _sources(subject: Subject) -> Finding | None:
    """Compare the loss with that for the sources of other examples."""
    if subject.use_of_sources is None:
        return None
    own, other = subject.use_of_sources
    share = (other - own) / max(own, 1e-9)
    measured = f"with the sources of other examples, the loss is {other:.2f} in place of {own:.2f}"
    weight = 0.6 * (1 - certainty(share, 0.02)) if math.isfinite(share) else 0.0
    if subject.losses and subject.usual_steps:  # models learn the targets' frequencies and pairs first
        weight *= max(certainty(subject.losses[-1][0] / subject.usual_steps, 0.2), 1 - subject.unlearned)
    return Finding("use of sources", measured, {"own": own, "other": other}, [Blame("unused", weight)])


def _objective(subject: Subject) -> Finding | None:
    """Compare the loss that training minimises with the one that scores measure, on the same examples."""
    task, valid = subject.task, subject.data.valid if subject.data else None
    if valid is None or subject.config.train.balance or subject.config.data.label_kind:
        return None
    if not isinstance(task, Sequences | Classification | Generation) or not len(valid.examples):
        return None
    examples, plan = valid.examples, subject.held_plan
    trained = mean_loss(subject.model, task, examples, plan, plan.epoch(0))
    model: Any = subject.model
    if isinstance(task, Sequences):
        counts = task.forcing.count(model, examples)
        scored = counts.negative_log_likelihood / max(counts.tokens, 1)
    else:
        judge: Any = task
        scored = judge.numbers(judge.evaluate(model, valid, subject.config.decode).scores).get("loss", math.nan)
    gap = abs(trained - scored) / max(abs(scored), 1e-9)
    if not math.isfinite(gap):
        return None
    measured = f"on validation examples, training minimises a loss of {trained:.3f}, and {scored:.3f} is scored"
    blame = Blame("objective", certainty(gap - 0.1, 0.3))
    return Finding("objective", measured, {"trained": trained, "scored": scored}, [blame])


def _logged(subject: Subject) -> Finding | None:
    """Compare the training loss in the log with that of training examples now, without dropout and label smoothing.

    If it's higher now, training left out a part of the loss. Settings that change what is logged can't be compared.
    """
    train, data, logged = subject.config.train, subject.config.data, subject.logged_loss()
    differs = subject.changed or train.balance or data.subword_dropout or data.replay
    if differs or logged is None or not math.isfinite(logged):
        return None
    again = subject.training_loss()
    measured = f"the training loss was logged as {logged:.2f}; measured again without dropout, it's {again:.2f}"
    gap = (again - logged) / max(again, 0.5) if math.isfinite(again) else 0.0
    return Finding(
        "logged loss", measured, {"logged": logged, "again": again}, [Blame("objective", certainty(gap - 0.1, 0.3))]
    )


def _search(subject: Subject) -> Iterator[Finding]:
    """Compare answers by the configured search with greedy ones."""
    task, config = subject.task, subject.config
    assert subject.data is not None and subject.data.valid is not None
    given = [it for it in config.by_origin().get("user", ()) if it.startswith("decode.")]
    usual = config.assign({it: _default(subject, it) for it in given}, "default").decode
    own = replace(config.decode, n_best=1, engine=IN_MEMORY)
    greedy = replace(usual, n_best=1, beam=1, sample=False, diverse=False, engine=IN_MEMORY)
    found = [task.evaluate(subject.model, subject.data.valid, it) for it in (own, greedy)]
    lengths = [_length(it.answers) / max(_length([refs[0] for refs in it.references]), 1) for it in found]
    names = type(task).compared_by
    singly = [it.singly() for it in found]
    name = next((it for it in names if it in singly[0]), next(iter(singly[0]), ""))
    if not name:
        return
    one, other = (it[name] for it in singly)
    gain, noise = float((other - one).mean()), float((other - one).std() / math.sqrt(max(len(one), 1)))
    mean = float(one.mean())
    measured = f"{name} is {mean:.3g} as configured and {mean + gain:.3g} with greedy search; answers have "
    measured += f"{lengths[0]:.0%} and {lengths[1]:.0%} of the length of the references"
    share = (gain - 2 * noise) / max(abs(mean + gain), 1e-9)
    numbers = {"own": mean, "greedy": mean + gain, "noise": noise, "length_ratios": lengths}
    weight = certainty(share, 0.25)
    fix = "leave out {}, also when you use the model"
    blames = [Blame(it, weight, fix.format(it), f"{it}={config.value(it)} spoils the answers") for it in given]
    learned = 1 - subject.unlearned  # a search can't spoil what a model doesn't know
    yield Finding("search", measured, numbers, blames or [Blame("search", certainty(share, 0.4) * learned)])


def _default(subject: Subject, name: str) -> Any:
    return type(subject.task).defaults.get(name, settings()[name].default)


def _length(texts: Sequence[str]) -> int:
    return sum(map(len, texts))
