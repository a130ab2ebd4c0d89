"""Choose the hyperparameters that the user left open.

The choices depend on the size of the data (in examples, then in tokens) and on the machine. Only the precision and, in
`thread_trial`, the number of threads depend on timings. bf16 is chosen only if it's clearly faster.
"""

import math
import os
import re
import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch

from ...config import PRESETS, SHAPE, Config, TrainConfig, preset
from ...config.presets import Origin, origin_of
from ...config.values import counted, invalid
from ...data.batches import Plan
from ...decode.engine import usable_cores
from ...tasks.base import Dataset
from ..schedule import paper_peak

DEFAULT_OPTIMIZER: Literal["muon"] = "muon"
_FEW = 5  # epochs; models don't overfit in fewer
_MUCH = 400_000  # tokens per epoch, for classification


@dataclass(frozen=True)
class Chosen:
    """A chosen setting and the reason, for the log and the model card."""

    name: str
    value: object
    why: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.why}"


def choose_machine(config: Config) -> tuple[Config, list[Chosen]]:
    """Choose device, threads and precision."""
    train, choices = config.train, []
    device = choose_device(train.device)
    if train.device == "auto":
        choices.append(Chosen("train.device", device, "the fastest on this machine"))
    threads = usual_threads(train)
    if train.threads is None:
        why = "set by OMP_NUM_THREADS" if threads_asked_for() else "every core available to this process"
        choices.append(Chosen("train.threads", threads, why))
    precision: str = train.precision
    if precision == "auto":
        precision, why = _precision(torch.device(device), threads)
        choices.append(Chosen("train.precision", precision, why))
    return config.assign({choice.name: choice.value for choice in choices}, "machine"), choices


def usual_threads(train: TrainConfig) -> int:
    """Return `train.threads`, or else the number of threads in OMP_NUM_THREADS or of all cores."""
    return train.threads or threads_asked_for() or usable_cores()


def threads_asked_for() -> int:
    """Return the number of threads in OMP_NUM_THREADS, or 0."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # values for nested levels follow the comma
    return int(asked) if asked.isdecimal() else 0


def choose_model(config: Config, n_pairs: int, what: str = "") -> tuple[Config, list[Chosen]]:
    """Choose preset and vocabulary size from the number of examples.

    Args:
        config: the settings so far.
        n_pairs: number of training examples, or how many pairs the text is worth.
        what: that number with its unit, for the log (default: "N pairs").
    """
    what = what or counted(n_pairs, "pairs")
    choices: list[Chosen] = []
    if config.train.preset is None and has_open_shape(config) and not config.train.budget:
        few = 200_000 if config.model.head == "class" else 20_000
        name = "nano" if n_pairs < few else "small" if n_pairs < 1_000_000 else "base"
        kept = [it for it in preset(name) if not config.accepts(it, "data")]
        config = with_preset(config, name, "data")
        but = f", except {', '.join(kept)}" if kept else ""
        choices.append(Chosen("train.preset", name, f"for {what}{but}"))
    elif config.train.preset is not None:  # a Config made without `override` contains only the preset's name
        config = with_preset(config, config.train.preset, "data")
    has_text = config.model.head != "class" or config.data.modality == "text"
    if has_text and config.data.vocab_size is None and config.data.tokenizer in ("bpe", "unigram"):
        if config.model.head == "class":
            size, why = 4000 if n_pairs < 10_000 else 8000, f"for {what}; labels depend on whole words"
        else:
            sizes = ((2_000, 1000), (20_000, 2000), (500_000, 4000), (5_000_000, 16_000))
            size, why = next((size for below, size in sizes if n_pairs < below), 32_000), f"for {what}"
        config = config.assign({"data.vocab_size": size}, "data")
        choices.append(Chosen("data.vocab_size", size, why))
    return config, choices


def has_open_shape(config: Config) -> bool:
    """Return whether any setting of the model's shape is still open."""
    return any(config.accepts(name, "budget") for name in SHAPE)


def with_preset(config: Config, name: str, origin: Origin) -> Config:
    """Return the configuration with a preset chosen by `origin`. Values from stronger origins are kept.

    Args:
        config: the settings so far.
        name: a key of `PRESETS`.
        origin: who chose the preset; its values have the origin of the preset itself.
    """
    return config.choose({"train.preset": name}, origin).choose(PRESETS[name], origin_of(name))


def choose_batch(config: Config, n_tokens: int, what: str) -> tuple[Config, list[Chosen]]:
    """Choose the batch size from the number of tokens per epoch.

    Args:
        config: the settings so far.
        n_tokens: number of tokens per epoch.
        what: the unit of these tokens, for the log.
    """
    if config.data.batch_tokens is not None:
        return config, []
    tokens, why = usual_batch(config, n_tokens), f"for {n_tokens:,} {what} per epoch"
    return config.assign({"data.batch_tokens": tokens}, "data"), [Chosen("data.batch_tokens", tokens, why)]


def batches_of(config: Config, examples: Dataset) -> Plan:
    """Return the batches of each epoch of a run with these settings."""
    tokens = usual_batch(config, examples.tokens)
    return examples.batches(tokens, config.train.seed, config.data.batch_sentences)


def translates(config: Config) -> bool:
    """Return whether a run learns to translate, which it also does if no task is named."""
    return config.train.task in (None, "translate")


def usual_batch(config: Config, n_tokens: int) -> int:
    """Return `data.batch_tokens`, or else the batch size for the number of tokens per epoch.

    Small data sets need more steps with smaller batches. So do language models, which predict every token and have no
    padding, and especially classifiers. In a short time on a CPU, translators learn more in more steps.
    """
    if config.data.batch_tokens is not None:
        return config.data.batch_tokens
    if config.model.head == "class" and config.data.modality != "text":
        tokens = 2048 if n_tokens < _MUCH else 4096
    elif config.model.head == "class":
        tokens = 512 if n_tokens < 100_000 else 1024 if n_tokens < _MUCH else 2048
    elif n_tokens < 100_000:
        tokens = 1024
    else:
        short = bool(config.train.budget) and config.train.device == "cpu" and translates(config)
        few = config.model.topology == "decoder-only" and n_tokens < 10_000_000
        tokens = 2048 if short or few else 4096
    return max(tokens, config.data.max_len + 1)


def choose_schedule(config: Config, batches_an_epoch: int) -> tuple[Config, list[Chosen]]:
    """Choose steps, optimiser, schedule, warmup, learning rate and the intervals of evaluations and checkpoints.

    Raises:
        ConfigError: the user's warmup is longer than the run. (A preset's warmup is shortened instead.)
    """
    train, choices = config.train, []

    def choose(name: str, value: int | float | str, why: str) -> Any:
        choices.append(Chosen(f"train.{name}", value, why))
        return value

    steps, warmup, an_epoch = train.steps, train.warmup, batches_an_epoch / train.accumulate
    if steps is None:
        few = config.model.head == "class" and config.data.modality == "text"  # texts overfit sooner than images
        default_epochs = 3 if few else 20 if config.model.d_model <= 128 else 12
        usual = min(max(default_epochs * an_epoch, 1000), 100_000)
        steps = max(round(train.epochs * an_epoch if train.epochs else usual), 1)
        batches = f"{batches_an_epoch:,} batch{'es' * (batches_an_epoch != 1)}"
        together = f", {train.accumulate} per step" if train.accumulate > 1 else ""
        choose("steps", steps, f"{counted(round(steps / an_epoch), 'epochs')} of {batches}{together}")
    optimizer = train.optimizer or choose("optimizer", *_optimizer(train))
    if not train.schedule:
        choose("schedule", "linear", f"falls to {train.lr_end or 'zero'} at the last step")
    fast = config.model.pre_norm and optimizer == "muon"
    open_warmup = config.accepts("train.warmup", "data")
    if fast and open_warmup:
        warmup = choose("warmup", *short_warmup(steps))
    elif warmup is None or open_warmup:
        usual = warmup if warmup is not None else PRESETS.get(train.preset or "", {}).get("train.warmup", 1000)
        warmup = choose("warmup", min(usual, steps // 3), _why_warmup(usual, steps))
    elif warmup > steps:
        what = f"is longer than the whole run, train.steps={steps}"
        fix = "leave train.warmup out to use at most a third of the steps"
        raise invalid("train.warmup", warmup, what, expected="fewer steps than train.steps", fix=fix)
    if not train.lr and fast:
        choose("lr", *fast_rate(config, batches_an_epoch * (config.data.batch_tokens or 0)))
    elif not train.lr:
        peak = paper_peak(config.model.d_model, max(warmup, 400))  # a shorter warmup doesn't allow a higher rate
        choose("lr", *_scaled_rate(peak, "the paper's peak for this width and warmup", train))
    eval_every = train.eval_every or choose("eval_every", max(steps // 20, 1), "twenty evaluations")
    if not train.save_every:
        choose("save_every", eval_every, "at every evaluation")
    fresh = config.model.topology == "decoder-only" and not train.begins_trained  # a trained model keeps its dropout
    if fresh and steps < _FEW * an_epoch and config.accepts("model.dropout", "data") and config.model.dropout:
        choices.append(Chosen("model.dropout", 0.0, f"fewer than {_FEW} epochs don't overfit"))
    return config.assign({choice.name: choice.value for choice in choices}, "data"), choices


def _optimizer(train: TrainConfig) -> tuple[str, str]:
    if train.adapter:
        return "adam", "suits the low-rank matrices of an adapter"
    if train.shard == "full":
        return "adam", "train.shard divides the matrices that muon needs whole"
    return DEFAULT_OPTIMIZER, "needs fewer tokens than adam"


def fast_rate(config: Config, n_tokens: int) -> tuple[float, str]:
    """Return the peak learning rate of Muon in a pre-norm model, and the reason.

    Other optimisers and post-norm models would diverge at this rate, which is higher than the paper's. Language models
    learn faster at twice the rate. Classifiers do better at a lower rate after a warm start, or on large data sets,
    which they see only a few times. `n_tokens` is the number of tokens per epoch.
    """
    width, factor = config.model.d_model, 0.16 if config.model.topology == "decoder-only" else 0.08
    if config.model.head == "class":
        factor = 0.03 if n_tokens >= _MUCH else 0.045 if config.train.warm_start else factor
    return _scaled_rate(factor * width**-0.5, f"for a width of {width}", config.train)


def short_warmup(steps: int) -> tuple[int, str]:
    """Return the warmup steps to use with `fast_rate`, and the reason."""
    return max(min(300, steps // 8), 1), "an eighth of the steps, at most 300"


def _scaled_rate(peak: float, why: str, train: TrainConfig) -> tuple[float, str]:
    """Return the learning rate `peak` for random weights, or a fifth of it with `train.init_from`, and the reason.

    Adapters aren't trained yet, so they learn at the whole rate.

    After a warm start the rate isn't reduced, since a fifth of it halved the F1 of question answering.
    """
    if train.init_from and not train.adapter:
        return round(peak / 5, 6), f"a fifth of the rate for random weights ({why})"
    return round(peak, 6), why


def _why_warmup(usual: int, steps: int) -> str:
    return "the preset's" if usual <= steps // 3 else f"a third of the steps, instead of the preset's {usual:,}"


def choose_device(asked: str) -> str:
    """Return the device that `asked` names, or the fastest for "auto". Raises ConfigError if it isn't available."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", asked):
        raise invalid("train.device", asked, "isn't a device", expected="auto, cpu, cuda or cuda:1")
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
        float(torch.zeros(1, device=device))  # fails if the device doesn't work
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise invalid("train.device", asked, f"isn't available here: {reason}", expected="auto, cpu or cuda") from error
    return str(device)


def _precision(device: torch.device, threads: int) -> tuple[str, str]:
    if not has_bf16(device):
        return "fp32", "this processor has no bf16 products"
    if device.type == "cpu" and not _gains_by_bf16(threads):
        return "fp32", "bf16 isn't faster on this processor"
    return "bf16", "faster on this processor"


def has_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for products in bf16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    features = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # private in torch, so they may disappear
    return device.type == "cpu" and any(getattr(torch.cpu, name, bool)() for name in features)


@cache  # cached so that all runs of a warm start get the same answer
def _gains_by_bf16(threads: int) -> bool:
    """Return whether bf16 products take less than 80% of the time of fp32 ones. Conversions use up a smaller gain.

    Measured: a sixth of the time with AMX; with AVX-512 alone, half on one processor and double on another.
    """
    seconds: dict[torch.dtype, float] = {torch.float32: math.inf, torch.bfloat16: math.inf}
    factors = {dtype: (torch.ones(1024, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)) for dtype in seconds}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)  # the speed-up depends on the number of threads
    for _ in range(8):  # alternate and take the minimum, since other programs may interfere
        for dtype, (x, weight) in factors.items():
            started = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            seconds[dtype] = min(seconds[dtype], time.perf_counter() - started)
    torch.set_num_threads(before)
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]
