"""Convert a model to CTranslate2's form for `Ct2Engine`, and check that its answers are those of torch."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...config import DecodeConfig, ModelConfig
from ...decode.beams import Hypothesis
from ...decode.continuation import TextGenerator
from ...decode.engine import Engine
from ...decode.engines.ct2_engine import Ct2Engine, load_runner
from ...decode.registry import open_engine
from ...decode.session import Session
from ...errors import ModelError
from ...folder.manifest import write_folder_with_manifest
from ...folder.model_folder import read_settings
from ...loading import LoadedModel
from ..ct2 import engine_files

_SENTENCES, _LENGTH, _NEW = 4, 30, 20  # sentences to compare, their length and that of their answers
_TOLERANCES = {"fp32": 1e-3, "int8": 0.5}  # of log-probabilities


def convert(path: Path, target: Path, precision: str) -> None:
    """Convert a model folder and compare its answers.

    Raises:
        ModelError: the model folder is damaged, or CTranslate2 answers differently.
    """
    config, tokenizer = read_settings(path, allow_custom_code=True)
    here = config.assign({"train.device": "cpu"}, "machine")
    loaded = LoadedModel(path, here, tokenizer, stored=config, converters={})
    write_folder_with_manifest(target, engine_files(config.model, loaded.handle.weights(), precision).items())
    check_answers(loaded, target, precision)


def check_answers(loaded: LoadedModel, folder: Path, precision: str) -> None:
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
            raise ModelError(
                f"{loaded.path} can't run in CTranslate2: it answers differently",
                expected=f"{expected.ids} for the tokens {source}",
                fix="set decode.engine='torch'",
                name="decode.engine",
                value=found.ids,
            )


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
    config, tokenizer = loaded.config.model, loaded.tokenizers.source
    longest = min(_LENGTH, config.max_len // 2 - 1)
    texts = loaded.evaluated_sources()[:_SENTENCES]
    read = [ids[:longest] for ids in tokenizer.encode_batch(texts) if ids]
    return read or _random(config, tokenizer.special.ordinary(tokenizer.vocab_size), longest)


def _random(config: ModelConfig, ordinary: Sequence[int], longest: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.choice(ordinary, max(1, longest // (i + 1))).tolist() for i in range(_SENTENCES)]
