"""Marian (Junczys-Dowmunt et al. 2018) and BART (Lewis et al. 2020): post-norm encoder-decoders.

Marian's models are those of the paper, with all sines of a position before its cosines. BART learns its positions, and
normalises embeddings.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ..weight_names import Name, blocks
from .family import EncoderDecoderFamily, Same
from .hf_config import HfConfig

_ACTIVATIONS = {"relu": "relu", "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_new": "gelu_tanh"}
_TWICE = {"encoder_attention_heads": "decoder_attention_heads", "encoder_ffn_dim": "decoder_ffn_dim"}
# Weights with the dimensions of hidden states along their first axis, and along their last one.
_FIRST = re.compile(r"\b(out|outer)\.(weight|bias)$|norm\.(weight|bias)$")
_LAST = re.compile(r"\b(embedding|qkv|q|kv|inner|projection)\.weight$")


class Bart(EncoderDecoderFamily):
    """BART and models with the same parts, such as DistilBART."""

    title, model_type, prefix = "BART", "bart", "model."
    architectures: ClassVar[Mapping[str, str]] = {"BartForConditionalGeneration": "summarize", "BartModel": "summarize"}
    unused: ClassVar[Sequence[str]] = (
        *("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"),
        *("encoder.version", "decoder.version"),
    )
    without_effect: ClassVar[Sequence[str]] = (
        *EncoderDecoderFamily.without_effect,
        *("encoder_layerdrop", "decoder_layerdrop", "extra_pos_embeddings"),
        *("classif_dropout", "gradient_checkpointing", "num_hidden_layers"),
    )
    fixed: ClassVar[Mapping[str, Any]] = {
        "model.topology": "encoder-decoder",
        "model.positions": "learned",
        "model.embedding_norm": True,
    }
    same: ClassVar[Sequence[Same]] = (
        Same("model.src_vocab_size", ("vocab_size",), 50265),
        Same("model.d_model", ("d_model",), 1024),
        Same("model.n_heads", ("encoder_attention_heads", "decoder_attention_heads"), 16),
        Same("model.d_ff", ("encoder_ffn_dim", "decoder_ffn_dim"), 4096),
        Same("model.n_encoder_layers", ("encoder_layers",), 12),
        Same("model.n_decoder_layers", ("decoder_layers",), 12),
        Same("model.max_len", ("max_position_embeddings",), 1024),
        Same("model.feed_forward", ("activation_function",), "gelu", _ACTIVATIONS),
        Same("model.dropout", ("dropout",), 0.1),
        Same("model.attention_dropout", ("attention_dropout",), 0.0),
        Same("model.activation_dropout", ("activation_dropout",), 0.0),
    )
    special: ClassVar[Mapping[str, int | None]] = {"pad": 1, "bos": 0, "eos": 2, "decoder_start": 2}

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        hf_config.expect("normalize_before", False)
        hf_config.expect("add_final_layer_norm", False)
        for encoder, decoder in _TWICE.items():
            if hf_config.get(encoder) != hf_config.get(decoder):
                raise hf_config.unsupported(decoder, expected=f"the same as {encoder}={hf_config.get(encoder)}")
        scale = None if hf_config.get("scale_embedding", False) else 1.0
        more = super().more(hf_config, found) | self.embeddings(hf_config, found)
        return more | {"model.embedding_scale": scale}

    def embeddings(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return our settings for embeddings and the output projection."""
        hf_config.expect("tie_word_embeddings", True)
        hf_config.expect("normalize_embedding", True)
        hf_config.expect("add_bias_logits", False)
        hf_config.expect("static_position_embeddings", False)
        return {"model.tgt_vocab_size": found["model.src_vocab_size"], "model.projection_bias": True}

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        found, scale = super().lacks(model), model.resolved()["model.embedding_scale"]
        fits = any(math.isclose(scale, it) for it in (1.0, model.d_model**0.5))
        return found if fits else found | {"model.embedding_scale": f"1 or {model.d_model**0.5:g}"}

    def their_config(self, config: Config) -> dict[str, Any]:
        scaled = config.model.resolved()["model.embedding_scale"] != 1
        return super().their_config(config) | {"scale_embedding": scaled} | self.their_embeddings(config.model)

    def their_embeddings(self, model: ModelConfig) -> dict[str, Any]:
        """Return their settings for embeddings and positions."""
        return {"tie_word_embeddings": True}

    def names(self, model: ModelConfig) -> list[Name]:
        positions = [
            Name(f"{side}.positions.table", (f"{side}.embed_positions.weight",), skipped=2)
            for side in ("encoder", "decoder")
        ]
        norms = [
            Name(f"{side}.embedding_norm.weight", (f"{side}.layernorm_embedding.weight",))
            for side in ("encoder", "decoder")
        ]
        return [_logits_bias(model), *_shared(), *positions, *norms, *_blocks(model)]


class Marian(Bart):
    """Marian's models, such as those of OPUS-MT. Sines between cosines, our default, are reordered for export."""

    title, model_type = "Marian", "marian"
    architectures: ClassVar[Mapping[str, str]] = {"MarianMTModel": "translate", "MarianModel": "translate"}
    unused: ClassVar[Sequence[str]] = (*Bart.unused, "encoder.embed_positions.weight", "decoder.embed_positions.weight")
    fixed: ClassVar[Mapping[str, Any]] = {"model.topology": "encoder-decoder", "model.positions": "sinusoidal_halves"}
    same: ClassVar[Sequence[Same]] = (
        Same("model.src_vocab_size", ("vocab_size",), 58101),
        Same("model.max_len", ("max_position_embeddings",), 1024),
        *(it for it in Bart.same if it.ours not in ("model.src_vocab_size", "model.max_len")),
    )
    derived: ClassVar[Sequence[str]] = (*Bart.derived, "model.tie", "model.positions")
    special: ClassVar[Mapping[str, int | None]] = {"pad": 58100, "bos": None, "eos": 0, "decoder_start": 58100}

    def embeddings(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        hf_config.expect("normalize_embedding", False)
        hf_config.expect("static_position_embeddings", True)
        hf_config.get("add_bias_logits")
        source = found["model.src_vocab_size"]
        shared = hf_config.get("share_encoder_decoder_embeddings", True)
        target = hf_config.get("decoder_vocab_size", source)
        tied = hf_config.get("tie_word_embeddings", True)
        if shared and not tied:
            raise hf_config.unsupported("tie_word_embeddings", expected="true if share_encoder_decoder_embeddings is")
        return {
            "model.tgt_vocab_size": source if shared else target,
            "model.tie": "all" if shared else "target" if tied else "none",
            "model.projection_bias": True,
        }

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        found = super().lacks(model)
        waves = ("sinusoidal", "sinusoidal_halves")
        if model.positions not in waves:
            found["model.positions"] = " or ".join(waves)
        return found | ({"model.tie": "all, target or none"} if model.tie == "embeddings" else {})

    def their_embeddings(self, model: ModelConfig) -> dict[str, Any]:
        return {
            "share_encoder_decoder_embeddings": model.tie == "all",
            "tie_word_embeddings": model.tie != "none",
            "decoder_vocab_size": model.tgt_vocab_size,
            "static_position_embeddings": True,
        }

    def arranged(self, model: ModelConfig, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return reordered_dims(weights, sines_first(model.d_model)) if model.positions == "sinusoidal" else weights

    def names(self, model: ModelConfig) -> list[Name]:
        own = [
            Name("encoder.embedding.weight", ("encoder.embed_tokens.weight",)),
            Name("decoder.embedding.weight", ("decoder.embed_tokens.weight",), also=("lm_head.weight",)),
        ]
        projection = [Name("decoder.projection.weight", ("lm_head.weight",), head=True)] if model.tie == "none" else []
        tables = _shared() if model.tie == "all" else [*own, *projection]
        return [_logits_bias(model), *tables, *_blocks(model)]  # before lm_head, which has no bias of its own


def _shared() -> list[Name]:
    also = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
    return [Name("encoder.embedding.weight", ("shared.weight",), also=also)]


def _logits_bias(model: ModelConfig) -> Name:
    size = model.tgt_vocab_size
    shapes = ((size,), (1, size))
    return Name("decoder.projection.bias", ("final_logits_bias",), shapes=shapes, head=True, zero=True)


def _blocks(model: ModelConfig) -> list[Name]:
    """Return the names of the blocks of both stacks."""
    encoder = _block("encoder", {"attention": "self_attn"}, ("self_attn_layer_norm", "final_layer_norm"), (1, 2))
    norms = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
    decoder = _block("decoder", {"attention": "self_attn", "cross_attention": "encoder_attn"}, norms, (1, 2, 3))
    return [*blocks(model.n_encoder_layers, encoder), *blocks(model.n_decoder_layers, decoder)]


def _block(stack: str, attentions: Mapping[str, str], norms: Sequence[str], numbers: Sequence[int]) -> list[Name]:
    ours, theirs = f"{stack}.blocks.{{}}", f"{stack}.layers.{{}}"
    found: list[Name] = []
    for attention, name in attentions.items():
        at = f"{ours}.{attention}"
        q, k, v = (f"{theirs}.{name}.{it}_proj.weight" for it in "qkv")
        crossing = [Name(f"{at}.q.weight", (q,)), Name(f"{at}.kv.weight", (k, v))]
        found += crossing if attention == "cross_attention" else [Name(f"{at}.qkv.weight", (q, k, v))]
        found.append(Name(f"{at}.out.weight", (f"{theirs}.{name}.out_proj.weight",)))
    found += [
        Name(f"{ours}.add_norm_{number}.norm.weight", (f"{theirs}.{norm}.weight",))
        for number, norm in zip(numbers, norms)
    ]
    return [
        *found,
        Name(f"{ours}.feed_forward.inner.weight", (f"{theirs}.fc1.weight",)),
        Name(f"{ours}.feed_forward.outer.weight", (f"{theirs}.fc2.weight",)),
    ]


def sines_first(d_model: int) -> Tensor:
    """Return the order that puts the sines of sinusoidal positions before the cosines. -> (D,)"""
    return torch.cat((torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)))


def reordered_dims(weights: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """Return the weights of the same model with the dimensions of its hidden states in another order.

    Args:
        weights: the weights of an encoder-decoder that reads tokens.
        order: the old index of each new dimension, (D,).
    """
    found: dict[str, Tensor] = {}
    tied: dict[int, Tensor] = {}
    for name, weight in weights.items():
        if weight.data_ptr() not in tied:
            if _FIRST.search(name):
                tied[weight.data_ptr()] = weight[order]
            elif _LAST.search(name):
                tied[weight.data_ptr()] = weight[..., order]
            else:
                tied[weight.data_ptr()] = weight
        found[name] = tied[weight.data_ptr()]
    return found
