"""A tiny classifier of each kind of label."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch

from clearhead.config import Config
from clearhead.model.transformer import EncoderModel, build
from clearhead.tasks.classify.task import Classification
from clearhead.tasks.registry import task_of
from clearhead.tokenization.source_and_target import train_tokenizers

TINY = {
    "data.tokenizer": "word", "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 24, "model.n_encoder_layers": 1,
    "train.device": "cpu", "train.threads": 1, "train.precision": "fp32",
}  # fmt: skip
T = TypeVar("T", bound=Classification)


def tiny_task(kind: type[T], texts: Sequence[str], values: Mapping[str, Any], changed: Mapping[str, Any]) -> T:
    """The task that these settings mean, with the vocabulary of the texts; `changed` spells names as model__dropout."""
    needed = {"model.topology": "encoder-only", "model.head": "class", "model.dropout": 0.0, "train.task": "classify"}
    settings = {**TINY, **needed, **values} | {name.replace("__", "."): value for name, value in changed.items()}
    tokenizers = train_tokenizers(texts, (), Config().override(settings).data)
    config = Config().override(settings | {"model.src_vocab_size": tokenizers.source.vocab_size})
    assert task_of(config) is kind
    return kind(tokenizers, config)


def net(own: Classification) -> EncoderModel:
    torch.manual_seed(0)
    built = build(own.config.model)
    assert isinstance(built, EncoderModel)
    return built.double().eval()
