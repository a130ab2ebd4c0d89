"""The settings of a config.json, with those of generation_config.json."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...config.values import spell
from ...errors import ModelError

GENERATION = "generation_config.json"
# Settings that say nothing about what the model computes, or which text it generates.
_WITHOUT_EFFECT = (
    *("architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "use_cache", "id2label"),
    *("label2id", "_name_or_path", "return_dict", "output_hidden_states", "output_attentions", "output_scores"),
    *("initializer_range", "pruned_heads", "problem_type", "finetuning_task", "tokenizer_class", "prefix"),
    *("attn_implementation", "chunk_size_feed_forward", "gradient_checkpointing", "pretraining_tp", "num_labels"),
    *("_num_labels", "output_past"),
    *("_from_model_config", "_commit_hash", "return_dict_in_generate", "output_logits", "cache_implementation"),
    *("renormalize_logits", "remove_invalid_values", "low_memory", "num_assistant_tokens", "compile_config"),
    *("num_assistant_tokens_schedule", "assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind"),
    *("prompt_lookup_num_tokens", "max_matching_ngram_size", "disable_compile", "prefill_chunk_size", "cache_config"),
)
_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
_NUMBERS = (
    *("num_beams", "length_penalty", "no_repeat_ngram_size", "temperature", "top_k", "top_p", "min_p"),
    *("max_length", "min_length", "max_new_tokens", "min_new_tokens", "repetition_penalty"),
)


class HfConfig:
    """The settings of a config.json. It keeps track of those that were read.

    Args:
        values: its content.
        tokens: the id of each token in the vocabulary.
        roles: the ids of the special tokens that the tokenizer's files name, by role, such as "cls".
        generation: the content of generation_config.json, if there is one.
        weights: the names of the weights.

    Attributes:
        notes: what the user should know, such as what was left out.
    """

    def __init__(
        self,
        path: Path,
        values: Mapping[str, Any],
        *,
        tokens: Mapping[str, int] = MappingProxyType({}),
        roles: Mapping[str, int] = MappingProxyType({}),
        generation: Mapping[str, Any] | None = None,
        weights: Collection[str] = (),
    ) -> None:
        self.path, self.tokens, self.roles = path, tokens, roles
        # An id of -1 is how some folders say that there's no such token.
        self.values = {name: None if name.endswith("_token_id") and it == -1 else it for name, it in values.items()}
        self.generation, self.weights = None if generation is None else dict(generation), weights
        self.notes: list[str] = []
        self._read = set(_WITHOUT_EFFECT)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a setting. Absent ones have the default of their family."""
        self._read.add(name)
        found = self.values.get(name)
        return default if found is None else found

    def nullable(self, name: str, default: Any) -> Any:
        """Return a setting. null is distinct from a missing setting, which has the default of their family."""
        self._read.add(name)
        return self.values.get(name, default)

    def token(self, role: str, default: int | None = None) -> int | None:
        """Return the id of a special token: as config.json says, else as the tokenizer says, else the default."""
        return self.get(f"{role}_token_id", self.roles.get(role, default))

    def known_token(self, role: str, default: int | None = None) -> int:
        """Return the id of a special token that the model can't do without. Raise ModelError if there is none."""
        found = self.token(role, default)
        if found is None:
            name = f"{role}_token_id"
            expected = f"{name}, or a tokenizer that names its {role} token"
            raise ModelError(f"{self.path} has no {name}", expected=expected, name=name)
        return found

    def generating(self, name: str, default: Any = None) -> Any:
        """Return a setting for generating text. Folders without generation_config.json have it in config.json.

        Raises:
            ModelError: a number, or the ids of tokens, are something else.
        """
        found = self.get(name)
        if self.generation is not None:
            found = self.generation.get(name, found if name in _TOKENS else None)
        if found is None:
            return default
        if name in _NUMBERS and (isinstance(found, bool) or not isinstance(found, int | float)):
            raise self.unsupported(name, expected="a number")
        if name == "suppress_tokens" and not _are_ids(found):
            raise self.unsupported(name, expected="a list of token ids")
        if name == "bad_words_ids" and not (isinstance(found, list) and all(map(_are_ids, found))):
            raise self.unsupported(name, expected="a list of words, each of which is a list of token ids")
        if name == "eos_token_id" and not _are_ids(found if isinstance(found, list) else [found]):
            raise self.unsupported(name, expected="a token id, or a list of them")
        return found

    def expect(self, name: str, *values: Any) -> None:
        """Raise ModelError unless a setting is absent or has one of these values, the only supported ones."""
        self._read.add(name)
        found = self.values.get(name)
        if found is not None and found not in values:
            raise self.unsupported(name, expected=" or ".join(map(spell, values)))

    def unsupported(self, name: str, *, expected: str = "", fix: str = "") -> ModelError:
        """Return the error for a setting that our parts can't express.

        Args:
            name: the name of the setting.
            expected: the values that are supported.
            fix: what to do, if that isn't obvious.
        """
        path, found = self.path, self.values.get(name)
        if self.generation is not None and self.generation.get(name) is not None:
            path, found = path.with_name(GENERATION), self.generation[name]
        shown = json.dumps(found) if isinstance(found, list | dict) else spell(found)
        what = f"{path} has {name}={shown}, which isn't supported"
        return ModelError(what, expected=expected, fix=fix, name=name, value=found)

    @property
    def unknown_for_generating(self) -> dict[str, Any]:
        """The settings of generation_config.json that nothing has read, except those without a value."""
        generation = self.generation or {}
        return {name: it for name, it in generation.items() if it is not None and name not in self._read}

    @property
    def unread(self) -> list[str]:
        """The settings that nothing has read, except those without a value."""
        return sorted({name for name, it in self.values.items() if it is not None} - self._read)


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(it, int) and not isinstance(it, bool) for it in value)
