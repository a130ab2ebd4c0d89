"""Train within a memory limit: choose how batches are divided, and whether activations are checkpointed.

The choice is made and recorded before the first step. An estimate picks the settings, and a trial step with the largest
batch checks them. Neither changes what a step learns: its gradient is still that of the whole batch.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ...config import Config
from ...config.values import read_size
from ...errors import ConfigError
from ...folder.model_folder import weights_to_bytes
from ...tasks.base import Dataset, Task
from ...tokenization.ragged import IntArray
from ..activations import Activations
from ..memory import memory_in_use, peak_memory, release_freed_memory
from ..optimizers.optimizer import optimizer_tensors
from ..update import divided
from .hyperparameters import Choice, batches_of
from .untrained import Untrained

_LIBRARIES = 4.5e8  # bytes of a process on a system that doesn't report them
_LATER = 1.5e8  # bytes for libraries that scores and pictures need
_AIM = 0.93  # share of the limit to plan for, since batches of many shapes leave gaps between them
_SLACK = 1.1  # of activations, for the kernels' own memory
_SMALL = 512  # tokens; dividing a batch further costs more time than activation checkpointing
_STATE = 16  # bytes of a weight, with its gradient and Adam's moments
_SAVING = 28  # bytes of a weight while a checkpoint is written: no gradient, but two copies of the moments


@dataclass(frozen=True)
class Division:
    """A way to save memory.

    Attributes:
        micro_batches: the parts that each batch is divided into.
        checkpointed: whether activations are checkpointed.
    """

    micro_batches: int
    checkpointed: bool


@dataclass(frozen=True)
class _Batch:
    """A batch that takes much memory.

    Attributes:
        rows: its examples.
        tokens: its tokens per side, with padding.
        fixed: bytes of activations that don't depend on the number of examples: all, and with checkpointing.
        each: bytes of the activations of an example.
    """

    rows: IntArray
    tokens: int
    fixed: tuple[int, int]
    each: tuple[int, int]

    def activations(self, parts: int, *, checkpointed: bool) -> float:
        """Return the bytes of the activations of one of so many parts."""
        return self.fixed[checkpointed] + self.each[checkpointed] * math.ceil(len(self.rows) / parts)


def fit(config: Config, task: Task, examples: Dataset, processes: int = 1) -> tuple[Config, list[Choice]]:
    """Choose train.micro_batches and train.activation_checkpointing for `train.memory`. Values of the user are kept.

    Args:
        config: the settings so far, with `train.memory` and the model's shape.
        task: the task to learn.
        examples: the training data.
        processes: number of processes that share each batch.

    Raises:
        ConfigError: no choice keeps to the limit. The message gives the smallest limit that works, or an estimate of it
            if no trial step has checked that.
    """
    trial, most, excess = Trial(config, task, examples, processes), _AIM * read_size(config.train.memory), 1.0
    for way in trial.ways():
        if excess * trial.peak(way) > most:
            continue
        measured = trial.measure(way)
        if measured is None or measured <= most:
            return _chosen(config, trial, way, measured)
        excess = measured / trial.peak(way)  # larger than before, since the step needs more than `most`
    raise _too_little(config, excess * min(map(trial.peak, trial.ways())) / _AIM, checked=excess > 1)


def _chosen(config: Config, trial: "Trial", way: Division, measured: float | None) -> tuple[Config, list[Choice]]:
    size, how = (trial.peak(way), "estimated") if measured is None else (measured, "measured")
    activations = trial.activations(way) / 1e9
    why = (
        f"training takes {size / 1e9:.2f} GB ({how}) of {config.train.memory}: {trial.state / 1e9:.2f} GB for weights "
        f"and optimiser, {activations:.2f} GB for activations"
    )
    found = [
        Choice("train.micro_batches", way.micro_batches, why),
        Choice(
            "train.activation_checkpointing", way.checkpointed, "saves memory" if way.checkpointed else "not needed"
        ),
    ]
    found = [it for it in found if config.accepts(it.name, "machine")]
    return config.assign({it.name: it.value for it in found}, "machine"), found


def _too_little(config: Config, least: float, *, checked: bool) -> ConfigError:
    enough = f"{math.ceil(least / 1e8) / 10:g}GB"
    unchecked, more = (
        ("", "") if checked else (" by an estimate that no training step has checked", " or a little more")
    )
    return ConfigError(
        f"train.memory={config.train.memory} isn't enough to train this model on this data",
        expected=f"at least {enough}{unchecked}",
        fix=f"set `train.memory={enough}`{more}, or lower train.preset, data.max_len or data.vocab_size",
        name="train.memory",
        value=config.train.memory,
    )


class Trial:
    """A model, and the batches of its run that take the most memory."""

    def __init__(self, config: Config, task: Task, examples: Dataset, processes: int) -> None:
        self.config, self.task, self.examples, self.processes = config, task, examples, processes
        self.device = torch.device(config.train.device)
        release_freed_memory()
        now = memory_in_use(self.device)
        self._later = _LATER if self.device.type == "cpu" else 0.0
        self._before = (_LIBRARIES if now is None else now) + self._later
        self.plan = batches_of(config, examples)
        untrained = Untrained(config, task, examples)
        untrained.model.train()
        self._n_weights = sum(p.numel() for p in untrained.model.parameters())
        self._batches = [self._counted(untrained, rows, tokens) for rows, tokens in self._largest()]

    @property
    def state(self) -> int:
        """The bytes of weights, gradients, moments and averages."""
        return (_STATE + 4 * bool(self.config.train.ema)) * self._n_weights

    def ways(self) -> Iterator[Division]:
        """Yield the possible choices, the fastest first."""
        most, tokens = (max(it) for it in zip(*((len(it.rows), it.tokens) for it in self._batches)))
        counts = [*itertools.takewhile(lambda it: it < most, (2**n for n in itertools.count())), most]
        if not self.config.accepts("train.micro_batches", "machine"):
            counts = [self.config.train.micro_batches]
        if not self.config.accepts("train.activation_checkpointing", "machine"):
            yield from (Division(it, self.config.train.activation_checkpointing) for it in counts)
            return
        yield from (Division(it, False) for it in counts if it == counts[0] or tokens / it >= _SMALL)
        yield from (Division(it, True) for it in counts)

    def activations(self, way: Division) -> float:
        """Estimate the bytes of the activations of a step."""
        parts = way.micro_batches * self.processes
        return _SLACK * max(it.activations(parts, checkpointed=way.checkpointed) for it in self._batches)

    def peak(self, way: Division) -> float:
        """Estimate the peak memory of training in bytes."""
        saving = self.state + (_SAVING - _STATE) * self._n_weights
        return self._before + max(self.state + self.activations(way), saving)

    def measure(self, way: Division) -> float | None:
        """Return the peak memory of two steps and a checkpoint in bytes; None if this system doesn't tell."""
        parts = way.micro_batches * self.processes
        heaviest = max(self._batches, key=lambda it: it.activations(parts, checkpointed=way.checkpointed))
        part = max(divided(heaviest.rows, parts), key=lambda it: (len(it), self.plan.predictions(it)))

        def take_steps() -> None:
            untrained = Untrained(self.config, self.task, self.examples)
            update = untrained.update(micro_batches=1, activation_checkpointing=way.checkpointed)
            for step in (1, 2):  # only the second step begins with moments
                update([part], self.plan.predictions(part), step=step, lr=1e-6)
            weights_to_bytes(optimizer_tensors(update.optimizer, untrained.model))

        found = peak_memory(self.device, take_steps)
        release_freed_memory()
        return None if found is None else found + self._later

    def _largest(self) -> Iterator[tuple[IntArray, int]]:
        """Yield the batch with the most tokens and the one with the longest example."""
        batches, sizes = self.plan.epoch(0), self.plan.sizes()
        lengths = [size // len(rows) for size, rows in zip(sizes, batches)]
        for at in {sizes.index(max(sizes)), lengths.index(max(lengths))}:
            yield batches[at], sizes[at]

    def _counted(self, untrained: Untrained, rows: IntArray, tokens: int) -> _Batch:
        """Count the activations of one example and of two, which tells those of any number."""
        found = []
        for count in range(1, min(2, len(rows)) + 1):
            it = Activations.count(untrained.model, partial(untrained.loss, untrained.model, rows[-count:]))
            found.append((it.total + 2 * it.largest, it.checkpointed + 2 * it.largest))
        each = tuple(last - one or one for one, last in zip(found[0], found[-1]))
        fixed = tuple(one - one_more for one, one_more in zip(found[0], each))
        return _Batch(rows, tokens, (fixed[0], fixed[1]), (each[0], each[1]))
