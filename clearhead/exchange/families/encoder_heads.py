"""Heads of the encoder families: a class, a span, masked tokens, or none."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ...config.values import spell
from ..weight_names import Name, blocks
from .hf_config import HfConfig

SETTINGS = (
    *("model.head", "model.n_classes", "model.pooling", "model.head_layer"),
    *("model.projection_bias", "model.tie", "model.normalize"),
    *("model.tgt_vocab_size", "model.n_decoder_layers"),  # they change nothing without a decoder
)
"""Settings of ours that depend on the head, or that no encoder has."""

Weights = Sequence[tuple[str, str]]  # our name of a layer, and theirs


def read_head(hf_config: HfConfig, task: str, pooler: str) -> dict[str, Any]:
    """Return our settings for the head of a task.

    Args:
        hf_config: their settings.
        task: the task.
        pooler: the activation of the classifier's hidden layer, or none.
    """
    tied = hf_config.get("tie_word_embeddings", True)
    if task == "classify":
        labels = _labels(hf_config)
        return {
            "model.head": "class",
            "model.pooling": "first",
            "model.head_layer": pooler,
            "model.n_classes": len(labels),
            "data.labels": labels,
        }
    if task == "answer":
        return {"model.head": "span"}
    if task == "fill":
        if not tied:
            raise hf_config.unsupported("tie_word_embeddings", expected="true")
        return {"model.head": "token", "model.head_layer": "norm", "model.projection_bias": True}
    return {"model.head": "none"}


def written_labels(config: Config) -> dict[str, Any]:
    """Return their settings for the labels of a classifier."""
    labels = config.data.labels
    if config.model.head != "class":
        return {}
    return {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}


def lacking_head(model: ModelSettings, pooler: str) -> dict[str, str]:
    """Return our settings for a model's head that have no counterpart, and for each the value that has one."""
    needed: dict[str, dict[str, Any]] = {
        "class": {"pooling": "first", "head_layer": pooler},
        "token": {"head_layer": "norm", "projection_bias": True},
    }
    settings = needed.get(model.head, {})
    return {f"model.{name}": spell(it) for name, it in settings.items() if getattr(model, name) != it}


def encoder_names(model: ModelConfig, top: Weights, block: Weights, heads: Mapping[str, Weights]) -> list[Name]:
    """Return the names of an encoder's weights.

    Args:
        model: our settings.
        top: the layers around the blocks.
        block: the layers of a block. A {} in their name stands for the number of the block. The layer "attention.qkv"
            is three of theirs, separated by spaces.
        heads: the layers of each head.
    """
    prefix = "" if model.head == "none" else "encoder."
    each = [
        Name(f"{prefix}blocks.{{}}.{ours}.weight", tuple(f"{it}.weight" for it in theirs.split()))
        for ours, theirs in block
    ]
    names = [Name(f"{prefix}{ours}", (theirs,)) for ours, theirs in top]
    head = [Name(f"head.{ours}", (theirs,), head=True) for ours, theirs in heads.get(model.head, ())]
    return [*names, *blocks(model.n_encoder_layers, each), *head]


def _labels(hf_config: HfConfig) -> tuple[str, ...]:
    """Return the labels in the order of their numbers."""
    hf_config.expect("problem_type", "single_label_classification")
    named = hf_config.get("id2label")
    if named is None:
        return tuple(f"LABEL_{i}" for i in range(hf_config.get("num_labels", 2)))
    labels = tuple(named.get(str(i)) for i in range(len(named)))
    if len(labels) < 2 or None in labels:
        raise hf_config.unsupported("id2label", expected="two labels or more, numbered from 0")
    return labels
