"""BERT (Devlin et al. 2019), a post-norm encoder that reads two types of tokens, question and text; DistilBERT; and
RoBERTa (Liu et al. 2019), with a byte-level vocabulary, and positions that count from the padding's id."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ..weight_names import Name
from .encoder_heads import EncoderFamily, Weights
from .family import ACTIVATIONS, Same
from .hf_config import HfConfig

_LAYER, _DISTIL_LAYER = "encoder.layer.{}", "transformer.layer.{}"
_BLOCK = (
    ("attention.qkv", " ".join(f"{_LAYER}.attention.self.{it}" for it in ("query", "key", "value"))),
    ("attention.out", f"{_LAYER}.attention.output.dense"),
    ("add_norm_1.norm", f"{_LAYER}.attention.output.LayerNorm"),
    ("feed_forward.inner", f"{_LAYER}.intermediate.dense"),
    ("feed_forward.outer", f"{_LAYER}.output.dense"),
    ("add_norm_2.norm", f"{_LAYER}.output.LayerNorm"),
)

_FIXED: Mapping[str, Any] = {
    "model.topology": "encoder-only",
    "model.positions": "learned",
    "model.embedding_norm": True,
    "model.embedding_scale": 1.0,
    "model.activation_dropout": 0.0,
}

SAME = (
    Same("model.d_model", ("hidden_size",), 768),
    Same("model.n_heads", ("num_attention_heads",), 12),
    Same("model.n_encoder_layers", ("num_hidden_layers",), 12),
    Same("model.d_ff", ("intermediate_size",), 3072),
    Same("model.norm_eps", ("layer_norm_eps",), 1e-12),
    Same("model.feed_forward", ("hidden_act",), "gelu", ACTIVATIONS),
    Same("model.dropout", ("hidden_dropout_prob",), 0.1),
    Same("model.attention_dropout", ("attention_probs_dropout_prob",), 0.1),
)
"""Settings that BERT, RoBERTa and ViT have under the same names."""


class BERT(EncoderFamily):
    """BERT and encoders of its shape, such as MiniLM."""

    title, model_type, prefix = "BERT", "bert", "bert."
    architectures: ClassVar[Mapping[str, str]] = {
        "BertModel": "embed",
        "BertForMaskedLM": "fill",
        "BertForPreTraining": "fill",
        "BertForSequenceClassification": "classify",
        "BertForQuestionAnswering": "answer",
    }
    unused = (
        *("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"),
        *("cls.seq_relationship.weight", "cls.seq_relationship.bias"),
        *("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"),
    )
    without_effect = ("classifier_dropout", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
                      "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type")  # fmt: skip
    fixed = _FIXED
    same = (
        *SAME,
        Same("model.src_vocab_size", ("vocab_size",), 30522),
        Same("model.max_len", ("max_position_embeddings",), 512),
        Same("model.n_token_types", ("type_vocab_size",), 2),
    )

    top = (
        ("embedding.weight", "embeddings.word_embeddings.weight"),
        ("positions.table", "embeddings.position_embeddings.weight"),
        ("types.weight", "embeddings.token_type_embeddings.weight"),
        ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    )
    block = _BLOCK
    heads: ClassVar[Mapping[str, Weights]] = {
        "class": (("linear.weight", "classifier.weight"),),
        "span": (("linear.weight", "qa_outputs.weight"),),
        "token": (
            ("transform.linear.weight", "cls.predictions.transform.dense.weight"),
            ("transform.norm.weight", "cls.predictions.transform.LayerNorm.weight"),
            ("projection.bias", "cls.predictions.bias"),
        ),
    }

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        _expect_encoder(hf_config)
        return _word_piece_tokens(hf_config)

    def their_config(self, config: Config) -> dict[str, Any]:
        return {"pad_token_id": config.model.pad_id} | super().their_config(config)

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        types = {} if model.n_token_types else {"model.n_token_types": "2"}
        return types | super().lacks(model)

    def names(self, model: ModelConfig) -> list[Name]:
        pooler = [Name("head.hidden.weight", ("pooler.dense.weight",))] if model.head == "class" else []
        return super().names(model) + pooler


class DistilBERT(EncoderFamily):
    """DistilBERT (Sanh et al. 2019): BERT with half the blocks, and without token types and pooler."""

    title, model_type, prefix, pooler = "DistilBERT", "distilbert", "distilbert.", "relu"
    architectures: ClassVar[Mapping[str, str]] = {
        "DistilBertModel": "embed",
        "DistilBertForMaskedLM": "fill",
        "DistilBertForSequenceClassification": "classify",
        "DistilBertForQuestionAnswering": "answer",
    }
    unused = ("embeddings.position_ids", "vocab_projector.weight")
    # Sinusoidal positions are stored like learned ones. The dropout of heads is that of the encoder here.
    without_effect = ("sinusoidal_pos_embds", "qa_dropout", "seq_classif_dropout", "output_past", "tie_weights_")
    fixed: ClassVar[Mapping[str, Any]] = {**_FIXED, "model.norm_eps": 1e-12}
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

    top = (
        ("embedding.weight", "embeddings.word_embeddings.weight"),
        ("positions.table", "embeddings.position_embeddings.weight"),
        ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    )
    block = (
        ("attention.qkv", " ".join(f"{_DISTIL_LAYER}.attention.{it}_lin" for it in "qkv")),
        ("attention.out", f"{_DISTIL_LAYER}.attention.out_lin"),
        ("add_norm_1.norm", f"{_DISTIL_LAYER}.sa_layer_norm"),
        ("feed_forward.inner", f"{_DISTIL_LAYER}.ffn.lin1"),
        ("feed_forward.outer", f"{_DISTIL_LAYER}.ffn.lin2"),
        ("add_norm_2.norm", f"{_DISTIL_LAYER}.output_layer_norm"),
    )
    heads: ClassVar[Mapping[str, Weights]] = {
        "class": (("hidden.weight", "pre_classifier.weight"), ("linear.weight", "classifier.weight")),
        "span": (("linear.weight", "qa_outputs.weight"),),
        "token": (
            ("transform.linear.weight", "vocab_transform.weight"),
            ("transform.norm.weight", "vocab_layer_norm.weight"),
            ("projection.bias", "vocab_projector.bias"),
        ),
    }

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        return _word_piece_tokens(hf_config)

    def their_config(self, config: Config) -> dict[str, Any]:
        return {"pad_token_id": config.model.pad_id} | super().their_config(config)


class RoBERTa(EncoderFamily):
    """RoBERTa. All its tokens have type 0, so the vector of that type becomes a part of the positions."""

    title, model_type, prefix = "RoBERTa", "roberta", "roberta."
    architectures: ClassVar[Mapping[str, str]] = {
        "RobertaModel": "embed",
        "RobertaForMaskedLM": "fill",
        "RobertaForSequenceClassification": "classify",
        "RobertaForQuestionAnswering": "answer",
    }
    unused = (
        *("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"),
        *("lm_head.decoder.weight", "lm_head.decoder.bias"),
    )
    without_effect = ("classifier_dropout", "type_vocab_size", "max_position_embeddings")
    fixed = _FIXED
    same = (*SAME, Same("model.src_vocab_size", ("vocab_size",), 50265))
    derived = (*EncoderFamily.derived, "model.max_len", "model.n_separators")

    top = (
        ("embedding.weight", "embeddings.word_embeddings.weight"),
        ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    )
    block = _BLOCK
    heads: ClassVar[Mapping[str, Weights]] = {
        "class": (("hidden.weight", "classifier.dense.weight"), ("linear.weight", "classifier.out_proj.weight")),
        "span": (("linear.weight", "qa_outputs.weight"),),
        "token": (
            ("transform.linear.weight", "lm_head.dense.weight"),
            ("transform.norm.weight", "lm_head.layer_norm.weight"),
            ("projection.bias", "lm_head.bias"),
        ),
    }

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        _expect_encoder(hf_config)
        pad = hf_config.known_token("pad", 1)
        return {
            "model.pad_id": pad,
            "model.bos_id": hf_config.known_token("bos", 0),
            "model.eos_id": hf_config.known_token("eos", 2),
            "model.unk_id": hf_config.token("unk", hf_config.tokens.get("<unk>")),
            "model.mask_id": hf_config.token("mask", hf_config.tokens.get("<mask>")),
            "model.max_len": hf_config.get("max_position_embeddings", 512) - pad - 1,
        }

    def head(self, hf_config: HfConfig, task: str) -> dict[str, Any]:
        if task == "fill":
            hf_config.expect("hidden_act", "gelu")  # the head's own function, whatever that of the blocks
        return super().head(hf_config, task) | ({"model.n_separators": 2} if task == "answer" else {})

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        return {
            "pad_token_id": model.pad_id,
            "bos_token_id": model.bos_id,
            "eos_token_id": model.eos_id,
            "max_position_embeddings": model.max_len + model.pad_id + 1,
            "type_vocab_size": 1,
        } | super().their_config(config)

    def names(self, model: ModelConfig) -> list[Name]:
        positions = Name(
            f"{'' if model.head == 'none' else 'encoder.'}positions.table",
            ("embeddings.position_embeddings.weight",),
            skipped=model.pad_id + 1,
            added="embeddings.token_type_embeddings.weight",
        )
        return [positions, *super().names(model)]


def _expect_encoder(hf_config: HfConfig) -> None:
    """Raise ModelError if a BERT has parts that ours hasn't."""
    hf_config.expect("position_embedding_type", "absolute")
    hf_config.expect("is_decoder", False)
    hf_config.expect("add_cross_attention", False)


def _word_piece_tokens(hf_config: HfConfig) -> dict[str, Any]:
    """Return the special tokens of BERT's vocabulary: a text begins with [CLS] and ends with [SEP]."""
    return {
        "model.pad_id": hf_config.token("pad", hf_config.tokens.get("[PAD]", 0)),
        "model.bos_id": hf_config.known_token("cls", hf_config.tokens.get("[CLS]")),
        "model.eos_id": hf_config.known_token("sep", hf_config.tokens.get("[SEP]")),
        "model.unk_id": hf_config.token("unk", hf_config.tokens.get("[UNK]")),
        "model.mask_id": hf_config.token("mask", hf_config.tokens.get("[MASK]")),
    }
