"""Llama (Touvron et al. 2023), Mistral and Qwen2: pre-norm decoders with RMSNorm, rotary positions and SwiGLU.

Rotary positions can be stretched for longer texts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...config import Config, ModelConfig
from ...config.model_settings import ModelSettings
from ...config.notations import RotaryWavelengths, read_rotary
from ...errors import ModelError
from ..weight_names import Name, blocks
from .family import Family, Same
from .hf_config import HfConfig

_ACTIVATIONS = {"silu": "swiglu", "swish": "swiglu", "gelu_pytorch_tanh": "geglu", "gelu_new": "geglu"}


class Llama(Family):
    """Llama 1 to 3.3, and models with the same parts, such as TinyLlama and SmolLM."""

    title, model_type, prefix = "Llama", "llama", "model."
    architectures: ClassVar[Mapping[str, str]] = {"LlamaForCausalLM": "generate", "LlamaModel": "generate"}
    unused = ("layers.{}.self_attn.rotary_emb.inv_freq", "rotary_emb.inv_freq", "lm_head.weight")
    fixed: ClassVar[Mapping[str, Any]] = {
        "model.topology": "decoder-only",
        "model.positions": "rotary",
        "model.pre_norm": True,
        "model.norm": "rms",
        "model.embedding_scale": 1.0,
        "model.projection_bias": False,
        "model.dropout": 0.0,
        "model.unk_id": None,
        "model.mask_id": None,
    }
    same = (
        Same("model.tgt_vocab_size", ("vocab_size",), 32000),
        Same("model.d_model", ("hidden_size",), 4096),
        Same("model.d_ff", ("intermediate_size",), 11008),
        Same("model.n_heads", ("num_attention_heads",), 32),
        Same("model.n_decoder_layers", ("num_hidden_layers",), 32),
        Same("model.max_len", ("max_position_embeddings",), 2048),
        Same("model.norm_eps", ("rms_norm_eps",), 1e-6),
        Same("model.feed_forward", ("hidden_act",), "silu", _ACTIVATIONS),
        Same("model.attention_dropout", ("attention_dropout",), 0.0),
        Same("model.tie", ("tie_word_embeddings",), False, {True: "target", False: "none"}),
    )
    derived: ClassVar[Sequence[str]] = (
        *("model.n_kv_heads", "model.d_head", "model.rotary", "model.bias"),
        "model.attention_scale",
        *("model.pad_id", "model.bos_id", "model.eos_id", "model.src_vocab_size", "model.n_encoder_layers"),
    )
    n_kv_heads: ClassVar[int | None] = None
    """The default number of key and value heads, if it isn't that of all heads."""
    special: ClassVar[tuple[int | None, int | None]] = (1, 2)
    """The default ids of BOS and EOS."""

    def more(self, hf_config: HfConfig, found: Mapping[str, Any]) -> dict[str, Any]:
        heads, width = found["model.n_heads"], found["model.d_model"]
        n_kv_heads, d_head = hf_config.get("num_key_value_heads", self.n_kv_heads or heads), hf_config.get("head_dim")
        return {
            "model.n_kv_heads": None if n_kv_heads == heads else n_kv_heads,
            "model.d_head": None if d_head == width / heads else d_head,
            **self.biases(hf_config),
            **self.attends(hf_config, found["model.n_decoder_layers"]),
            **_read_rotation(hf_config, d_head or width // heads),
            **_special(hf_config, self.special, found["model.tgt_vocab_size"]),
        }

    def biases(self, hf_config: HfConfig) -> dict[str, Any]:
        """Return our settings for biases."""
        attention, others = hf_config.get("attention_bias", False), hf_config.get("mlp_bias", False)
        if attention != others:
            raise hf_config.unsupported(
                "attention_bias" if attention else "mlp_bias", expected="the same for both biases"
            )
        return {"model.bias": attention}

    def attends(self, hf_config: HfConfig, layers: int) -> dict[str, Any]:
        """Return our settings for a window."""
        return {}

    def their_config(self, config: Config) -> dict[str, Any]:
        model = config.model
        rope, base = _written_rotation(model), read_rotary(model.rotary).base
        return {
            "num_key_value_heads": model.resolved()["model.n_kv_heads"],
            "head_dim": model.head_width,
            "rope_parameters": {"rope_theta": base, **rope},
            "rope_theta": base,  # for readers that don't know rope_parameters
            "rope_scaling": None if rope["rope_type"] == "default" else rope,
            "bos_token_id": model.bos_id,
            "eos_token_id": model.eos_id,
            "pad_token_id": model.pad_id if model.pad_id < model.tgt_vocab_size else None,
        } | self.their_parts(model)

    def lacks(self, model: ModelSettings) -> dict[str, str]:
        found = super().lacks(model)
        if model.attention_scale is not None and read_rotary(model.rotary).kind != "yarn":
            found["model.attention_scale"] = "none"
        return found

    def their_parts(self, model: ModelConfig) -> dict[str, Any]:
        """Return their settings for biases and windows."""
        return {"attention_bias": model.bias, "mlp_bias": model.bias}

    def names(self, model: ModelConfig) -> list[Name]:
        shared = (model.n_kv_heads or model.n_heads) * model.head_width
        qkv = tuple(f"layers.{{}}.self_attn.{it}_proj.weight" for it in "qkv")
        block = [
            Name("blocks.{}.attention.qkv.weight", qkv, splits=(model.n_heads * model.head_width, shared, shared)),
            Name("blocks.{}.attention.out.weight", ("layers.{}.self_attn.o_proj.weight",)),
            Name("blocks.{}.add_norm_1.norm.weight", ("layers.{}.input_layernorm.weight",)),
            Name(
                "blocks.{}.feed_forward.inner.weight",
                ("layers.{}.mlp.gate_proj.weight", "layers.{}.mlp.up_proj.weight"),
            ),
            Name("blocks.{}.feed_forward.outer.weight", ("layers.{}.mlp.down_proj.weight",)),
            Name("blocks.{}.add_norm_3.norm.weight", ("layers.{}.post_attention_layernorm.weight",)),
        ]
        projection = [Name("projection.weight", ("lm_head.weight",), head=True)] if model.tie == "none" else []
        return [
            Name("embedding.weight", ("embed_tokens.weight",)),
            *blocks(model.n_decoder_layers, block),
            Name("norm.weight", ("norm.weight",)),
            *projection,
        ]


class Mistral(Llama):
    """Mistral 7B and models with the same parts: Llama with a sliding window."""

    title, model_type, n_kv_heads = "Mistral", "mistral", 8
    architectures: ClassVar[Mapping[str, str]] = {"MistralForCausalLM": "generate", "MistralModel": "generate"}
    fixed: ClassVar[Mapping[str, Any]] = {**Llama.fixed, "model.bias": False}
    derived: ClassVar[Sequence[str]] = (*(it for it in Llama.derived if it != "model.bias"), "model.window")

    def biases(self, hf_config: HfConfig) -> dict[str, Any]:
        return {}

    def attends(self, hf_config: HfConfig, layers: int) -> dict[str, Any]:
        return {"model.window": hf_config.nullable("sliding_window", 4096)}

    def their_parts(self, model: ModelConfig) -> dict[str, Any]:
        return {"sliding_window": model.window}


class Qwen2(Llama):
    """Qwen2 and Qwen2.5: Llama with biases for queries, keys and values."""

    title, model_type = "Qwen2", "qwen2"
    architectures: ClassVar[Mapping[str, str]] = {"Qwen2ForCausalLM": "generate", "Qwen2Model": "generate"}
    fixed: ClassVar[Mapping[str, Any]] = {**Llama.fixed, "model.bias": False, "model.qkv_bias": True}
    derived: ClassVar[Sequence[str]] = Mistral.derived
    special: ClassVar[tuple[int | None, int | None]] = (None, None)

    def biases(self, hf_config: HfConfig) -> dict[str, Any]:
        return {}

    def attends(self, hf_config: HfConfig, layers: int) -> dict[str, Any]:
        first, kinds = hf_config.get("max_window_layers", 28), hf_config.get("layer_types", ())
        window = hf_config.nullable("sliding_window", 4096)
        window = window if hf_config.get("use_sliding_window", False) else None
        if window is None:
            return {"model.window": None}
        sliding = {it == "sliding_attention" for it in kinds} if kinds else {first <= 0, first < layers}
        if len(sliding) > 1:
            name = "layer_types" if kinds else "max_window_layers"
            raise hf_config.unsupported(name, expected="the same window in all layers, or in none")
        return {"model.window": window if sliding == {True} else None}

    def their_parts(self, model: ModelConfig) -> dict[str, Any]:
        windowed = model.window is not None
        return {"use_sliding_window": windowed, "sliding_window": model.window, "max_window_layers": 0}


def _special(hf_config: HfConfig, default: tuple[int | None, int | None], size: int) -> dict[str, int]:
    """Return our ids of BOS, EOS and padding. Padding must differ from other tokens."""
    bos, eos = (hf_config.nullable(name, it) for name, it in zip(("bos_token_id", "eos_token_id"), default))
    eos = hf_config.tokens.get("<|endoftext|>") if eos is None else eos
    if eos is None:
        what = f"{hf_config.path} has no eos_token_id"
        raise ModelError(what, expected="the id of the token that ends a text", name="eos_token_id")
    bos, pad = eos if bos is None else bos, hf_config.get("pad_token_id", size)
    return {
        "model.bos_id": bos,
        "model.eos_id": eos,
        "model.pad_id": size if pad in (bos, eos, hf_config.tokens.get("<unk>")) else pad,
    }


# --- rotary positions

_SCALINGS: Mapping[str, Sequence[str]] = {  # their names for the numbers of each scaling, in our order
    "none": (),
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}


def _read_rotation(hf_config: HfConfig, width: int) -> dict[str, Any]:
    """Return our settings for rotary positions: those of Transformers 5, or the two of older versions.

    `width` is that of a head.
    """
    old, new = hf_config.get("rope_scaling", {}), hf_config.get("rope_parameters", {})
    rope = HfConfig(hf_config.path, old or new)
    kind = rope.get("rope_type", rope.get("type", "default"))
    name = "none" if kind in ("default", "dynamic") else kind
    label = "rope_type" if "rope_type" in rope.values else "type"
    if name not in _SCALINGS:
        raise rope.unsupported(label, expected="default, linear, dynamic, llama3 or yarn")
    rope.expect("partial_rotary_factor", 1)
    hf_config.expect("partial_rotary_factor", 1)
    longest = hf_config.get("max_position_embeddings", 2048)
    if kind == "dynamic":
        hf_config.notes.append(
            f"a text has at most {longest} tokens at once; dynamic scaling would change only longer ones"
        )
    length = hf_config.get("original_max_position_embeddings", rope.get("original_max_position_embeddings", longest))
    numbers = {it: length if "max_position" in it else rope.get(it) for it in _SCALINGS[name]}
    if missing := [it for it, number in numbers.items() if number is None]:
        raise ModelError(f"{hf_config.path} has {label}={kind!r} without {missing[0]}", name=missing[0])
    base = float(rope.get("rope_theta", hf_config.get("rope_theta", 10_000.0)))
    own: dict[str, Any] = {}
    if name == "yarn":
        short, long = _yarn_range(rope, width, base, length)
        numbers |= {"short": short, "long": long}
        own = {"model.attention_scale": _yarn_scale(rope) ** 2 / math.sqrt(width)}
    return {"model.rotary": str(RotaryWavelengths(base, name, tuple(map(float, numbers.values())))), **own}


def _yarn_range(rope: HfConfig, width: int, base: float, length: int) -> tuple[float, float]:
    """Return the wavelengths between which YaRN blends. Theirs is a range of dimensions."""
    turns = (rope.get("beta_fast", 32), rope.get("beta_slow", 1))
    low, high = (width * math.log(length / (it * 2 * math.pi)) / (2 * math.log(base)) for it in turns)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = low + 0.001 if low == high else high
    short, long = (2 * math.pi * base ** (2 * it / width) for it in (low, high))
    return short, long


def _yarn_scale(rope: HfConfig) -> float:
    """Return the factor of cosines and sines."""

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(rope.get("factor")) + 1 if rope.get("factor") > 1 else 1.0

    both = (rope.get("mscale"), rope.get("mscale_all_dim"))
    return float(rope.get("attention_factor", scale(both[0]) / scale(both[1]) if all(both) else scale(1)))


def _written_rotation(model: ModelConfig) -> dict[str, Any]:
    """Return their settings for rotary positions, apart from the base."""
    _, kind, numbers = read_rotary(model.rotary)
    found: dict[str, Any] = {"rope_type": "default" if kind == "none" else kind}
    found |= dict(zip(_SCALINGS[kind], map(_plain, numbers)))
    if kind != "yarn":
        return found
    factor, short, long = numbers
    length = max(1, round(model.max_len / factor))
    scale = 1 if model.attention_scale is None else model.attention_scale * math.sqrt(model.head_width)
    return found | {
        "original_max_position_embeddings": length,
        "beta_fast": length / short,
        "beta_slow": length / long,
        "truncate": False,
        "attention_factor": math.sqrt(scale),
    }


def _plain(number: float) -> float:
    """Return whole numbers as int, so that they're written without a decimal point."""
    return int(number) if number.is_integer() else number
