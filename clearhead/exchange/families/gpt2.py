"""GPT-2 (Radford et al. 2019): a pre-norm decoder with learned positions. Its matrices have a row for each input."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ..weight_names import Name, blocks
from .family import ACTIVATIONS, Family, Same
from .hf_config import HfConfig


class GPT2(Family):
    """GPT-2 and its relatives, such as DistilGPT-2."""

    title, model_type, prefix = "GPT-2", "gpt2", "transformer."
    architectures: ClassVar[Mapping[str, str]] = {"GPT2LMHeadModel": "generate", "GPT2Model": "generate"}
    unused = ("h.{}.attn.bias", "h.{}.attn.masked_bias", "lm_head.weight")
    without_effect = (
        *("summary_type", "summary_use_proj", "summary_activation", "summary_proj_to_labels", "n_ctx"),
        *("summary_first_dropout", "reorder_and_upcast_attn"),
    )
    fixed: ClassVar[Mapping[str, Any]] = {
        "model.topology": "decoder-only",
        "model.positions": "learned",
        "model.pre_norm": True,
        "model.embedding_scale": 1.0,
        "model.activation_dropout": 0.0,
        "model.unk_id": None,
        "model.mask_id": None,
        "model.tie": "target",
    }
    same = (
        Same("model.tgt_vocab_size", ("vocab_size",), 50257),
        Same("model.d_model", ("n_embd",), 768),
        Same("model.n_heads", ("n_head",), 12),
        Same("model.n_decoder_layers", ("n_layer",), 12),
        Same("model.max_len", ("n_positions",), 1024),
        Same("model.norm_eps", ("layer_norm_epsilon",), 1e-5),
        Same("model.feed_forward", ("activation_function",), "gelu_new", ACTIVATIONS),
        Same("model.dropout", ("resid_pdrop", "embd_pdrop"), 0.1),
        Same("model.attention_dropout", ("attn_pdrop",), 0.1),
        Same("model.bos_id", ("bos_token_id",), 50256),
        Same("model.eos_id", ("eos_token_id",), 50256),
    )
    derived = ("model.d_ff", "model.pad_id", "model.attention_scale", "model.src_vocab_size", "model.n_encoder_layers")

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        hf_config.expect("scale_attn_by_inverse_layer_idx", False)
        hf_config.expect("add_cross_attention", False)
        hf_config.expect("tie_word_embeddings", True)
        more = {
            "model.d_ff": hf_config.get("n_inner", 4 * found["model.d_model"]),
            "model.pad_id": hf_config.get("pad_token_id", found["model.tgt_vocab_size"]),
        }
        if more["model.pad_id"] == found["model.eos_id"]:  # padding has to be told from the end of a text
            more["model.pad_id"] = found["model.tgt_vocab_size"]
        return more | ({} if hf_config.get("scale_attn_weights", True) else {"model.attention_scale": 1.0})

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        pad = model.pad_id if model.pad_id < model.tgt_vocab_size else None
        return {"n_inner": model.d_ff, "pad_token_id": pad, "scale_attn_weights": model.attention_scale is None}

    def names(self, model: ModelConfig) -> list[Name]:
        block = (
            ("attention.qkv", "attn.c_attn", True),
            ("attention.out", "attn.c_proj", True),
            ("add_norm_1.norm", "ln_1", False),
            ("feed_forward.inner", "mlp.c_fc", True),
            ("feed_forward.outer", "mlp.c_proj", True),
            ("add_norm_3.norm", "ln_2", False),
        )
        each = [
            Name(f"blocks.{{}}.{ours}.weight", (f"h.{{}}.{theirs}.weight",), transposed)
            for ours, theirs, transposed in block
        ]
        return [
            Name("embedding.weight", ("wte.weight",)),
            Name("positions.table", ("wpe.weight",)),
            *blocks(model.n_decoder_layers, each),
            Name("norm.weight", ("ln_f.weight",)),
        ]
