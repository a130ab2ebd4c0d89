"""One update of the weights: forward, backward, clip, step.

Loss and gradient are checked before the step. If either isn't finite, nothing is updated, and the error names the
module that produced the first non-finite value.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..data.batches import Alternating, Plan
from ..errors import TrainingError, shortened
from ..model.restore import load_learned
from ..tasks.base import Dataset, Task
from ..tasks.examples import FreshBatches
from ..tokenization.ragged import IntArray
from .activations import checkpoint_activations, compile_blocks
from .distributed.processes import ALONE, Loss, Processes, gathered, own_share
from .optimizers import make_optimizer
from .selection import MovingAverage

if TYPE_CHECKING:
    from .distributed.sharding import Shards

_FIX = "try a lower `train.lr`, a longer `train.warmup`, or `train.precision=fp32`"


class Update:
    """Take one optimizer step per call."""

    def __init__(self, model: nn.Module, loss: Loss, config: TrainConfig, processes: Processes = ALONE) -> None:
        """Prepare to train a model. If it's sharded, it has weights only inside `whole_model` and after `end`."""
        self.config, self.processes = config, processes
        if config.compile:
            compile_blocks(model)
        if config.activation_checkpointing:
            checkpoint_activations(model)
        self._shards = _shards(model, loss) if config.shard == "full" and processes.count > 1 else None
        self.whole, self.model = model, self._shards.model if self._shards else model
        self._loss = self._shards.loss if self._shards else processes.shared(model, loss)
        self.optimizer = make_optimizer(self.model, config)
        self._device = next(model.parameters()).device

    def __call__(
        self, micro_batches: Sequence[IntArray], n_tokens: int, *, step: int, lr: float
    ) -> tuple[float, float]:
        """Update the weights.

        Micro-batches are weighted by their number of tokens, so the gradients add up to that of one large batch. Values
        are read back from the device once, after the last backward pass.

        Args:
            micro_batches: row numbers of the examples of each batch. It's divided into `train.micro_batches` parts, of
                which each process computes a share.
            n_tokens: predicted tokens of the whole step.
            step: number of the step, counted from 1; it seeds dropout.

        Returns:
            The loss summed over all tokens, and the norm of the mean gradient before clipping.

        Raises:
            TrainingError: the loss or the gradient isn't finite. Nothing was updated.
        """
        micro_batches = [part for rows in micro_batches for part in divided(rows, self.config.micro_batches)]
        self.model.train()
        losses = []
        for place, rows in enumerate(micro_batches):
            is_last = place == len(micro_batches) - 1
            with nullcontext() if is_last else self.processes.without_average(self._loss):
                total = self._forward(rows, step, place)
                losses.append(total.detach())
                (total * (self.processes.count / n_tokens)).backward()  # the processes' gradients are averaged
        gradients = [_gradient(p) for p in self.model.parameters() if p.requires_grad]
        total_norm = gathered(nn.utils.get_total_norm(gradients))
        *values, norm = torch.stack([*(it.to(total_norm.dtype) for it in losses), total_norm]).tolist()
        (loss,) = self.processes.sums([sum(values)])
        if not math.isfinite(loss):
            found = None if math.isfinite(sum(values)) else self._find_in_forward(micro_batches, step)
            culprit = next(filter(None, self.processes.gather(found)))
            raise self._not_finite(f"the loss is {loss}", loss, step, culprit)
        if not math.isfinite(norm):
            what = f"the loss is {loss / n_tokens:.3f} but the norm of its gradient is {norm}"
            raise self._not_finite(what, norm, step, _find_in_backward(self.model))
        if self.config.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip, total_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss, norm

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Replace the model's weights with those of a checkpoint. Raise KeyError if one is missing."""
        with self.whole_model():
            load_learned(self.whole, weights)
            if self._shards:
                self._shards.scatter()

    @contextmanager
    def whole_model(self, average: MovingAverage | None = None) -> Iterator[None]:
        """Inside the `with` block, `whole` has all its weights, or their average."""
        if self._shards:
            with self._shards.gathered(average.weights if average else None):
                yield
        else:
            with average.applied() if average else nullcontext():
                yield

    def end(self) -> None:
        """Leave the weights in `whole`. Training can't continue."""
        if self._shards:
            self._shards.gather()

    def check_weights(self, step: int) -> None:
        """Raise a TrainingError if a weight isn't finite. An update can overflow even if its loss was finite."""
        if names := _bad_weights(self.model):
            what = f"after step {step:,}, these weights aren't finite: {shortened(names, 3)}"
            what += "; they aren't saved, and the last checkpoint is kept"
            raise TrainingError(what, fix=_FIX, name=names[0])

    def _forward(self, rows: IntArray, step: int, micro_batch: int) -> Tensor:
        _seed_step(self.config.seed, step, micro_batch, rank=self.processes.rank)
        own = self.processes.deal(rows)
        with autocast(self._device, self.config.precision):
            total: Tensor = self._loss(own if len(own) else rows[:1])
        return total if len(own) else total * 0.0  # every process takes part in the sum of the gradients

    def _find_in_forward(self, micro_batches: Sequence[IntArray], step: int) -> tuple[str, str]:
        """Repeat the forward passes up to the first non-finite loss; return the module at fault and an explanation."""
        if names := _bad_weights(self.model):
            return names[0], f"these weights aren't finite: {shortened(names, 3)}"
        for place, rows in enumerate(micro_batches):
            with torch.no_grad(), _bad_outputs(self.model) as names:
                total = self._forward(rows, step, place)
            if names:
                return names[0], f"the output of {names[0]} is the first that isn't finite"
            if not total.isfinite():
                break
        return "loss", "every output of the model is finite, so it arose in the loss itself"

    def _not_finite(self, what: str, value: float, step: int, culprit: tuple[str, str]) -> TrainingError:
        self.optimizer.zero_grad()
        name, where = culprit
        what += f" at step {step:,}: {where}; nothing was updated, and the last checkpoint is kept"
        return TrainingError(what, fix=_FIX, name=name, value=value)


def loss_of(task: Task, examples: Dataset, smoothing: float, batches: Plan | None = None) -> Loss:
    """Return the loss of a task on some of these examples, or on those of `batches` if they change in each epoch.

    Args:
        task: computes the loss.
        examples: tokenized examples.
        smoothing: amount of label smoothing.
        batches: the batches of the run, which hold the examples of each epoch if they change.
    """

    def loss(model: nn.Module, rows: IntArray) -> Tensor:
        now, rows = batches.at(rows) if isinstance(batches, FreshBatches) else (examples, rows)
        return task.loss(model, now, rows, smoothing=smoothing)

    return loss


def alternating_loss(own: Loss, others: Loss, batches: Alternating) -> Loss:
    """Return a loss for two kinds of batches in turns.

    Args:
        own: the loss on the examples of the task.
        others: the loss on the examples to replay.
        batches: tells which of the two a batch is from.
    """

    def loss(model: nn.Module, rows: IntArray) -> Tensor:
        return (others if batches.is_other(rows) else own)(model, batches.within(rows))

    return loss


def _shards(model: nn.Module, loss: Loss) -> "Shards":
    from .distributed.sharding import Shards  # slow to import

    return Shards(model, loss)


def divided(rows: IntArray, count: int) -> list[IntArray]:
    """Divide a batch into `count` parts, or fewer if it has fewer examples.

    A batch is sorted by length, so every n-th example makes parts with almost equally many tokens.
    """
    return [rows[first::count] for first in range(min(count, len(rows)))]


def _seed_step(seed: int, step: int, micro_batch: int = 0, *, rank: int = 0) -> None:
    """Seed torch for one forward pass, as a function of these numbers alone."""
    numbers = [seed, step, rank, micro_batch]
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]))


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Compute matrix products in bfloat16 if `precision` is "bf16"; sums, norms and the loss stay in float32."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield


def _gradient(weight: nn.Parameter) -> Tensor:
    """Return the gradient of a weight, or zeros if it's unused, like the query weights of some custom attention."""
    if weight.grad is None:
        weight.grad = torch.zeros_like(weight)
    return weight.grad


# --- finding the source of a non-finite number ----------------------------------------------------------------------


def _bad_weights(model: nn.Module) -> list[str]:
    named = list(model.named_parameters())
    if not named:
        return []
    finite = torch.stack([own_share(p).isfinite().all() for _, p in named]).tolist()  # one read for all of them
    return [name for (name, _), is_finite in zip(named, finite) if not is_finite]


def _find_in_backward(model: nn.Module) -> tuple[str, str]:
    gradients = {name: gathered(p.grad) for name, p in model.named_parameters() if p.grad is not None}
    names = [name for name, gradient in gradients.items() if not gradient.isfinite().all()]
    if not names:
        return "gradient norm", "every gradient is finite, but the norm of all of them overflows"
    return names[0], f"it arose in the backward pass; these gradients aren't finite: {shortened(names, 3)}"


@contextmanager
def _bad_outputs(model: nn.Module) -> Iterator[list[str]]:
    """Collect the names of the submodules whose output isn't finite, in the order in which they ran."""
    names: list[str] = []

    def watch(name: str) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor) and not output.isfinite().all():
                names.append(name)

        return hook

    handles = [part.register_forward_hook(watch(name)) for name, part in model.named_modules() if name]
    try:
        yield names
    finally:
        for handle in handles:
            handle.remove()
