"""Model folders with random weights, for each kind of input and output."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from clearhead.config import Config
from clearhead.folder.model_folder import model_files, save_files
from clearhead.model.transformer import build
from clearhead.tasks.registry import task_named
from clearhead.tokenization.codebook import Codebook
from clearhead.tokenization.source_and_target import Tokenizers, train_tokenizers
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import ENGLISH, FRENCH

SIZE = {
    "data.tokenizer": "character", "data.max_len": 40, "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32,
    "model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "data.train": ["pairs.tsv"], "data.batch_tokens": 1024,
}  # fmt: skip
IMAGE = {
    "data.modality": "image", "model.front": "patches", "model.positions": "sinusoidal_2d", "model.image_size": 8,
    "model.image_channels": 1, "model.patch_size": 4, "model.max_len": 10, "data.max_len": 10,
}  # fmt: skip
AUDIO = {
    "data.modality": "audio", "model.front": "frames", "model.sample_rate": 1000, "model.n_mels": 4,
    "model.max_len": 42,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "generate": {"train.task": "generate"},
    "sample": {"train.task": "generate", "decode.sample": True, "data.tokenizer": "bpe", "data.vocab_size": 300},
    "bytes": {"train.task": "generate", "data.tokenizer": "bpe", "data.vocab_size": 262},
    "chat": {
        "train.task": "generate",
        "data.tokenizer": "bpe",
        "data.vocab_size": 300,
        "data.template": "default",
        "train.loss_on": "answer",
    },
    "classify": {"train.task": "classify", "data.labels": ("cold", "warm")},
    "labels": {
        "train.task": "classify",
        "data.labels": ("cold", "warm"),
        "data.label_kind": "several",
        "data.thresholds": (0.0, 1.0),
    },
    "targets": {
        "train.task": "classify",
        "data.labels": ("mood=cold", "mood=warm", "place=in", "place=out"),
        "data.label_kind": "targets",
    },
    "number": {
        "train.task": "classify",
        "data.labels": ("stars",),
        "data.label_kind": "number",
        "data.number_scale": (3.0, 2.0),
    },
    "see": {"train.task": "classify", "data.labels": ("lies", "stands"), **IMAGE},
    "transcribe": {"train.task": "transcribe", "data.joint": True, "decode.max_extra": 4, **AUDIO},
    "speak": {"train.task": "speak", "decode.min_len": 3, "decode.max_len": 6, "model.tie": "target"},
}


def make(path: Path, kind: str) -> Path:
    """Write a model folder and return its path."""
    given = {**SIZE, **KINDS[kind]}
    config = Config().assign({**task_named(given["train.task"]).required, **given}, "model")
    if kind == "see":
        tokenizers = Tokenizers(Tokenizer.without_text(), Tokenizer.without_text())
    else:
        tokenizers = train_tokenizers(ENGLISH, FRENCH, config.data)
    if kind == "speak":
        patches = np.random.default_rng(0).uniform(-8, 0, (12, 4, 8)).astype(np.float32)
        tokenizers = Tokenizers(tokenizers.source, Codebook(patches, 2000))
    sizes = {"model.src_vocab_size": tokenizers.source.vocab_size, "model.tgt_vocab_size": tokenizers.target.vocab_size}
    config = config.assign({**sizes, "model.n_classes": len(config.data.labels)}, "model")
    with torch.random.fork_rng():
        torch.manual_seed(1)
        weights = build(config.model).state_dict()
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), weights=weights, card="# A")
    save_files(path, files)
    return path
