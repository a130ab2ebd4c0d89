"""Models converted to CTranslate2's form, in the user's cache folder. They can be deleted at any time.

~/.cache/clearhead/ct2/0f3c...  named after the weights and the settings of the model; a manifest detects damage
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ...apps.loaded import LoadedModel
from ...config import DecodeConfig, ModelConfig
from ...config.messages import say
from ...decode.beams import Hypothesis
from ...decode.continuation import TextGenerator
from ...decode.engine import Engine
from ...decode.engines.ct2_engine import Ct2Engine, load_runner
from ...decode.registry import open_engine
from ...decode.session import Session
from ...errors import ClearheadError, ModelError
from ...folder.atomic import remove_folder, writing
from ...folder.manifest import Manifest, digest, read_bytes, read_verified, write_folder_with_manifest
from ...folder.model_folder import WEIGHTS, read_settings
from ..ct2 import engine_files

_VERSION = 1  # of what's written here; a new one converts all models again
_OLD = 86_400  # seconds after which an unfinished conversion has certainly been interrupted
_SENTENCES, _LENGTH, _NEW = 4, 30, 20  # sentences to compare, their length and that of their answers
_TOLERANCE = 1e-3  # of log-probabilities


def cache_folder() -> Path:
    """Return the user's cache folder: $XDG_CACHE_HOME/clearhead, or ~/.cache/clearhead."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clearhead"


def cached_model(path: Path) -> Path:
    """Return the folder with a model in CTranslate2's form. It's written if it's missing or damaged.

    Several processes can do this at the same time.

    Args:
        path: a model folder, whose custom code may be imported.

    Raises:
        ModelError: the model folder is damaged, or CTranslate2 answers differently.
        TrainingError: the cache folder can't be written to.
    """
    config = read_settings(path, allow_custom_code=True)[0].model
    found = cache_folder() / "ct2" / _key(path, config)
    if _is_whole(found):
        return found
    parent = found.parent
    with writing(parent, again="try again", instead="choose another one with XDG_CACHE_HOME"):
        parent.mkdir(parents=True, exist_ok=True)
        _remove_interrupted(parent)
        with tempfile.TemporaryDirectory(prefix=".", dir=parent, ignore_cleanup_errors=True) as temporary:
            _write(path, written := Path(temporary) / "model")
            _move(written, found)
    say(f"converted {path} for CTranslate2, once: {found}")
    return found


def _key(path: Path, config: ModelConfig) -> str:
    """Return a name for a model, which changes with its weights and settings."""
    manifest = Manifest.read(path)
    settled = WEIGHTS in manifest.files and not manifest.incoming
    weights = manifest.files[WEIGHTS] if settled else digest(read_bytes(path / WEIGHTS))
    return digest(json.dumps([_VERSION, weights, asdict(config)]).encode())[:32]


def _is_whole(folder: Path) -> bool:
    """Return whether a folder exists, with all files undamaged."""
    try:
        read_verified(folder)
    except ModelError:
        return False
    return True


def _write(path: Path, target: Path) -> None:
    """Convert a model and compare its answers."""
    config, tokenizer = read_settings(path, allow_custom_code=True)
    loaded = LoadedModel(path, config.assign({"train.device": "cpu"}, "machine"), tokenizer, stored=config)
    write_folder_with_manifest(target, engine_files(config.model, loaded.handle.weights()).items())
    check_answers(loaded, target)


def _move(written: Path, target: Path) -> None:
    """Put a folder in its place, unless another process was faster."""
    if target.exists() and not _is_whole(target):
        with suppress(FileNotFoundError):  # another process did the same
            remove_folder(target)
    try:
        written.rename(target)
    except OSError:
        if not _is_whole(target):
            raise


def _remove_interrupted(parent: Path) -> None:
    for it in parent.glob(".*"):
        with suppress(OSError):
            if time.time() - it.stat().st_mtime > _OLD:
                shutil.rmtree(it, ignore_errors=True)


def check_answers(loaded: LoadedModel, folder: Path) -> None:
    """Check that CTranslate2 answers a few texts as torch does, by greedy search.

    At a tie, rounding decides which token is chosen, so answers may differ after tokens of the same probability.

    Raises:
        ModelError: an answer or a probability differs.
    """
    config, sources = loaded.config.model, _sources(loaded)
    decode = DecodeConfig(beam=1, max_len=min(_NEW, config.max_len // 2), engine="torch")
    torch, ct2 = open_engine(loaded.handle, decode), Ct2Engine(config, load_runner(config, folder, 1), 1)
    answers = [_session(loaded, engine, decode).answers(sources) for engine in (torch, ct2)]
    for source, [expected], [found] in zip(sources, *answers):
        if not _agree(expected, found):
            raise ModelError(
                f"{loaded.path} can't run in CTranslate2: it answers differently",
                expected=f"{expected.ids} for the tokens {source}",
                fix="set decode.engine='torch'",
                name="decode.engine",
                value=found.ids,
            )


def _agree(expected: Hypothesis, found: Hypothesis) -> bool:
    """Return whether two answers have the same probabilities up to their first different token."""
    same = next((i for i, (a, b) in enumerate(zip(expected.ids, found.ids)) if a != b), None)
    end = max(len(expected.token_log_probabilities), len(found.token_log_probabilities)) if same is None else same + 1
    ours, theirs = (np.array(it.token_log_probabilities[:end]) for it in (expected, found))
    return ours.shape == theirs.shape and bool(np.allclose(ours, theirs, rtol=0, atol=_TOLERANCE))


def _session(loaded: LoadedModel, engine: Engine, decode: DecodeConfig) -> Session:
    if loaded.config.model.topology == "decoder-only":
        return TextGenerator(engine, loaded.tokenizers.target, decode).session  # type: ignore[arg-type]
    return Session(engine, decode, loaded.config.model.special, max_len=loaded.config.model.max_len)


def _sources(loaded: LoadedModel) -> list[list[int]]:
    """Return the tokens of texts from the model's last evaluation, or random ones."""
    config, tokenizer, texts = loaded.config.model, loaded.tokenizers.source, list[str]()
    with suppress(ClearheadError, ValueError, KeyError, TypeError):
        examples = json.loads(read_bytes(loaded.path / "evaluation.json"))["examples"]
        texts = [it["source"] for it in examples if isinstance(it["source"], str)][:_SENTENCES]
    longest = min(_LENGTH, config.max_len // 2 - 1)
    read = [ids[:longest] for ids in tokenizer.encode_batch(texts) if ids]
    return read or _random(config, tokenizer.special.ordinary(tokenizer.vocab_size), longest)


def _random(config: ModelConfig, ordinary: Sequence[int], longest: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.choice(ordinary, max(1, longest // (i + 1))).tolist() for i in range(_SENTENCES)]
