"""What a user did not choose, chosen: from the size of the data before the tokenizer is trained, from its tokens after,
and from the machine. No clock decides but where one way takes a fraction of the other's time: the same data and
processor give the same run.
"""

import math
import os
import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch

from ...config import PRESETS, SHAPE, Config, TrainConfig, preset
from ...config.provenance import Origin
from ...errors import ConfigError
from ..schedule import paper_peak

DEFAULT_OPTIMIZER: Literal["muon"] = "muon"
_FEW = 5  # epochs: what is seen less often is not learnt by heart
_MUCH = 400_000  # tokens an epoch, of texts with labels


@dataclass(frozen=True)
class Choice:
    """One choice and its reason, for the user and the model card."""

    name: str
    value: object
    why: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value}: {self.why}"


def choose_machine(config: Config) -> tuple[Config, list[Choice]]:
    """Device, threads and precision."""
    train, choices = config.train, []
    device = choose_device(train.device)
    if train.device == "auto":
        choices.append(Choice("train.device", device, "the fastest that this machine has"))
    threads = train.threads
    if threads is None:
        threads, why = _threads()
        choices.append(Choice("train.threads", threads, why))
    precision: str = train.precision
    if precision == "auto":
        precision, why = _precision(torch.device(device), threads)
        choices.append(Choice("train.precision", precision, why))
    return config.assign({choice.name: choice.value for choice in choices}, "machine"), choices


def _threads() -> tuple[int, str]:
    """As many as schedulers and people ask for in the way that is usual, otherwise one a core; and why."""
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]  # behind a comma are those of threads of threads
    if asked.isdecimal() and int(asked):
        return int(asked), "OMP_NUM_THREADS says so"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores, "every core that this process may use"


def choose_model(config: Config, n_pairs: int, what: str = "") -> tuple[Config, list[Choice]]:
    """Choose preset and vocabulary by the number of pairs, which `what` states in words."""
    what = what or f"{n_pairs:,} pairs"
    choices: list[Choice] = []
    if config.train.preset is None and has_open_shape(config) and not config.train.budget:
        few = 200_000 if config.model.head == "class" else 20_000
        name = "nano" if n_pairs < few else "small" if n_pairs < 1_000_000 else "base"
        kept = [it for it in preset(name) if not config.accepts(it, "data")]
        config = with_preset(config, name, "data")
        but = f", but for {', '.join(kept)}" if kept else ""
        choices.append(Choice("train.preset", name, f"for {what}{but}"))
    elif config.train.preset is not None:  # a Config made without `override` has only its name
        config = with_preset(config, config.train.preset, "data")
    if config.data.vocab_size is None and config.data.tokenizer in ("bpe", "unigram"):
        if config.model.head == "class":
            size, why = 4000 if n_pairs < 10_000 else 8000, f"for {what} with labels, which hang on whole words"
        else:
            sizes = ((2_000, 1000), (20_000, 2000), (500_000, 4000), (5_000_000, 16_000))
            size, why = next((size for below, size in sizes if n_pairs < below), 32_000), f"for {what}"
        config = config.assign({"data.vocab_size": size}, "data")
        choices.append(Choice("data.vocab_size", size, why))
    return config, choices


def has_open_shape(config: Config) -> bool:
    """Return whether a part of the model's shape is still to be chosen."""
    return any(config.accepts(name, "budget") for name in SHAPE)


def with_preset(config: Config, name: str, origin: Origin) -> Config:
    """Return the configuration with a preset that `origin` chose, except where something stronger set a value."""
    return config.choose({"train.preset": name}, origin).choose(PRESETS[name], "preset")


def choose_batch(config: Config, n_tokens: int, what: str) -> tuple[Config, list[Choice]]:
    """Tokens a batch, by the tokens of an epoch, `what` they are: little data learns from more and smaller steps.

    A language model predicts each of its tokens, none of which is padding, and learns from smaller ones as much. A text
    with a label says little: smaller still.
    """
    if config.data.batch_tokens is not None:
        return config, []
    usual = 2048 if config.model.topology == "decoder-only" and n_tokens < 10_000_000 else 4096
    usual = 1024 if n_tokens < 100_000 else usual
    if config.model.head == "class":
        usual = 512 if n_tokens < 100_000 else 1024 if n_tokens < _MUCH else 2048
    tokens = max(usual, config.data.max_len + 1)
    why = f"for {n_tokens:,} {what} an epoch"
    return config.assign({"data.batch_tokens": tokens}, "data"), [Choice("data.batch_tokens", tokens, why)]


def choose_schedule(config: Config, batches_an_epoch: int) -> tuple[Config, list[Choice]]:
    """Steps, optimiser, warm-up, learning rate, and how often to evaluate and save.

    A given warm-up that is longer than training is a ConfigError; a preset's is shortened.
    """
    train, choices = config.train, []

    def choose(name: str, value: int | float | str, why: str) -> Any:
        choices.append(Choice(f"train.{name}", value, why))
        return value

    steps, warmup, an_epoch = train.steps, train.warmup, batches_an_epoch / train.accumulate
    if steps is None:
        usual = 3 if config.model.head == "class" else 20 if config.model.d_model <= 128 else 12
        steps = round(train.epochs * an_epoch) if train.epochs else round(min(max(usual * an_epoch, 1000), 100_000))
        steps = max(steps, 1)
        choose("steps", steps, f"{steps / an_epoch:,.0f} epochs of {batches_an_epoch:,} batches{_together(train)}")
    optimizer = train.optimizer or choose("optimizer", DEFAULT_OPTIMIZER, "learns more from as many tokens than adam")
    if not train.schedule:
        why = f"falls to {train.lr_end or 'zero'} at the last step, which suits a fixed number of steps"
        choose("schedule", "linear", why)
    fast = config.model.pre_norm and optimizer == "muon"
    open_warmup = config.accepts("train.warmup", "data")
    if fast and open_warmup:
        warmup = choose("warmup", *short_warmup(steps))
    elif warmup is None or open_warmup:
        usual = warmup if warmup is not None else PRESETS.get(train.preset or "", {}).get("train.warmup", 1000)
        warmup = choose("warmup", min(usual, steps // 3), _why_warmup(usual, steps))
    elif warmup > steps:
        raise ConfigError(
            f"train.warmup={warmup} is longer than the whole run, train.steps={steps}",
            expected="fewer steps than train.steps",
            fix="leave train.warmup out, and at most a third of the run is chosen",
            name="train.warmup",
            value=warmup,
        )
    peak = paper_peak(config.model.d_model, max(warmup, 400))  # a shorter warm-up allows no higher rate
    n_tokens = batches_an_epoch * (config.data.batch_tokens or 0)
    rate = fast_rate(config, n_tokens) if fast else usual_rate(peak, "the paper's peak for width and warm-up", train)
    if not train.lr:
        choose("lr", *rate)
    eval_every = train.eval_every or choose("eval_every", max(steps // 20, 1), "some twenty evaluations a run")
    if not train.save_every:
        choose("save_every", eval_every, "at every evaluation")
    reads_on = config.model.topology == "decoder-only" and not train.begins_trained  # a trained model keeps its own
    if reads_on and steps < _FEW * an_epoch and config.accepts("model.dropout", "data") and config.model.dropout:
        choices.append(Choice("model.dropout", 0.0, f"for fewer than {_FEW} epochs"))
    return config.assign({choice.name: choice.value for choice in choices}, "data"), choices


def fast_rate(config: Config, n_tokens: int) -> tuple[float, str]:
    """The peak learning rate of Muon where each sub-layer is normalised before it, and the reason: higher than that of
    the paper, which others would not survive. Language models bear twice as much, and learn faster with it; labels of
    much text, which is read a few times, are learnt better with less, and so are those after a warm start. `n_tokens`
    are those of an epoch."""
    width, factor = config.model.d_model, 0.16 if config.model.topology == "decoder-only" else 0.08
    if config.model.head == "class":
        factor = 0.03 if n_tokens >= _MUCH else 0.045 if config.train.warm_start else factor
    return usual_rate(factor * width**-0.5, f"for a width of {width}", config.train)


def short_warmup(steps: int) -> tuple[int, str]:
    """Steps of warm-up that lead to it, and the reason."""
    return max(min(300, steps // 8), 1), "an eighth of the steps, 300 at most"


def usual_rate(peak: float, why: str, train: TrainConfig) -> tuple[float, str]:
    """A learning rate that suits random weights, or a fifth of it for those of `train.init_from`, and the reason.

    What a warm start has learnt is worth less than the task: of answers, a fifth of the rate lost half the F1.
    """
    if train.init_from:
        return round(peak / 5, 6), f"a fifth of what suits random weights ({why})"
    return round(peak, 6), why


def _together(train: TrainConfig) -> str:
    return f", {train.accumulate} a step" if train.accumulate > 1 else ""


def _why_warmup(usual: int, steps: int) -> str:
    return "usual for this preset" if usual <= steps // 3 else f"a third of the steps, where {usual:,} is usual"


def choose_device(asked: str) -> str:
    """The device that `asked` names, "auto" being the fastest; a ConfigError where it cannot be used."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
        float(torch.zeros(1, device=device))  # there and back
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"train.device={asked!r} isn't available here: {reason}",
            expected="auto, cpu or cuda",
            name="train.device",
            value=asked,
        ) from error
    return str(device)


def _precision(device: torch.device, threads: int) -> tuple[str, str]:
    if device.type == "cuda":
        fits = torch.cuda.is_bf16_supported(including_emulation=False)
    elif device.type == "cpu":
        features = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")  # not public: they may be gone one day
        fits = any(getattr(torch.cpu, name, bool)() for name in features)
        if fits and not _gains_by_bf16(threads):
            return "fp32", "this processor multiplies in bf16, but not faster"
    else:
        fits = False
    return ("bf16", "this processor multiplies in it") if fits else ("fp32", "this processor does not multiply in bf16")


@cache  # of all runs of a warm start: another answer for one of them would be another model
def _gains_by_bf16(threads: int) -> bool:
    """Whether a product in bfloat16 takes less than four fifths of what it takes in float32: changing to and fro costs
    the rest. With AMX it is a sixth, with AVX-512 alone a half of the time on one processor and twice on another.
    """
    seconds: dict[torch.dtype, float] = {torch.float32: math.inf, torch.bfloat16: math.inf}
    factors = {dtype: (torch.ones(1024, 512, dtype=dtype), torch.ones(512, 512, dtype=dtype)) for dtype in seconds}
    before = torch.get_num_threads()
    torch.set_num_threads(threads)  # of many, each has too little to do to show what it gains
    for _ in range(8):  # in turns, and the least of each: other programs may take the processor for a while
        for dtype, (x, weight) in factors.items():
            begun = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            seconds[dtype] = min(seconds[dtype], time.perf_counter() - begun)
    torch.set_num_threads(before)
    return seconds[torch.bfloat16] < 0.8 * seconds[torch.float32]
