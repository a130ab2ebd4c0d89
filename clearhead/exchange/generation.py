"""Settings for generating text, which Hugging Face folders have in generation_config.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import Config
from ..folder.manifest import parse_json_object, read_bytes
from ..tokenization.source_and_target import Tokenizers
from .families.given import GENERATION, Given


def read_generation(folder: Path) -> dict[str, Any]:
    """Return the settings of a folder for generating text. There may be none."""
    path = folder / GENERATION
    return parse_json_object(path, read_bytes(path)) if path.is_file() else {}


def without_suppressed(given: Given, config: Config, tokenizer: str) -> Config:
    """Return a configuration with which the tokens that a folder suppresses are never generated.

    Raises:
        ModelError: a sequence of several tokens is suppressed.
    """
    words: Sequence[Sequence[int]] = given.generating("bad_words_ids") or ()
    if any(len(word) > 1 for word in words):
        raise given.unsupported("bad_words_ids", expected="words of one token")
    ids = [*(word[0] for word in words), *(given.generating("suppress_tokens") or ())]
    if not ids:
        return config
    target = Tokenizers.for_model(tokenizer, config.model, origin="the tokenizer").target
    return config.assign({"decode.suppress": tuple(target.pieces(ids))}, "model")


def generation_files(config: Config, theirs: Mapping[str, Any], tokenizers: Tokenizers) -> dict[str, bytes]:
    """Return the file of an encoder-decoder's settings for generating text, by name."""
    if config.model.topology != "encoder-decoder":
        return {}
    decode, suppressed = config.decode, tokenizers.target.suppressed(config.decode)
    found = {name: it for name, it in theirs.items() if name.endswith("_token_id")}
    found |= {"max_length": config.model.max_len, "num_beams": decode.beam, "early_stopping": decode.beam > 1}
    found |= {"suppress_tokens": suppressed} if suppressed else {}
    found |= {"no_repeat_ngram_size": decode.no_repeat_ngram} if decode.no_repeat_ngram else {}
    return {GENERATION: (json.dumps(found, indent=2) + "\n").encode()}
