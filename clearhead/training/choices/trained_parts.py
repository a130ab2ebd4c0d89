"""Weights that a run trains: all, all but frozen parts, or an adapter of a trained model (LoRA, Hu et al. 2021)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from ...config import Config, TrainConfig
from ...config.notations import LoraShape, read_adapter
from ...config.values import invalid
from ...model.fronts.front import Front
from ...model.fronts.tokens import TokenTypes
from ...model.linear import Linear, add_lora, block_layers
from ...model.positions import Positions
from ...model.transformer import build

_EMBEDDINGS = "embeddings"
_RANK, _SHARE = 8, 0.02  # default rank of an adapter, and the share of the weights that it may have
_TARGETS = ("attention", "cross_attention")


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
