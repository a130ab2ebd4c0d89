"""Write tokenizers to Hugging Face folders, with the special tokens that the model reads."""

import json
from typing import Any

from ..config import Config, ModelConfig
from ..tokenization.chat_template import ChatTemplate
from ..tokenization.source_and_target import Tokenizers
from .chat_templates import to_jinja
from .hf_tokenizers import SETTINGS, TARGET_TOKENIZER, TOKENIZER, token_ids
from .sentencepiece_models import UNSEEN


def tokenizer_files(tokenizers: Tokenizers, config: Config) -> dict[str, bytes]:
    """Return the tokenizer files of a folder, by name.

    One tokenizer reads sources and writes answers. If targets have their own vocabulary, or are split in another way,
    theirs is in a file of its own, which `AutoTokenizer` doesn't read, but `PreTrainedTokenizerFast` does.
    """
    model, template = config.model, config.data.template
    sides = [tokenizers.source] if tokenizers.joint else [tokenizers.source, tokenizers.target]
    texts = [it.to_json() for it in sides]
    names = _names(texts[0])
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": model.max_len}
    settings |= {"clean_up_tokenization_spaces": False, **_roles(model, names)}
    if template:
        settings["chat_template"] = to_jinja(ChatTemplate.read(template))
    elif not tokenizers.source.is_foreign:
        settings["split_special_tokens"] = True  # a text can't forge special tokens
    files = {
        name: _framed(text, model, _names(text)).encode() for name, text in zip((TOKENIZER, TARGET_TOKENIZER), texts)
    }
    return files | {SETTINGS: (json.dumps(settings, indent=2, ensure_ascii=False) + "\n").encode()}


def _names(text: str) -> dict[int, str]:
    """Return the token of each id."""
    return {i: name.removeprefix(UNSEEN) for name, i in token_ids(text).items()}


def _roles(model: ModelConfig, names: dict[int, str]) -> dict[str, Any]:
    """Return the special tokens by their roles, such as eos_token."""
    special = model.special
    ids = {"bos": special.bos, "eos": special.eos, "pad": special.pad, "unk": special.unk}
    ids |= {} if special.mask == special.unk else {"mask": special.mask}
    if model.topology == "encoder-only":
        ids |= {"cls": special.bos, "sep": special.eos}
    return {f"{role}_token": names[i] for role, i in ids.items() if i in names}


def _framed(text: str, model: ModelConfig, names: dict[int, str]) -> str:
    """Return the text of a tokenizer file, with a template that adds BOS and EOS if there's no template yet."""
    content: dict[str, Any] = json.loads(text)
    before = [names[i] for i in (model.bos_id,) if model.begins and i in names]
    after = [names[i] for i in (model.eos_id,) if model.topology != "decoder-only" and model.end and i in names]
    if content.get("post_processor") or not (before or after):
        return text
    ids = {names[i]: i for i in (model.bos_id, model.eos_id) if i in names}

    def framed(*texts: str) -> list[dict[str, Any]]:
        parts = [*before, *texts, *after]
        return [{"Sequence" if it in texts else "SpecialToken": {"id": it, "type_id": 0}} for it in parts]

    special = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (*before, *after)}
    template = {"single": framed("A"), "pair": framed("A", "B"), "special_tokens": special}
    return json.dumps({**content, "post_processor": {"type": "TemplateProcessing", **template}}, ensure_ascii=False)
