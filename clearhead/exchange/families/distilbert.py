"""DistilBERT (Sanh et al. 2019): BERT with half the blocks, and without token types and pooler."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ..weight_names import Name
from .bert import FIXED, word_piece_tokens
from .encoder_heads import SETTINGS, encoder_names, lacking_head, read_head, written_labels
from .family import ACTIVATIONS, Family, Same
from .hf_config import HfConfig


class DistilBERT(Family):
    """DistilBERT."""

    title, model_type, prefix = "DistilBERT", "distilbert", "distilbert."
    architectures: ClassVar[Mapping[str, str]] = {
        "DistilBertModel": "embed",
        "DistilBertForMaskedLM": "fill",
        "DistilBertForSequenceClassification": "classify",
        "DistilBertForQuestionAnswering": "answer",
    }
    unused = ("embeddings.position_ids", "vocab_projector.weight")
    # Sinusoidal positions are stored like learned ones. The dropout of heads is that of the encoder here.
    without_effect = ("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "output_past", "tie_weights_")
    fixed: ClassVar[Mapping[str, Any]] = {**FIXED, "model.norm_eps": 1e-12}
    same = (
        Same("model.src_vocab_size", ("vocab_size",), 30522),
        Same("model.max_len", ("max_position_embeddings",), 512),
        Same("model.d_model", ("dim",), 768),
        Same("model.n_heads", ("n_heads",), 12),
        Same("model.n_encoder_layers", ("n_layers",), 6),
        Same("model.d_ff", ("hidden_dim",), 3072),
        Same("model.feed_forward", ("activation",), "gelu", ACTIVATIONS),
        Same("model.dropout", ("dropout",), 0.1),
        Same("model.attention_dropout", ("attention_dropout",), 0.1),
    )
    derived = (*SETTINGS, "model.pad_id", "model.bos_id", "model.eos_id", "model.unk_id", "model.mask_id")

    def more(self, hf_config: HfConfig, found: Mapping[str, Any], tokens: Mapping[str, int]) -> dict[str, Any]:
        return word_piece_tokens(hf_config, tokens)

    def head(self, hf_config: HfConfig, task: str) -> dict[str, Any]:
        return read_head(hf_config, task, "relu")

    def their_config(self, config: Config) -> dict[str, Any]:
        return {"pad_token_id": config.model.pad_id} | written_labels(config)

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        return super().lacks(model) | lacking_head(model, "relu")

    def names(self, model: ModelConfig) -> list[Name]:
        top = (
            ("embedding.weight", "embeddings.word_embeddings.weight"),
            ("positions.table", "embeddings.position_embeddings.weight"),
            ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
        )
        layer = "transformer.layer.{}"
        block = (
            ("attention.qkv", " ".join(f"{layer}.attention.{it}_lin" for it in "qkv")),
            ("attention.out", f"{layer}.attention.out_lin"),
            ("add_norm_1.norm", f"{layer}.sa_layer_norm"),
            ("feed_forward.inner", f"{layer}.ffn.lin1"),
            ("feed_forward.outer", f"{layer}.ffn.lin2"),
            ("add_norm_2.norm", f"{layer}.output_layer_norm"),
        )
        heads = {
            "class": (("hidden.weight", "pre_classifier.weight"), ("linear.weight", "classifier.weight")),
            "span": (("linear.weight", "qa_outputs.weight"),),
            "token": (
                ("transform.linear.weight", "vocab_transform.weight"),
                ("transform.norm.weight", "vocab_layer_norm.weight"),
                ("projection.bias", "vocab_projector.bias"),
            ),
        }
        return encoder_names(model, top, block, heads)
