"""Build the modules of a model from its configuration. Only this file maps settings to classes."""

from typing import Any, TypeVar

from torch import nn

from ..config import ModelConfig
from ..config.notations import read_rotary
from ..errors import ConfigError
from .attention import ATTENTIONS, Attend, CrossAttention, SelfAttention
from .blocks import DecoderBlock, EncoderBlock
from .feed_forward import ACTIVATIONS, FEED_FORWARDS, SwiGLU
from .fronts.frames import Frames
from .fronts.front import Front
from .fronts.patches import Patches
from .fronts.tokens import Embedding, Projection
from .heads import ClassPredictor, SpanFinder, TokenPredictor, TokenTransform
from .module_choice import ModuleChoice, of_heads, of_positions, of_tokens, of_vectors
from .norms import NORMS, AddNorm, LayerNorm
from .positions import POSITIONS, Positions

A = TypeVar("A", SelfAttention, CrossAttention)

FRONTS: dict[str, type[Front]] = {"tokens": Embedding, "patches": Patches, "frames": Frames}

_SIZES: dict[type[Front], tuple[str, ...]] = {  # what a front end can't do without
    Patches: ("image_size", "image_channels", "patch_size"),
    Frames: ("sample_rate",),
}

FRONT = ModuleChoice[Front]("model.front", FRONTS, Front, Front, ("forward", "mask"), of_tokens)
ATTENTION = ModuleChoice[nn.Module]("model.attention", ATTENTIONS, nn.Module, Attend, ("forward", "weights"), of_heads)
POSITION = ModuleChoice[Positions](
    "model.positions", POSITIONS, Positions, Positions, ("embed", "rotation", "bias"), of_positions
)
FEED_FORWARD = ModuleChoice[nn.Module]("model.feed_forward", FEED_FORWARDS, nn.Module, SwiGLU, ("forward",), of_vectors)
NORM = ModuleChoice[nn.Module]("model.norm", NORMS, nn.Module, LayerNorm, ("forward",), of_vectors)


def encoder_blocks(config: ModelConfig) -> list[EncoderBlock]:
    """Return the N blocks on the left of Figure 1."""
    return [
        EncoderBlock(_attention(config, SelfAttention), _feed_forward(config), [_add_norm(config) for _ in range(2)])
        for _ in range(config.n_encoder_layers)
    ]


def decoder_blocks(config: ModelConfig, *, cross: bool) -> list[DecoderBlock]:
    """Return the N blocks on the right of Figure 1, or those of a language model without `cross`."""
    return [
        DecoderBlock(
            _attention(config, SelfAttention),
            _attention(config, CrossAttention) if cross else None,
            _feed_forward(config),
            [_add_norm(config) for _ in range(3 if cross else 2)],
        )
        for _ in range(config.n_decoder_layers)
    ]


def make_front(config: ModelConfig) -> Front:
    """Return the front end of the encoder."""
    kind = FRONT.find(config.front, _for_front(config))
    if issubclass(kind, Embedding):
        _require_size(config, "src_vocab_size")
    for name in _SIZES.get(kind, ()):
        config.size(name)
    return FRONT.make(config.front, _for_front(config))


def make_embedding(config: ModelConfig) -> Embedding:
    """Return the embedding of the decoder's tokens."""
    _require_size(config, "tgt_vocab_size")
    return Embedding(config.tgt_vocab_size, config.d_model, config.pad_id, scale=config.embedding_scale)


def make_projection(config: ModelConfig, vocab_size: int, embedding: Embedding | None) -> Projection:
    """Return the output projection, which shares the matrix of `embedding` if `model.tie` says so.

    Args:
        config: settings of the model; those of the projection are `projection_bias` and `logit_scale`.
        vocab_size: number of logits, V.
        embedding: the embedding (V, D) to share, or None if the stack has none.
    """
    tied = embedding if config.tie in ("all", "target") else None
    bias, scale = config.projection_bias, config.logit_scale
    return Projection(config.d_model, vocab_size, tied=tied, bias=bias, scale=scale)


def make_head(config: ModelConfig, front: Front) -> ClassPredictor | SpanFinder | TokenPredictor | None:
    """Return the head of an encoder-only model, or None if it has none."""
    match config.head:
        case "class":
            if config.n_classes < 1:
                what = f"model.n_classes={config.n_classes} is too few for a classifier"
                expected = "the number of labels, or 1 for a number"
                raise ConfigError(what, expected=expected, name="model.n_classes", value=config.n_classes)
            shape = (config.d_model, config.n_classes)
            return ClassPredictor(*shape, config.pooling, config.dropout, bias=config.bias, pooler=config.head_layer)
        case "span":
            return SpanFinder(config.d_model)
        case "token":
            tied = front if isinstance(front, Embedding) else None
            name = config.feed_forward if config.feed_forward in ACTIVATIONS else "gelu"
            transform = TokenTransform(config.d_model, _norm(config), name) if config.head_layer == "norm" else None
            return TokenPredictor(make_projection(config, config.src_vocab_size, tied), transform)
        case "none":
            return None


def make_positions(config: ModelConfig, *, two_sided: bool) -> Positions:
    """Return the position scheme of a stack: two-sided for an encoder, one-sided for a decoder."""
    return POSITION.make(config.positions, _for_positions(config, two_sided))


def check_parts(config: ModelConfig) -> None:
    """Raise ConfigError if a setting names a module that can't be used. Builds nothing."""
    if not isinstance(config, ModelConfig):
        raise ConfigError(f"config is a {type(config).__name__}", expected="a ModelConfig", name="config", value=config)
    FRONT.find(config.front, _for_front(config))
    kind = ATTENTION.find(config.attention, _for_attention(config))
    POSITION.find(config.positions, _for_positions(config, two_sided=True))
    FEED_FORWARD.find(config.feed_forward, _for_feed_forward(config))
    NORM.find(config.norm, _for_norm(config))
    if config.copy and not hasattr(kind, "weights"):
        what = f"model.attention={config.attention!r} has no method 'weights', which model.copy=true needs"
        expected = "weights(self, q, k, *, mask=None, bias=None) -> (B, H, T, S) next to its forward"
        fix = "add the method, or set model.copy=false"
        raise ConfigError(what, expected=expected, fix=fix, name="model.attention", value=config.attention)


def final_norm(config: ModelConfig) -> nn.Module | None:
    """Return the norm at the end of a stack, or None. A post-norm stack needs none."""
    wanted = config.pre_norm if config.final_norm is None else config.final_norm
    return _norm(config) if wanted else None


def embedding_norm(config: ModelConfig) -> nn.Module | None:
    """Return the norm after the embeddings, or None."""
    return _norm(config) if config.embedding_norm else None


def _require_size(config: ModelConfig, size: str) -> None:
    found = getattr(config, size)
    if found < 1:
        what, fix = f"model.{size}={found} isn't a vocabulary size", f"train a tokenizer, or set model.{size}"
        raise ConfigError(what, expected="at least 1", fix=fix, name=f"model.{size}", value=found)


def _attention(config: ModelConfig, kind: type[A]) -> A:
    return kind(
        config.d_model,
        config.n_heads,
        n_kv_heads=config.n_kv_heads,
        d_head=config.d_head,
        bias=config.bias,
        qkv_bias=config.qkv_bias,
        scale=config.attention_scale,
        attend=ATTENTION.make(config.attention, _for_attention(config)),
    )


def _feed_forward(config: ModelConfig) -> nn.Module:
    return FEED_FORWARD.make(config.feed_forward, _for_feed_forward(config))


def _norm(config: ModelConfig) -> nn.Module:
    return NORM.make(config.norm, _for_norm(config))


def _add_norm(config: ModelConfig) -> AddNorm:
    return AddNorm(_norm(config), config.dropout, pre_norm=config.pre_norm)


# Arguments that the __init__ of a module can request by name.


def _for_front(config: ModelConfig) -> dict[str, Any]:
    sizes: dict[str, Any] = {"d_model": config.d_model, "vocab_size": config.src_vocab_size, "max_len": config.max_len}
    sizes |= {"pad": config.pad_id, "scale": config.embedding_scale}
    names = ("image_size", "image_channels", "patch_size", "sample_rate", "n_mels")
    return sizes | {name: getattr(config, name) for name in names} | config.augmentation | _for_grid(config)


def _for_attention(config: ModelConfig) -> dict[str, Any]:
    dropout = config.dropout if config.attention_dropout is None else config.attention_dropout
    return {"dropout": dropout, "n_heads": config.n_heads, "d_head": config.head_width}


def _for_positions(config: ModelConfig, two_sided: bool) -> dict[str, Any]:
    heads = {"n_heads": config.n_heads, "d_head": config.head_width}
    rotary, (n_buckets, farthest) = read_rotary(config.rotary), config.relative_buckets
    sizes = {"d_model": config.d_model, "max_len": config.max_len, "two_sided": two_sided}
    waves = {"base": rotary.base, "scaling": rotary.scaling, "n_buckets": n_buckets, "max_distance": farthest}
    return {**sizes, **heads, **waves, **_for_grid(config)}


def _for_grid(config: ModelConfig) -> dict[str, Any]:
    """Return the sizes of a grid of patches: its columns, and whether a class token comes first."""
    columns = (config.image_size or 0) // (config.patch_size or 1)
    return {"columns": columns, "class_token": config.head == "class" and config.pooling == "first"}


def _for_feed_forward(config: ModelConfig) -> dict[str, Any]:
    dropout = config.dropout if config.activation_dropout is None else config.activation_dropout
    sizes = {"d_model": config.d_model, "d_ff": config.d_ff}
    activation = {"activation": config.feed_forward} if config.feed_forward in ACTIVATIONS else {}
    return {**sizes, "dropout": dropout, "bias": config.bias, **activation}


def _for_norm(config: ModelConfig) -> dict[str, Any]:
    # torch.nn's norms call the width normalized_shape
    return {"d_model": config.d_model, "normalized_shape": config.d_model, "eps": config.norm_eps}
