"""Write models in the binary form of CTranslate2, an inference engine for CPUs and GPUs.

For `Ct2Engine`, a converted model is compared with torch.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from ..config import DecodeConfig, ModelConfig
from ..config.notations import read_rotary
from ..decode.beams import Hypothesis
from ..decode.continuation import TextGenerator
from ..decode.engine import Engine
from ..decode.engines.ct2_engine import ACTIVATIONS, SOURCE_END, Ct2Engine, ct2_obstacle, load_runner
from ..decode.model_handle import Weights
from ..decode.position_tables import position_table
from ..decode.registry import open_engine
from ..decode.session import Session
from ..errors import ConfigError, ModelError
from ..folder.atomic import write_folder
from ..folder.manifest import write_folder_with_manifest
from ..folder.model_folder import read_settings
from ..loading import LoadedModel
from .ctranslate2.binary import Arrays, write_binary
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
    """Return the files for `Ct2Engine`, which names tokens by their ids. Sources include BOS and EOS.

    Args:
        config: the settings of the model.
        weights: see `ct2_files`.
        precision: see `ct2_files`.
    """
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

    def collect(self) -> Arrays:
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


_SENTENCES, _LENGTH, _NEW = 4, 30, 20  # sentences to compare, their length and that of their answers
_TOLERANCES = {"fp32": 1e-3, "int8": 0.5}  # of log-probabilities


def convert(path: Path, target: Path, precision: str) -> None:
    """Convert a model folder and compare its answers.

    Args:
        path: the model folder.
        target: the folder to write.
        precision: the type of the numbers: fp32 or int8.

    Raises:
        ModelError: the model folder is damaged, or CTranslate2 answers differently.
    """
    config, tokenizer = read_settings(path, allow_custom_code=True)
    here = config.assign({"train.device": "cpu"}, "machine")
    loaded = LoadedModel(path, here, tokenizer, stored=config, converters={})
    write_folder_with_manifest(target, engine_files(config.model, loaded.handle.weights(), precision).items())
    _check_answers(loaded, target, precision)


def _check_answers(loaded: LoadedModel, folder: Path, precision: str) -> None:
    """Check that CTranslate2 answers a few texts as torch does, by greedy search.

    At a tie, rounding decides which token is chosen, so answers may differ after tokens of the same probability.

    Raises:
        ModelError: an answer or a probability differs.
    """
    config, sources = loaded.config.model, _sources(loaded)
    decode = DecodeConfig(beam=1, max_len=min(_NEW, config.max_len // 2), engine="torch")
    torch = open_engine(loaded.handle, decode)
    ct2 = Ct2Engine(config, load_runner(config, folder, 1, precision), 1)
    answers = [_session(loaded, engine, decode).answers(sources) for engine in (torch, ct2)]
    for source, [expected], [found] in zip(sources, *answers):
        if not _agree(expected, found, _TOLERANCES[precision]):
            what, fix = f"{loaded.path} can't run in CTranslate2: it answers differently", "set decode.engine='torch'"
            ids = f"{expected.ids} for the tokens {source}"
            raise ModelError(what, expected=ids, fix=fix, name="decode.engine", value=found.ids)


def _agree(expected: Hypothesis, found: Hypothesis, tolerance: float) -> bool:
    """Return whether two answers have the same probabilities up to their first different token."""
    same = next((i for i, (a, b) in enumerate(zip(expected.ids, found.ids)) if a != b), None)
    end = max(len(expected.token_log_probabilities), len(found.token_log_probabilities)) if same is None else same + 1
    ours, theirs = (np.array(it.token_log_probabilities[:end]) for it in (expected, found))
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, rtol=0, atol=tolerance))


def _session(loaded: LoadedModel, engine: Engine, decode: DecodeConfig) -> Session:
    if loaded.config.model.topology == "decoder-only":
        return TextGenerator(engine, loaded.tokenizers.target, decode).session  # type: ignore[arg-type]
    return Session(engine, decode, loaded.config.model.special, max_len=loaded.config.model.max_len)


def _sources(loaded: LoadedModel) -> list[list[int]]:
    """Return the tokens of texts from the model's last evaluation, or random ones."""
    tokenizer, longest = loaded.tokenizers.source, min(_LENGTH, loaded.config.model.max_len // 2 - 1)
    texts = loaded.evaluated_sources()[:_SENTENCES]
    read = [ids[:longest] for ids in tokenizer.encode_batch(texts) if ids]
    ordinary, rng = tokenizer.special.ordinary(tokenizer.vocab_size), np.random.default_rng(0)
    return read or [rng.choice(ordinary, max(1, longest // (i + 1))).tolist() for i in range(_SENTENCES)]
