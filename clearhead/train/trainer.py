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
        schedule: Schedule,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        constants: Mapping[str, str] | None = None,
    ) -> None:
        """`config` has no open choices (None) left. `evaluate` gives the scores of the model as it stands.

        A checkpoint also holds the `constants`, which must be the same when it is restored: what they name is what
        the error names that says otherwise.
        """
        self.model, self.loss, self.batches, self.config = model, loss, batches, config
        self.schedule, self.evaluate = schedule, evaluate
        self.optimizer = make_optimizer(model, config)
        self.state = State()
        self.constants = dict(constants or {})
        self.device = next(model.parameters()).device

    def run(self, folder: RunFolder, log: MetricsLog, progress: Progress, stop: StopSignals) -> State:
        """Train to the last step. A stop signal saves a checkpoint and raises StoppedError."""
        state, steps = self.state, chosen(self.config.steps)
        started = time.monotonic() - state.seconds
        self._evaluate_if_due(folder, log, progress)
        while state.step < steps:
            if stop.requested:
                self._save(folder)
                stop.raise_stopped(state.step)
            self._next_step(log, progress)
            state.seconds = time.monotonic() - started
            self._evaluate_if_due(folder, log, progress)
            if state.step % chosen(self.config.save_every) == 0 or state.step == steps:
                self._save(folder)
        return state

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go back to where a checkpoint was saved."""
        load_weights(self.model, checkpoint.tensors["model"])
        load_optimizer(self.optimizer, self.model, checkpoint.tensors["optimizer"])
        values = dict(checkpoint.state)
        for name, value in self.constants.items():
            if values.pop(name, None) != value:
                raise TrainingError(f"{name} is not what the run was begun with; begin anew with another --out")
        self.state = State(step=checkpoint.step, **values)

    # --- one step ---------------------------------------------------------------------------------------------------

    def _next_step(self, log: MetricsLog, progress: Progress) -> None:
        state, begun = self.state, time.monotonic()
        rows = self._next_rows()
        state.step += 1
        lr = self.schedule(state.step)
        loss_sum, n_tokens, norm = self._update(rows, lr)
        state.loss_sum += loss_sum
        state.n_tokens += n_tokens
        speed = n_tokens / max(time.monotonic() - begun, 1e-9)
        progress.update(step=state.step, epoch=state.epoch, loss=loss_sum / n_tokens, tokens_per_second=speed)
        if state.step % self.config.log_every == 0 or state.step == self.config.steps:
            loss = state.loss_sum / state.n_tokens
            log.write({"step": state.step, "epoch": state.epoch, "loss": loss, "lr": lr, "grad_norm": norm,
                       "tokens": state.n_tokens, "seconds": round(state.seconds, 2)})  # fmt: skip
            state.loss_sum, state.n_tokens = 0.0, 0

    def _update(self, rows: IntArray, lr: float) -> tuple[float, int, float]:
        """One update of the weights: the loss summed over the batch, its tokens, and the norm of the mean gradient."""
        self.model.train()
        seed_step(self.config.seed, self.state.step)
        with autocast(self.device, self.config.precision):
            total, n_tokens = self.loss(self.model, rows)
        loss_sum = float(total.detach())
        if not math.isfinite(loss_sum):
            raise TrainingError(self._non_finite(f"the loss is {loss_sum}", rows))
        (total / n_tokens).backward()
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip or math.inf))
        if not math.isfinite(norm):
            raise TrainingError(
                self._non_finite(f"the loss is {loss_sum / n_tokens:.3f} but its gradient is {norm}", rows)
            )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss_sum, n_tokens, norm

    def _next_rows(self) -> IntArray:
        state = self.state
        if state.batch == 0 or not hasattr(self, "_epoch"):
            self._epoch = self.batches.epoch(state.epoch)
        rows = self._epoch[state.batch]
        state.batch += 1
        if state.batch == len(self._epoch):
            state.epoch, state.batch = state.epoch + 1, 0
        return rows

    def _non_finite(self, what: str, rows: IntArray) -> str:
        """What to tell the user: the first part of the model whose output is not finite although its input is."""
        self.optimizer.zero_grad()
        weights = [name for name, p in self.model.named_parameters() if not p.isfinite().all()]
        where = f"the weights {', '.join(weights[:3])} are not finite" if weights else self._first_non_finite(rows)
        return (
            f"{what} at step {self.state.step}: {where}. Nothing was updated, and the last checkpoint is kept. "
            "Try a lower --train.lr, a longer --train.warmup, or --train.precision=fp32"
        )

    def _first_non_finite(self, rows: IntArray) -> str:
        found: list[str] = []

        def look(name: str) -> Callable[[nn.Module, Any, Any], None]:
            def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
                if isinstance(output, Tensor) and not output.isfinite().all():
                    found.append(name)

            return hook

        handles = [part.register_forward_hook(look(name)) for name, part in self.model.named_modules() if name]
        try:
            seed_step(self.config.seed, self.state.step)
            with torch.no_grad(), autocast(self.device, self.config.precision):
                self.loss(self.model, rows)
        finally:
            for handle in handles:
                handle.remove()
        return f"it arose in {found[0]}" if found else "every part's output is finite, so it arose on the way back"

    # --- evaluations and checkpoints ----------------------------------------------------------------------------------

    def _evaluate_if_due(self, folder: RunFolder, log: MetricsLog, progress: Progress) -> None:
        state = self.state
        due = state.step % chosen(self.config.eval_every) == 0 or state.step == self.config.steps
        if not due or state.step in (0, state.evaluated):
            return
        if self.evaluate is None:  # nothing was held out: the newest weights are the best that is known
            folder.write_files(model_files(weights=self.model.state_dict()))
            state.evaluated = state.best_step = state.step
            return
        scores = self.evaluate()
        log.write(
            {"step": state.step, "epoch": state.epoch, **{f"valid_{name}": value for name, value in scores.items()}}
        )
        value = -scores["loss"] if self.config.best == "loss" else scores[self.config.best]
        state.evaluated = state.step
        if state.best is None or value > state.best:
            state.best, state.best_step = value, state.step
            folder.write_files(model_files(weights=self.model.state_dict()))
        said = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
        progress.message(f"step {state.step}: {said}{'  (best)' if state.best_step == state.step else ''}")

    def _save(self, folder: RunFolder) -> None:
        values = {name: value for name, value in asdict(self.state).items() if name != "step"}
        values |= self.constants
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer_tensors(self.optimizer, self.model)}
        folder.save_checkpoint(self.state.step, tensors, values)
        folder.prune(self.config.keep)


def seed_step(seed: int, step: int, rank: int = 0, micro_batch: int = 0) -> None:
    """Make the randomness of a step a function of these numbers alone."""
    torch.manual_seed(int(np.random.SeedSequence([seed, step, rank, micro_batch]).generate_state(1, np.uint64)[0]))


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Products in bfloat16 where that is the precision; sums, norms and the loss stay in float32."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield
