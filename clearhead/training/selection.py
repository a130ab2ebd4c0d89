"""Model selection: score the weights at intervals, or averages of them, and keep the best in the model folder."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..config import NEWEST, TrainRecipe
from ..model.linear import learned_state
from ..model.restore import load_learned
from .distributed.processes import divided_like
from .state import Run, State

Evaluate = Callable[[], Mapping[str, float]]


class MovingAverage:
    """Exponential moving average of the weights that learn: m <- d m + (1 - d) w after each update.

    d is `decay`, but at most (1 + n) / (10 + n) after n updates, so the random initial weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self._parameters, self.decay = learned, decay
        self.weights = {name: p.detach().clone() for name, p in self._parameters.items()}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Include the weights after update `step`, counted from 1, in the average."""
        share = 1 - min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(list(self.weights.values()), list(self._parameters.values()), share)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the averages with those from a checkpoint."""
        for name, weight in self.weights.items():
            weight.copy_(divided_like(weight, weights[name]))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the averages as the model's weights inside the `with` block, then restore its own weights bit for bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, p in self._parameters.items():
            p.data, self.weights[name] = self.weights[name], p.data


def mean_weights(each: Iterable[Mapping[str, Tensor]]) -> tuple[dict[str, Tensor], int]:
    """Return the mean of several models' weights, keyed by weight name, and the number of models.

    Weights are summed in float64, in the given order. Only the sum and one model are in memory at a time.
    """
    total: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    count = 0
    for count, weights in enumerate(each, 1):
        if count == 1:
            dtypes = {name: weight.dtype for name, weight in weights.items()}
            total = {name: weight.to(torch.float64, copy=True) for name, weight in weights.items()}
        else:
            for name, weight in total.items():
                weight += weights[name]
    return {name: (total[name] / count).to(dtype) for name, dtype in dtypes.items()}, count


class Selection:
    """Keep the weights of a model that score best.

    If nothing is held out, or `train.best` is "newest", the newest weights are kept.
    """

    def __init__(self, run: Run, model: nn.Module, config: TrainRecipe, evaluate: Evaluate | None = None) -> None:
        """`evaluate` returns the scores of the current weights (None if nothing is held out)."""
        self.run, self.model, self.config = run, model, config
        self._evaluate = evaluate

    def evaluate(self, state: State) -> None:
        """Score the weights of this step, and keep them if they are the best so far."""
        scores = self._score(state)
        state.evaluated = state.step
        is_best = self._keep_if_best(state, scores)
        if scores:
            self.run.progress.evaluation(f"step {state.step:,}: {self._listed(scores, is_best=is_best)}")
            self._notify(state, scores)

    def try_mean_of_checkpoints(self, state: State) -> None:
        """Average the newest `train.average` checkpoints (section 6.1), and keep the mean if it scores best."""
        if not self.config.n_averaged:
            return
        every = self.config.save_every  # skip checkpoints that exist only because a signal stopped the run
        regular = (it for it in self.run.folder.checkpoints() if it.step % every == 0 or it.step == state.step)
        newest = itertools.islice(regular, self.config.n_averaged)
        weights, count = mean_weights(it.tensors["model"] for it in newest)
        if count > 1:  # a single checkpoint is the last step itself
            self.try_mean(state, weights, count, "checkpoints")

    def try_mean(self, state: State, weights: Mapping[str, Tensor], count: int, of: str) -> None:
        """Load a mean of `count` sets of weights into the model, score it, and keep it if it scores best.

        Args:
            state: the position of the run, which records the scores.
            weights: the mean, by weight name.
            count: number of sets that it's the mean of.
            of: what they are, such as "checkpoints".
        """
        load_learned(self.model, weights)
        scores = self._score(state, averaged=count)
        is_best = self._keep_if_best(state, scores, mean=f"{count} {of}")
        self.run.progress.message(f"mean of {count} {of}: {self._listed(scores, is_best=is_best)}")
        if scores:
            self._notify(state, scores, averaged=count)

    def patience_is_over(self, state: State) -> bool:
        """Return whether the last `train.patience` evaluations failed to improve the score. If so, report it."""
        patience = self.config.patience
        if state.best is None or state.evaluated != state.step:
            return False
        if state.step - state.improved_step < patience * self.config.eval_every:
            return False
        self.run.progress.message(
            f"training stops early: no better {self.config.best} since step {state.improved_step:,} "
            f"(train.patience={patience})"
        )
        return True

    def _score(self, state: State, **averaged: int) -> Mapping[str, float]:
        """Return the scores of the model's current weights, and log them."""
        scores = self._evaluate() if self._evaluate else {}
        if scores:
            named = {f"valid_{name}": value for name, value in scores.items()}
            position = {"step": state.step, "epoch": state.epoch, **averaged}
            self.run.log.write({**position, **named, "seconds": round(state.seconds, 2)})
        return scores

    def _keep_if_best(self, state: State, scores: Mapping[str, float], *, mean: str = "") -> bool:
        """Write the weights if no earlier ones scored better, and return whether they were written."""
        value = self._value(scores) if scores and self.config.best != NEWEST else None
        if value is not None and state.best is not None and value < state.best:
            return False
        if not mean:  # a mean doesn't belong to a step, and patience may have ended training earlier
            state.best_step = state.step
            if state.best is None or (value is not None and value > state.best):
                state.improved_step = state.step
        state.best, state.mean = value, mean
        self.run.folder.keep(learned_state(self.model), state.about_kept_weights)
        return True

    def _value(self, scores: Mapping[str, float]) -> float:
        """Return the score that selects weights, negated for the loss, so higher is better. NaN is the worst."""
        value = -scores["loss"] if self.config.best == "loss" else scores[self.config.best]
        return -math.inf if math.isnan(value) else value

    def _notify(self, state: State, scores: Mapping[str, float], **averaged: int) -> None:
        record: dict[str, Any] = {"step": state.step, "epoch": state.epoch, **averaged, **scores}
        for observe in self.run.on_eval:
            observe({**record, "seconds": state.seconds})

    def _listed(self, scores: Mapping[str, float], *, is_best: bool) -> str:
        values = "  ".join(f"{name} {value:.4g}" for name, value in scores.items()) or "not measured"
        if not is_best or self.config.best == NEWEST or (scores and math.isinf(self._value(scores))):
            return values
        return f"{values}  (best {self.config.best})" if scores else f"{values}  (kept)"
