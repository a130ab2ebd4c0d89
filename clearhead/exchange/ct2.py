"""Write models in the binary form of CTranslate2, an inference engine for CPUs and GPUs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from ..config import ModelConfig
from ..config.notations import read_rotary
from ..decode.engines.ct2_engine import ACTIVATIONS, SOURCE_END, ct2_obstacle
from ..decode.model_handle import Weights
from ..decode.position_tables import position_table
from ..errors import ConfigError
from ..folder.atomic import write_folder
from ..loading import LoadedModel
from .ctranslate2.binary import Variables, write_binary
from .ctranslate2.weights import linear_layers, norms, stacks, stored

_KINDS = {"encoder-decoder": ("TransformerSpec", 7), "decoder-only": ("TransformerDecoderSpec", 8)}  # name, revision
_TIED = ("embedding", "projection")  # matrices that can be one


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write a model to the folder `out`, with its tokenizers. The model's tokens are those of their files.

    Args:
        precision: the type of the numbers: fp32, fp16, bf16, int16 or int8.

    Raises:
        ConfigError: CTranslate2 can't express the model.
    """
    config, texts = loaded.config.model, loaded.tokenizer_files()
    if obstacle := ct2_obstacle(config):  # a model without texts has no vocabulary
        raise _not_expressible(obstacle)
    vocabularies = [_tokens(text, size) for text, size in zip([*texts.values()] * 2, config.vocabulary_sizes.values())]
    files = ct2_files(config, loaded.handle.weights(), vocabularies, precision=precision)
    write_folder(out, [*files.items(), *((name, text.encode()) for name, text in texts.items())])


def ct2_files(
    config: ModelConfig,
    weights: Weights,
    vocabularies: Sequence[Sequence[str]],
    *,
    precision: str = "fp32",
    spare_positions: int = 0,
) -> dict[str, bytes]:
    """Return the files of a CTranslate2 model folder, by name.

    Args:
        weights: all weights, by their names in `state_dict`. Of tied weights, one name is enough.
        vocabularies: the tokens of each side in the order of their ids, source first, or of the only side.
        precision: the type of the numbers; see `ctranslate2.weights`.
        spare_positions: number of zero rows after each table of positions.

    Raises:
        ConfigError: CTranslate2 can't express the model.
    """
    if obstacle := ct2_obstacle(config):
        raise _not_expressible(obstacle)
    name, revision = _KINDS[config.topology]
    variables = _Variables(config, weights, spare_positions)
    content = write_binary(name, revision, stored(variables.collect(), precision), variables.aliases)
    files = {"model.bin": content, "config.json": _json(_settings(config, vocabularies))}
    same = all(list(tokens) == list(vocabularies[0]) for tokens in vocabularies)
    if config.topology == "decoder-only":
        return files | {"vocabulary.json": _json(list(vocabularies[0]))}
    if same:
        return files | {"shared_vocabulary.json": _json(list(vocabularies[0]))}
    source, target = (_json(list(tokens)) for tokens in vocabularies)
    return files | {"source_vocabulary.json": source, "target_vocabulary.json": target}


def _not_expressible(obstacle: str) -> ConfigError:
    return ConfigError(f"the model can't be converted to CTranslate2's form: {obstacle}", name="format", value="ct2")


def _tokens(tokenizer: str, size: int) -> list[str]:
    """Return the tokens of a `tokenizers` file in the order of their ids, up to the size of the model."""
    backend = tokenizers.Tokenizer.from_str(tokenizer)
    return [backend.id_to_token(i) or f"<unused_{i}>" for i in range(size)]


def engine_files(config: ModelConfig, weights: Weights, precision: str = "fp32") -> dict[str, bytes]:
    """Return the files for `Ct2Engine`, which names tokens by their ids. Sources include BOS and EOS."""
    names = [[str(i) for i in range(size)] for size in config.vocabulary_sizes.values()]
    if config.topology == "encoder-decoder":
        config = replace(config, begin=False, end=False)
        names[0][config.special.eos] = SOURCE_END
    # To score an answer that was cut off at `max_len`, CTranslate2 also reads its last token.
    return ct2_files(config, weights, names, precision=precision, spare_positions=1)


class _Variables:
    """The variables of a model under CTranslate2's names."""

    def __init__(self, config: ModelConfig, weights: Weights, spare_positions: int) -> None:
        self.config, self.weights, self.spare_positions = config, weights, spare_positions
        self.found: dict[str, NDArray[Any]] = {}
        self.aliases: dict[str, str] = {}

    def collect(self) -> Variables:
        """Return all variables except aliases."""
        for stack, ours, layers in stacks(self.config):
            self._stack(stack, ours, layers)
        if self.config.topology == "encoder-decoder":
            self._number("encoder/embeddings_merge", 0, np.int8)
        for ours, theirs in linear_layers(self.config):
            self._linear(ours, theirs)
        for ours, their in norms(self.config):
            for own, name in (("weight", "gamma"), ("bias", "beta")):
                if f"{ours}.{own}" in self.weights:
                    self.found[f"{their}/{name}"] = self._float(f"{ours}.{own}")
        self._projection("decoder." if self.config.topology == "encoder-decoder" else "")
        return self.found

    def _stack(self, stack: str, ours: str, layers: int) -> None:
        config = self.config
        scale = config.d_model**0.5 if config.embedding_scale is None else config.embedding_scale
        self._number(f"{stack}/num_heads", config.n_heads, np.int16)
        self._number(f"{stack}/pre_norm", config.pre_norm, np.int8)
        self._number(f"{stack}/activation", ACTIVATIONS[config.feed_forward], np.int8)
        self._number(f"{stack}/scale_embeddings", scale, np.float32)
        shared = config.topology == "encoder-decoder" and config.tie in ("all", "embeddings")
        embedding = f"{stack}/embeddings{'_0' if stack == 'encoder' else ''}/weight"
        if shared and stack == "decoder":
            self.aliases[embedding] = "encoder/embeddings_0/weight"
        else:
            sides = ("encoder.", "decoder.") if shared else (ours,)
            self.found[embedding] = self._first(f"{it}{part}.weight" for it in sides for part in _TIED)
        table = position_table(config, self.weights, ours)
        if table is not None:
            self._positions(f"{stack}/position_encodings/encodings", table)
        for layer in range(layers):
            names = ("self_attention", "attention") if ours == "decoder." else ("self_attention",)
            for name in names:
                self._heads(f"{stack}/layer_{layer}/{name}")

    def _positions(self, name: str, table: NDArray[np.float32]) -> None:
        table = np.pad(table, ((0, self.spare_positions), (0, 0)))
        same = "encoder/position_encodings/encodings"
        if same in self.found and np.array_equal(self.found[same], table):
            self.aliases[name] = same
        else:
            self.found[name] = table

    def _heads(self, theirs: str) -> None:
        config = self.config
        if config.positions == "rotary" and theirs.endswith("self_attention"):
            self._number(f"{theirs}/rotary_dim", config.head_width, np.int32)
            self._number(f"{theirs}/rotary_interleave", False, np.int8)
            self._number(f"{theirs}/rotary_base", read_rotary(config.rotary).base, np.float32)
        if config.attention_scale is not None:
            self._number(f"{theirs}/queries_scale", config.attention_scale, np.float32)
        if config.n_kv_heads is not None:
            self._number(f"{theirs}/num_heads_kv", config.n_kv_heads, np.int32)
        if config.d_head is not None:
            self._number(f"{theirs}/head_dim", config.d_head, np.int32)

    def _projection(self, ours: str) -> None:
        if self.config.tie in ("all", "target"):
            self.aliases["decoder/projection/weight"] = self.aliases.get(
                "decoder/embeddings/weight", "decoder/embeddings/weight"
            )
        else:
            self.found["decoder/projection/weight"] = self._float(f"{ours}projection.weight")
        if f"{ours}projection.bias" in self.weights:
            self.found["decoder/projection/bias"] = self._float(f"{ours}projection.bias")
        if self.config.logit_scale != 1:
            self._number("decoder/scale_outputs", self.config.logit_scale, np.float32)

    def _linear(self, ours: str, theirs: Sequence[str]) -> None:
        for part in ("weight", "bias"):
            if f"{ours}.{part}" in self.weights:
                pieces = np.split(self._float(f"{ours}.{part}"), len(theirs))
                self.found |= {f"{name}/{part}": piece for name, piece in zip(theirs, pieces)}

    def _number(self, name: str, value: float, kind: type[np.number[Any]]) -> None:
        self.found[name] = np.array(value, kind)

    def _first(self, names: Iterator[str]) -> NDArray[np.float32]:
        return next(self._float(name) for name in names if name in self.weights)

    def _float(self, name: str) -> NDArray[np.float32]:
        return np.ascontiguousarray(self.weights[name], np.float32)


def _settings(config: ModelConfig, vocabularies: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Return the content of config.json. Without an UNK token, the decoder's first input takes its place."""
    special, target = config.special, vocabularies[-1]
    unknown = target[special.start if special.unk is None else special.unk]
    settings: dict[str, Any] = {
        "bos_token": target[special.bos],
        "eos_token": target[special.eos],
        "unk_token": unknown,
    }
    settings |= {"layer_norm_epsilon": config.norm_eps, "multi_query_attention": config.n_kv_heads is not None}
    if config.topology == "decoder-only":
        return settings
    return settings | {
        "decoder_start_token": target[special.start],
        "add_source_bos": config.begins,
        "add_source_eos": config.end,
    }


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
