"""Settings for generating text, which Hugging Face folders have in generation_config.json."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config import Config, DecodeConfig
from ..errors import ConfigError
from ..folder.manifest import read_json_object
from ..tokenization.source_and_target import Tokenizers
from .families.hf_config import GENERATION, HfConfig

_NEW_TOKENS, _TOP_K = 20, 50  # of Transformers' `generate`, if a folder doesn't say
# Our names, theirs, and the values that absent ones have.
_SAME: Mapping[str, tuple[str, Any]] = {
    "beam": ("num_beams", 1),
    "alpha": ("length_penalty", 1.0),
    "sample": ("do_sample", False),
    "no_repeat_ngram": ("no_repeat_ngram_size", 0),
    "temperature": ("temperature", 1.0),
    "top_k": ("top_k", 0),
    "top_p": ("top_p", 1.0),
    "min_p": ("min_p", 0.0),
}
# Settings of theirs that we don't always have, each with the value that changes no text.
_OTHERS: Mapping[str, Any] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p", "guidance_scale"), 1.0),
    **dict.fromkeys(("num_beam_groups", "num_return_sequences"), 1),
    **dict.fromkeys(("min_length", "epsilon_cutoff", "eta_cutoff", "diversity_penalty", "penalty_alpha"), 0),
    **dict.fromkeys(("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "top_h", "sequence_bias")),
    **dict.fromkeys(("forced_eos_token_id", "forced_decoder_ids", "begin_suppress_tokens", "watermarking_config")),
    **dict.fromkeys(("constraints", "force_words_ids", "stop_strings", "max_time", "dola_layers", "token_healing")),
}


def read_generation(folder: Path) -> dict[str, Any] | None:
    """Return the settings of a folder for generating text, or None if it has no file of them."""
    path = folder / GENERATION
    return read_json_object(path) if path.is_file() else None


def search_settings(hf_config: HfConfig, model: Mapping[str, Any]) -> dict[str, Any]:
    """Return our settings with which a search gives the text of Transformers' `generate`.

    Settings of theirs that ours can't express are noted.

    Args:
        hf_config: their settings.
    """
    theirs, reads_source = hf_config.generating, model["model.topology"] == "encoder-decoder"
    values = {name: theirs(name, neutral) for name, neutral in _OTHERS.items()}
    left = {name: it for name, it in values.items() if it is not False and it != _OTHERS[name]}
    found = {name: theirs(their_name, absent) for name, (their_name, absent) in _SAME.items()}
    if found["sample"] and theirs("top_k") is None:
        found["top_k"] = _TOP_K
    theirs("early_stopping")
    if found["beam"] > 1:
        if found["sample"]:
            hf_config.notes.append(f"sampling follows one text at a time, not num_beams={found['beam']}")
        else:
            hf_config.notes.append(
                "beam search ranks answers, and ends, by other formulas than in the original program, so answers can "
                "differ; those of greedy search (--beam 1) are the same"
            )
        if reads_source:  # where theirs changes log-probabilities, too, and doesn't count a prompt
            found["repetition_penalty"] = left.pop("repetition_penalty", 1.0)
    if found["no_repeat_ngram"] and not reads_source:
        hf_config.notes.append("no_repeat_ngram_size counts the n-grams of new tokens here, not those of the prompt")
    for name, value in list(found.items()):
        if not _valid(name, value):
            left[_SAME[name][0] if name in _SAME else name] = found.pop(name)
    found |= _lengths(hf_config, model, left)
    _suppressed(hf_config)
    left |= hf_config.unknown_for_generating
    if left:
        listed = ", ".join(f"{name}={json.dumps(value)}" for name, value in left.items())
        hf_config.notes.append(f"settings for generating text that aren't read, so answers can differ: {listed}")
    return {f"decode.{name}": value for name, value in found.items()}


def _lengths(hf_config: HfConfig, model: Mapping[str, Any], left: dict[str, Any]) -> dict[str, Any]:
    """Return our limits of an answer's length. Those of theirs that were used are removed from `left`."""
    theirs, reads_source = hf_config.generating, model["model.topology"] == "encoder-decoder"
    longest, most, least = theirs("max_length"), theirs("max_new_tokens"), theirs("min_new_tokens")
    if most is None and longest is not None:
        most = longest - 1 if reads_source else longest  # the decoder's first input counts
        if not reads_source:
            hf_config.notes.append(f"max_length={longest} is the number of new tokens here; the prompt doesn't count")
    elif most is None:
        most = _NEW_TOKENS
        hf_config.notes.append(
            f"an answer has at most {most} tokens, as in Transformers; change it with decode.max_len"
        )
    if "forced_eos_token_id" in left:
        most -= 1  # ours doesn't count the end token
        if left["forced_eos_token_id"] == model["model.eos_id"]:
            del left["forced_eos_token_id"]
    if least is None:
        least = left.pop("min_length", 1) - 1 if reads_source else 0
    elif "min_length" in left:
        del left["min_length"]
    most = max(most, 1)
    found = {"max_len": most, "min_len": min(least, most)}
    return found | ({"max_extra": max(most + 1, model["model.max_len"])} if reads_source else {})


def _valid(name: str, value: Any) -> bool:
    """Return False for a number that our setting can't have."""
    try:
        DecodeConfig(**{name: value})
    except ConfigError:
        return False
    return True


def without_suppressed(hf_config: HfConfig, config: Config, tokenizer: str) -> Config:
    """Return a configuration with which the tokens that a folder suppresses are never generated.

    Args:
        hf_config: the settings of the folder.
        config: our settings.
        tokenizer: the text of a tokenizer file.

    Raises:
        ModelError: a sequence of several tokens is suppressed.
    """
    if not (ids := _suppressed(hf_config)):
        return config
    target = Tokenizers.for_model(tokenizer, config.model, origin=f"the tokenizer of {hf_config.path.parent}").target
    return config.assign({"decode.suppress": tuple(target.pieces(ids))}, "model")


def _suppressed(hf_config: HfConfig) -> list[int]:
    words: Sequence[Sequence[int]] = hf_config.generating("bad_words_ids") or ()
    if any(len(word) > 1 for word in words):
        raise hf_config.unsupported("bad_words_ids", expected="words of one token")
    return [*(word[0] for word in words), *(hf_config.generating("suppress_tokens") or ())]


def generation_files(config: Config, theirs: Mapping[str, Any], tokenizers: Tokenizers) -> dict[str, bytes]:
    """Return the file of a model's settings for generating text, by name; none for a model that doesn't generate.

    Args:
        config: our settings.
        theirs: the content of config.json.
        tokenizers: the model's tokenizers.
    """
    if config.model.topology == "encoder-only":
        return {}
    decode, suppressed = config.decode, tokenizers.target.suppressed(config.decode)
    found = {name: it for name, it in theirs.items() if name.endswith("_token_id") and it is not None}
    if config.model.more_eos_ids:
        found["eos_token_id"] = [config.model.eos_id, *config.model.more_eos_ids]
    if config.model.topology == "decoder-only":
        found["max_new_tokens"] = decode.max_len or max(decode.max_extra, decode.min_len)
    elif decode.max_len is None:
        found["max_length"] = config.model.max_len
    else:  # the decoder's first input and the end token count there
        found |= {"max_length": decode.max_len + 2, "forced_eos_token_id": config.model.eos_id}
    found |= {"min_new_tokens": decode.min_len} if decode.min_len else {}
    found |= {"suppress_tokens": suppressed} if suppressed else {}
    values = {their_name: (getattr(decode, name), absent) for name, (their_name, absent) in _SAME.items()}
    found |= {name: value for name, (value, absent) in values.items() if value != absent}
    if decode.beam > 1:
        found["early_stopping"] = True
        found |= {"repetition_penalty": decode.repetition_penalty} if decode.repetition_penalty > 1 else {}
    if decode.sample:
        found["top_k"] = decode.top_k  # absent, it would be 50
    return {GENERATION: (json.dumps(found, indent=2) + "\n").encode()}
