"""Read how a Sentence-Transformers folder turns states into embeddings: modules.json and the folders that it names."""

import json
from pathlib import Path
from typing import Any

from ..config import Config
from ..errors import ModelError
from ..folder.manifest import read_bytes, read_json_object

MODULES = "modules.json"
_LIMITS, _PROMPTS, _POOLING = "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"
_MODES = {"cls": "first", "cls_token": "first", "mean": "mean", "mean_tokens": "mean"}  # our name of each pooling
_ENDS = 2  # BOS and EOS
_KINDS = ("Transformer", "Pooling", "Normalize")


def read_embedding(folder: Path) -> dict[str, Any]:
    """Return our settings for embeddings, or none if the folder has no modules.json.

    Raises:
        ModelError: it has a module or a setting that isn't supported.
    """
    if not (folder / MODULES).is_file():
        return {}
    kinds = _modules(folder / MODULES)
    if tuple(kinds) not in (_KINDS, _KINDS[:-1]):
        raise _unsupported(folder / MODULES, "modules", list(kinds), "Transformer, Pooling and perhaps Normalize")
    found = {
        "model.pooling": _pooling(folder / kinds["Pooling"] / "config.json"),
        "model.normalize": "Normalize" in kinds,
    }
    return found | _limits(folder)


def _modules(path: Path) -> dict[str, str]:
    """Return the folder of each module, by its kind, in their order."""
    try:
        return {str(it["type"]).rpartition(".")[2]: str(it["path"]) for it in json.loads(read_bytes(path))}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        what = f"{path} is damaged"
        raise ModelError(what, expected="a JSON list of modules with type and path", name=MODULES) from error


def _pooling(path: Path) -> str:
    given = read_json_object(path)
    modes = [it.removeprefix("pooling_mode_") for it, value in given.items() if value is True and "_mode_" in it]
    modes += [given["pooling_mode"]] if isinstance(given.get("pooling_mode"), str) else []
    if len(modes) != 1 or modes[0] not in _MODES:
        raise _unsupported(path, "pooling_mode", modes, "mean_tokens or cls_token")
    return _MODES[modes[0]]


def _limits(folder: Path) -> dict[str, Any]:
    """Return the setting for the longest text, which counts BOS and EOS there and not here."""
    path, prompts = folder / _LIMITS, folder / _PROMPTS
    given = read_json_object(path) if path.is_file() else {}
    if given.get("do_lower_case"):
        raise _unsupported(path, "do_lower_case", True, "false, with a tokenizer that changes the case itself")
    asked = read_json_object(prompts) if prompts.is_file() else {}
    if asked.get("default_prompt_name"):
        raise _unsupported(prompts, "default_prompt_name", asked["default_prompt_name"], "null")
    longest = given.get("max_seq_length")
    return {"data.max_len": longest - _ENDS} if isinstance(longest, int) else {}


def embedding_files(config: Config) -> dict[str, bytes]:
    """Return the files that make Sentence-Transformers embed texts as the model does, by name."""
    model = config.model
    names = {"Transformer": "", "Pooling": "1_Pooling"} | ({"Normalize": "2_Normalize"} if model.normalize else {})
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, path) in enumerate(names.items())
    ]
    pooling = {
        "word_embedding_dimension": model.d_model,
        "pooling_mode_cls_token": model.pooling == "first",
        "pooling_mode_mean_tokens": model.pooling == "mean",
    }
    longest = config.data.max_len + _ENDS
    limits = {"max_seq_length": longest} if longest <= model.max_len else {}
    contents = {MODULES: modules, _POOLING: pooling, _LIMITS: {**limits, "do_lower_case": False}}
    return {name: (json.dumps(content, indent=2) + "\n").encode() for name, content in contents.items()}


def _unsupported(path: Path, name: str, value: Any, expected: str) -> ModelError:
    what = f"{path} has {name}={json.dumps(value)}, which isn't supported"
    return ModelError(what, expected=expected, name=name, value=value)
