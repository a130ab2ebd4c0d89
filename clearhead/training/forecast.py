"""What a run will take, said before its first step; nothing of the run depends on it."""

import time

import torch
from torch import nn

from ..config import Config, chosen

_PROCESS = 4.3e8  # bytes that a process occupies whatever its model: the libraries, and what they keep
# Bytes for each token of a batch: of a layer by its width and by that of its feed-forward, and of the logits by entry.
# Measured for short sentences; of long ones attention takes more.
_BYTES = {"bf16": (64, 8, 3), "fp32": (85, 10, 10)}


def forecast(config: Config, model: nn.Module, n_pairs: int, target_tokens: int, *, done: int = 0) -> str:
    """Parameters, pairs, tokens an epoch and steps, and about how much memory and time they take after `done` steps."""
    n_parameters = sum(p.numel() for p in model.parameters())
    batch_tokens, steps = chosen(config.data.batch_tokens), chosen(config.train.steps)
    n_layers = config.model.n_encoder_layers + config.model.n_decoder_layers
    of_width, of_ff, of_logit = _BYTES["bf16" if config.train.precision == "bf16" else "fp32"]
    of_token = n_layers * (of_width * config.model.d_model + of_ff * config.model.d_ff)
    of_token += of_logit * config.model.tgt_vocab_size
    # Weights, gradients and two moments, 4 bytes each.
    memory = _PROCESS + 16 * n_parameters + batch_tokens * of_token
    seconds = 6 * n_parameters * batch_tokens * (steps - done) / _operations_a_second(config)
    left = f", {steps - done:,} of them left" if done else ""
    return (
        f"{n_parameters:,} parameters; {n_pairs:,} pairs, {target_tokens:,} target tokens an epoch; "
        f"{steps:,} steps{left}; about {memory / 1e9:.1f} GB and {duration(seconds)}"
    )


def duration(seconds: float) -> str:
    """In the unit that suits: a second, 90 seconds, 12 minutes, 2.5 hours."""
    if seconds < 1.5:
        return "a second"
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _operations_a_second(config: Config) -> float:
    """Floating-point operations a second that training gets: half of what a product like the model's own gets."""
    dtype = torch.bfloat16 if config.train.precision == "bf16" else torch.float32
    a = torch.ones(2048, config.model.d_model, dtype=dtype, device=config.train.device)
    b = torch.ones(config.model.d_model, config.model.d_ff, dtype=dtype, device=config.train.device)
    fastest = float("inf")
    for _ in range(5):
        begun = time.perf_counter()
        float((a @ b)[0, 0])
        fastest = min(fastest, time.perf_counter() - begun)
    return 0.5 * 2 * 2048 * config.model.d_model * config.model.d_ff / fastest
