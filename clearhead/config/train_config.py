"""Settings of training."""

import os
from dataclasses import dataclass
from typing import Literal

from .notations import read_adapter
from .presets import check_task, preset
from .values import (
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    check_types,
    none_is_empty,
    read_duration,
    read_size,
    require,
    setting,
)

NEWEST = "newest"  # a value of train.best: keep the newest weights, whatever their score
_COUNTS = ("steps", "warm_steps", "soup", "eval_every", "eval_sentences", "save_every", "log_every", "threads",
           "accumulate", "micro_batches")  # fmt: skip
_MOST_THREADS = 1024  # torch crashes with many more; more threads than cores only help to reproduce a run bit for bit


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Training hyperparameters and run options (section 5 of the paper)."""

    task: str | None = setting(
        None,
        "task to learn: translate, generate, classify, answer, summarize or package.module:Task "
        "(default: detected from the data)",
    )
    preset: str | None = setting(
        None, "model size or published model, such as small or gpt2 (default: depends on the amount of data)"
    )
    budget: str = setting(
        "", "time limit for the whole run, such as 15m or 1h30m; sets the preset and the number of steps"
    )
    memory: str = setting(
        "", "memory limit of each process, such as 4GB; sets train.micro_batches and train.activation_checkpointing"
    )
    init_from: str = setting("", "model folder whose weights, shape and tokenizer to start from")
    adapter: tuple[str, ...] = setting(
        (),
        "lora: keep the weights of train.init_from, and learn low-rank updates of some matrices, saved as a small "
        "folder (Hu et al. 2021); with rank=N, alpha=X or layers such as feed_forward",
    )
    freeze: tuple[str, ...] = setting(
        (), "parts that aren't trained: embeddings, or modules such as encoder or decoder.blocks.0"
    )
    warm_start: Literal["", "denoise"] = setting(
        "",
        "denoise: before the task, learn to restore masked spans of the texts (for generate: to predict data.texts), "
        "and report the gain",
    )
    warm_steps: int | None = setting(
        None, "number of warm-start steps (default: same as train.steps; three times as many for classify)"
    )
    hidden_span: float | None = setting(
        None, "mean length of the masked spans in tokens; 1 masks single tokens (default: 3; 1 for classify and fill)"
    )
    soup: int | None = setting(
        None,
        "model soup (Wortsman et al. 2022): number of runs after the warm start to average, each with its own dropout "
        "and data order (default: 1; 4 for classify without a budget)",
    )
    steps: int | None = setting(None, "number of optimiser steps (default: depends on the amount of data)")
    epochs: float | None = setting(None, "number of passes over the training data, as an alternative to train.steps")
    seed: int = setting(0, "random seed for initial weights, data order and dropout")
    optimizer: Literal["adam", "adamw", "muon"] | None = setting(
        None, "optimiser: adam (section 5.3), adamw, or muon, which needs fewer training tokens (default: muon)"
    )
    loss_on: Literal["answer", "all"] | None = setting(
        None,
        "tokens of prompts with answers to train a language model on: answer or all (default: answer; running text has "
        "no prompts)",
    )
    lr: float | None = setting(
        None, "peak learning rate (default: depends on model width and warmup; a fifth of that with train.init_from)"
    )
    adam: tuple[float, ...] = setting((0.9, 0.98, 1e-9), "Adam's beta1, beta2 and epsilon (section 5.3)")
    weight_decay: float = setting(0.0, "decoupled weight decay for adamw and muon; muon applies it only in the blocks")
    schedule: Literal["paper", "cosine", "linear", "constant"] | None = setting(
        None, "learning-rate schedule after the warmup (default: linear)"
    )
    lr_end: float = setting(0.0, "final learning rate of the cosine and linear schedules")
    warmup: int | None = setting(
        None, "number of learning-rate warmup steps (default: depends on the preset and steps)"
    )
    accumulate: int = setting(1, "gradient accumulation: number of batches per step")
    micro_batches: int = setting(
        1, "number of parts that each batch is divided into, to save memory; their gradients are added up"
    )
    activation_checkpointing: bool = setting(
        False, "store only the input of each block and recompute the rest, which saves memory and takes more time"
    )
    compile: bool = setting(
        False, "compile the blocks with torch.compile before the first step; needs a C++ compiler, or a GPU"
    )
    label_smoothing: float = setting(0.1, "amount of label smoothing (section 5.4)")
    balance: bool = setting(
        False, "weight classes by inverse frequency, so that rare labels count as much as common ones"
    )
    r_drop: float = setting(
        0.0, "weight of the R-Drop loss (Liang et al. 2021) between two passes with different dropout; 0 disables it"
    )
    clip: float = setting(1.0, "maximum gradient norm; 0 disables clipping")
    precision: Literal["auto", "fp32", "bf16"] = setting(
        "auto", "numeric precision; auto uses bf16 if it's faster on this machine"
    )
    device: str = setting("auto", "device to run on: auto, cpu, cuda or cuda:1")
    shard: Literal["none", "full"] = setting(
        "none", "with several processes, full divides weights, gradients and optimiser state among them (FSDP)"
    )
    threads: int | None = setting(
        None, "number of CPU threads (default: OMP_NUM_THREADS, or all cores; training tries fewer)"
    )
    eval_every: int | None = setting(None, "steps between evaluations (default: 5% of the run)")
    eval_sentences: int = setting(500, "maximum number of validation examples to score in each evaluation")
    best: str = setting(
        "loss",
        "score that selects the weights to keep: loss, or one of the task's scores; newest keeps the latest weights",
    )
    patience: int = setting(0, "stop after this many evaluations without a better score; 0 never stops early")
    average: float = setting(
        0.0,
        "number of most recent checkpoints to average at the end (section 6.1); or, below 1, the decay of a moving "
        "average that is saved in place of the weights; 0 disables averaging",
    )
    save_every: int | None = setting(None, "steps between checkpoints (default: train.eval_every)")
    log_every: int = setting(20, "steps between lines in metrics.jsonl")
    watch: str = setting("", "text to track during training, for `explain --film`")
    tensorboard: bool = setting(False, "write TensorBoard logs to tensorboard/ in the model folder")

    @property
    def begins_trained(self) -> bool:
        """True if training starts from trained weights."""
        return bool(self.init_from or self.warm_start)

    @property
    def n_averaged(self) -> int:
        """The number of checkpoints to average at the end."""
        return int(self.average) if self.average >= 1 else 0

    @property
    def ema(self) -> float:
        """The decay of the moving average of the weights, or 0 without one."""
        return self.average if self.average < 1 else 0.0

    def __post_init__(self) -> None:
        check_types(self, "train")
        for key in ("adapter", "freeze"):
            none_is_empty(self, key)
        check_task(self.task)
        if self.preset is not None:
            preset(self.preset)
        if self.budget:
            read_duration(self.budget, "train.budget")
        if self.memory:
            read_size(self.memory, "train.memory")
        for name in _COUNTS:
            value = getattr(self, name)
            require(value is None or value >= 1, f"train.{name}", value, POSITIVE)
        most = f"a whole number from 1 to {_MOST_THREADS:,} (this machine has {os.cpu_count() or 1} cores)"
        require(self.threads is None or self.threads <= _MOST_THREADS, "train.threads", self.threads, most)
        require(0 <= self.label_smoothing < 1, "train.label_smoothing", self.label_smoothing, FRACTION)
        fits = len(self.adam) == 3 and all(0 <= it < 1 for it in self.adam[:2]) and self.adam[-1] > 0
        require(fits, "train.adam", self.adam, "two numbers from 0 to below 1, and one above 0, such as 0.9,0.98,1e-9")
        whole = self.average < 1 or self.average == int(self.average)
        require(whole, "train.average", self.average, "a whole number of checkpoints, or a decay below 1")
        for name in ("clip", "weight_decay", "seed", "average", "patience", "r_drop", "lr_end"):
            require(getattr(self, name) >= 0, f"train.{name}", getattr(self, name), NOT_NEGATIVE)
        require(self.seed < 2**63, "train.seed", self.seed, "less than 2^63")
        require(self.epochs is None or self.epochs > 0, "train.epochs", self.epochs, "a number above 0")
        require(self.warmup is None or self.warmup >= 0, "train.warmup", self.warmup, NOT_NEGATIVE)
        require(self.lr is None or self.lr > 0, "train.lr", self.lr, "a number above 0")
        long_enough = self.hidden_span is None or self.hidden_span >= 1
        require(long_enough, "train.hidden_span", self.hidden_span, POSITIVE)
        self._check_schedule()
        self._check_trained_parts()
        decays = not self.weight_decay or self.optimizer != "adam"
        require(decays, "train.weight_decay", self.weight_decay, "0", what="has no effect with train.optimizer='adam'",
                fix="set train.optimizer to adamw or muon")  # fmt: skip

    def _check_trained_parts(self) -> None:
        read_adapter(self.adapter)
        require(not self.adapter or bool(self.init_from), "train.adapter", self.adapter, "none",
                what="needs a model to adapt", fix="name one with train.init_from")  # fmt: skip
        require(not self.adapter or self.optimizer != "muon", "train.optimizer", self.optimizer, "adam or adamw",
                what="doesn't suit the low-rank matrices of train.adapter")  # fmt: skip
        for name, value in (("train.adapter", self.adapter), ("train.freeze", self.freeze)):
            require(not value or self.shard == "none", name, value, "train.shard=none",
                    what="can't be combined with train.shard='full'")  # fmt: skip

    def _check_schedule(self) -> None:
        below = self.lr is None or self.lr_end <= self.lr
        require(below, "train.lr_end", self.lr_end, f"{self.lr} or less", what=f"is above train.lr={self.lr}")
        falls = not self.lr_end or self.schedule not in ("paper", "constant")
        what = f"has no effect with train.schedule={self.schedule!r}"
        require(falls, "train.lr_end", self.lr_end, "0", what=what, fix="set train.schedule to cosine or linear")
