"""Check that the scripts of a page can run a model. Unsupported settings are rejected by name."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from ...config import TASKS, Config, ModelConfig
from ...config.values import spell
from ...errors import ModelError
from ...model.feed_forward import FEED_FORWARDS

_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi")
_CHOICES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "topology": ("encoder-decoder", "decoder-only"),
        "front": ("tokens",),
        "attention": ("softmax",),
        "positions": _POSITIONS,
        "norm": ("layer", "rms"),
        "feed_forward": tuple(FEED_FORWARDS),
        "copy": (False,),
        "end": (True,),
    }
)
_ANY = (
    "src_vocab_size", "tgt_vocab_size", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "n_encoder_layers",
    "n_decoder_layers", "max_len", "attention_scale", "window", "rotary", "norm_eps", "pre_norm",
    "final_norm", "embedding_norm", "embedding_scale", "bias", "qkv_bias", "tie", "projection_bias", "logit_scale",
    "begin", "start_id", "mask_id",
    "dropout", "attention_dropout", "activation_dropout",  # only in training
)  # fmt: skip


def check_task(config: Config) -> None:
    """Raise ModelError if the scripts can't do a model's task."""
    task = config.train.task or "translate"
    able = [name for name, spec in TASKS.items() if spec.in_page]
    if task not in able:
        raise _unsupported("train.task", task, " or ".join(able))
    if config.data.modality != "text":
        raise _unsupported("data.modality", config.data.modality, "text")


def check_settings(model: ModelConfig) -> None:
    """Raise ModelError if the scripts can't run a model, with the first setting that they don't know."""
    for setting in fields(model):
        value = getattr(model, setting.name)
        known = _CHOICES.get(setting.name, (setting.default,))
        if setting.name not in _ANY and value not in known:
            expected = ", ".join(map(spell, (it for it in known if it is not None)))
            raise _unsupported(f"model.{setting.name}", value, expected)


def _unsupported(name: str, value: Any, expected: str) -> ModelError:
    what = f"{name}={spell(value)} can't run in a page"
    return ModelError(what, expected=expected, fix="serve the model with `clearhead serve`", name=name, value=value)
