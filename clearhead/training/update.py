"""One update of the weights: forward, backward, clip, step. What is not a number ends it before anything is changed."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from ..config import TrainConfig
from ..errors import TrainingError
from ..tokenization.ragged import IntArray
from .non_finite import bad_weights, shown, where_backward, where_forward
from .optimizer import make_optimizer

_ADVICE = "Try a lower --train.lr, a longer --train.warmup, or --train.precision=fp32"

# What an update needs to know of a task: the loss summed over the examples of a batch.
Loss = Callable[[nn.Module, IntArray], Tensor]


class Update:
    """A model, its loss and its optimiser: called with the batches of a step, it takes the step."""

    def __init__(self, model: nn.Module, loss: Loss, config: TrainConfig) -> None:
        self.model, self.loss, self.config = model, loss, config
        self.optimizer = make_optimizer(model, config)
        self._device = next(model.parameters()).device

    def __call__(self, micro_batches: list[IntArray], n_tokens: int, *, step: int, lr: float) -> tuple[float, float]:
        """The loss summed over all `n_tokens` of the batches, and the norm of the mean gradient.

        The gradients of the micro-batches add up to that of one large batch: each is weighed by its tokens.
        A TrainingError where loss or gradient is not finite; nothing is updated then.
        """
        self.model.train()
        loss_sum = 0.0
        for place, rows in enumerate(micro_batches):
            total = self._forward(rows, step, place)
            loss_sum += float(total.detach())
            if not math.isfinite(loss_sum):
                where = where_forward(self.model, partial(self._forward, rows, step, place))
                raise self._non_finite(f"the loss is {loss_sum}", step, where)
            (total / n_tokens).backward()
        gradients = [self._gradient(p) for p in self.model.parameters() if p.requires_grad]
        total_norm = nn.utils.get_total_norm(gradients)
        norm = float(total_norm)
        if not math.isfinite(norm):
            what = f"the loss is {loss_sum / n_tokens:.3f} but its gradient {norm}"
            raise self._non_finite(what, step, where_backward(self.model))
        if self.config.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.config.clip, total_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss_sum, norm

    @staticmethod
    def _gradient(weight: nn.Parameter) -> Tensor:
        """That of a weight; zeros of one that nothing used, such as the queries of an attention of one's own."""
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        return weight.grad

    def expect_finite_weights(self, step: int) -> None:
        """Before weights are scored or saved: an update may have overflowed, however finite its loss was."""
        if weights := bad_weights(self.model):
            raise TrainingError(
                f"after step {step} the weights {shown(weights)} are not finite. "
                f"They are not saved, and the last checkpoint is kept. {_ADVICE}"
            )

    def _forward(self, rows: IntArray, step: int, micro_batch: int) -> Tensor:
        seed_step(self.config.seed, step, micro_batch)
        with autocast(self._device, self.config.precision):
            return self.loss(self.model, rows)

    def _non_finite(self, what: str, step: int, where: str) -> TrainingError:
        self.optimizer.zero_grad()
        return TrainingError(
            f"{what} at step {step}: {where}. Nothing was updated, and the last checkpoint is kept. {_ADVICE}"
        )


def seed_step(seed: int, step: int, micro_batch: int = 0) -> None:
    """Make the randomness of a step a function of these numbers alone."""
    numbers = [seed, step, 0, micro_batch]  # the 0 stays, since without it every run would be another
    torch.manual_seed(int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]))


@contextmanager
def autocast(device: torch.device, precision: str) -> Iterator[None]:
    """Products in bfloat16 where that is the precision; sums, norms and the loss stay in float32."""
    with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
        yield
