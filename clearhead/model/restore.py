"""Restore a trained model from its configuration and weights."""

import re
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..config import ModelConfig
from ..config.custom_code import is_custom
from ..errors import ModelError
from ..folder.model_folder import CONFIG, load_weights
from .transformer import Decoder, Encoder, EncoderDecoder, EncoderModel, build

_FIRST = re.compile(r"(^|\.)blocks\.\d+\.")


def restore(config: ModelConfig, weights: Mapping[str, Tensor]) -> EncoderDecoder | EncoderModel | Encoder | Decoder:
    """Build the model that a configuration describes, and load its weights.

    Raises:
        ModelError: the weights belong to another configuration. This is checked before the model is built, since a
            wrong size could use up all memory.
    """
    check_shapes(config, {name: tuple(weight.shape) for name, weight in weights.items()})
    with nullcontext() if _has_custom_parts(config) else _Undrawn():
        model = build(config)
    load_weights(model, weights)
    return model


def check_shapes(config: ModelConfig, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ModelError if weights of these shapes can't belong to the configuration. Allocates nothing.

    Counts the blocks, and compares everything else with a model of one block per stack on torch's meta device.
    """
    for stack, topology in (("encoder", "decoder-only"), ("decoder", "encoder-only")):
        setting = f"n_{stack}_layers"
        expected, found = getattr(config, setting), _count_blocks(shapes, stack)
        if config.topology != topology and expected != found:
            what = f"model.{setting}={expected}, but the weights have {found} block{'s' * (found != 1)}"
            raise _mismatch(what, f"model.{setting}", expected)
    if _has_custom_parts(config):
        return  # a custom module might not work on the meta device
    expected_weights = _of_one_block(config)
    for name, shape in shapes.items():
        weight = expected_weights.get(_FIRST.sub(r"\1blocks.0.", name))
        if weight is not None and tuple(weight.shape) != shape:
            raise _mismatch(f"{name} has shape {shape}, but {CONFIG} needs {tuple(weight.shape)}", name, shape)


def missing_weights(config: ModelConfig, names: Collection[str]) -> list[str]:
    """Return the weights that a model without custom parts needs beyond these. Tied weights need one of their names."""
    ties: dict[int, list[str]] = {}
    for name, weight in _of_one_block(config).items():
        ties.setdefault(id(weight), []).append(name)
    missing = []
    for tied in ties.values():
        stack = "decoder" if tied[0].startswith("decoder.") or config.topology == "decoder-only" else "encoder"
        copies = getattr(config, f"n_{stack}_layers") if _FIRST.search(tied[0]) else 1
        for i in range(copies):
            here = [_FIRST.sub(rf"\1blocks.{i}.", name) for name in tied]
            if not any(name in names for name in here):
                missing.append(here[0])
    return missing


@lru_cache(maxsize=1)  # an import compares shapes and names
def _of_one_block(config: ModelConfig) -> dict[str, Tensor]:
    """Return the parameters of a model with at most one block per stack, on torch's meta device."""
    small: dict[str, Any] = {name: min(getattr(config, name), 1) for name in ("n_encoder_layers", "n_decoder_layers")}
    fixed_table = config.positions in ("sinusoidal", "sinusoidal_halves")
    if fixed_table:
        # It isn't among the weights. Computing it would import torch's compiler, and fail for a huge one.
        small |= {"positions": "learned", "max_len": 1}
    try:
        with torch.device("meta"):
            weights = build(replace(config, **small)).state_dict(keep_vars=True)
    except (ArithmeticError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"a model of this configuration can't be built: {error}", name=CONFIG) from error
    return {name: it for name, it in weights.items() if not (fixed_table and name.endswith("positions.table"))}


class _Undrawn(TorchFunctionMode):
    """Leaves out the drawing of initial weights, which takes longer than loading those that replace them.

    Custom modules don't run under it, since they may draw numbers that aren't weights.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in (Tensor.uniform_, Tensor.normal_) else func(*args, **(kwargs or {}))


def _has_custom_parts(config: ModelConfig) -> bool:
    return any(map(is_custom, (config.front, config.attention, config.positions, config.feed_forward, config.norm)))


def _count_blocks(shapes: Mapping[str, tuple[int, ...]], stack: str) -> int:
    numbers = (re.match(rf"(?:{stack}\.)?blocks\.(\d+)\.", name) for name in shapes)
    return len({found[1] for found in numbers if found})


def _mismatch(what: str, name: str, value: object) -> ModelError:
    return ModelError(what, fix=f"restore {CONFIG} and the weights from the same model", name=name, value=value)
