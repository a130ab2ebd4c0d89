"""From a configuration to the parts of a model: the one place where a setting chooses a class."""

from typing import Any, TypeVar

from torch import nn

from ..config import ModelConfig
from ..errors import ConfigError
from .attention import ATTENTIONS, Attend, CrossAttention, SelfAttention
from .blocks import DecoderBlock, EncoderBlock
from .embedding import Embedding
from .feed_forward import FeedForward, SwiGLU
from .heads import Classifier, SpanFinder, TokenPredictor
from .norms import NORMS, LayerNorm
from .positions import POSITIONS, Positions
from .residual import AddNorm
from .seams import Seam

A = TypeVar("A", SelfAttention, CrossAttention)

ATTENTION = Seam[nn.Module]("model.attention", ATTENTIONS, nn.Module, Attend, ("forward", "weights"))
ORDER = Seam[Positions]("model.positions", POSITIONS, Positions, Positions, ("embed", "rotation", "bias"))
NORM = Seam[nn.Module]("model.norm", NORMS, nn.Module, LayerNorm, ("forward",))


def encoder_blocks(config: ModelConfig) -> list[EncoderBlock]:
    """The N blocks on the left of Figure 1."""
    return [
        EncoderBlock(_attention(config, SelfAttention), _feed_forward(config), [_add_norm(config) for _ in range(2)])
        for _ in range(config.n_encoder_layers)
    ]


def decoder_blocks(config: ModelConfig, *, cross: bool) -> list[DecoderBlock]:
    """The N blocks on the right; without `cross` those of a language model."""
    return [
        DecoderBlock(
            _attention(config, SelfAttention),
            _attention(config, CrossAttention) if cross else None,
            _feed_forward(config),
            [_add_norm(config) for _ in range(3 if cross else 2)],
        )
        for _ in range(config.n_decoder_layers)
    ]


def make_embedding(config: ModelConfig, size: str) -> Embedding:
    """The embedding of a side, whose `size` is that setting; a size that is not known yet is a ConfigError."""
    vocab_size = getattr(config, size)
    if vocab_size < 1:
        raise ConfigError(f"model.{size} = {vocab_size}: expected at least 1; train a tokenizer, or give the size")
    return Embedding(vocab_size, config.d_model)


def make_head(config: ModelConfig, embedding: Embedding) -> Classifier | SpanFinder | TokenPredictor | None:
    """What stands on top of an encoder over this embedding; classes that are not known yet are a ConfigError."""
    match config.head:
        case "class":
            if config.n_classes < 2:
                raise ConfigError(
                    f"model.n_classes = {config.n_classes}: expected at least 2; give the number of labels"
                )
            return Classifier(config.d_model, config.n_classes, config.pooling, config.dropout, bias=config.bias)
        case "span":
            return SpanFinder(config.d_model)
        case "token":
            tied = None if config.tie == "none" else embedding
            return TokenPredictor(config.d_model, config.src_vocab_size, tied=tied)
        case "none":
            return None


def make_positions(config: ModelConfig, *, two_sided: bool) -> Positions:
    """The scheme by which a stack knows the order of its tokens; an encoder's looks both ways."""
    return ORDER.make(config.positions, _for_positions(config, two_sided))


def check_parts(config: ModelConfig) -> None:
    """Raise the ConfigError of an attention, positions or norm that cannot be had, before anything else is done."""
    kind = ATTENTION.find(config.attention, _for_attention(config))
    if config.copy and not hasattr(kind, "weights"):
        raise ConfigError(
            f"model.attention = {config.attention!r} has no weights, by which model.copy = true copies; expected "
            "weights(self, q, k, *, mask=None, bias=None) -> (B, H, T, S) beside its forward, or model.copy = false"
        )
    ORDER.find(config.positions, _for_positions(config, two_sided=True))
    NORM.find(config.norm, _for_norm(config))


def final_norm(config: ModelConfig) -> nn.Module | None:
    """What a pre-norm stack ends in; a post-norm one has normalised already."""
    return _norm(config) if config.pre_norm else None


def _attention(config: ModelConfig, kind: type[A]) -> A:
    return kind(
        config.d_model,
        config.n_heads,
        n_kv_heads=config.n_kv_heads,
        bias=config.bias,
        attend=ATTENTION.make(config.attention, _for_attention(config)),
    )


# What the __init__ of a part may ask for, by name.


def _for_attention(config: ModelConfig) -> dict[str, Any]:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return {"dropout": dropout, "n_heads": config.n_heads, "d_head": config.d_model // config.n_heads}


def _for_positions(config: ModelConfig, two_sided: bool) -> dict[str, Any]:
    heads = {"n_heads": config.n_heads, "d_head": config.d_model // config.n_heads}
    return {"d_model": config.d_model, **heads, "max_len": config.max_len, "two_sided": two_sided}


def _for_norm(config: ModelConfig) -> dict[str, Any]:
    # the width by both names: those of torch.nn call it normalized_shape
    return {"d_model": config.d_model, "normalized_shape": config.d_model, "eps": config.norm_eps}


def _feed_forward(config: ModelConfig) -> nn.Module:
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    if config.activation == "swiglu":
        return SwiGLU(config.d_model, config.d_ff, dropout, bias=config.bias)
    return FeedForward(config.d_model, config.d_ff, dropout, activation=config.activation, bias=config.bias)


def _norm(config: ModelConfig) -> nn.Module:
    return NORM.make(config.norm, _for_norm(config))


def _add_norm(config: ModelConfig) -> AddNorm:
    return AddNorm(_norm(config), config.dropout, pre_norm=config.pre_norm)
