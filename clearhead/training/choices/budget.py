"""Train within a time budget: choose the model size and the number of steps that `--budget 15m` allows.

The choice depends on the size of the data and on the measured speed of a few steps of each model size. It's made and
recorded before the first step. `deadline` corrects the number of steps during the run.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...config import Config
from ...config.values import read_duration
from ...errors import ConfigError, TrainingError
from ...model.fronts.tokens import Embedding
from ...tasks.base import Dataset, Task
from ..schedule import AIM, CLOSING, Scoring
from . import memory_limit
from .hyperparameters import Chosen, fast_rate, has_open_shape, short_warmup, translates, with_preset
from .thread_trial import SECONDS, Steps, candidates, time_steps

_SHAPES = ("nano", "mini", "small", "base", "big")
_TOKENS_PER_WEIGHT = 0.8  # a size is worth training if it sees this many tokens per weight, embeddings excluded
_FEWEST = 50  # steps
_EPOCHS_OF_ENCODERS = 5  # minimum, since a single label per text teaches little
_EVALUATIONS = 6
_TRIAL = 0.03  # share of the budget to time the steps of one size
_GROWTH = 0.1  # share of additional time that goes to scoring, since longer budgets validate on more examples


@dataclass(frozen=True)
class Measured:
    """A model size and the measured cost of its steps."""

    name: str  # of the preset
    weights: int  # in the blocks
    seconds: float  # of a step
    tokens: float  # of a step
    threads: Chosen | None = None  # that were chosen for these steps, if their number was open

    def learns_enough(self, seconds: float) -> bool:
        """Return whether this many seconds are enough to train a model of this size."""
        return seconds / self.seconds * self.tokens >= _TOKENS_PER_WEIGHT * self.weights


def begin(config: Config) -> tuple[Config, list[Chosen]]:
    """Choose the settings that depend only on the budget: pre-norm, which learns faster, and the evaluation size."""
    sentences = min(max(int(read_duration(config.train.budget) / 2), 50), config.train.eval_sentences)
    choices = [
        Chosen("model.pre_norm", True, "learns faster with a short budget"),
        Chosen("train.eval_sentences", sentences, "leaves time for training"),
    ]
    choices = [choice for choice in choices if config.accepts(choice.name, "budget")]
    return config.assign({choice.name: choice.value for choice in choices}, "budget"), choices


def plan(
    config: Config,
    task: Task,
    examples: Dataset,
    left: Callable[[], float],
    scoring: Scoring,
) -> tuple[Config, list[Chosen]]:
    """Choose the model size, steps and schedule of a run with a budget. Values set by the user are kept.

    Some training steps of each size are timed.

    Args:
        config: the settings so far, with the vocabularies.
        task: computes the loss of the trial steps.
        examples: the training data.
        left: returns the seconds until the run must end.
        scoring: the number of sentences that the run scores.

    Raises:
        TrainingError: the budget is too small for any model. The message gives the smallest budget that works.
    """
    shape = _choose_shape(config, task, examples, lambda step: left() - scoring.closing(scoring.evaluation(step), step))
    chooses_shape = has_open_shape(config) and not config.is_users("train.preset")
    config = _shaped(config, shape.name)
    asked, remaining = read_duration(config.train.budget), left()
    evaluation = scoring.evaluation(shape.seconds)
    overhead = CLOSING + _EVALUATIONS * evaluation + scoring.closing(evaluation, shape.seconds)
    seconds = remaining - (1 - AIM) * asked
    steps = int((seconds - overhead) / shape.seconds)
    if steps < _FEWEST:
        least = (asked - remaining + overhead + (_FEWEST + 1) * shape.seconds) / (AIM - _GROWTH)
        raise _too_small(config, max(steps, 0), shape, least)
    epochs = steps * shape.tokens / examples.tokens
    choices = [
        *_positions(config),
        Chosen("train.steps", steps, f"{shape.seconds:.2f} seconds per step (measured); {_round(epochs)} epochs"),
        Chosen("train.warmup", *short_warmup(steps)),
        Chosen("train.lr", *fast_rate(config, examples.tokens)),
        Chosen("train.schedule", "linear", "falls to zero at the last step"),
        Chosen("train.eval_every", max(steps // _EVALUATIONS, 1), f"{_EVALUATIONS} evaluations"),
    ]
    if not config.train.begins_trained:  # a trained model keeps its dropout
        choices.append(Chosen("model.dropout", _dropout(epochs), f"for {_round(epochs)} epochs"))
    choices = [choice for choice in choices if config.accepts(choice.name, "budget")]
    config = config.assign({choice.name: choice.value for choice in choices}, "budget")
    if shape.threads is not None:
        config = config.assign({shape.threads.name: shape.threads.value}, "machine")
        choices.append(shape.threads)
    if chooses_shape:
        why = _why(shape, seconds - CLOSING, task.units.tokens)
        choices.insert(0, Chosen("train.preset", shape.name, why))
    return config, choices


def _choose_shape(config: Config, task: Task, examples: Dataset, left: Callable[[float], float]) -> Measured:
    """Return the largest model size that learns enough in time. Stop measuring at the first one that doesn't.

    `left` returns the seconds left for steps, given the seconds per step.
    """
    if config.train.preset is not None or not has_open_shape(config):
        return _measure(_shaped(config, ""), config.train.preset or "", task, examples)
    best: Measured | None = None
    for name in _SHAPES:
        try:
            measured = _measure(_shaped(config, name), name, task, examples)
        except ConfigError as error:
            if best is None or error.name != "train.memory":
                raise
            break
        seconds = left(measured.seconds)
        read = seconds / measured.seconds * measured.tokens
        few = config.model.topology == "encoder-only" and read < _EPOCHS_OF_ENCODERS * examples.tokens
        if best is not None and (few or not measured.learns_enough(seconds)):
            break
        best = measured
    assert best is not None
    return best


def _measure(config: Config, name: str, task: Task, examples: Dataset) -> Measured:
    """Time a few training steps, and return their median and the model's size."""
    if config.train.memory:
        config, _ = memory_limit.fit(config, task, examples)
    steps, counts = Steps(config, task, examples), candidates(config)
    timing = time_steps(steps, counts, min(SECONDS, _TRIAL * read_duration(config.train.budget)))
    threads = timing.choice(task.units.tokens) if len(counts) > 1 else None
    weights = sum(p.numel() for p in steps.model.parameters()) - sum(
        weight.numel() for weight in {m.weight for m in steps.model.modules() if isinstance(m, Embedding)}
    )
    return Measured(name, weights, timing.seconds[timing.threads], timing.tokens, threads)


def _shaped(config: Config, name: str) -> Config:
    if config.train.preset is None and name:
        config = with_preset(config, name, "budget")
    return config.assign({choice.name: choice.value for choice in _positions(config)}, "budget")


def _positions(config: Config) -> list[Chosen]:
    """Return the choice of rotary positions for translation, unless the heads have an odd width."""
    model, choice = config.model, Chosen("model.positions", "rotary", "learn faster with a short budget")
    suits = translates(config) and model.front == "tokens" and model.head_width % 2 == 0
    return [choice] if suits and config.accepts(choice.name, "budget") else []


def _dropout(epochs: float) -> float:
    """Return the dropout for a number of epochs, as measured on 160,000 pairs."""
    return 0.0 if epochs < 5 else 0.1 if epochs < 15 else 0.2 if epochs < 40 else 0.3


def _why(shape: Measured, seconds: float, unit: str) -> str:
    tokens = seconds / shape.seconds * shape.tokens
    return f"{tokens / 1e6:.1f} million {unit} in the time available, for {shape.weights / 1e6:.1f} million weights"


def _too_small(config: Config, steps: int, shape: Measured, least: float) -> TrainingError:
    smaller = "" if shape.name in ("", _SHAPES[0]) else ", or choose a smaller `train.preset`"
    made = "1 step" if steps == 1 else f"{steps} steps"
    left = f"time for {made} of {shape.seconds:.2f} seconds" if steps else "no time to train"
    return TrainingError(
        f"train.budget={config.train.budget} is too small: reading, scoring and saving leave {left}",
        expected=f"time for {_FEWEST} steps at this machine's current speed: at least {_round_up(least)}",
        fix=f"set `train.budget={_round_up(least)}` or more{smaller}",
        name="train.budget",
        value=config.train.budget,
    )


def _round(epochs: float) -> str:
    return f"{epochs:,.{0 if epochs >= 10 else 1}f}"


def _round_up(seconds: float) -> str:
    """Round a duration up to a convenient value: 45s, 1m15s, 7m."""
    unit = 5 if seconds <= 60 else 15 if seconds <= 300 else 60
    minutes, rest = divmod(math.ceil(seconds / unit) * unit, 60)
    return f"{minutes}m" * bool(minutes) + f"{rest}s" * bool(rest)
