"""Measure how many target tokens per second models of different sizes train with, by precision, threads and processes.

The sentences are random and have 4 to 40 tokens; padding doesn't count. A step is that of a translation model with the
default settings, in batches of 4,096 tokens.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...config import Config, ModelConfig, SpecialTokens, TrainConfig, preset
from ...config.messages import say
from ...model.transformer import build
from ...tasks.examples import Examples
from ...tasks.translate import Translation
from ...tokenization.ragged import Ragged
from ...tokenization.source_and_target import Tokenizers
from ...tokenization.tokenizer import Tokenizer
from ...training.choices.hyperparameters import has_bf16, usual_threads
from ...training.choices.thread_trial import OtherPrograms, Steps
from ...training.distributed.processes import ALONE, EndedElsewhereError, Processes, call, joined
from ...training.memory import keep_freed_memory
from .machine import Machine

PRESETS = ("nano", "small", "base")
_VOCABULARY = 8000
_BATCH = 4096  # tokens per side
_LENGTHS = (4, 40)  # of the sentences, in tokens
_SENTENCES = 2000
_SECONDS = 4.0  # for each preset and precision, at least one turn
_LIMIT = 120.0  # seconds; what would end later isn't measured
_ROUNDS = 2  # of all arrangements, for each preset and precision at least; the first one allocates memory
_GAIN = 1.05  # several processes are recommended if they are faster by this factor

_Row = tuple[str, str, list[float]]  # preset, precision, and target tokens per second with each arrangement


@dataclass(frozen=True)
class Arrangement:
    """A number of processes, each with a number of threads."""

    processes: int
    threads: int


@dataclass(frozen=True)
class TrainingRate:
    """The speed of training.

    Attributes:
        preset, precision, arrangement: what was measured.
        tokens: target tokens per second.
        share: the operations of the matrix products, as a share of what the machine can do with as many threads.
    """

    preset: str
    precision: str
    arrangement: Arrangement
    tokens: float
    share: float


@dataclass(frozen=True)
class TrainingSpeed:
    """The speed of training on this machine.

    Attributes:
        others: number of cores that other programs used.
        machines: the limits, with one thread and with all.
        rates: the rates of each preset in each precision, with all arrangements.
    """

    device: str
    others: float
    machines: list[Machine]
    rates: list[list[TrainingRate]]

    @property
    def fastest(self) -> list[TrainingRate]:
        """The fastest rate of each preset. One process is simpler, so two must be clearly faster."""
        presets = {
            rate.preset: [it for row in self.rates for it in row if it.preset == rate.preset]
            for [rate, *_] in self.rates
        }
        return [max(found, key=lambda it: it.tokens / _handicap(it)) for found in presets.values()]


def _handicap(rate: TrainingRate) -> float:
    return _GAIN if rate.arrangement.processes > 1 else 1.0


def measure(names: Sequence[str], machine: TrainConfig) -> TrainingSpeed:
    """Measure the limits of the machine, and the rates of these presets.

    Args:
        names: the presets, the largest last.
        machine: the device to use, all threads to use, and the preferred precision.

    Raises:
        ConfigError: a preset is unknown, or isn't a model that translates.
    """
    precisions = [machine.precision]
    if has_bf16(torch.device(machine.device)):
        precisions.append("fp32" if machine.precision == "bf16" else "bf16")
    configs = [(name, _settings(name, it, machine.device)) for name in names for it in precisions]
    counts = _arrangements(usual_threads(machine), machine.device)
    others = OtherPrograms()
    machines = _limits(counts, machine.device)
    busy = others.cores()
    rows = _measure(configs, counts)
    machines = [it.raised_to(later) for it, later in zip(machines, _limits(counts, machine.device))]
    limits = {it.threads: it.products for it in machines}
    operations = {name: operations_per_token(config.model) for name, config in configs}

    def rate(name: str, precision: str, it: Arrangement, tokens: float) -> TrainingRate:
        share = tokens * operations[name] / limits[it.processes * it.threads][precision]
        return TrainingRate(name, precision, it, tokens, share)

    rates = [[rate(name, kind, *it) for it in zip(counts, found)] for name, kind, found in rows]
    return TrainingSpeed(machine.device, busy, machines, rates)


def _limits(counts: Sequence[Arrangement], device: str) -> list[Machine]:
    """Return the limits with each number of threads that an arrangement has in all."""
    return [Machine.measure(threads=it, device=device) for it in sorted({it.threads * it.processes for it in counts})]


def _arrangements(threads: int, device: str) -> list[Arrangement]:
    """Return the arrangements to compare: one thread, all threads, and two processes that share them."""
    if device != "cpu" or threads == 1:
        return [Arrangement(1, threads)]
    return [Arrangement(1, 1), Arrangement(1, threads), Arrangement(2, threads // 2)]


def _settings(name: str, precision: str, device: str) -> Config:
    values = preset(name) | {"train.precision": precision, "data.batch_tokens": _BATCH}
    config = Translation.settle(Config().override(values))
    sizes = {"model.src_vocab_size": _VOCABULARY, "model.tgt_vocab_size": _VOCABULARY}
    return config.assign(sizes | {"train.device": device}, "machine")


def _measure(configs: Sequence[tuple[str, Config]], counts: Sequence[Arrangement]) -> list[_Row]:
    """Return the rates. If several processes can't be started, measure only one."""
    processes = max(it.processes for it in counts)
    if processes == 1:
        return _rates(configs, counts)
    try:
        return call(_in_process, processes, configs, counts)
    except EndedElsewhereError as error:
        if error.exit_code >= 128:  # a signal
            raise
        say(f"{processes} processes can't work together here, so only one is measured")
        return _rates(configs, [it for it in counts if it.processes == 1])


def operations_per_token(config: ModelConfig) -> int:
    """Return the floating-point operations of the matrix products for a target token and its source token.

    Forward, each weight is multiplied and added once; backward takes twice as many. The weights are those of the blocks
    and of the projection. The products in attention are left out: with short sentences, they are few.
    """
    with torch.device("meta"):  # has shapes only
        model = build(config)
    weights = sum(it.numel() for name, it in model.named_parameters() if ".blocks." in name and it.dim() > 1)
    return 6 * (weights + config.tgt_vocab_size * config.d_model)


def _in_process(configs: Sequence[tuple[str, Config]], counts: Sequence[Arrangement]) -> list[_Row]:
    with joined() as processes:
        return _rates(configs, counts, processes)


def _rates(
    configs: Sequence[tuple[str, Config]], counts: Sequence[Arrangement], processes: Processes = ALONE
) -> list[_Row]:
    keep_freed_memory()
    tell = say if processes.leads else lambda _: None
    end, each, rows = time.monotonic() + _LIMIT, 0.0, list[_Row]()
    for name, config in configs:
        precision, operations = config.train.precision, operations_per_token(config.model)
        is_late = bool(rows) and time.monotonic() + each * operations > end
        if any(processes.gather(is_late)):
            alone = "" if all(other == name for other, _ in configs) else f": try --preset {name} alone"
            tell(f"{name} in {precision} isn't measured, since this would take too long{alone}")
            continue
        tell(f"measuring {name} in {precision}")
        found = _times(config, counts, processes)
        rows.append((name, precision, found))
        if processes.leads:  # it takes part in all arrangements
            each = _ROUNDS * _BATCH * sum(1 / it for it in found) / operations
    return rows


def _times(config: Config, counts: Sequence[Arrangement], processes: Processes) -> list[float]:
    """Return target tokens per second with each arrangement.

    The arrangements take turns with the same batches. While one process trains, the others wait.
    """
    alone = _steps(config, ALONE) if processes.leads else None
    shared = _steps(config, processes) if processes.count > 1 else None

    def rate(it: Arrangement, tokens: int) -> float:
        steps = shared if it.processes > 1 else alone
        processes.gather(None)
        return tokens / steps.seconds(it.threads) if steps else 0.0

    for it in counts[-2:]:
        rate(it, 0)  # allocates memory
    rates, end = list[list[float]](), time.monotonic() + _SECONDS
    while not rates or not any(processes.gather(time.monotonic() > end)):
        tokens = max(it.next() for it in (alone, shared) if it)
        rates.append([rate(it, tokens) for it in counts])
    return [statistics.median(it) for it in zip(*rates)]


def steps_of(name: str, precision: str) -> Steps:
    """Return the steps of a preset that are measured."""
    return _steps(_settings(name, precision, "cpu"), ALONE)


def _steps(config: Config, processes: Processes) -> Steps:
    """Return steps with random sentences to copy."""
    rng, special = np.random.default_rng(0), SpecialTokens()
    lengths = np.clip(rng.gamma(3.0, 3.4, _SENTENCES).astype(int) + 4, *_LENGTHS)
    words = [rng.integers(max(special.ids) + 1, _VOCABULARY, n).tolist() for n in lengths]
    sources = [[*it, special.eos] for it in words]
    examples = Examples(Ragged(sources), Ragged([[special.bos, *it] for it in sources]))
    task = Translation(Tokenizers(Tokenizer.without_text(), Tokenizer.without_text()), config)
    return Steps(config, task, examples, processes)
