"""T5 (Raffel et al. 2020): a pre-norm encoder-decoder with relative positions and without biases.

Version 1.0 has ReLU, and one matrix for embeddings and logits, which are scaled. Version 1.1 and Flan-T5 have GeGLU and
an output projection of their own.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ..weight_names import Name, blocks
from .family import EncoderDecoderFamily, Same
from .hf_config import HfConfig

_ACTIVATIONS = {"relu": "relu", "gated-gelu": "geglu", "gated-silu": "swiglu", "silu": "silu", "gelu_new": "gelu_tanh"}
_BUCKETS = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_PROJECTION = "lm_head.weight"


class T5(EncoderDecoderFamily):
    """T5 1.0 and 1.1, Flan-T5, and models with the same parts."""

    title, model_type = "T5", "t5"
    architectures: ClassVar[Mapping[str, str]] = {"T5ForConditionalGeneration": "translate", "T5Model": "translate"}
    unused = (
        *("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", _PROJECTION),
        "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",
    )
    without_effect: ClassVar[Sequence[str]] = (
        *EncoderDecoderFamily.without_effect,
        *("dense_act_fn", "is_gated_act", "initializer_factor", "output_past", "is_decoder"),
    )
    fixed: ClassVar[Mapping[str, Any]] = {
        "model.topology": "encoder-decoder",
        "model.positions": "relative",
        "model.pre_norm": True,
        "model.norm": "rms",
        "model.bias": False,
        "model.attention_scale": 1.0,
        "model.embedding_scale": 1.0,
        "model.projection_bias": False,
    }
    same = (
        Same("model.src_vocab_size", ("vocab_size",), 32128),
        Same("model.d_model", ("d_model",), 512),
        Same("model.d_head", ("d_kv",), 64),
        Same("model.d_ff", ("d_ff",), 2048),
        Same("model.n_heads", ("num_heads",), 8),
        Same("model.n_encoder_layers", ("num_layers",), 6),
        Same("model.max_len", ("n_positions",), 512),
        Same("model.norm_eps", ("layer_norm_epsilon",), 1e-6),
        Same("model.feed_forward", ("feed_forward_proj",), "relu", _ACTIVATIONS),
        Same("model.dropout", ("dropout_rate",), 0.1),
    )
    special: ClassVar[Mapping[str, int | None]] = {"pad": 0, "bos": None, "eos": 1, "decoder_start": None}
    derived: ClassVar[Sequence[str]] = (
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.start_id", "model.tgt_vocab_size"),
        *("model.n_decoder_layers", "model.tie", "model.logit_scale", "model.relative_buckets"),
    )

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        tied = hf_config.get("tie_word_embeddings", True)
        scaled = hf_config.get("scale_decoder_outputs", tied)
        own = not scaled and _PROJECTION in hf_config.weights
        return super().more(hf_config, found) | {
            "model.tgt_vocab_size": found["model.src_vocab_size"],
            "model.n_decoder_layers": hf_config.get("num_decoder_layers", found["model.n_encoder_layers"]),
            "model.relative_buckets": tuple(hf_config.get(name, default) for name, default in _BUCKETS.items()),
            "model.tie": "embeddings" if own else "all",
            "model.logit_scale": found["model.d_model"] ** -0.5 if scaled else 1.0,
        }

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        found = super().lacks(model)
        if model.tie not in ("all", "embeddings"):
            found["model.tie"] = "all or embeddings"
        scales = [1.0, *([model.d_model**-0.5] if model.tie == "all" else [])]
        if not any(math.isclose(model.logit_scale, it) for it in scales):
            found["model.logit_scale"] = " or ".join(f"{it:g}" for it in scales)
        return found

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        return super().their_config(config) | {
            **dict(zip(_BUCKETS, model.relative_buckets)),
            "num_decoder_layers": model.n_decoder_layers,
            "tie_word_embeddings": model.logit_scale != 1,
        }

    def names(self, model: ModelConfig) -> list[Name]:
        also = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
        found = [Name("encoder.embedding.weight", ("shared.weight",), also=also)]
        for stack, layers in (("encoder", model.n_encoder_layers), ("decoder", model.n_decoder_layers)):
            table = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            found += [
                Name(f"{stack}.positions.table", (table,)),
                *blocks(layers, _block(stack, gated=model.gated)),
                Name(f"{stack}.norm.weight", (f"{stack}.final_layer_norm.weight",)),
            ]
        own = model.tie == "embeddings"
        return [*found, Name("decoder.projection.weight", (_PROJECTION,))] if own else found


def _block(stack: str, *, gated: bool) -> list[Name]:
    ours, theirs = f"{stack}.blocks.{{}}", f"{stack}.block.{{}}.layer"
    q, k, v, out = (f"{theirs}.0.SelfAttention.{it}.weight" for it in "qkvo")
    found = [
        Name(f"{ours}.attention.qkv.weight", (q, k, v)),
        Name(f"{ours}.attention.out.weight", (out,)),
        Name(f"{ours}.add_norm_1.norm.weight", (f"{theirs}.0.layer_norm.weight",)),
    ]
    if stack == "decoder":
        q, k, v, out = (f"{theirs}.1.EncDecAttention.{it}.weight" for it in "qkvo")
        found += [
            Name(f"{ours}.cross_attention.q.weight", (q,)),
            Name(f"{ours}.cross_attention.kv.weight", (k, v)),
            Name(f"{ours}.cross_attention.out.weight", (out,)),
            Name(f"{ours}.add_norm_2.norm.weight", (f"{theirs}.1.layer_norm.weight",)),
        ]
    last, number = (2, 3) if stack == "decoder" else (1, 2)
    network = f"{theirs}.{last}.DenseReluDense"
    inner = ("wi_0", "wi_1") if gated else ("wi",)
    return [
        *found,
        Name(f"{ours}.feed_forward.inner.weight", tuple(f"{network}.{it}.weight" for it in inner)),
        Name(f"{ours}.feed_forward.outer.weight", (f"{network}.wo.weight",)),
        Name(f"{ours}.add_norm_{number}.norm.weight", (f"{theirs}.{last}.layer_norm.weight",)),
    ]
