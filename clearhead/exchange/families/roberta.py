"""RoBERTa (Liu et al. 2019): BERT with a byte-level vocabulary, and positions that count from the padding's id."""

from collections.abc import Mapping
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ..weight_names import Name
from .bert import BLOCK, FIXED, SAME, expect_encoder
from .encoder_heads import EncoderFamily, Weights
from .family import Same
from .hf_config import HfConfig


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
    fixed = FIXED
    same = (*SAME, Same("model.src_vocab_size", ("vocab_size",), 50265))
    derived = (*EncoderFamily.derived, "model.max_len", "model.n_separators")

    top = (
        ("embedding.weight", "embeddings.word_embeddings.weight"),
        ("embedding_norm.weight", "embeddings.LayerNorm.weight"),
    )
    block = BLOCK
    heads: ClassVar[Mapping[str, Weights]] = {
        "class": (("hidden.weight", "classifier.dense.weight"), ("linear.weight", "classifier.out_proj.weight")),
        "span": (("linear.weight", "qa_outputs.weight"),),
        "token": (
            ("transform.linear.weight", "lm_head.dense.weight"),
            ("transform.norm.weight", "lm_head.layer_norm.weight"),
            ("projection.bias", "lm_head.bias"),
        ),
    }

    def more(self, hf_config: HfConfig, found: Mapping[str, Any], tokens: Mapping[str, int]) -> dict[str, Any]:
        expect_encoder(hf_config)
        pad = hf_config.known_token("pad", 1)
        return {
            "model.pad_id": pad,
            "model.bos_id": hf_config.known_token("bos", 0),
            "model.eos_id": hf_config.known_token("eos", 2),
            "model.unk_id": hf_config.token("unk", tokens.get("<unk>")),
            "model.mask_id": hf_config.token("mask", tokens.get("<mask>")),
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
