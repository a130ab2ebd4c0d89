"""Restore a trained model from its configuration and weights."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..config import ModelConfig
from ..config.custom_code import is_custom
from ..folder.model_folder import load_weights
from ..folder.weight_table import check_shapes
from .linear import learned_state
from .transformer import Decoder, Encoder, EncoderDecoder, EncoderModel, build


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


def load_learned(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy what `learned_state` returned into a model. Raise KeyError if a weight is missing."""
    own = learned_state(model)
    state = model.state_dict()
    if len(own) == len(state):
        load_weights(model, weights)
    else:
        load_weights(model, {**state, **{name: weights[name] for name in own}})


class _Undrawn(TorchFunctionMode):
    """Leaves out the drawing of initial weights, which takes longer than loading those that replace them.

    Custom modules don't run under it, since they may draw numbers that aren't weights.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if func in (Tensor.uniform_, Tensor.normal_) else func(*args, **(kwargs or {}))


def _has_custom_parts(config: ModelConfig) -> bool:
    return any(map(is_custom, (config.front, config.attention, config.positions, config.feed_forward, config.norm)))
