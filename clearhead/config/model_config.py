"""Settings of the model."""

from dataclasses import dataclass
from typing import Literal

from .setting import FRACTION, NOT_NEGATIVE, POSITIVE, require, setting
from .special_tokens import SpecialTokens

DROPOUT = ("model.dropout", "model.attention_dropout", "model.activation_dropout")
AUGMENTATION = ("model.shift", "model.flip", "model.crop", "model.spec_augment", "model.speed")
_MOST = {"d_model": 2**17, "d_ff": 2**20, "n_encoder_layers": 1000, "n_decoder_layers": 1000}
_FRONT_SIZES = {
    "image_size": (1, 4096),
    "patch_size": (1, 4096),
    "sample_rate": (1000, 192_000),
    "n_mels": (1, 512),
}
SPECIAL = tuple(f"model.{name}_id" for name in ("pad", "bos", "eos", "unk", "mask", "start"))
SHAPE = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_encoder_layers", "model.n_decoder_layers")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Shape and components of a Transformer (sections 3 and 6.2 of the paper). Pass it to `build` to make a model."""

    topology: Literal["encoder-decoder", "decoder-only", "encoder-only"] = setting(
        "encoder-decoder", "model topology: the stacks of Figure 1 to build"
    )
    src_vocab_size: int = setting(0, "source vocabulary size; 0 until the tokenizer is trained")
    tgt_vocab_size: int = setting(0, "target vocabulary size; 0 until the tokenizer is trained")
    front: str = setting(
        "tokens", "front end that embeds the encoder's input: tokens, patches, frames or package.module:Class"
    )
    d_model: int = setting(512, "width of embeddings and hidden states")
    n_heads: int = setting(8, "number of attention heads; must divide d_model")
    n_kv_heads: int | None = setting(
        None, "number of key and value heads, for grouped-query attention (default: model.n_heads)"
    )
    d_ff: int = setting(2048, "inner width of the feed-forward network")
    n_encoder_layers: int = setting(6, "number of encoder blocks")
    n_decoder_layers: int = setting(6, "number of decoder blocks")
    dropout: float = setting(0.1, "dropout probability for embeddings and sub-layer outputs (section 5.4)")
    attention_dropout: float | None = setting(
        None, "dropout probability for attention weights (default: model.dropout)"
    )
    activation_dropout: float | None = setting(
        None, "dropout probability inside the feed-forward network (default: model.dropout)"
    )
    attention: str = setting("softmax", "attention function: softmax (Equation 1) or package.module:Class")
    positions: str = setting(
        "sinusoidal",
        "position scheme: sinusoidal, sinusoidal_2d, learned, rotary, relative, alibi or package.module:Class",
    )
    max_len: int = setting(5000, "maximum sequence length in tokens")
    norm: str = setting("layer", "normalisation: layer, rms or package.module:Class")
    norm_eps: float = setting(1e-5, "epsilon added to the variance in normalisation layers")
    pre_norm: bool = setting(False, "normalise before each sub-layer; the paper normalises after it")
    activation: Literal["relu", "gelu", "swiglu"] = setting(
        "relu", "activation function of the feed-forward network; the paper uses relu"
    )
    feed_forward: str | None = setting(
        None, "feed-forward network: relu, gelu, swiglu or package.module:Class (default: model.activation)"
    )
    bias: bool = setting(True, "add biases to linear layers")
    tie: Literal["all", "target", "none"] = setting(
        "all",
        "weight tying: all (source embedding, target embedding and output projection share one matrix), "
        "target (only target embedding and output projection) or none",
    )
    copy: bool = setting(False, "add a pointer mechanism that copies source tokens; needs a shared vocabulary")
    head: Literal["none", "class", "span", "token"] = setting(
        "none",
        "output head of an encoder-only model: class (labels a text), span (finds a passage), token (predicts masked "
        "tokens) or none",
    )
    n_classes: int = setting(0, "number of classes of the class head; 0 until the labels are known")
    pooling: Literal["mean", "first"] = setting(
        "mean", "input of the class head: the mean of all tokens, or the first token"
    )
    begin: bool = setting(
        False, "begin every source, prompt or labelled text with the BOS token; implied by model.pooling=first"
    )
    pad_id: int = setting(0, "id of the padding token; the vocabulary size if there is none")
    bos_id: int = setting(1, "id of the token that begins a text")
    eos_id: int = setting(2, "id of the token that ends a text")
    unk_id: int | None = setting(3, "id of the token for unknown words; none if there is none")
    mask_id: int | None = setting(3, "id of the token that masks others in denoising; none if there is none")
    start_id: int | None = setting(None, "id of the decoder's first input (default: model.bos_id)")
    n_token_types: int = setting(
        0, "number of learned token-type embeddings in an encoder-only model, such as 2 for question and text"
    )

    image_size: int | None = setting(
        None, "height and width in pixels that images are resized to (default: depends on the images)"
    )
    image_channels: int | None = setting(
        None, "number of colour channels: 1 for greyscale, 3 for colour (default: depends on the images)"
    )
    patch_size: int | None = setting(
        None,
        "height and width of a patch in pixels; divides model.image_size (default: the largest for 7 patches per row)",
    )
    shift: int = setting(0, "augmentation: shift training images by up to this many pixels in each direction")
    flip: bool = setting(False, "augmentation: flip half of the training images horizontally")
    crop: float = setting(
        1.0, "augmentation: randomly crop training images, keeping at least this fraction of the area"
    )
    sample_rate: int | None = setting(
        None, "sample rate in Hz that audio is resampled to (default: that of the recordings, at most 16000)"
    )
    n_mels: int = setting(40, "number of mel bands in a spectrogram")
    spec_augment: float = setting(
        0.0, "augmentation: maximum fraction of the bands or frames that each SpecAugment mask covers in training"
    )
    speed: float = setting(0.0, "augmentation: randomly change the speed of training audio by up to this fraction")

    def __post_init__(self) -> None:
        """Reject invalid settings."""
        for name in ("d_model", "n_heads", "d_ff", "max_len"):
            require(getattr(self, name) >= 1, f"model.{name}", getattr(self, name), POSITIVE)
        for name, most in _MOST.items():  # checked early: building a billion blocks takes hours
            require(getattr(self, name) <= most, f"model.{name}", getattr(self, name), f"{most:,} or less")
        for name in ("src_vocab_size", "tgt_vocab_size", "n_classes", "n_token_types"):
            require(getattr(self, name) >= 0, f"model.{name}", getattr(self, name), NOT_NEGATIVE)
        for name, without in (("n_encoder_layers", "decoder-only"), ("n_decoder_layers", "encoder-only")):
            fewest = 0 if self.topology == without else 1
            require(getattr(self, name) >= fewest, f"model.{name}", getattr(self, name), f"{fewest} or more")
        for name in DROPOUT:
            value = getattr(self, name.split(".")[1])
            require(value is None or 0 <= value < 1, name, value, FRACTION)
        require(self.norm_eps > 0, "model.norm_eps", self.norm_eps, "a number above 0")
        self._check_heads()
        self._check_vocabularies()
        self._check_special()
        self._check_topology()
        self._check_fronts()

    def _check_heads(self) -> None:
        fits = self.d_model % self.n_heads == 0
        what, expected = f"doesn't divide model.d_model={self.d_model}", f"a divisor of {self.d_model}"
        require(fits, "model.n_heads", self.n_heads, expected, what=what)
        if self.n_kv_heads is not None:
            fits = self.n_kv_heads >= 1 and self.n_heads % self.n_kv_heads == 0
            what, expected = f"doesn't divide model.n_heads={self.n_heads}", f"a divisor of {self.n_heads}"
            require(fits, "model.n_kv_heads", self.n_kv_heads, expected, what=what)
        width = self.d_model // self.n_heads
        even = self.positions != "rotary" or width % 2 == 0
        what, expected = f"doesn't work with heads of odd width {width}", "an even model.d_model / model.n_heads"
        require(even, "model.positions", self.positions, expected, what=what)

    def _check_vocabularies(self) -> None:
        if self.topology != "encoder-decoder":
            return
        same = self.src_vocab_size == self.tgt_vocab_size
        sizes = f"{self.src_vocab_size:,} source and {self.tgt_vocab_size:,} target tokens"
        what = f"needs one vocabulary for source and target, but they have {sizes}"
        fits = same or self.tie != "all" or self.front != "tokens"
        fix = "set model.tie to target or none"
        require(fits, "model.tie", self.tie, "equal vocabulary sizes", what=what, fix=fix)
        require(same or not self.copy, "model.copy", self.copy, "equal vocabulary sizes", what=what,
                fix="set model.copy=false")  # fmt: skip

    def _check_special(self) -> None:
        # Default ids may be beyond a vocabulary: a small one that's made by hand needs no special tokens.
        size = min(self._vocabulary_sizes, default=0)
        for name in SPECIAL:
            field = name.removeprefix("model.")
            value, default = getattr(self, field), ModelConfig.__dataclass_fields__[field].default
            if value is None or value == default:
                continue
            require(value >= 0, name, value, NOT_NEGATIVE)
            most = size if name == "model.pad_id" else size - 1
            what = f"is beyond the vocabulary of {size:,} tokens"
            require(not size or value <= most, name, value, f"{most:,} or less", what=what)
        what = "is also the id of the end token, which could then never be learned"
        fix = "set model.pad_id to another id, or to the vocabulary size if there is no padding token"
        require(self.pad_id != self.eos_id, "model.pad_id", self.pad_id, f"an id other than model.eos_id={self.eos_id}",
                what=what, fix=fix)  # fmt: skip

    @property
    def _vocabulary_sizes(self) -> list[int]:
        """The vocabulary sizes that are known, of the sides that read tokens."""
        source = self.src_vocab_size if self.topology != "decoder-only" and self.front == "tokens" else 0
        target = self.tgt_vocab_size if self.topology != "encoder-only" else 0
        return [size for size in (source, target) if size]

    def _check_topology(self) -> None:
        tokens = self.front == "tokens" or not self.copy
        require(tokens, "model.copy", self.copy, "model.front='tokens'", what=f"doesn't fit model.front={self.front!r}")
        copies = self.topology == "encoder-decoder" or not self.copy
        require(copies, "model.copy", self.copy, "an encoder-decoder", what=self._does_not_fit)
        for name, unset, tasks in (("head", "none", "classify or answer"), ("n_token_types", 0, "answer")):
            value = getattr(self, name)
            fits = self.topology == "encoder-only" or value == unset
            fix = f"leave it out, or set train.task to {tasks}"
            require(fits, f"model.{name}", value, "an encoder-only model", what=self._does_not_fit, fix=fix)
        has_classes = self.head == "class" or not self.n_classes
        what = f"doesn't fit model.head={self.head!r}"
        require(has_classes, "model.n_classes", self.n_classes, "model.head='class'", what=what)

    def _check_fronts(self) -> None:
        for name, (least, most) in _FRONT_SIZES.items():
            value, expected = getattr(self, name), f"a number from {least:,} to {most:,}"
            require(value is None or least <= value <= most, f"model.{name}", value, expected)
        require(self.image_channels in (None, 1, 3), "model.image_channels", self.image_channels, "1 or 3")
        require(self.shift >= 0, "model.shift", self.shift, NOT_NEGATIVE)
        require(0 < self.crop <= 1, "model.crop", self.crop, "a number above 0, at most 1")
        for name in ("spec_augment", "speed"):
            require(0 <= getattr(self, name) < 1, f"model.{name}", getattr(self, name), FRACTION)
        if self.image_size is not None and self.patch_size is not None:
            what = f"doesn't divide model.image_size={self.image_size}"
            expected = f"a divisor of {self.image_size}"
            require(self.image_size % self.patch_size == 0, "model.patch_size", self.patch_size, expected, what=what)
        flat = self.positions != "sinusoidal_2d" or (self.front, self.topology) == ("patches", "encoder-only")
        expected = "another scheme, or model.front='patches' in an encoder-only model"
        what = "needs the rows and columns of an image"
        require(flat, "model.positions", self.positions, expected, what=what)

    @property
    def special(self) -> SpecialTokens:
        """The ids of the special tokens."""
        start = self.bos_id if self.start_id is None else self.start_id
        return SpecialTokens(
            pad=self.pad_id, bos=self.bos_id, eos=self.eos_id, unk=self.unk_id, mask=self.mask_id, start=start
        )

    @property
    def begins(self) -> bool:
        """True if every text that the model reads begins with BOS."""
        return self.begin or (self.topology == "encoder-only" and self.pooling == "first")

    @property
    def _does_not_fit(self) -> str:
        return f"doesn't fit model.topology={self.topology!r}"
