"""Estimate the size of a run before its first step. The progress line estimates its duration later.

Nothing in the run depends on these estimates.
"""

import math

from torch import nn

from ...config import ModelConfig, Recipe
from ...config.values import counted
from ...tasks.base import Dataset, Units
from ...tasks.denoise.masking import TOKENS_TO_FIND

_PROCESS = 4.3e8  # bytes that every process needs for its libraries
# Bytes for each token of a batch: in each layer, per unit of d_model and of d_ff; and per logit. Measured on short
# sentences. Attention takes more on long ones.
_BYTES = {"bf16": (48, 3, 3), "fp32": (68, 7, 10)}
_ROWS = 1024  # of logits at once, in evaluations; the loss needs fewer


def forecast(config: Recipe, model: nn.Module, examples: Dataset, units: Units, *, done: int = 0) -> str:
    """Return one line with the parameters, examples, steps and memory of a run after `done` steps."""
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
    per_token = (
        in_block + n_layers * 4 * model.d_model if config.train.activation_checkpointing else n_layers * in_block
    )
    per_weight = 20 if config.train.ema else 16  # weight, gradient, two moments and the average, 4 bytes each
    return _PROCESS + per_weight * n_parameters + tokens * per_token + per_logit * _logits(model, tokens)


def _logits(model: ModelConfig, tokens: int) -> float:
    """Return the number of logits that exist at once, with batches of `tokens` tokens."""
    if model.topology != "encoder-only":
        return model.tgt_vocab_size * (tokens if model.copy else min(tokens, _ROWS))
    return TOKENS_TO_FIND * model.src_vocab_size * tokens if model.head == "token" else 0
