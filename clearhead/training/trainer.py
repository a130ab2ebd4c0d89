"""The loop (section 5): batches, loss, update, and at intervals an evaluation and a checkpoint.

A run that was killed and resumed continues bitwise as if it had not been: the randomness of step n follows from
(seed, n) alone, the order of the data from (seed, epoch), and a checkpoint holds everything else.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from ..config import TrainConfig, chosen
from ..data.batches import Plan
from ..errors import TrainingError
from ..folder.checkpoint import Checkpoint, RunFolder
from ..folder.model_folder import load_weights
from ..tokenization.ragged import IntArray
from .averaging import MovingAverage
from .optimizer import load_optimizer, optimizer_tensors
from .pace import Pace
from .report.metrics import MetricsLog, Progress
from .schedule import Schedule
from .selection import Observer, Selection
from .signals import StopSignals
from .state import State
from .update import Loss, Update


class Trainer:
    """One run, from its first step or from a checkpoint, to its last."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Plan,
        config: TrainConfig,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        constants: Mapping[str, str] | None = None,
    ) -> None:
        """`config` has no open choices (None) left. `evaluate` gives the scores of the model as it stands.

        A checkpoint also holds the `constants`, which must be the same when it is restored: what they name is what
        the error names that says otherwise.
        """
        self.model, self.batches, self.config = model, batches, config
        self.schedule = Schedule(
            chosen(config.schedule), chosen(config.lr), chosen(config.warmup), chosen(config.steps), config.lr_end
        )
        self.update = Update(model, loss, config)
        self.average = MovingAverage(model, config.ema) if config.ema else None
        self.pace: Pace | None = None
        self.others: Sequence[Path] = ()  # the folders of runs that began the same
        self.on_step: list[Observer] = []  # each is called with a record of every update
        self.selection = Selection(model, config, evaluate)
        self.on_eval = self.selection.on_eval  # and of every evaluation
        self.state = State()
        self.constants = dict(constants or {})
        self._saved_step = 0  # before the first step there is nothing to save
        self._epoch: list[IntArray] = []  # the batches of state.epoch, once they are known
        self._newest: dict[str, Any] = {}  # the record of the newest step

    def run(self, folder: RunFolder, log: MetricsLog, progress: Progress, stop: StopSignals) -> State:
        """Train to the last step. A stop signal saves a checkpoint and raises StoppedError."""
        state = self.state
        started = time.monotonic() - state.seconds
        with stop.held():
            while True:
                self._keep_pace(progress)
                self._evaluate_if_due(folder, log, progress)
                state.seconds = time.monotonic() - started
                stopping = stop.requested is not None
                ended = state.step >= self.last_step or self.selection.patience_is_over(state, progress)
                if ended:  # be it earlier than was planned
                    self._log_loss(log)
                if stopping or ended or state.step % chosen(self.config.save_every) == 0:
                    self._save(folder)
                if stopping:
                    stop.raise_stopped(state.step)
                if ended:
                    self.selection.try_mean(state, folder, log, progress)
                    self.selection.try_soup(self.others, state, folder, log, progress)
                    return state
                self._next_step(log, progress)

    def restore(self, checkpoint: Checkpoint, kept: Mapping[str, Any] | None = None) -> None:
        """Go back to where a checkpoint was saved; a TrainingError where a constant has changed since.

        What is `kept` of the best weights (`RunFolder.kept`) goes before what the checkpoint says of them: where a kill
        came before the next checkpoint, they are those of a step that is still to come.
        """
        values = dict(checkpoint.state)
        for name, value in self.constants.items():
            if values.pop(name, None) != value:
                raise TrainingError(
                    f"{name} are not those that the run was begun with; expected the same: give them to go on, "
                    "or begin anew with another --out"
                )
        load_weights(self.model, checkpoint.tensors["model"])
        load_optimizer(self.update.optimizer, self.model, checkpoint.tensors["optimizer"])
        if self.average:
            self.average.load(checkpoint.tensors["average"])
        self.state = State(step=checkpoint.step, **{**values, **(kept or {})})
        self._saved_step, self._epoch = checkpoint.step, []

    # --- one step ---------------------------------------------------------------------------------------------------

    def _next_step(self, log: MetricsLog, progress: Progress) -> None:
        state, begun = self.state, time.monotonic()
        epoch, lr = state.epoch, self.schedule(self._stood(state.step + 1))
        micro_batches = [self._next_rows() for _ in range(self.config.accumulate)]
        n_tokens = sum(map(self.batches.predictions, micro_batches))
        state.step += 1
        loss_sum, norm = self.update(micro_batches, n_tokens, step=state.step, lr=lr)
        if self.average:
            self.average.update(state.step)
        state.loss_sum += loss_sum
        state.n_tokens += n_tokens
        seconds = time.monotonic() - begun
        state.seconds += seconds
        if self.pace:
            self.pace.stepped(seconds)
        speed = sum(map(self.batches.tokens, micro_batches)) / max(seconds, 1e-9)
        progress.update(step=state.step, epoch=epoch, loss=loss_sum / n_tokens, tokens_per_second=speed)
        self._newest = {"step": state.step, "epoch": epoch, "loss": loss_sum / n_tokens, "lr": lr, "grad_norm": norm,
                        "tokens": n_tokens, "seconds": state.seconds}  # fmt: skip
        for observe in self.on_step:
            observe(self._newest.copy())
        if state.step % self.config.log_every == 0 or state.step == self.last_step:
            self._log_loss(log)

    def _log_loss(self, log: MetricsLog) -> None:
        """The newest step, with the mean loss since the last such line; nothing where there was no step since."""
        state = self.state
        if not (state.n_tokens and self._newest):
            return
        since = {"loss": state.loss_sum / state.n_tokens, "tokens": state.n_tokens}
        log.write({**self._newest, **since, "seconds": round(state.seconds, 2)})
        state.loss_sum, state.n_tokens = 0.0, 0

    @property
    def last_step(self) -> int:
        """The step with which training ends."""
        return self.state.last_step or chosen(self.config.steps)

    def _keep_pace(self, progress: Progress) -> None:
        """Choose another last step where the one that was planned would miss the end of the time."""
        if self.pace is None:
            return
        state, before = self.state, self.last_step
        last = self.pace.last_step(state.step, before, chosen(self.config.eval_every))
        if last != before:
            state.stood, state.since, state.last_step = self._stood(state.step), state.step, last
            progress.aim(last)

    def _stood(self, step: int) -> float:
        """Where the schedule stands at a step: at that step, unless it was stretched to another end."""
        state, planned = self.state, chosen(self.config.steps)
        if not state.last_step:
            return step
        return state.stood + (step - state.since) * (planned - state.stood) / max(state.last_step - state.since, 1)

    def _next_rows(self) -> IntArray:
        """The examples of the next batch; the position moves on behind it."""
        state = self.state
        if not self._epoch:
            self._epoch = self.batches.epoch(state.epoch)
        rows = self._epoch[state.batch]
        state.batch += 1
        if state.batch == len(self._epoch):
            state.epoch, state.batch, self._epoch = state.epoch + 1, 0, []
        return rows

    # --- evaluations and checkpoints ----------------------------------------------------------------------------------

    def _evaluate_if_due(self, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        """Score the model where that is due and was not done."""
        state = self.state
        due = state.step % chosen(self.config.eval_every) == 0 or state.step == self.last_step
        if not due or state.step in (0, state.evaluated):
            return
        begun = time.monotonic()
        self.update.check_weights(state.step)
        with self.average.applied() if self.average else nullcontext():
            self.selection.evaluate(state, folder, log, progress)
        if self.pace and self.selection.scores:
            self.pace.evaluated(time.monotonic() - begun)

    def _save(self, folder: RunFolder) -> None:
        if self.state.step == self._saved_step:
            return
        self.update.check_weights(self.state.step)
        values = {name: value for name, value in asdict(self.state).items() if name != "step"}
        values |= self.constants
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer_tensors(self.update.optimizer, self.model)}
        if self.average:
            tensors["average"] = self.average.weights
        folder.save_checkpoint(self.state.step, tensors, values)
        every = chosen(self.config.save_every)  # what a signal made is kept as long as it is the newest
        folder.prune(max(self.config.keep, self.config.average), lambda step: step % every == 0)
        self._saved_step = self.state.step
