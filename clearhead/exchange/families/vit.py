"""ViT (Dosovitskiy et al. 2021): a pre-norm encoder of patches, with a class token that the classifier reads."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...config import Config, ModelConfig
from ...config.front_geometry import image_positions
from ...folder.manifest import read_json_object
from ..weight_names import Name
from .bert import SAME
from .encoder_heads import EncoderFamily, Weights
from .family import Same
from .hf_config import HfConfig

_PROCESSOR = "preprocessor_config.json"
_BILINEAR = 2  # the number of the filter in Pillow
_HALF = 127.5  # our pixels are from -1 to 1: p / 127.5 - 1
_LAYER = "encoder.layer.{}"


class ViT(EncoderFamily):
    """ViT with a classifier. How pixels are normalised there becomes a part of the weights."""

    title, model_type, prefix, reads_text, pooler = "ViT", "vit", "vit.", False, "none"
    architectures: ClassVar[Mapping[str, str]] = {"ViTForImageClassification": "classify"}
    unused = ("embeddings.mask_token", "pooler.dense.weight", "pooler.dense.bias")
    without_effect = ("encoder_stride", "pooler_output_size", "pooler_act")
    fixed: ClassVar[Mapping[str, Any]] = {
        "model.topology": "encoder-only",
        "model.front": "patches",
        "model.positions": "learned",
        "model.pre_norm": True,
        "model.activation_dropout": 0.0,
        "model.head": "class",
        "model.pooling": "first",
        "data.modality": "image",
    }
    same = (*SAME, Same("model.image_channels", ("num_channels",), 3), Same("model.qkv_bias", ("qkv_bias",), True))
    derived = (
        *("model.image_size", "model.patch_size", "model.max_len", "model.n_classes"),
        *("model.src_vocab_size", "model.tgt_vocab_size", "model.n_decoder_layers"),  # without effect on images
        *("model.tie", "model.projection_bias", "model.embedding_scale", "model.normalize"),
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.start_id"),
    )

    top = (("norm.weight", "layernorm.weight"),)
    block = (
        ("add_norm_1.norm", f"{_LAYER}.layernorm_before"),
        ("attention.qkv", " ".join(f"{_LAYER}.attention.attention.{it}" for it in ("query", "key", "value"))),
        ("attention.out", f"{_LAYER}.attention.output.dense"),
        ("add_norm_2.norm", f"{_LAYER}.layernorm_after"),
        ("feed_forward.inner", f"{_LAYER}.intermediate.dense"),
        ("feed_forward.outer", f"{_LAYER}.output.dense"),
    )
    heads: ClassVar[Mapping[str, Weights]] = {"class": (("linear.weight", "classifier.weight"),)}

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        size, patch = _side(hf_config, "image_size", 224), _side(hf_config, "patch_size", 16)
        return {
            "model.image_size": size,
            "model.patch_size": patch,
            "model.max_len": image_positions(size, patch, class_token=True),
        }

    def adjusted(self, weights: dict[str, Tensor], hf_config: HfConfig) -> dict[str, Tensor]:
        scale, shift = _pixels(hf_config, _side(hf_config, "image_size", 224))
        weight, bias = (weights[f"encoder.embedding.project.{it}"] for it in ("weight", "bias"))
        if torch.allclose(scale, torch.ones_like(scale)) and torch.allclose(shift, torch.zeros_like(shift)):
            return weights
        each = weight.double().unflatten(1, (len(scale), -1))  # (D, C, P*P)
        found = {
            "weight": (each * scale[:, None]).flatten(1).to(weight.dtype),
            "bias": (bias.double() + each.sum(-1) @ shift).to(bias.dtype),
        }
        return weights | {f"encoder.embedding.project.{name}": it for name, it in found.items()}

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        return {"image_size": model.image_size, "patch_size": model.patch_size} | super().their_config(config)

    def files(self, config: Config) -> dict[str, bytes]:
        size = config.model.image_size
        means = [0.5] * (config.model.image_channels or 1)
        settings = {
            "image_processor_type": "ViTImageProcessor",
            "do_resize": True,
            "size": {"height": size, "width": size},
            "resample": _BILINEAR,
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": means,
            "image_std": means,
        }
        return {_PROCESSOR: (json.dumps(settings, indent=2) + "\n").encode()}

    def names(self, model: ModelConfig) -> list[Name]:
        width, channels, side = model.d_model, model.image_channels or 0, model.patch_size or 0
        flat, square = (width, channels * side**2), (width, channels, side, side)
        front, table = "encoder.embedding", "embeddings.position_embeddings"
        return [
            Name(f"{front}.class_token", ("embeddings.cls_token",), shapes=((width,), (1, 1, width))),
            Name(f"{front}.project.weight", ("embeddings.patch_embeddings.projection.weight",), shapes=(flat, square)),
            Name("encoder.positions.table", (table,), shapes=((model.max_len, width), (1, model.max_len, width))),
            *super().names(model),
        ]


def _side(hf_config: HfConfig, name: str, default: int) -> int:
    """Return the side of a square, for which they may have two numbers."""
    found = hf_config.get(name, default)
    sides = found if isinstance(found, list) else [found]
    if not all(isinstance(it, int) for it in sides) or len({*sides}) != 1:
        raise hf_config.unsupported(name, expected="a square")
    return sides[0]


def _pixels(hf_config: HfConfig, size: int) -> tuple[Tensor, Tensor]:
    """Return the factor and the offset that turn our pixels into theirs, for each channel. (C,), (C,)

    Ours: p / 127.5 - 1. Theirs: (p * rescale_factor - mean) / std.
    """
    path: Path = hf_config.path.with_name(_PROCESSOR)
    channels = hf_config.get("num_channels", 3)
    if not path.is_file():
        hf_config.notes.append(
            f"there is no {_PROCESSOR}: pixels are read as from -1 to 1, as the family does by default"
        )
        return torch.ones(channels, dtype=torch.float64), torch.zeros(channels, dtype=torch.float64)
    their = HfConfig(path, read_json_object(path))
    their.expect("resample", _BILINEAR)
    their.expect("do_center_crop", False)
    their.expect("size", size, {"height": size, "width": size})
    factor = their.get("rescale_factor", 1 / 255) if their.get("do_rescale", True) else 1.0
    normalised = their.get("do_normalize", True)
    means, deviations = (
        _numbers(their, name, channels) if normalised else torch.full((channels,), neutral, dtype=torch.float64)
        for name, neutral in (("image_mean", 0.0), ("image_std", 1.0))
    )
    return _HALF * factor / deviations, (_HALF * factor - means) / deviations


def _numbers(hf_config: HfConfig, name: str, channels: int) -> Tensor:
    """Return a number for each channel."""
    found = hf_config.get(name, [0.5] * channels)
    fits = isinstance(found, list) and len(found) == channels and all(isinstance(it, float | int) for it in found)
    if not fits or (name == "image_std" and 0 in found):
        raise hf_config.unsupported(name, expected=f"{channels} numbers, one for each channel")
    return torch.tensor(found, dtype=torch.float64)
