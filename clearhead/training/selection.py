"""Which weights are kept: at intervals they are scored, and the best so far are those that translate."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..config import NEWEST, TrainConfig, chosen
from ..folder.checkpoint import RunFolder
from ..folder.model_folder import load_model_folder, load_weights
from .averaging import mean_weights
from .report.metrics import MetricsLog, Progress
from .state import State

Observer = Callable[[dict[str, Any]], object]

_RUNS = "runs"


class Selection:
    """Scores the weights of a model and writes them where none were better.

    Where nothing was held out to score on, or no score is to choose, the newest weights are the best that is known.
    """

    def __init__(
        self, model: nn.Module, config: TrainConfig, scores: Callable[[], Mapping[str, float]] | None = None
    ) -> None:
        """`scores` gives those of the model as it stands."""
        self.model, self.config, self.scores = model, config, scores
        self.on_eval: list[Observer] = []  # each is called with a record of every evaluation

    def evaluate(self, state: State, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        """Score the weights of this step, and keep them where they are the best so far."""
        scores = self._scored(state, log)
        state.evaluated = state.step
        is_best = self._keep_if_best(state, folder, scores)
        if scores:
            progress.message(f"step {state.step:,}: {self._spoken(scores, best=is_best)}")
            self._tell(state, scores)

    def try_mean(self, state: State, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        """Keep the mean of the newest checkpoints, if there are several, where it is the best that is known.

        The model has it afterwards.
        """
        if not self.config.average:
            return
        every = chosen(self.config.save_every)  # one that a signal made would not be there in a run without it
        regular = (it for it in folder.checkpoints() if it.step % every == 0 or it.step == state.step)
        newest = itertools.islice(regular, self.config.average)
        mean = mean_weights(it.tensors["model"] for it in newest)
        self._try(mean, "checkpoints", state, folder, log, progress)

    def try_soup(
        self, others: Sequence[Path], state: State, folder: RunFolder, log: MetricsLog, progress: Progress
    ) -> None:
        """The same with the weights that were kept in the folders of `others`, runs with the same beginning, and here.

        Fine-tuned from one beginning, they lie in one basin, and their mean is often better than any (Wortsman et al.
        2022).
        """
        if not others:
            return
        if state.averaged_of == _RUNS:  # as a kill behind it left it: what was kept here is that mean
            mean = load_model_folder(folder.path, allow_custom_code=True).weights, state.averaged
        else:
            mean = mean_weights(load_model_folder(it, allow_custom_code=True).weights for it in (*others, folder.path))
        self._try(mean, _RUNS, state, folder, log, progress)

    def _try(
        self,
        mean: tuple[Mapping[str, Tensor], int],
        of: str,
        state: State,
        folder: RunFolder,
        log: MetricsLog,
        progress: Progress,
    ) -> None:
        """Keep a mean, beside which stands of how many weights it is, where it is the best that is known."""
        weights, count = mean
        if count < 2:  # the mean of one is the last step itself
            return
        load_weights(self.model, weights)
        scores = self._scored(state, log, averaged=count)
        is_best = self._keep_if_best(state, folder, scores, averaged=count, of=of)
        progress.message(f"mean of {count} {of}: {self._spoken(scores, best=is_best)}")
        if scores:
            self._tell(state, scores, averaged=count)

    def patience_is_over(self, state: State, progress: Progress) -> bool:
        """Whether so many evaluations as `patience` have passed without one that is better."""
        patience = self.config.patience
        if not patience or state.best is None or state.evaluated != state.step:
            return False
        if state.step - state.improved_step < patience * chosen(self.config.eval_every):
            return False
        progress.message(f"no better {self.config.best} since step {state.improved_step:,}: training ends here")
        return True

    def _scored(self, state: State, log: MetricsLog, **of: int) -> Mapping[str, float]:
        """The scores of the model as it stands, which the log has then, too."""
        scores = self.scores() if self.scores else {}
        if scores:
            valid = {f"valid_{name}": value for name, value in scores.items()}
            log.write({"step": state.step, "epoch": state.epoch, **of, **valid, "seconds": round(state.seconds, 2)})
        return scores

    def _keep_if_best(
        self, state: State, folder: RunFolder, scores: Mapping[str, float], *, averaged: int = 0, of: str = ""
    ) -> bool:
        """Write the weights where their scores are the best so far, of equal ones the newest; whether it did.

        They are those of this step, or a mean of so many: `of` checkpoints or runs.
        """
        value = self._value(scores) if scores and self.config.best != NEWEST else None
        if value is not None and state.best is not None and value < state.best:
            return False
        if not averaged:  # a mean is no step, and patience may have ended before it
            state.best_step = state.step
            if state.best is None or (value is not None and value > state.best):
                state.improved_step = state.step
        state.best, state.averaged, state.averaged_of = value, averaged, of
        folder.keep(self.model.state_dict(), state.of_best_weights)
        return True

    def _value(self, scores: Mapping[str, float]) -> float:
        """What the best weights are chosen by, the higher the better; what is no number is the worst."""
        value = -scores["loss"] if self.config.best == "loss" else scores[self.config.best]
        return -math.inf if math.isnan(value) else value

    def _tell(self, state: State, scores: Mapping[str, float], **of: int) -> None:
        for observe in self.on_eval:
            observe({"step": state.step, "epoch": state.epoch, **of, **scores, "seconds": state.seconds})

    def _spoken(self, scores: Mapping[str, float], *, best: bool) -> str:
        values = "  ".join(f"{name} {value:.4g}" for name, value in scores.items()) or "not measured"
        mark = f"  (best {self.config.best})" if scores else "  (best)"
        return f"{values}{mark if best and self.config.best != NEWEST else ''}"
