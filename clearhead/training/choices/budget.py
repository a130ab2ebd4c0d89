"""`--budget 15m`: the shape and the number of steps that a time allows, and a run that ends when it should.

Shape and steps are decided before the first step, from the size of the data and the speed of a few steps of each
shape, and written down. Since no machine is as fast in ten minutes as it was in the first seconds, the number of steps
is corrected on the way where the end would come too late or too early, and the schedule stretched with it.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...config import Config, chosen
from ...config.values import read_duration
from ...errors import ConfigError
from ...model.fronts.tokens import Embedding
from ...model.transformer import build
from ...tasks.base import Learnable, Task
from ..pace import AIM, CLOSING, Scoring
from ..update import Update
from .recipe import USUAL_OPTIMIZER, Choice, fast_rate, has_open_shape, short_warmup, with_preset

_SHAPES = ("nano", "mini", "small", "base", "big")
_TOKENS_A_WEIGHT = 0.8  # a shape is worth its time where each weight sees so many tokens, embeddings apart
_FEWEST = 50  # steps
_OFTEN = 5  # epochs that an encoder needs: one answer a text teaches little at a time
_EVALUATIONS = 6


@dataclass(frozen=True)
class Measured:
    """A shape and what its steps take."""

    name: str
    weights: int  # of the blocks
    seconds: float  # a step
    tokens: float  # a step

    def enough(self, seconds: float) -> bool:
        """Whether so much time teaches it enough."""
        return seconds / self.seconds * self.tokens >= _TOKENS_A_WEIGHT * self.weights


def begin(config: Config) -> tuple[Config, list[Choice]]:
    """Choose what follows from the time alone: a norm that learns fast, and a validation set that is quick to score."""
    sentences = min(max(int(read_duration(config.train.budget) / 2), 50), config.train.eval_sentences)
    choices = [
        Choice("model.pre_norm", True, "learns faster in a short time"),
        Choice("train.eval_sentences", sentences, "so that evaluations leave time for training"),
    ]
    choices = [choice for choice in choices if config.accepts(choice.name, "budget")]
    return config.assign({choice.name: choice.value for choice in choices}, "budget"), choices


def plan(
    config: Config,
    task: Task,
    examples: Learnable,
    left: Callable[[], float],
    scoring: Scoring,
) -> tuple[Config, list[Choice]]:
    """Settings for a run that has `left()` seconds, and the reasons; what is in `given` stays as it is.

    A ConfigError where the time is too short for a model.
    """
    asked = read_duration(config.train.budget)
    shape = _choose_shape(config, task, examples, lambda step: left() - scoring.closing(scoring.evaluation(step), step))
    chooses_shape = has_open_shape(config) and not config.is_users("train.preset")
    config = _shaped(config, shape.name)
    seconds = left() - (1 - AIM) * asked - CLOSING
    evaluation = scoring.evaluation(shape.seconds)
    closing = scoring.closing(evaluation, shape.seconds)
    steps = int((seconds - _EVALUATIONS * evaluation - closing) / shape.seconds)
    if steps < _FEWEST:
        smaller = "" if shape.name == _SHAPES[0] else ", or a smaller --preset"
        raise ConfigError(
            f"train.budget = {config.train.budget} leaves time for {max(steps, 0)} steps of {shape.seconds:.2f} "
            f"seconds in the {max(left(), 0):.0f} of this run, beside {closing:.0f} to score "
            f"{scoring.valid + scoring.test:,} {task.units.sources} in the end; expected at least "
            f"{_FEWEST}: give more time{smaller}"
        )
    epochs = steps * shape.tokens / examples.tokens
    (warmup, why_warmup), (lr, why_lr) = short_warmup(steps), fast_rate(config, examples.tokens)
    values: dict[str, Any] = {"train.steps": steps, "train.warmup": warmup, "train.lr": lr, "train.schedule": "linear"}
    values |= {"train.eval_every": max(steps // _EVALUATIONS, 1)}
    if not config.train.begins_trained:  # a trained model keeps its own
        values["model.dropout"] = _dropout(epochs)
    why = {
        "train.steps": f"{seconds:.0f} seconds are left, a step takes {shape.seconds:.2f}, {epochs:.1f} epochs",
        "train.warmup": why_warmup,
        "train.lr": why_lr,
        "train.schedule": "falls to zero when the time is over",
        "train.eval_every": f"{_EVALUATIONS} evaluations",
        "model.dropout": f"for {epochs:.1f} epochs",
    }
    kept = {name: value for name, value in values.items() if config.accepts(name, "budget")}
    choices = [Choice(name, value, why[name]) for name, value in kept.items()]
    if chooses_shape:
        choices.insert(0, Choice("train.preset", shape.name, _why(shape, seconds, task.units.tokens)))
    return config.assign(kept, "budget"), choices


def _choose_shape(config: Config, task: Task, examples: Learnable, left: Callable[[float], float]) -> Measured:
    """The largest shape that the time teaches enough; measuring ends with the first that it does not.

    `left` is the time that is left for steps, by the seconds that one takes.
    """
    if config.train.preset is not None or not has_open_shape(config):
        return _measure(config, config.train.preset or "", task, examples)
    best: Measured | None = None
    for name in _SHAPES:
        measured = _measure(_shaped(config, name), name, task, examples)
        seconds = left(measured.seconds)
        read = seconds / measured.seconds * measured.tokens
        few = config.model.topology == "encoder-only" and read < _OFTEN * examples.tokens
        if best is not None and (few or not measured.enough(seconds)):
            break
        best = measured
    assert best is not None
    return best


def _measure(config: Config, name: str, task: Task, examples: Learnable, n_steps: int = 4) -> Measured:
    """What a step takes: the median of a few, after one that pays for the first touch of everything."""
    torch.manual_seed(config.train.seed)
    model = build(config.model).to(config.train.device)
    smoothing, optimizer = config.train.label_smoothing, config.train.optimizer or USUAL_OPTIMIZER
    settings = replace(config.train, optimizer=optimizer)
    update = Update(model, lambda model, rows: task.loss(model, examples, rows, smoothing=smoothing), settings)
    batches = examples.batches(chosen(config.data.batch_tokens), config.train.seed, config.data.batch_sentences)
    rows = itertools.cycle(batches.epoch(0))
    seconds, tokens = [], []
    for step in range(1 + n_steps):
        micro_batches = list(itertools.islice(rows, config.train.accumulate))
        n_terms = sum(map(batches.predictions, micro_batches))
        begun = time.perf_counter()
        update(micro_batches, n_terms, step=step, lr=1e-6)
        seconds.append(time.perf_counter() - begun)
        tokens.append(sum(map(batches.tokens, micro_batches)))
    weights = sum(p.numel() for p in model.parameters()) - sum(
        weight.numel() for weight in {m.weight for m in model.modules() if isinstance(m, Embedding)}
    )
    return Measured(name, weights, sorted(seconds[1:])[n_steps // 2], sum(tokens[1:]) / n_steps)


def _shaped(config: Config, name: str) -> Config:
    return config if config.train.preset is not None or not name else with_preset(config, name, "budget")


def _dropout(epochs: float) -> float:
    """What is seen a few times needs none, and what is seen often needs more (measured on 160,000 pairs)."""
    return 0.0 if epochs < 5 else 0.1 if epochs < 15 else 0.2 if epochs < 40 else 0.3


def _why(shape: Measured, seconds: float, what: str) -> str:
    tokens = seconds / shape.seconds * shape.tokens
    return f"{tokens / 1e6:.1f} million {what} in that time, for {shape.weights / 1e6:.1f} million weights"
