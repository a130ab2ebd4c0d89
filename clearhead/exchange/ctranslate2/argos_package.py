"""Packages of Argos Translate: a CTranslate2 model with the SentencePiece model that splits its texts."""

from dataclasses import replace
from pathlib import Path

from ...errors import ModelError
from ...folder.manifest import read_json_object
from ...tokenization.source_and_target import two_sides
from ..imported import Imported
from ..sentencepiece_models import convert
from .ct2_folder import BINARY, CONFIG, is_ct2_folder, read_ct2_folder
from .vocabularies import read_vocabularies

_METADATA, _MODEL, _SENTENCEPIECE, _BPE = "metadata.json", "model", "sentencepiece.model", "bpe.model"
# Argos Translate searches like this, and with CTranslate2's default that no answer is empty.
_SEARCH = {"decode.beam": 4, "decode.alpha": 0.2, "decode.min_len": 1}


def is_argos_package(folder: Path) -> bool:
    """Return whether a folder is a package of Argos Translate. Folders of Transformers can have such metadata, too."""
    return (folder / _METADATA).is_file() and not (folder / CONFIG).is_file()


def read_argos_package(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a package.

    Args:
        folder: the unpacked package.
        task: the task to use the model for (default: translate).

    Raises:
        ConfigError: the SentencePiece library isn't installed.
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    _check(folder)
    model = folder / _MODEL
    imported = read_ct2_folder(model, task)
    sides = [
        convert(folder / _SENTENCEPIECE, {token: i for i, token in reversed([*enumerate(tokens)])})
        for tokens in read_vocabularies(model)
    ]
    return replace(
        imported,
        title="Argos Translate",
        config=imported.config.assign(_SEARCH, "model"),
        tokenizer=sides[0] if len(sides) == 1 else two_sides(*sides),
        notes=[],
    )


def _check(folder: Path) -> None:
    """Raise ModelError if a package has no model, or one that splits or begins texts in an unsupported way."""
    path, metadata = folder / _METADATA, read_json_object(folder / _METADATA)
    for name, supported in (("type", "translate"), ("target_prefix", "")):
        if (value := metadata.get(name) or supported) != supported:
            what = f"{path} has {name}={value!r}, which isn't supported"
            raise ModelError(what, expected=supported or "no prefix", name=name, value=value)
    if not is_ct2_folder(folder / _MODEL):
        expected = f"a CTranslate2 model in the folder {_MODEL}"
        raise ModelError(f"{folder} has no {_MODEL}/{BINARY}", expected=expected, name=_MODEL)
    if not (folder / _SENTENCEPIECE).is_file():
        has = f"has {_BPE}, which isn't supported" if (folder / _BPE).is_file() else f"has no {_SENTENCEPIECE}"
        fix = "use a package whose tokenizer is a SentencePiece model"
        raise ModelError(f"{folder} {has}", expected=_SENTENCEPIECE, fix=fix, name=_SENTENCEPIECE)
