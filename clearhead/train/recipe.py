"""What a user did not choose, chosen: from the size of the data before the tokenizer is trained, from its tokens after,
and from the machine. Never from a clock: the same data and processor give the same run.
"""

import os
from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from ..config import PRESETS, Config, preset
from ..errors import ConfigError

_SHAPE = [name for name in PRESETS["base"] if name.startswith("model.")]


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
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        choices.append(Choice("train.threads", threads, "every core that this process may use"))
    precision: str = train.precision
    if precision == "auto":
        precision, why = _precision(torch.device(device))
        choices.append(Choice("train.precision", precision, why))
    values = {"train.device": device, "train.threads": threads, "train.precision": precision}
    return config.override(values), choices


def choose_model(config: Config, n_pairs: int, given: Collection[str]) -> tuple[Config, list[Choice]]:
    """Preset and vocabulary, by the number of pairs; whatever is in `given` stays as it is."""
    choices: list[Choice] = []
    if config.train.preset is None and not any(name in given for name in _SHAPE):
        name = "nano" if n_pairs < 20_000 else "small" if n_pairs < 1_000_000 else "base"
        config = config.override({key: value for key, value in preset(name).items() if key not in given})
        choices.append(Choice("train.preset", name, f"for {n_pairs:,} pairs"))
    if config.data.vocab_size is None and config.data.tokenizer in ("bpe", "unigram"):
        sizes = ((2_000, 1000), (20_000, 2000), (500_000, 4000), (5_000_000, 16_000))
        size = next((size for below, size in sizes if n_pairs < below), 32_000)
        config = config.override({"data.vocab_size": size})
        choices.append(Choice("data.vocab_size", size, f"for {n_pairs:,} pairs"))
    return config, choices


def choose_batch(config: Config, target_tokens: int) -> tuple[Config, list[Choice]]:
    """Tokens a batch, by the tokens of an epoch: little data learns from more and smaller steps."""
    if config.data.batch_tokens is not None:
        return config, []
    tokens = max(1024 if target_tokens < 100_000 else 4096, config.data.max_len + 1)
    why = f"for {target_tokens:,} target tokens an epoch"
    return config.override({"data.batch_tokens": tokens}), [Choice("data.batch_tokens", tokens, why)]


def choose_schedule(config: Config, batches_an_epoch: int) -> tuple[Config, list[Choice]]:
    """Steps, warm-up, learning rate, and how often to evaluate and save."""
    train, choices = config.train, []

    def choose(name: str, value: object, why: str) -> None:
        choices.append(Choice(f"train.{name}", value, why))

    steps = train.steps
    if steps is None:
        epochs = 30 if config.model.d_model <= 128 else 20
        steps = min(max(epochs * batches_an_epoch, 1000), 100_000)
        choose("steps", steps, f"{steps / batches_an_epoch:.0f} epochs of {batches_an_epoch:,} batches")
    schedule = train.schedule
    if schedule is None:
        schedule = "linear"
        choose("schedule", schedule, "falls to zero at the last step, which suits a fixed number of steps")
    warmup = train.warmup
    if warmup is None or (warmup > steps // 3 and train.preset is not None):
        usual = PRESETS.get(train.preset or "", {}).get("train.warmup", 1000)
        warmup = min(usual, steps // 3)
        choose("warmup", warmup, "steps, a third of training at most")
    lr = train.lr
    if lr is None:
        lr = round((config.model.d_model * max(warmup, 400)) ** -0.5, 6)
        choose("lr", lr, "the peak of the paper's schedule for this width and warm-up")
    eval_every = train.eval_every or max(steps // 20, 1)
    if train.eval_every is None:
        choose("eval_every", eval_every, "some twenty evaluations a run")
    save_every = train.save_every or eval_every
    if train.save_every is None:
        choose("save_every", save_every, "at every evaluation")
    chosen = replace(
        train, steps=steps, schedule=schedule, warmup=warmup, lr=lr, eval_every=eval_every, save_every=save_every
    )
    return replace(config, train=chosen), choices


def choose_device(asked: str) -> str:
    """The device that `asked` names, "auto" being the fastest; a ConfigError where it cannot be used."""
    if asked == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(asked)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"train.device = {asked!r} cannot be used here: {reason}; expected auto, cpu or cuda"
        ) from error
    return str(device)


def _precision(device: torch.device) -> tuple[str, str]:
    if device.type == "cuda":
        fits = torch.cuda.is_bf16_supported()
    elif device.type == "cpu":
        fits = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    else:
        fits = False
    return ("bf16", "this processor multiplies in it") if fits else ("fp32", "this processor does not multiply in bf16")
