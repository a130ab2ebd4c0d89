"""What a run will take, said before its first step; nothing of the run depends on it."""

import time

import torch
from torch import nn

from ...config import Config, ModelConfig, chosen
from ...tasks.base import Learnable, Units
from ...tasks.denoise.masking import TOKENS_TO_FIND

_PROCESS = 4.3e8  # bytes that a process occupies whatever its model: the libraries, and what they keep
# Bytes for each token of a batch: of a layer by its width and by that of its feed-forward, and of the logits by entry.
# Measured for short sentences; of long ones attention takes more.
_BYTES = {"bf16": (64, 8, 3), "fp32": (85, 10, 10)}
# What a token takes besides its products (norms, softmax, dropout, changes of precision), as operations of products:
# little of a large model, and most of a small one. Measured with the presets, batches of 2,000 and 4,000 tokens.
_BESIDES = {"bf16": 7.5e6, "fp32": 1e6}


def forecast(config: Config, model: nn.Module, examples: Learnable, units: Units, *, done: int = 0) -> str:
    """Parameters, examples, tokens an epoch and steps; about how much memory and time they take after `done` steps."""
    n_parameters = sum(p.numel() for p in model.parameters())
    steps = chosen(config.train.steps)
    batches = examples.batches(chosen(config.data.batch_tokens), max_rows=config.data.batch_sentences)
    sizes = batches.sizes()
    of_batch, largest = sum(sizes) / len(sizes), max(sizes)
    multiplied = n_parameters - _looked_up(config.model)
    of_token = 6 * multiplied + _BESIDES[_precision(config)]  # forward and backward
    seconds = of_token * of_batch * config.train.accumulate * (steps - done) / _operations_a_second(config)
    memory = _memory(config, n_parameters, largest)
    left = f", {steps - done:,} of them left" if done else ""
    epoch = f"{len(examples):,} {units.examples}, {examples.tokens:,} {units.tokens} an epoch"
    return (
        f"{n_parameters:,} parameters; {epoch}; "
        f"{steps:,} steps{left}; about {memory / 1e9:.1f} GB and {duration(seconds)}"
    )


def _memory(config: Config, n_parameters: int, tokens: int) -> float:
    """Bytes that training takes with batches of so many tokens; their gradients add up in one place."""
    model = config.model
    n_layers = model.n_encoder_layers * (model.topology != "decoder-only")
    n_layers += model.n_decoder_layers * (model.topology != "encoder-only")
    of_width, of_ff, of_logit = _BYTES[_precision(config)]
    of_token: float = n_layers * (of_width * config.model.d_model + of_ff * config.model.d_ff)
    of_token += of_logit * _logits(model)
    of_weight = 20 if config.train.ema else 16  # itself, its gradient, two moments and its average, 4 bytes each
    return _PROCESS + of_weight * n_parameters + tokens * of_token


def _logits(model: ModelConfig) -> float:
    """Entries of logits for each token of a batch: those of a vocabulary, where such are predicted."""
    if model.topology != "encoder-only":
        return model.tgt_vocab_size
    return TOKENS_TO_FIND * model.src_vocab_size if model.head == "token" else 0


def _looked_up(model: ModelConfig) -> float:
    """Parameters of an embedding that no product has, or only for some tokens; elsewhere it is the projection, too."""
    return (model.src_vocab_size - _logits(model)) * model.d_model if model.topology == "encoder-only" else 0


def _precision(config: Config) -> str:
    return "bf16" if config.train.precision == "bf16" else "fp32"


def duration(seconds: float) -> str:
    """In the unit that suits: a second, 90 seconds, 12 minutes, 2.5 hours."""
    if seconds < 1.5:
        return "a second"
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _operations_a_second(config: Config) -> float:
    """Floating-point operations a second that training gets: half of what a product like the model's own gets."""
    dtype = torch.bfloat16 if _precision(config) == "bf16" else torch.float32
    a = torch.ones(2048, config.model.d_model, dtype=dtype, device=config.train.device)
    b = torch.ones(config.model.d_model, config.model.d_ff, dtype=dtype, device=config.train.device)
    fastest = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        float((a @ b)[0, 0])
        fastest = min(fastest, time.perf_counter() - begun)
    return 0.5 * 2 * 2048 * config.model.d_model * config.model.d_ff / fastest
