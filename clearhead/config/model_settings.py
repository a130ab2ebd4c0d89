"""Settings of the model: names, defaults and help texts, and the special tokens whose ids are settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from ..errors import ConfigError
from .notations import augmentation
from .values import fact, setting

DROPOUT = ("model.dropout", "model.attention_dropout", "model.activation_dropout")
SPECIAL = tuple(f"model.{name}_id" for name in ("pad", "bos", "eos", "unk", "mask", "start"))
FOUND_IN_DATA = (  # facts that training finds; the others come with an imported vocabulary
    *("model.src_vocab_size", "model.tgt_vocab_size", "model.n_classes"),
    *("data.labels", "data.thresholds", "data.number_scale", "data.unanswerable", "data.digest"),
)
SHAPE = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_encoder_layers", "model.n_decoder_layers")


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """Ids of the special tokens. The defaults are those of the vocabularies that training learns.

    Args:
        pad: padding, which is masked and never predicted. A vocabulary without padding has it one past its last id.
        bos: begins a text.
        eos: ends a text. Some vocabularies have one token for both.
        more_eos: more tokens that end an answer.
        unk: stands for words missing from the vocabulary, or None if there is no such token.
        mask: replaces tokens that the model learns to recover, or None if there is no such token.
        start: the decoder's first input.
        ends: whether the sources of an encoder-decoder end with EOS.
    """

    pad: int = 0
    bos: int = 1
    eos: int = 2
    more_eos: tuple[int, ...] = ()
    unk: int | None = 3
    mask: int | None = 3
    start: int = 1
    ends: bool = True

    @cached_property
    def ids(self) -> frozenset[int]:
        found = (self.pad, self.bos, self.eos, self.unk, self.mask, self.start, *self.more_eos)
        return frozenset(i for i in found if i is not None)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """The ids that aren't part of an answer: padding, BOS and UNK, unless one of them is also EOS."""
        return tuple(i for i in (self.pad, self.bos, self.unk) if i not in (None, self.eos))

    def source(self, ids: Sequence[int], *, begins: bool = False) -> list[int]:
        """Return the ids of a text as an encoder reads them: with EOS, and with BOS if it begins with that.

        If sources don't end with EOS, an empty one still has it, since an encoder has to read something.
        """
        return [*([self.bos] * begins), *ids, *([self.eos] * (self.ends or not ids))]

    def target(self, ids: Sequence[int]) -> list[int]:
        """Return the ids of a text as a decoder learns it: after the decoder's first input, and with EOS."""
        return [self.start, *ids, self.eos]

    def ordinary(self, vocab_size: int) -> list[int]:
        """Return the ids of a vocabulary that aren't special, or its last id if all are."""
        return [i for i in range(vocab_size) if i not in self.ids] or [vocab_size - 1]


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Fields of `ModelConfig`, unchecked."""

    topology: Literal["encoder-decoder", "decoder-only", "encoder-only"] = setting(
        "encoder-decoder", "model topology: the stacks of Figure 1 to build"
    )
    src_vocab_size: int = fact(0, "source vocabulary size; 0 until the tokenizer is trained")
    tgt_vocab_size: int = fact(0, "target vocabulary size; 0 until the tokenizer is trained")
    front: str = setting(
        "tokens", "front end that embeds the encoder's input: tokens, patches, frames or package.module:Class"
    )
    d_model: int = setting(512, "width of embeddings and hidden states")
    n_heads: int = setting(8, "number of attention heads; must divide d_model")
    n_kv_heads: int | None = setting(
        None, "number of key and value heads, for grouped-query attention (default: model.n_heads)"
    )
    d_head: int | None = setting(None, "width of an attention head (default: model.d_model / model.n_heads)")
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
    attention_scale: float | None = setting(
        None, "factor of the attention scores (default: 1 / sqrt(model.d_head), Equation 1)"
    )
    window: int | None = setting(
        None, "number of latest tokens that each token of the decoder attends to, itself included (default: all)"
    )
    positions: str = setting(
        "sinusoidal",
        "position scheme: sinusoidal, sinusoidal_halves, sinusoidal_2d, learned, rotary, relative, alibi or "
        "package.module:Class",
    )
    rotary: str = setting(
        "10000",
        "wavelengths of rotary positions: BASE, or BASE:linear:FACTOR, BASE:llama3:FACTOR:LOW:HIGH:LENGTH or "
        "BASE:yarn:FACTOR:SHORT:LONG, which stretch them",
    )
    relative_buckets: tuple[int, ...] = setting(
        (32, 128),
        "relative positions: number of buckets of distances, and distance in tokens from which they share the last one",
    )
    max_len: int = setting(5000, "maximum sequence length in tokens")
    norm: str = setting("layer", "normalisation: layer, rms or package.module:Class")
    norm_eps: float = setting(1e-5, "epsilon added to the variance in normalisation layers")
    pre_norm: bool = setting(False, "normalise before each sub-layer; the paper normalises after it")
    final_norm: bool | None = setting(
        None, "normalise the output of each stack (default: model.pre_norm, since post-norm blocks end with a norm)"
    )
    embedding_norm: bool = setting(False, "normalise the embeddings, after adding positions")
    embedding_scale: float | None = setting(
        None, "factor of the token embeddings (default: sqrt(model.d_model), section 3.4)"
    )
    feed_forward: str = setting(
        "relu",
        "feed-forward network: relu (the paper), gelu, gelu_tanh, silu, or gated: swiglu, geglu; or "
        "package.module:Class",
    )
    bias: bool = setting(True, "add biases to linear layers")
    qkv_bias: bool | None = setting(
        None, "add biases to the projections of queries, keys and values (default: model.bias)"
    )
    tie: Literal["all", "target", "embeddings", "none"] = setting(
        "all",
        "weight tying: all (source embedding, target embedding and output projection share one matrix), target (only "
        "target embedding and output projection), embeddings (only the two embeddings) or none",
    )
    projection_bias: bool | None = setting(
        None, "add a bias to the output projection (default: only if its matrix isn't tied)"
    )
    logit_scale: float = setting(1.0, "factor of the logits")
    copy: bool = setting(False, "add a pointer mechanism that copies source tokens; needs a shared vocabulary")
    head: Literal["none", "class", "span", "token"] = setting(
        "none",
        "output head of an encoder-only model: class (labels a text), span (finds a passage), token (predicts masked "
        "tokens) or none",
    )
    n_classes: int = fact(0, "number of classes of the class head; 0 until the labels are known")
    pooling: Literal["mean", "first"] = setting(
        "mean", "input of the class head, and embedding of a text: the mean of all tokens, or the first token"
    )
    normalize: bool = setting(False, "scale the embeddings of texts to length 1")
    head_layer: Literal["none", "tanh", "relu", "norm"] = setting(
        "none",
        "hidden layer before the head's projection: tanh or relu in a class head, norm (the activation of "
        "model.feed_forward, then a norm) in a token head, or none",
    )
    begin: bool = setting(
        False, "begin every source, prompt or labelled text with the BOS token; implied by model.pooling=first"
    )
    end: bool = fact(True, "end every source of an encoder-decoder with the EOS token")
    pad_id: int = fact(0, "id of the padding token; the vocabulary size if there is none")
    bos_id: int = fact(1, "id of the token that begins a text")
    eos_id: int = fact(2, "id of the token that ends a text")
    more_eos_ids: tuple[int, ...] = fact((), "ids of more tokens that end an answer, as in some imported models")
    unk_id: int | None = fact(3, "id of the token for unknown words; none if there is none")
    mask_id: int | None = fact(3, "id of the token that masks others in denoising; none if there is none")
    start_id: int | None = fact(None, "id of the decoder's first input (default: model.bos_id)")
    n_token_types: int = setting(
        0, "number of learned token-type embeddings in an encoder-only model, such as 2 for question and text"
    )
    n_separators: int = fact(1, "number of EOS tokens between a question and its text")

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
    sample_rate: int | None = setting(
        None, "sample rate in Hz that audio is resampled to (default: that of the recordings, at most 16000)"
    )
    n_mels: int = setting(40, "number of mel bands in a spectrogram")
    augment: tuple[str, ...] = setting(
        (),
        "changes that training makes at random. Images: shift=PIXELS, flip, crop=SMALLEST_SHARE; audio: "
        "spec_augment=LARGEST_SHARE of a mask, speed=LARGEST_CHANGE",
    )

    def size(self, name: str) -> int:
        """Return a size of images or recordings, such as "patch_size".

        Raises:
            ConfigError: it isn't set, and no data has decided it.
        """
        found: int | None = getattr(self, name)
        if found is None:
            what = f"model.{name} isn't set, and model.front={self.front!r} needs it"
            raise ConfigError(what, fix="train on data, which decide it, or set it", name=f"model.{name}")
        return found

    @property
    def head_width(self) -> int:
        """The width of an attention head, K."""
        return self.d_head or self.d_model // self.n_heads

    @property
    def gated(self) -> bool:
        """True if a gate multiplies the inner layer of the feed-forward network."""
        return self.feed_forward in ("swiglu", "geglu")

    @property
    def augmentation(self) -> dict[str, float]:
        """All augmentations, by name; see `notations.OFF`."""
        return augmentation(self.augment)

    @property
    def vocabulary_sizes(self) -> dict[str, int]:
        """The vocabulary sizes of the sides that read tokens, by the name of their setting; 0 if unknown."""
        sizes = {}
        if self.topology != "decoder-only" and self.front == "tokens":
            sizes["src_vocab_size"] = self.src_vocab_size
        if self.topology != "encoder-only":
            sizes["tgt_vocab_size"] = self.tgt_vocab_size
        return sizes

    @property
    def special(self) -> SpecialTokens:
        start = self.bos_id if self.start_id is None else self.start_id
        return SpecialTokens(
            pad=self.pad_id,
            bos=self.bos_id,
            eos=self.eos_id,
            more_eos=self.more_eos_ids,
            unk=self.unk_id,
            mask=self.mask_id,
            start=start,
            ends=self.end,
        )

    @property
    def begins(self) -> bool:
        """True if every text that the model reads begins with BOS."""
        return self.begin or (self.topology == "encoder-only" and self.pooling == "first")

    def resolved(self) -> dict[str, Any]:
        """Return all settings by their dotted names, with a value in place of each default that depends on others.

        Two configurations of the same model give the same values.
        """
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        own_projection = self.tie in ("none", "embeddings")
        defaults = {
            "n_kv_heads": self.n_heads,
            "d_head": self.head_width,
            "attention_dropout": self.dropout,
            "activation_dropout": self.dropout,
            "attention_scale": self.head_width**-0.5,
            "final_norm": self.pre_norm,
            "embedding_scale": self.d_model**0.5,
            "qkv_bias": self.bias,
            "projection_bias": own_projection,
            "start_id": self.bos_id,
        }
        if self.topology == "decoder-only":  # one embedding, tied to the projection or not
            found["tie"] = "none" if own_projection else "target"
        found |= {name: value for name, value in defaults.items() if found[name] is None}
        return {f"model.{name}": value for name, value in found.items()}
