"""Start from the weights, shape and tokenizer of a trained model (`--init-from MODEL`), and choose what is trained.

That's all weights, all but frozen parts, or an adapter of the model (LoRA, Hu et al. 2021).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from ..config import DROPOUT, PRESETS, Config, ModelConfig, TrainConfig
from ..config.notations import LoraShape, read_adapter
from ..config.values import invalid, spell
from ..data.spoken_pairs import SpokenForm
from ..folder.adapters import base_weights
from ..folder.model_folder import TOKENIZER, load_model_folder, load_weights, model_path
from ..model.fronts.front import Front
from ..model.fronts.tokens import TokenTypes
from ..model.linear import Linear, add_lora, block_layers
from ..model.positions import Positions
from ..model.transformer import build
from ..readers.lines import shown
from ..readers.media.media_files import PLURAL
from ..tasks.classify.regression import HEAD, rescaled
from ..tasks.registry import task_of
from ..tokenization.chat_template import ChatEncoder, ChatTemplate
from ..tokenization.codebook import Codebook
from ..tokenization.source_and_target import Tokenizers

_EMBEDDINGS = "embeddings"
_RANK, _SHARE = 8, 0.02  # default rank of an adapter, and the share of the weights that it may have
_TARGETS = ("attention", "cross_attention")
# The weights determine these settings: the whole shape except dropout and augmentation, and the tokenization. When the
# task changes, the settings in OF_TASK aren't taken from the model.
_FREE = (*DROPOUT, "model.augment")
OF_TASK = (
    *("model.head", "model.n_classes", "model.pooling", "model.normalize", "model.n_token_types", "model.copy"),
    *("data.labels", "data.number_scale"),
)
# of an encoder, which has other heads
_OF_HEAD = ("model.head_layer", "model.projection_bias", "model.n_separators")
_NAMED = 3  # labels in a message
_KINDS = {"text": "texts", **PLURAL}  # by modality
KEPT = (
    *(name for name in (f"model.{field.name}" for field in fields(ModelConfig)) if name not in _FREE),
    *(f"data.{name}" for name in ("tokenizer", "vocab_size", "joint", "normalise", "labels", "number_scale")),
)


@dataclass(frozen=True)
class InitFrom:
    """A trained model that a run starts from. Without weights, only its shape and tokenizer are used."""

    path: Path
    config: Config
    tokenizers: Tokenizers
    weights: Mapping[str, Tensor]
    weights_digest: str = ""

    @classmethod
    def load(cls, path: Path, *, allow_custom_code: bool | Collection[str]) -> Self:
        """Read a model folder. See `load_model_folder`."""
        path = model_path(path)
        folder = load_model_folder(path, allow_custom_code=allow_custom_code)
        tokenizers = Tokenizers.for_model(folder.tokenizer, folder.config.model, origin=str(path / TOKENIZER))
        return cls(path, folder.config, tokenizers, folder.weights, folder.weights_digest)

    def configure(self, config: Config) -> Config:
        """Return `config` with the model's shape and tokenizer settings.

        Raises a ConfigError if the user set other values, or the task needs another topology.
        """
        then, now = self.config.model.topology, config.model.topology
        if then != now:
            what = f"is {then}, but train.task={task_of(config).verb!r} needs {now}"
            expected = f"a model folder whose model is {now}"
            raise invalid("train.init_from", str(self.path), what, expected=expected)
        was, reads = self.config.data.modality, config.data.modality
        if was != reads:
            what = f"was trained on {_KINDS[was]}, but this data consists of {_KINDS[reads]}"
            expected = f"a model trained on {_KINDS[reads]}"
            raise invalid("train.init_from", str(self.path), what, expected=expected)
        speaks, shall = isinstance(self.tokenizers.target, Codebook), isinstance(task_of(config).form, SpokenForm)
        if speaks != shall:
            what = (
                "writes the codes of sounds, and no texts" if speaks else "has no codebook, so it can't learn to speak"
            )
            expected = f"a model for {'another task than ' * speaks}`speak`"
            raise invalid("train.init_from", str(self.path), what, expected=expected)
        new = {"model.n_classes": 0, "data.labels": ()}  # found in the new data
        own = self._kept(config)
        config = config if self.is_same_task(config) else config.assign(new, "data")
        for name in own:
            if config.is_users(name) and config.value(name) != own[name]:
                what = f"contradicts {self.path}, which was trained with {spell(own[name])}"
                expected = "the same value, since the weights and the tokenizer are reused"
                raise invalid(name, config.value(name), what, expected=expected, fix=f"leave {name} out")
        if self.config.data.template and not config.is_users("data.template"):
            own["data.template"] = self.config.data.template
        others = {name for name in _FREE if config.is_users(name)} | {*PRESETS.get(config.train.preset or "", ())}
        own |= {name: self.config.value(name) for name in _FREE if name not in others}
        return config.assign(own | self._ends(own.get("data.template", config.data.template)), "model")

    def _ends(self, template: str) -> dict[str, Any]:
        """Return the settings with which the special token that ends an answer in a chat template ends a text."""
        model, tokenizer = self.config.model, self.tokenizers.target
        end = ChatEncoder(ChatTemplate.read(template), tokenizer).stop_id if template else None
        if end is None or end in (model.eos_id, *model.more_eos_ids):
            return {}
        padding = {"model.pad_id": model.tgt_vocab_size} if end == model.pad_id else {}  # padding is never predicted
        return {"model.more_eos_ids": (*model.more_eos_ids, end), **padding}

    def _kept(self, config: Config) -> dict[str, Any]:
        """Return the settings of the model that a run with this configuration keeps."""
        if self.is_same_task(config):
            return {name: self.config.value(name) for name in KEPT}
        of_task = (*OF_TASK, *(_OF_HEAD if config.model.topology == "encoder-only" else ()))
        kept = {name: self.config.value(name) for name in KEPT if name not in of_task}
        types, now = self.config.model.n_token_types, config.model.n_token_types
        if types > 1 or not now:  # one type can't tell a question from a text
            kept |= {} if config.is_users("model.n_token_types") else {"model.n_token_types": types}
        return kept | self._first_token(config)

    def _first_token(self, config: Config) -> dict[str, Any]:
        """Return the settings of a class head that reads the first token, as BERT's does, if every text has one.

        The user's own settings count more. DistilBERT's hidden layer has another activation.
        """
        model = self.config.model
        if config.model.head != "class" or config.data.modality != "text" or not model.begins:
            return {}
        tanh = model.n_token_types or model.n_separators > 1
        own = {"model.pooling": "first", "model.head_layer": "tanh" if tanh else "relu"}
        if config.is_users("model.pooling") and config.model.pooling != "first":
            return {}
        return {name: value for name, value in own.items() if not config.is_users(name)}

    def is_same_task(self, config: Config) -> bool:
        """Return whether this model and `config` have the same task and head, so the head's weights fit."""
        heads = [it.model.head for it in (self.config, config)]
        return task_of(self.config) is task_of(config) and heads[0] == heads[1]

    def give(self, model: nn.Module, config: Config) -> list[str]:
        """Copy the weights into a model with this configuration, and return the names of those that are new.

        For another task or other labels, only weights with the same name and shape are copied; an encoder without a
        head is the encoder of a model with one. For the same ones, raises a ModelError if any weights don't fit. A head
        of numbers is returned as new if it's rescaled.
        """
        if not self.weights:
            return []
        same = self.config.data.labels == config.data.labels
        if self.is_same_task(config) and same:
            load_weights(model, rescaled(self.weights, self.config.data.number_scale, config.data.number_scale))
            return [*HEAD] if self.rescales(config) else []
        own, weights = model.state_dict(), base_weights(self.weights, self.config.model, config.model)
        if not same:
            weights = {name: weight for name, weight in weights.items() if not name.startswith("head.linear.")}
        taken = {name for name, weight in weights.items() if name in own and own[name].shape == weight.shape}
        with torch.no_grad():
            for name in taken:
                own[name].copy_(weights[name])
        known = {own[name].data_ptr() for name in taken}  # tied weights have several names
        new = {weight.data_ptr(): name for name, weight in own.items() if weight.data_ptr() not in known}
        return list(new.values())

    def rescales(self, config: Config) -> bool:
        """Return whether the head gets another mean and deviation of numbers, because those of the data differ."""
        same = self.config.data.labels == config.data.labels
        return self.is_same_task(config) and same and self.config.data.number_scale != config.data.number_scale

    @staticmethod
    def about_new(model: nn.Module, names: Collection[str]) -> str:
        """Return a message about the weights that `give` returned, or ""."""
        if not names:
            return ""
        own, parts = model.state_dict(), dict.fromkeys(map(_part, names))
        size = sum(own[name].numel() for name in names)
        return f"{' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} new: {size:,} parameters"

    def about_labels(self, config: Config) -> str:
        """Return a message if a model of other labels or numbers gets a head for those of the data, or ""."""
        if self.rescales(config):
            then, now = (it.data.number_scale or (0.0, 1.0) for it in (self.config, config))
            mean = "numbers with mean {:.4g} and standard deviation {:.4g}"
            return f"{self.path} predicts {mean.format(*then)}; its head is rescaled to {mean.format(*now)}"
        known, labels = self.config.data.labels, config.data.labels
        if not known or not task_of(config).has_labels or not (new := [it for it in labels if it not in known]):
            return ""
        named = ", ".join(map(shown, new[:_NAMED])) + ", …" * (len(new) > _NAMED)
        return f"{self.path} doesn't know {len(new):,} of {len(labels):,} labels ({named}), so the head starts fresh"

    def differences(self, config: Config) -> list[str]:
        """Return warnings about data settings that differ from those the model was trained with."""
        then, now = self.config.data.reverse, config.data.reverse
        if then == now:
            return []
        return [f"{self.path} was trained with data.reverse={spell(then)}, but this run has data.reverse={spell(now)}"]


def _part(weight: str) -> str:
    return "the head" if weight.startswith("head.") else weight.rpartition(".")[0]


# --- the weights that are trained -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lora:
    """An adapter that a run trains.

    Attributes:
        rank: the rank of its updates.
        scale: factor of the updates.
        layers: the names of the layers that have one.
    """

    rank: int
    scale: float
    layers: Sequence[str]

    @classmethod
    def of(cls, model: nn.Module, train: TrainConfig) -> "Lora | None":
        """Return the adapter that the settings describe for a model, which can be empty, or None.

        Raises:
            ConfigError: the model has no such layers or parts, or nothing is left to train.
        """
        frozen, shape = {id(it) for it in frozen_weights(model, train)}, read_adapter(train.adapter)
        if shape is None:
            if all(id(it) in frozen for it in model.parameters()):
                raise _nothing_left(train)
            return None
        layers = {name: it for name, it in _targets(model, shape).items() if id(it.weight) not in frozen}
        if not layers:
            raise _nothing_left(train)
        total = sum(it.numel() for it in model.parameters())
        each = sum(it.in_features + it.out_features for it in layers.values())
        rank = max(1, min(_RANK, int(_SHARE * total / each))) if shape.rank is None else shape.rank
        return cls(rank, (2.0 * rank if shape.alpha is None else shape.alpha) / rank, list(layers))


def check_trained_parts(config: Config) -> Lora | None:
    """Return the adapter that a run trains, or None, without building its model. Raises the errors of `Lora.of`."""
    with torch.device("meta"):  # shapes without numbers, which take no memory
        return Lora.of(build(config.model), config.train)


def select_weights(model: nn.Module, train: TrainConfig, new: Collection[str] = ()) -> None:
    """Freeze what isn't trained, and add the adapter.

    Args:
        model: the model, with its initial weights.
        train: the settings.
        new: names of the weights that the model to start from lacks, such as those of a new head. An adapter has them.
    """
    frozen, lora = frozen_weights(model, train), Lora.of(model, train)
    if lora is not None:
        has_new_head = any(name.startswith("head.") for name in new)
        for name, weight in model.named_parameters():
            weight.requires_grad_(name in new or (has_new_head and name.startswith("head.")))
        add_lora(model, lora.layers, lora.rank, lora.scale)
    for weight in frozen:
        weight.requires_grad_(False)


def _targets(model: nn.Module, shape: LoraShape) -> dict[str, Linear]:
    """Return the layers that an adapter updates, by name. Raise ConfigError if the model lacks one that's named."""
    layers = block_layers(model)
    inside = {name: f".{name.split('blocks.')[1].partition('.')[2]}." for name in layers}  # its name in the block
    for target in shape.targets:
        if not any(f".{target}." in it for it in inside.values()):
            parts = {part for it in inside.values() for part in (it.split(".")[1], it.strip("."))}
            raise invalid("train.adapter", target, "isn't a layer of this model", expected=_listed(parts))
    named = shape.targets or _TARGETS
    return {name: layers[name] for name, it in inside.items() if any(f".{target}." in it for target in named)}


def frozen_weights(model: nn.Module, train: TrainConfig) -> list[nn.Parameter]:
    """Return the weights of the parts in `train.freeze`. Raise ConfigError if the model has no such part."""
    found: dict[int, nn.Parameter] = {}
    modules = dict(model.named_modules())
    for part in train.freeze:
        if part == _EMBEDDINGS:
            inside: Iterable[nn.Module] = (
                it for it in modules.values() if isinstance(it, Front | Positions | TokenTypes)
            )
        elif part and part in modules:
            inside = [modules[part]]
        else:
            few = [name for name in modules if name and ("blocks." not in name or name.endswith("blocks.0"))]
            shown = [name for name in few if name.count(".") <= 1 or name.endswith("blocks.0")]
            raise invalid("train.freeze", part, "isn't a part of this model", expected=_listed([_EMBEDDINGS, *shown]))
        found |= {id(weight): weight for module in inside for weight in module.parameters()}
    return list(found.values())


def _nothing_left(train: TrainConfig) -> Exception:
    return invalid("train.freeze", train.freeze, "leaves nothing to train", expected="fewer parts")


def _listed(names: Iterable[str]) -> str:
    return f"one of {', '.join(sorted(names))}"
