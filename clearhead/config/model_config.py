"""The model's configuration: its settings, with range checks and consistency checks."""

from dataclasses import dataclass

from .model_settings import DROPOUT, SPECIAL, ModelSettings
from .notations import RotaryWavelengths, read_rotary
from .values import FRACTION, NOT_NEGATIVE, POSITIVE, check_types, none_is_empty, require

_MOST = {"d_model": 2**17, "d_ff": 2**20, "n_encoder_layers": 1000, "n_decoder_layers": 1000}
_MOST_RELATIVE = (2**16, 2**20)  # buckets, and distance
_FACTORS = {"norm_eps": (1e-30, 1), **dict.fromkeys(("attention_scale", "embedding_scale", "logit_scale"), (1e-6, 1e6))}
_LARGEST_TABLE = 2**29  # numbers, as in `model.positions`: 4 GiB while they're computed
_FRONT_SIZES = {"image_size": (1, 4096), "patch_size": (1, 4096), "sample_rate": (1000, 192_000), "n_mels": (1, 512)}


@dataclass(frozen=True, kw_only=True)
class ModelConfig(ModelSettings):
    """Shape and components of a Transformer (sections 3 and 6.2 of the paper). Pass it to `build` to make a model."""

    def __post_init__(self) -> None:
        check_types(self, "model")
        none_is_empty(self, "augment")
        _check(self)


def _check(config: ModelSettings) -> None:
    """Raise ConfigError if a setting of the model is invalid."""
    for name in ("d_model", "n_heads", "d_ff", "max_len", "n_separators"):
        require(getattr(config, name) >= 1, f"model.{name}", getattr(config, name), POSITIVE)
    for name, most in _MOST.items():  # checked early: building a billion blocks takes hours
        require(getattr(config, name) <= most, f"model.{name}", getattr(config, name), f"{most:,} or less")
    for name in ("src_vocab_size", "tgt_vocab_size", "n_classes", "n_token_types"):
        require(getattr(config, name) >= 0, f"model.{name}", getattr(config, name), NOT_NEGATIVE)
    for name, without in (("n_encoder_layers", "decoder-only"), ("n_decoder_layers", "encoder-only")):
        fewest = 0 if config.topology == without else 1
        require(getattr(config, name) >= fewest, f"model.{name}", getattr(config, name), f"{fewest} or more")
    for name in DROPOUT:
        value = getattr(config, name.removeprefix("model."))
        require(value is None or 0 <= value < 1, name, value, FRACTION)
    for name, (lowest, highest) in _FACTORS.items():  # beyond these, float32 leaves no difference between tokens
        value, expected = getattr(config, name), f"a number from {lowest:g} to {highest:g}"
        require(value is None or lowest <= value <= highest, f"model.{name}", value, expected)
    _check_heads(config)
    _check_positions(config)
    _check_vocabularies(config)
    _check_special(config)
    _check_topology(config)
    _check_fronts(config)


def _check_heads(config: ModelSettings) -> None:
    if config.d_head is None:
        fits = config.d_model % config.n_heads == 0
        what, expected = f"doesn't divide model.d_model={config.d_model}", f"a divisor of {config.d_model}"
        require(fits, "model.n_heads", config.n_heads, expected, what=what, fix="choose another, or set model.d_head")
    else:
        require(1 <= config.d_head <= _MOST["d_model"], "model.d_head", config.d_head, POSITIVE)
    if config.n_kv_heads is not None:
        fits = config.n_kv_heads >= 1 and config.n_heads % config.n_kv_heads == 0
        what, expected = f"doesn't divide model.n_heads={config.n_heads}", f"a divisor of {config.n_heads}"
        require(fits, "model.n_kv_heads", config.n_kv_heads, expected, what=what)


def _check_positions(config: ModelSettings) -> None:
    width = config.head_width
    even = config.positions != "rotary" or width % 2 == 0
    what, expected = f"doesn't work with heads of odd width {width}", "an even model.d_model / model.n_heads"
    require(even, "model.positions", config.positions, expected, what=what)
    most, what = _LARGEST_TABLE // config.d_model, f"makes too large a table at model.d_model={config.d_model}"
    fits = config.max_len <= most or config.positions not in ("sinusoidal", "sinusoidal_halves")
    fix = "set it to the length of your longest text, or use positions without a table"
    require(fits, "model.max_len", config.max_len, f"{most:,} or less", what=what, fix=fix)
    for name, scheme, unset in (
        ("rotary", "rotary", read_rotary(config.rotary) == RotaryWavelengths()),
        ("relative_buckets", "relative", config.relative_buckets == (32, 128)),
    ):
        fits = unset or config.positions == scheme or ":" in config.positions
        what = f"has no effect on model.positions={config.positions!r}"
        require(fits, f"model.{name}", getattr(config, name), f"model.positions={scheme!r}", what=what)
    buckets, distance = (*config.relative_buckets, 0, 0)[:2]
    fits = len(config.relative_buckets) == 2 and buckets >= 4 and distance > buckets // 2
    fits = fits and all(it <= most for it, most in zip(config.relative_buckets, _MOST_RELATIVE))
    expected = "4 buckets or more, and a distance of more than half their number, such as 32,128"
    require(fits, "model.relative_buckets", config.relative_buckets, expected)
    if config.window is not None:
        require(config.window >= 1, "model.window", config.window, POSITIVE)
        what, expected = _does_not_fit(config), "a model with a decoder"
        require(config.topology != "encoder-only", "model.window", config.window, expected, what=what)


def _check_vocabularies(config: ModelSettings) -> None:
    if config.topology != "encoder-decoder":
        return
    same = config.src_vocab_size == config.tgt_vocab_size
    sizes = f"{config.src_vocab_size:,} source and {config.tgt_vocab_size:,} target tokens"
    what = f"needs one vocabulary for source and target, but they have {sizes}"
    fits = same or config.tie not in ("all", "embeddings") or config.front != "tokens"
    fix = "set model.tie to target or none"
    require(fits, "model.tie", config.tie, "equal vocabulary sizes", what=what, fix=fix)
    require(same or not config.copy, "model.copy", config.copy, "equal vocabulary sizes", what=what,
            fix="set model.copy=false")  # fmt: skip


def _check_special(config: ModelSettings) -> None:
    # Default ids may be beyond a vocabulary: a small one that's made by hand needs no special tokens.
    size = min(filter(None, config.vocabulary_sizes.values()), default=0)
    for name in SPECIAL:
        field = name.removeprefix("model.")
        value, default = getattr(config, field), config.__dataclass_fields__[field].default
        if value is None or value == default:
            continue
        require(value >= 0, name, value, NOT_NEGATIVE)
        most = size if name == "model.pad_id" else size - 1
        what = f"is beyond the vocabulary of {size:,} tokens"
        require(not size or value <= most, name, value, f"{most:,} or less", what=what)
    others = (config.eos_id, config.pad_id)
    for i in config.more_eos_ids:
        fits = i >= 0 and i not in others and (not size or i < size)
        require(fits, "model.more_eos_ids", config.more_eos_ids, "ids of the vocabulary other than EOS and padding")
    what = "is also the id of the end token, which could then never be learned"
    expected = f"an id other than model.eos_id={config.eos_id}"
    fix = "set model.pad_id to another id, or to the vocabulary size if there is no padding token"
    require(config.pad_id != config.eos_id, "model.pad_id", config.pad_id, expected, what=what, fix=fix)


def _check_topology(config: ModelSettings) -> None:
    tokens = config.front == "tokens" or not config.copy
    require(tokens, "model.copy", config.copy, "model.front='tokens'", what=f"doesn't fit model.front={config.front!r}")
    copies = config.topology == "encoder-decoder" or not config.copy
    require(copies, "model.copy", config.copy, "an encoder-decoder", what=_does_not_fit(config))
    fits = config.end or config.topology == "encoder-decoder"
    require(fits, "model.end", config.end, "an encoder-decoder", what=_does_not_fit(config))
    for name, unset, tasks in (("head", "none", "classify or answer"), ("n_token_types", 0, "answer")):
        value = getattr(config, name)
        fits = config.topology == "encoder-only" or value == unset
        fix = f"leave it out, or set train.task to {tasks}"
        require(fits, f"model.{name}", value, "an encoder-only model", what=_does_not_fit(config), fix=fix)
    for name, unset, head in (("n_classes", 0, "class"), ("n_separators", 1, "span")):
        value, what = getattr(config, name), f"doesn't fit model.head={config.head!r}"
        require(config.head == head or value == unset, f"model.{name}", value, f"model.head={head!r}", what=what)
    layers = {"class": ("none", "tanh", "relu"), "token": ("none", "norm")}.get(config.head, ("none",))
    what = f"doesn't fit model.head={config.head!r}"
    require(config.head_layer in layers, "model.head_layer", config.head_layer, " or ".join(layers), what=what)
    projects = config.topology != "encoder-only"
    what = "has no effect without a decoder"
    require(projects or config.logit_scale == 1, "model.logit_scale", config.logit_scale, "1", what=what)
    projects = projects or config.head == "token"
    what, expected = "has no effect without an output projection", "a model that predicts tokens"
    require(projects or config.projection_bias is None, "model.projection_bias", config.projection_bias, expected,
            what=what)  # fmt: skip


def _check_fronts(config: ModelSettings) -> None:
    for name, (least, most) in _FRONT_SIZES.items():
        value, expected = getattr(config, name), f"a number from {least:,} to {most:,}"
        require(value is None or least <= value <= most, f"model.{name}", value, expected)
    _ = config.augmentation  # rejects what isn't one
    require(config.image_channels in (None, 1, 3), "model.image_channels", config.image_channels, "1 or 3")
    if config.image_size is not None and config.patch_size is not None:
        what = f"doesn't divide model.image_size={config.image_size}"
        expected = f"a divisor of {config.image_size}"
        require(config.image_size % config.patch_size == 0, "model.patch_size", config.patch_size, expected, what=what)
    flat = config.positions != "sinusoidal_2d" or (config.front, config.topology) == ("patches", "encoder-only")
    expected = "another scheme, or model.front='patches' in an encoder-only model"
    what = "needs the rows and columns of an image"
    require(flat, "model.positions", config.positions, expected, what=what)


def _does_not_fit(config: ModelSettings) -> str:
    return f"doesn't fit model.topology={config.topology!r}"
