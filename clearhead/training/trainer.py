"""The training loop (section 5): batches, losses and updates, with regular evaluations and checkpoints.

A run that was killed and resumed continues bit for bit as if nothing had happened. The randomness of step n depends
only on (seed, n), the order of the data only on (seed, epoch), and a checkpoint contains everything else.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import nn

from ..config import TrainRecipe
from ..data.batches import Plan
from ..errors import ModelError, TrainingError, is_out_of_memory
from ..folder.checkpoint import Checkpoint
from ..model.linear import learned_state
from ..tokenization.ragged import IntArray
from .distributed.processes import Loss, gathered
from .memory import release_freed_memory
from .optimizers import load_optimizer, optimizer_tensors
from .run_data import changed_data
from .schedule import Deadline, Schedule
from .selection import MovingAverage, Selection
from .state import Run, State
from .update import Update

KEPT = 2  # checkpoints: the newest, and the one before, in case the newest is damaged


@dataclass(frozen=True)
class Objective:
    """The data, loss and scores of a run."""

    batches: Plan
    loss: Loss
    evaluate: Callable[[], Mapping[str, float]] | None = None  # of the current weights; None if nothing is held out
    digests: Mapping[str, str] = field(default_factory=dict)  # of the data, by name

    def check_data(self, checkpoint: Checkpoint) -> None:
        """Raise a TrainingError if a checkpoint was saved with other data."""
        for name, value in self.digests.items():
            if checkpoint.state.get(name) != value:
                raise changed_data(name, value)


class Trainer:
    """Train a model from the first step, or from a checkpoint, to the last step."""

    def __init__(
        self, run: Run, model: nn.Module, objective: Objective, config: TrainRecipe, deadline: Deadline | None = None
    ) -> None:
        """A `deadline` ends the run on time, not at `config.steps`."""
        self.run, self.model, self.objective, self.config = run, model, objective, config
        self.deadline = deadline
        self.schedule = Schedule(config.schedule, config.lr, config.warmup, config.steps, config.lr_end)
        self.update = Update(model, objective.loss, config, run.processes)
        self.average = MovingAverage(self.update.model, config.ema) if config.ema else None
        self.selection = Selection(run, model, config, objective.evaluate)
        self.state = State()
        self._saved_step = 0  # there's nothing to save before the first step
        self._epoch: list[IntArray] = []  # batches of state.epoch, once they are planned
        self._newest: dict[str, Any] = {}  # record of the newest step

    @property
    def last_step(self) -> int:
        return self.schedule.last

    def train(self) -> State:
        """Train to the last step, and leave the weights of that step, or a mean, in the model.

        Raises:
            StoppedError: a signal arrived. A checkpoint was saved after the step in progress.
            TrainingError: a loss, a gradient or a weight isn't finite.
        """
        state, stop, config = self.state, self.run.stop, self.config
        started = time.monotonic() - state.seconds
        self.run.progress.aim(self.last_step)
        with stop.held():
            while True:
                self._keep_pace()
                self._evaluate_if_due()
                state.seconds = time.monotonic() - started
                stopping = self._stop_requested()
                ended = state.step >= self.last_step or bool(config.patience and self.selection.patience_is_over(state))
                if ended:
                    self._log_loss()
                if stopping or ended or state.step % config.save_every == 0:
                    self._save()
                if stopping:
                    stop.raise_stopped(state.step)
                if ended:
                    self.update.end()
                    self.selection.try_mean_of_checkpoints(state)
                    return state
                self._next_step()

    def restore(self, checkpoint: Checkpoint, kept: Mapping[str, Any] | None = None) -> None:
        """Restore the state of the run from a checkpoint.

        The entries about the `kept` weights (`RunFolder.kept`) may be newer than the checkpoint, if the process was
        killed before it saved the next one.

        Raises:
            ModelError: a value is missing or has the wrong type.
        """
        try:
            self.update.load(checkpoint.tensors["model"])
            load_optimizer(self.update.optimizer, self.update.model, checkpoint.tensors["optimizer"])
            if self.average:
                self.average.load(checkpoint.tensors["average"])
            self.schedule = self.schedule.restored(checkpoint.state)
        except KeyError as error:
            what = f"the checkpoint of step {checkpoint.step:,} has no {error.args[0]}"
            fix = "delete the checkpoint to resume from an earlier one"
            raise ModelError(what, expected="a checkpoint of this run", fix=fix, name=str(error.args[0])) from error
        self.state = State.from_dict({**checkpoint.state, **(kept or {}), "step": checkpoint.step})
        self._saved_step, self._epoch = checkpoint.step, []

    # --- one step ---------------------------------------------------------------------------------------------------

    def _next_step(self) -> None:
        before, run, begun = replace(self.state), self.run, time.monotonic()
        state = self.state
        epoch, lr = state.epoch, self.schedule(state.step + 1)
        micro_batches = [self._next_rows() for _ in range(self.config.accumulate)]
        n_tokens = sum(map(self.objective.batches.predictions, micro_batches))
        state.step += 1
        updated = self._updated(micro_batches, n_tokens, lr)
        if updated is None:  # by now, the memory of the step is free
            self.state = before
            raise self._out_of_memory()
        loss_sum, norm = updated
        if self.average:
            self.average.update(state.step)
        state.loss_sum += loss_sum
        state.n_tokens += n_tokens
        seconds = time.monotonic() - begun
        state.seconds += seconds
        if self.deadline:
            self.deadline.stepped(seconds)
        if self.config.compile and not self._newest:
            run.progress.message(f"the first step took {seconds:.1f} s, most of it to compile the blocks")
        tokens = sum(map(self.objective.batches.tokens, micro_batches))
        speed = tokens / max(seconds, 1e-9)
        run.progress.update(step=state.step, epoch=epoch, loss=loss_sum / n_tokens, tokens_per_second=speed)
        self._newest = {"step": state.step, "epoch": epoch, "loss": loss_sum / n_tokens, "lr": lr, "grad_norm": norm,
                        "tokens": n_tokens, "seconds": state.seconds}  # fmt: skip
        for observe in run.on_step:
            observe(self._newest.copy())
        if state.step % self.config.log_every == 0 or state.step == self.last_step:
            self._log_loss()

    def _updated(self, micro_batches: list[IntArray], n_tokens: int, lr: float) -> tuple[float, float] | None:
        """Update the weights, and return the loss and the norm of its gradient; None if there wasn't enough memory."""
        try:
            return self.update(micro_batches, n_tokens, step=self.state.step, lr=lr)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return None

    def _out_of_memory(self) -> TrainingError:
        """Save a checkpoint if this process can do so alone, and return the error that ends the run."""
        config, step, processes = self.config, self.state.step, self.run.processes
        saved = "the last checkpoint is kept" if step else "nothing is saved yet"
        if step and processes.leads and (config.shard == "none" or processes.count == 1):
            self._save()
            saved = f"a checkpoint of step {step:,} is saved"
        more = f"`train.micro_batches={2 * config.micro_batches}`"
        if not config.activation_checkpointing:
            more += " or `train.activation_checkpointing=true`"
        what = f"step {step + 1:,} needs more memory than this machine has; {saved}"
        fix = f"continue with `resume=True` and {more}, or start again with `train.memory=4GB`"
        return TrainingError(what, fix=fix, name="train.micro_batches", value=config.micro_batches)

    def _log_loss(self) -> None:
        """Log the newest step with the mean loss since the last logged step. Do nothing if there are no new steps."""
        state = self.state
        if not (state.n_tokens and self._newest):
            return
        since = {"loss": state.loss_sum / state.n_tokens, "tokens": state.n_tokens}
        self.run.log.write({**self._newest, **since, "seconds": round(state.seconds, 2)})
        state.loss_sum, state.n_tokens = 0.0, 0

    def _keep_pace(self) -> None:
        """Move the last step if the run wouldn't end on time. The first process decides for all."""
        if not self.config.budget:
            return
        step, last = self.state.step, self.last_step
        if self.deadline is not None:
            last = self.deadline.last_step(step, last, self.config.eval_every)
        (last, *_) = self.run.processes.gather(last)
        if last != self.last_step:
            self.schedule = self.schedule.ending_at(last, after=step)
        self.run.progress.aim(self.last_step)

    def _stop_requested(self) -> bool:
        """Return whether a signal has asked any of the processes to stop."""
        stop = self.run.stop
        asked = self.run.processes.gather(stop.requested)
        stop.requested = next((it for it in asked if it is not None), None)
        return stop.requested is not None

    def _next_rows(self) -> IntArray:
        """Return the examples of the next batch, and advance the position past it."""
        state = self.state
        if not self._epoch:
            self._epoch = self.objective.batches.epoch(state.epoch)
        rows = self._epoch[state.batch]
        state.batch += 1
        if state.batch == len(self._epoch):
            state.epoch, state.batch, self._epoch = state.epoch + 1, 0, []
        return rows

    # --- evaluations and checkpoints ----------------------------------------------------------------------------------

    def _evaluate_if_due(self) -> None:
        state = self.state
        due = state.step % self.config.eval_every == 0 or state.step == self.last_step
        if not due or state.step in (0, state.evaluated):
            return
        begun = time.monotonic()
        self._make_room()
        self.update.check_weights(state.step)
        with self.update.whole_model(self.average):
            self.selection.evaluate(state)
        if self.deadline and self.objective.evaluate is not None:
            self.deadline.evaluated(time.monotonic() - begun)

    def _save(self) -> None:
        """Save a checkpoint if this step has none yet, and delete those that are no longer needed."""
        every = self.config.save_every
        if self.state.step != self._saved_step:
            self._save_checkpoint()
        # A checkpoint saved because of a signal is deleted as soon as there's a newer one.
        self.run.folder.prune(max(KEPT, self.config.n_averaged), lambda step: step % every == 0)

    def _save_checkpoint(self) -> None:
        self._make_room()
        self.update.check_weights(self.state.step)
        values = {name: value for name, value in asdict(self.state).items() if name != "step"}
        values |= self.schedule.to_dict() | dict(self.objective.digests)
        with self.update.whole_model():
            tensors = {
                "model": learned_state(self.model),
                "optimizer": optimizer_tensors(self.update.optimizer, self.update.model),
            }
            if self.average:
                tensors["average"] = {name: gathered(it) for name, it in self.average.weights.items()}
            self.run.folder.save_checkpoint(Checkpoint(self.state.step, tensors, values))
        self._saved_step = self.state.step
        self._make_room()

    def _make_room(self) -> None:
        """Give freed memory back if there's a limit. Otherwise steps, evaluations and checkpoints leave gaps in it."""
        if self.config.memory:
            release_freed_memory()
