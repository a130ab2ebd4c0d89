"""The loop (section 5): batches, loss, update, and at intervals an evaluation and a checkpoint.

A run that was killed and resumed continues bitwise as if it had not been: the randomness of step n follows from
(seed, n) alone, the order of the data from (seed, epoch), and a checkpoint holds everything else.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import TrainConfig, chosen
from ..errors import TrainingError
from ..text.batches import Batches, IntArray
from .checkpoint import Checkpoint, RunFolder
from .metrics import MetricsLog, Progress
from .model_folder import load_weights, model_files
from .optimizer import load_optimizer, make_optimizer, optimizer_tensors
from .schedule import Schedule
from .signals import StopSignals

_ADVICE = "Try a lower --train.lr, a longer --train.warmup, or --train.precision=fp32"

# What the loop needs to know of a task: the loss summed over the examples of a batch, and its number of tokens.
Loss = Callable[[nn.Module, IntArray], tuple[Tensor, int]]


@dataclass
class State:
    """Where a run stands: with the weights and Adam's moments, all that its next step depends on."""

    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch, the next one
    evaluated: int = 0  # the last step that was evaluated
    best: float | None = None
    best_step: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0  # since the last line of the metrics
    n_tokens: int = 0


class Trainer:
    """One run, from its first step or from a checkpoint, to its last."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        batches: Batches,
        config: TrainConfig,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        constants: Mapping[str, str] | None = None,
    ) -> None:
        """`config` has no open choices (None) left. `evaluate` gives the scores of the model as it stands.

        A checkpoint also holds the `constants`, which must be the same when it is restored: what they name is what
        the error names that says otherwise.
        """
        self.model, self.loss, self.batches, self.config = model, loss, batches, config
        self.evaluate = evaluate
        self.schedule = Schedule(
            chosen(config.schedule), chosen(config.lr), chosen(config.warmup), chosen(config.steps)
        )
        self.optimizer = make_optimizer(model, config)
        self.state = State()
        self.constants = dict(constants or {})
        self.device = next(model.parameters()).device
        self._saved_step = 0  # before the first step there is nothing to save
        self._epoch: list[IntArray] = []  # the batches of state.epoch, once they are known

    def run(self, folder: RunFolder, log: MetricsLog, progress: Progress, stop: StopSignals) -> State:
        """Train to the last step. A stop signal saves a checkpoint and raises StoppedError."""
        state, steps = self.state, chosen(self.config.steps)
        started = time.monotonic() - state.seconds
        with stop.held():
            while True:
                self._evaluate_if_due(folder, log, progress)
                state.seconds = time.monotonic() - started
                stopping = stop.requested is not None
                if stopping or state.step == steps or state.step % chosen(self.config.save_every) == 0:
                    self._save(folder)
                if stopping:
                    stop.raise_stopped(state.step)
                if state.step >= steps:
                    return state
                self._next_step(log, progress)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to where a checkpoint was saved; a TrainingError where a constant has changed since."""
        values = dict(checkpoint.state)
        for name, value in self.constants.items():
            if values.pop(name, None) != value:
                raise TrainingError(
                    f"{name} are not those that the run was begun with; expected the same: give them to go on, "
                    "or begin anew with another --out"
                )
        load_weights(self.model, checkpoint.tensors["model"])
        load_optimizer(self.optimizer, self.model, checkpoint.tensors["optimizer"])
        self.state = State(step=checkpoint.step, **values)
        self._saved_step, self._epoch = checkpoint.step, []

    # --- one step ---------------------------------------------------------------------------------------------------

    def _next_step(self, log: MetricsLog, progress: Progress) -> None:
        state, begun = self.state, time.monotonic()
        epoch, rows = state.epoch, self._next_rows()
        state.step += 1
        lr = self.schedule(state.step)
        loss_sum, n_tokens, norm = self._update(rows, lr)
        state.loss_sum += loss_sum
        state.n_tokens += n_tokens
        seconds = time.monotonic() - begun
        state.seconds += seconds
        speed = n_tokens / max(seconds, 1e-9)
        progress.update(step=state.step, epoch=epoch, loss=loss_sum / n_tokens, tokens_per_second=speed)
        if state.step % self.config.log_every == 0 or state.step == self.config.steps:
            loss = state.loss_sum / state.n_tokens
            log.write({"step": state.step, "epoch": epoch, "loss": loss, "lr": lr, "grad_norm": norm,
                       "tokens": state.n_tokens, "seconds": round(state.seconds, 2)})  # fmt: skip
            state.loss_sum, state.n_tokens = 0.0, 0

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

    def _update(self, rows: IntArray, lr: float) -> tuple[float, int, float]:
        """One update of the weights: the loss summed over the batch, its tokens, and the norm of the mean gradient."""
        self.model.train()
        total, n_tokens = self._forward(rows)
        loss_sum = float(total.detach())
        if not math.isfinite(loss_sum):
            raise self._non_finite(f"the loss is {loss_sum}", self._where_forward(rows))
        (total / n_tokens).backward()
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        total_norm = nn.utils.get_total_norm(gradients)
        norm = float(total_norm)
        if not math.isfinite(norm):
            loss = loss_sum / n_tokens
            raise self._non_finite(f"the loss is {loss:.3f} but its gradient {norm}", self._where_backward())
        if self.config.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip, total_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss_sum, n_tokens, norm

    def _forward(self, rows: IntArray) -> tuple[Tensor, int]:
        seed_step(self.config.seed, self.state.step)
        with autocast(self.device, self.config.precision):
            return self.loss(self.model, rows)

    # --- what is not a number -----------------------------------------------------------------------------------------

    def _non_finite(self, what: str, where: str) -> TrainingError:
        self.optimizer.zero_grad()
        return TrainingError(
            f"{what} at step {self.state.step}: {where}. "
            f"Nothing was updated, and the last checkpoint is kept. {_ADVICE}"
        )

    def _expect_finite_weights(self) -> None:
        """Before weights are scored or saved: an update may have overflowed, however finite its loss was."""
        if weights := self._non_finite_weights():
            raise TrainingError(
                f"after step {self.state.step} the weights {_shown(weights)} are not finite. "
                f"They are not saved, and the last checkpoint is kept. {_ADVICE}"
            )

    def _non_finite_weights(self) -> list[str]:
        return [name for name, p in self.model.named_parameters() if not p.isfinite().all()]

    def _where_forward(self, rows: IntArray) -> str:
        """The weights that are not finite; where all are, the first part of the model whose output is not."""
        if weights := self._non_finite_weights():
            return f"not finite are the weights {_shown(weights)}"
        found: list[str] = []

        def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor) and not output.isfinite().all():
                    found.append(name)

            return hook

        handles = [part.register_forward_hook(look(name)) for name, part in self.model.named_modules() if name]
        try:
            with torch.no_grad():
                self._forward(rows)
        finally:
            for handle in handles:
                handle.remove()
        return f"it arose in {found[0]}" if found else "every part's output is finite, so it arose in the loss itself"

    def _where_backward(self) -> str:
        gradients = {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}
        bad = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
        if not bad:
            return "each is finite, but the norm of all is too large for a number"
        return f"it arose on the way back; not finite are the gradients of {_shown(bad)}"

    # --- evaluations and checkpoints ----------------------------------------------------------------------------------

    def _evaluate_if_due(self, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        """Score the model where that is due and was not done, and write its weights where they are the best so far.

        Where nothing was held out, the newest weights are the best that is known.
        """
        state = self.state
        due = state.step % chosen(self.config.eval_every) == 0 or state.step == self.config.steps
        if not due or state.step in (0, state.evaluated):
            return
        self._expect_finite_weights()
        scores = self.evaluate() if self.evaluate else {}
        if scores:
            valid = {f"valid_{name}": value for name, value in scores.items()}
            log.write({"step": state.step, "epoch": state.epoch, **valid, "seconds": round(state.seconds, 2)})
        value = self._value(scores) if scores else None
        state.evaluated = state.step
        if value is None or state.best is None or value >= state.best:  # of equal ones the newest
            state.best, state.best_step = value, state.step
            folder.write_files(model_files(weights=self.model.state_dict()))
        if scores:
            said = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
            progress.message(f"step {state.step:,}: {said}{'  (best)' if state.best_step == state.step else ''}")

    def _value(self, scores: Mapping[str, float]) -> float:
        """What the best weights are chosen by, the higher the better; what is no number is the worst."""
        value = -scores["loss"] if self.config.best == "loss" else scores[self.config.best]
        return -math.inf if math.isnan(value) else value

    def _save(self, folder: RunFolder) -> None:
        if self.state.step == self._saved_step:
            return
        self._expect_finite_weights()
        values = {name: value for name, value in asdict(self.state).items() if name != "step"}
        values |= self.constants
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer_tensors(self.optimizer, self.model)}
        folder.save_checkpoint(self.state.step, tensors, values)
        folder.prune(self.config.keep)
        self._saved_step = self.state.step


def seed_step(seed: int, step: int, rank: int = 0, micro_batch: int = 0) -> None:
    """Make the randomness of a step a function of these numbers alone."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank, micro_batch]).generate_state(1, np.uint64)[0]))


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Products in bfloat16 where that is the precision; sums, norms and the loss stay in float32."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def _shown(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
