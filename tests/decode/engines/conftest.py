"""A small model, and sources that it reads."""

from typing import Any

import torch
from torch import nn

from clearhead.config import ModelConfig
from clearhead.model.transformer import build

SOURCES = [[5, 6, 7], [9], [], [4, 8, 10, 11, 5, 7], [6, 6]]
SIZE = 40


def model(topology: str = "encoder-decoder", **settings: Any) -> tuple[nn.Module, ModelConfig]:
    torch.manual_seed(0)
    shape = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_decoder_layers": 2, "max_len": 24}
    shape |= {"n_encoder_layers": int(topology != "decoder-only"), "src_vocab_size": SIZE, "tgt_vocab_size": SIZE}
    config = ModelConfig(topology=topology, **{**shape, **settings})  # type: ignore[arg-type]
    return build(config).eval(), config
