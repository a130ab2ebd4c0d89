"""The base class of encoder families, and their heads: a class, a span, masked tokens, or none."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ...config.values import spell
from ..weight_names import Name, blocks
from .family import Family, no_counterpart
from .hf_config import HfConfig

MULTI_LABEL, REGRESSION = "multi_label_classification", "regression"  # values of problem_type
Weights: TypeAlias = Sequence[tuple[str, str]]  # our name of a layer, and theirs


class EncoderFamily(Family):
    """Base class of families of encoders. Each has tables of layers, with our name and theirs."""

    pooler: ClassVar[str] = "tanh"
    """The activation of the classifier's hidden layer, or none."""
    top: ClassVar[Weights]
    """The layers around the blocks."""
    block: ClassVar[Weights]
    """The layers of a block. A {} in their name stands for the number of the block. The layer "attention.qkv" is three
    of theirs, separated by spaces."""
    heads: ClassVar[Mapping[str, Weights]]
    """The layers of each head."""
    derived: ClassVar[Sequence[str]] = (
        *("model.head", "model.n_classes", "model.pooling", "model.head_layer"),
        *("model.projection_bias", "model.tie", "model.normalize"),
        *("model.tgt_vocab_size", "model.n_decoder_layers"),  # they change nothing without a decoder
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.unk_id", "model.mask_id"),
    )

    def head(self, hf_config: HfConfig, task: str) -> dict[str, Any]:
        tied = hf_config.get("tie_word_embeddings", True)
        if task == "classify":
            labels = _labels(hf_config, several=self.reads_text)
            return {
                "model.head": "class",
                "model.pooling": "first",
                "model.head_layer": self.pooler,
                "model.n_classes": len(labels),
                "data.labels": labels,
                **(_several(hf_config, labels) if self.reads_text else {}),
            }
        if task == "answer":
            return {"model.head": "span"}
        if task == "fill":
            if not tied:
                raise hf_config.unsupported("tie_word_embeddings", expected="true")
            return {"model.head": "token", "model.head_layer": "norm", "model.projection_bias": True}
        return {"model.head": "none"}

    def their_config(self, config: Config) -> dict[str, Any]:
        """Return their settings for the labels of a classifier."""
        labels = config.data.labels
        if config.model.head != "class":
            return {}
        if config.data.label_kind == "targets":
            raise no_counterpart({"data.label_kind": "targets"}, self.title, {"data.label_kind": "several"})
        names = {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
        if config.data.label_kind == "number":
            return {**names, "problem_type": REGRESSION}
        if not config.data.label_separator:
            return names
        thresholds = {"thresholds": [*config.data.thresholds]} if config.data.thresholds else {}
        return {**names, "problem_type": MULTI_LABEL, **thresholds}

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        of_heads: dict[str, dict[str, Any]] = {
            "class": {"pooling": "first", "head_layer": self.pooler},
            "token": {"head_layer": "norm", "projection_bias": True},
        }
        needed = of_heads.get(model.head, {}) if model.head in self.heads else {}
        wrong = {f"model.{name}": spell(it) for name, it in needed.items() if getattr(model, name) != it}
        return super().lacks(model) | wrong

    def names(self, model: ModelConfig) -> list[Name]:
        prefix = "" if model.head == "none" else "encoder."
        each = [
            Name(f"{prefix}blocks.{{}}.{ours}.weight", tuple(f"{it}.weight" for it in theirs.split()))
            for ours, theirs in self.block
        ]
        names = [Name(f"{prefix}{ours}", (theirs,)) for ours, theirs in self.top]
        head = [Name(f"head.{ours}", (theirs,), head=True) for ours, theirs in self.heads.get(model.head, ())]
        return [*names, *blocks(model.n_encoder_layers, each), *head]


def _labels(hf_config: HfConfig, *, several: bool) -> tuple[str, ...]:
    """Return the labels in the order of their numbers."""
    hf_config.expect("problem_type", "single_label_classification", *((MULTI_LABEL, REGRESSION) if several else ()))
    is_number = hf_config.get("problem_type") == REGRESSION
    named = hf_config.get("id2label")
    if named is None:
        named = {str(i): f"LABEL_{i}" for i in range(hf_config.get("num_labels", 2))}
    labels = tuple(named.get(str(i)) for i in range(len(named)))
    if is_number and len(labels) != 1:
        raise hf_config.unsupported("problem_type", expected=f"one label for {REGRESSION}")
    if (len(labels) < 2 and not is_number) or None in labels:
        raise hf_config.unsupported("id2label", expected="two labels or more, numbered from 0")
    return labels


def _several(hf_config: HfConfig, labels: Sequence[str]) -> dict[str, Any]:
    """Return the settings of a model that gives a text any number of labels, or a number; none for any other."""
    if hf_config.get("problem_type") == REGRESSION:
        return {"data.label_kind": "number"}
    if hf_config.get("problem_type") != MULTI_LABEL:
        return {}
    found = hf_config.get("thresholds", [])  # other programs ignore them
    fits = isinstance(found, list) and all(isinstance(it, int | float) and 0 <= it <= 1 for it in found)
    if not fits or len(found) not in (0, len(labels)):
        raise hf_config.unsupported("thresholds", expected=f"a number from 0 to 1 for each of {len(labels):,} labels")
    return {"data.label_kind": "several", "data.thresholds": tuple(map(float, found))}
