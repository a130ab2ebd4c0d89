"""Memory of training: forecast it, and keep to a limit by dividing batches and checkpointing activations.

The choice is made and recorded before the first step. An estimate picks the settings, and a trial step with the largest
batch checks them. Neither changes what a step learns: its gradient is still that of the whole batch.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from ...config import Config, ModelConfig, Recipe
from ...config.values import counted, read_size
from ...errors import ConfigError
from ...folder.model_folder import weights_to_bytes
from ...tasks.base import Dataset, Task, Units
from ...tasks.denoise import TOKENS_TO_FIND
from ...tokenization.ragged import IntArray
from ..activations import Activations
from ..memory import memory_in_use, peak_memory, release_freed_memory
from ..optimizers import optimizer_tensors
from ..update import divided
from .hyperparameters import Chosen, batches_of
from .thread_trial import Untrained

_LIBRARIES = 4.5e8  # bytes of a process on a system that doesn't report them
_LATER = 1.5e8  # bytes for libraries that scores and pictures need
_AIM = 0.93  # share of the limit to plan for, since batches of many shapes leave gaps between them
_SLACK = 1.1  # of activations, for the kernels' own memory
_SMALL = 512  # tokens; dividing a batch further costs more time than activation checkpointing
_STATE = 16  # bytes of a weight, with its gradient and Adam's moments
_SAVING = 28  # bytes of a weight while a checkpoint is written: no gradient, but two copies of the moments
_PROCESS = 4.3e8  # bytes that every process needs for its libraries
# Bytes for each token of a batch: in each layer, per unit of d_model and of d_ff; and per logit. Measured on short
# sentences. Attention takes more on long ones.
_BYTES = {"bf16": (48, 3, 3), "fp32": (68, 7, 10)}
_ROWS = 1024  # of logits at once, in evaluations; the loss needs fewer


@dataclass(frozen=True)
class Division:
    """A way to save memory: divide each batch into a number of parts, and checkpoint activations or not."""

    micro_batches: int
    checkpointed: bool


@dataclass(frozen=True)
class _Batch:
    """A batch that takes much memory. Bytes are those of all activations, and of those with checkpointing."""

    rows: IntArray
    tokens: int  # per side, with padding
    fixed: tuple[int, int]  # bytes that don't depend on the number of examples
    each: tuple[int, int]  # bytes of an example

    def activations(self, parts: int, *, checkpointed: bool) -> float:
        """Return the bytes of the activations of one part, if a batch has this number of parts."""
        return self.fixed[checkpointed] + self.each[checkpointed] * math.ceil(len(self.rows) / parts)


def fit(config: Config, task: Task, examples: Dataset, processes: int = 1) -> tuple[Config, list[Chosen]]:
    """Choose train.micro_batches and train.activation_checkpointing for `train.memory`. Values of the user are kept.

    Args:
        config: the settings so far, with the model's shape.
        task: computes the loss of the trial steps.
        examples: the training data.
        processes: number of processes that share each batch.

    Raises:
        ConfigError: no choice fits the limit. The message gives the smallest limit that works, or an estimate of it
            if no trial step has checked that.
    """
    trial, most, excess = MemoryTrial(config, task, examples, processes), _AIM * read_size(config.train.memory), 1.0
    for way in trial.ways():
        if excess * trial.peak(way) > most:
            continue
        measured = trial.measure(way)
        if measured is None or measured <= most:
            return _chosen(config, trial, way, measured)
        excess = measured / trial.peak(way)  # larger than before, since the step needs more than `most`
    raise _too_little(config, excess * min(map(trial.peak, trial.ways())) / _AIM, checked=excess > 1)


def _chosen(config: Config, trial: "MemoryTrial", way: Division, measured: float | None) -> tuple[Config, list[Chosen]]:
    size, how = (trial.peak(way), "estimated") if measured is None else (measured, "measured")
    activations = trial.activations(way) / 1e9
    why = (
        f"training takes {size / 1e9:.2f} GB ({how}) of {config.train.memory}: {trial.state / 1e9:.2f} GB for weights "
        f"and optimiser, {activations:.2f} GB for activations"
    )
    found = [
        Chosen("train.micro_batches", way.micro_batches, why),
        Chosen(
            "train.activation_checkpointing", way.checkpointed, "saves memory" if way.checkpointed else "not needed"
        ),
    ]
    found = [it for it in found if config.accepts(it.name, "machine")]
    return config.assign({it.name: it.value for it in found}, "machine"), found


def _too_little(config: Config, least: float, *, checked: bool) -> ConfigError:
    enough = f"{math.ceil(least / 1e8) / 10:g}GB"
    unchecked, more = "", ""
    if not checked:
        unchecked, more = " by an estimate that no training step has checked", " or a little more"
    return ConfigError(
        f"train.memory={config.train.memory} isn't enough to train this model on this data",
        expected=f"at least {enough}{unchecked}",
        fix=f"set `train.memory={enough}`{more}, or lower train.preset, data.max_len or data.vocab_size",
        name="train.memory",
        value=config.train.memory,
    )


class MemoryTrial:
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
        """Return the peak memory of two steps and a checkpoint in bytes; None if the system doesn't report it."""
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


# --- a rough estimate for every run, on which nothing depends ---------------------------------------------------------


def forecast(config: Recipe, model: nn.Module, examples: Dataset, units: Units, *, done: int = 0) -> str:
    """Return one line with the parameters, examples, steps and memory of a run after `done` steps.

    Args:
        config: the settings of the run.
        model: the model, for its number of parameters.
        examples: the training data.
        units: the nouns for them.
        done: number of steps that a resumed run starts from.
    """
    n_parameters = sum(p.numel() for p in model.parameters())
    steps = config.train.steps
    batches = examples.batches(config.data.batch_tokens, max_rows=config.data.batch_sentences)
    memory = _memory(config, n_parameters, math.ceil(max(batches.sizes()) / config.train.micro_batches))
    left = f", {steps - done:,} left" if done else ""
    length = counted(steps, "steps") + left
    epoch = f"{counted(len(examples), units.examples)}, {examples.tokens:,} {units.tokens} per epoch"
    return f"{n_parameters:,} parameters; {epoch}; {length}; about {memory / 1e9:.1f} GB of memory"


def _memory(config: Recipe, n_parameters: int, tokens: int) -> float:
    """Estimate the bytes that training takes with batches of `tokens` tokens. Gradient accumulation doesn't add any.

    With activation checkpointing, a block keeps its input alone, in float32.
    """
    model = config.model
    n_layers = model.n_encoder_layers * (model.topology != "decoder-only")
    n_layers += model.n_decoder_layers * (model.topology != "encoder-only")
    per_width, per_d_ff, per_logit = _BYTES["bf16" if config.train.precision == "bf16" else "fp32"]
    in_block = per_width * model.d_model + per_d_ff * model.d_ff
    per_token = n_layers * in_block
    if config.train.activation_checkpointing:
        per_token = in_block + n_layers * 4 * model.d_model
    per_weight = _STATE + 4 * bool(config.train.ema)
    return _PROCESS + per_weight * n_parameters + tokens * per_token + per_logit * _logits(model, tokens)


def _logits(model: ModelConfig, tokens: int) -> float:
    """Return the number of logits that exist at once, with batches of `tokens` tokens."""
    if model.topology != "encoder-only":
        return model.tgt_vocab_size * (tokens if model.copy else min(tokens, _ROWS))
    return TOKENS_TO_FIND * model.src_vocab_size * tokens if model.head == "token" else 0
