"""Read and write folders of Hugging Face's Transformers: config.json, safetensors and a tokenizer.

Those of Sentence-Transformers also say how states become embeddings: in modules.json and the folders that it names.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from ..config import Config
from ..config.messages import say
from ..errors import ModelError, shortened
from ..folder.atomic import Content, write_folder
from ..folder.manifest import read_bytes, read_json_object
from ..loading import LoadedModel
from ..tasks.classify.regression import rescaled
from ..tokenization.chat_template import ChatTemplate
from ..tokenization.source_and_target import Tokenizers
from .chat_templates import read_template, to_jinja
from .families.bart import Bart, Marian
from .families.bert import BERT, DistilBERT, RoBERTa
from .families.family import Family
from .families.gpt2 import GPT2
from .families.hf_config import HfConfig
from .families.llama import Llama, Mistral, Qwen2
from .families.t5 import T5
from .families.vit import ViT
from .generation import generation_files, read_generation, search_settings, without_suppressed
from .hf_tokenizers import no_tokenizer, read_tokenizer, token_ids, token_roles, tokenizer_files, tokens_around
from .imported import Imported, complete
from .weight_names import AGAIN, SafetensorsFiles, Tensors, matches, to_ours, to_theirs

CONFIG, WEIGHTS = "config.json", "model.safetensors"
# Each family by its model_type. The order is that in which export tries them.
FAMILIES: Mapping[str, Family] = {
    it.model_type: it() for it in (GPT2, Marian, Bart, T5, Llama, Mistral, Qwen2, BERT, DistilBERT, RoBERTa, ViT)
}
_OWN_TOKENIZER = ("qwen2",)  # families for which AutoTokenizer ignores tokenizer_class and tokenizer.json


def _family(path: Path, model_type: object) -> Family:
    """Return the family that a config.json names. Raise ModelError if there is none."""
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        has = "no model_type" if model_type is None else f"model_type={model_type!r}, a family that can't be read"
        expected = f"one of {', '.join(FAMILIES)}"
        raise ModelError(f"{path} has {has}", expected=expected, name="model_type", value=model_type)
    return FAMILIES[model_type]


def read_folder(folder: Path, task: str | None = None) -> Imported:
    """Read the model of a folder. Large tensors stay in their files until they are used.

    Args:
        folder: a folder such as `save_pretrained` writes.
        task: the task to use the model for (default: that of its class).

    Raises:
        ModelError: a file is missing or damaged, or the model has something that isn't supported.
    """
    content = read_json_object(folder / CONFIG)
    kind = _family(folder / CONFIG, content.get("model_type"))
    tensors = SafetensorsFiles(folder)
    tokenizer = read_tokenizer(folder, kind.model_type) if kind.reads_text else no_tokenizer()
    return read_parts(kind, folder / CONFIG, content, tensors, tokenizer, task)


def read_parts(
    kind: Family, path: Path, content: Mapping[str, Any], tensors: Tensors, tokenizer: str, task: str | None = None
) -> Imported:
    """Read a model from its parts. See `read_folder`.

    Args:
        kind: the family of the model.
        path: the file that the settings are from, for messages. Other files are next to it.
        content: the settings, as in a config.json.
        tensors: the weights.
        tokenizer: the text of a tokenizer file.
        task: the task to use the model for (default: that of its class).
    """
    folder, tokens = path.parent, token_ids(tokenizer)
    roles, generation = token_roles(folder, tokens), read_generation(folder)
    hf_config = HfConfig(path, content, tokens=tokens, roles=roles, generation=generation, weights=tensors.names())
    try:
        config = _config(hf_config, kind, tokenizer, task)
    except (TypeError, ValueError, AttributeError) as error:
        what = f"{path} has a value of the wrong type: {error}"
        raise ModelError(what, expected=f"the settings of {kind.title}", fix=AGAIN, name=CONFIG) from error
    found, left = to_ours(kind.names(config.model), tensors, kind.prefix)
    weights = kind.adjusted(found, hf_config)
    unknown = [name for name in left if not matches(name, kind.unused)]
    if unknown:
        what = f"{folder} has weights that {kind.title} doesn't have: {shortened(unknown)}"
        raise ModelError(what, expected=f"the weights of {' or '.join(kind.architectures)}", name=unknown[0])
    unread = [f"settings of {CONFIG} that aren't read: {', '.join(hf_config.unread)}"] if hf_config.unread else []
    return Imported(kind.title, config, tokenizer, weights, [*hf_config.notes, *unread])


def _config(hf_config: HfConfig, kind: Family, tokenizer: str, task: str | None) -> Config:
    hf_config.expect("quantization_config", None)
    folder, more_eos = hf_config.path.parent, _keep_one_end(hf_config)
    task = "embed" if task is None and (folder / MODULES).is_file() else _task(hf_config, kind, task)
    settings = kind.settings(hf_config) | {"train.task": task} | kind.head(hf_config, task)
    if kind.reads_text:
        settings |= _framed(hf_config, settings, tokenizer)
    settings |= read_embedding(folder) if task == "embed" else {}
    if settings["model.topology"] != "encoder-only":
        settings["model.more_eos_ids"] = more_eos
        if settings["model.topology"] == "decoder-only":
            found, note = read_template(folder, {"model.bos_id": 1, "model.eos_id": 2} | settings, tokenizer)
            settings |= found
            hf_config.notes += [note] if note else []
            more_eos = settings["model.more_eos_ids"]
        if settings["model.pad_id"] in more_eos:  # padding has to be told from the end of a text
            settings["model.pad_id"] = settings["model.tgt_vocab_size"]
        settings |= search_settings(hf_config, settings)
    return without_suppressed(hf_config, complete(settings, folder), tokenizer)


def _framed(hf_config: HfConfig, settings: Mapping[str, Any], tokenizer: str) -> dict[str, Any]:
    """Return our settings for the token that the tokenizer puts before a text. Raise ModelError if it puts several."""
    before, after = tokens_around(tokenizer)
    names = {i: name for name, i in hf_config.tokens.items()}
    if len(before) > 1:
        what = f"the tokenizer of {hf_config.path.parent} begins every text with several tokens"
        raise ModelError(what, expected="one or none", name="post_processor", value=[names.get(i) for i in before])
    if after and settings["model.topology"] == "decoder-only":
        hf_config.notes.append(
            f"the tokenizer adds {', '.join(names[i] for i in after)} to every text, which isn't done here"
        )
    return {"model.begin": True, "model.bos_id": before[0]} if before else {"model.begin": False}


def _keep_one_end(hf_config: HfConfig) -> tuple[int, ...]:
    """Keep the first of several EOS ids as the model's own, and return the others."""
    ends = hf_config.generating("eos_token_id")
    if not isinstance(ends, list) or not ends:
        return ()
    for values in (hf_config.values, hf_config.generation):
        if values is not None:
            values["eos_token_id"] = ends[0]
    return tuple(dict.fromkeys(it for it in ends if it != ends[0]))


def _task(hf_config: HfConfig, kind: Family, asked: str | None) -> str:
    """Return the task to use a model for: the one asked for, or that of the class that the folder was saved from."""
    names: Sequence[str] = hf_config.get("architectures", ())
    if isinstance(names, str) or not all(isinstance(it, str) for it in names):
        raise hf_config.unsupported("architectures", expected="a list of names")
    known = [name for name in names if name in kind.architectures]
    if names and not known:
        what = f"{hf_config.path} is for {names[0]}, which can't be read"
        raise ModelError(what, expected=" or ".join(kind.architectures), name="architectures", value=names[0])
    own = kind.architectures[known[0]] if known else next(iter(kind.architectures.values()))
    fitting = kind.tasks_of(own) if known else kind.tasks
    if asked is not None and asked not in fitting:
        what = f"a {known[0] if known else kind.title} can't be used for {asked}"
        raise ModelError(what, expected=" or ".join(fitting), name="task", value=asked)
    return asked or own


def export(loaded: LoadedModel, out: Path) -> None:
    """Write a model to the folder `out`, for the nearest family.

    Raises:
        ModelError: the model has a part without a counterpart.
    """
    write(loaded.config, loaded.model.state_dict(), loaded.tokenizers.to_json(), out)
    kind = json.loads((out / CONFIG).read_bytes())["model_type"]
    if kind in _OWN_TOKENIZER and not loaded.tokenizers.source.is_foreign:
        say(
            f"AutoTokenizer of Transformers splits texts of every {kind} folder as {kind} does, so its ids differ: "
            f"use PreTrainedTokenizerFast.from_pretrained({str(out)!r})"
        )


def write(config: Config, weights: Mapping[str, Tensor], tokenizer: str, out: Path) -> None:
    """Write the folder of a model in one step. See `export`.

    Args:
        config: our settings.
        weights: our weights.
        tokenizer: the text of a tokenizer file.
        out: the folder to write.
    """
    files, theirs = folder_files(config, weights, tokenizer)
    alone = {name: it.detach().cpu().contiguous().clone() for name, it in theirs.items()}

    def contents() -> Iterator[tuple[str, Content]]:
        yield from files.items()
        yield WEIGHTS, lambda path: save_file(alone, path, {"format": "pt"})

    write_folder(out, contents())


def folder_files(
    config: Config, weights: Mapping[str, Tensor], tokenizer: str
) -> tuple[dict[str, bytes], dict[str, Tensor]]:
    """Return the files and the weights of a folder for the nearest family.

    Args:
        config: our settings.
        weights: our weights.
        tokenizer: the text of a tokenizer file.

    Raises:
        ModelError: no family has all parts of the model. The message names those that the nearest one lacks.
    """
    kind, theirs = _nearest(config)
    weights = rescaled(weights, config.data.number_scale)  # their head says the number itself
    files = {CONFIG: (json.dumps(theirs, indent=2) + "\n").encode()} | kind.files(config)
    if config.train.task == "embed":
        files |= embedding_files(config)
    if kind.reads_text:
        tokenizers = Tokenizers.for_model(tokenizer, config.model, origin="the tokenizer")
        template = to_jinja(ChatTemplate.read(config.data.template)) if config.data.template else ""
        files |= tokenizer_files(tokenizers, config.model, template) | generation_files(config, theirs, tokenizers)
    return files, to_theirs(kind.names(config.model), kind.arranged(config.model, weights), kind.prefix)


def lost_export(start: Config, config: Config) -> list[str]:
    """Return a note if a model could be exported, and one that continues from it can't."""
    try:
        _nearest(start)
    except ModelError:
        return []
    try:
        _nearest(config)
    except ModelError as error:
        return [f"the trained model can't be exported to huggingface, unlike the one it starts from: {error.what}"]
    return []


def _nearest(config: Config) -> tuple[Family, dict[str, Any]]:
    """Return the family that lacks the fewest settings of the model, and its config.json."""
    nearest, *_ = families(config)
    return nearest, nearest.config(config)


def families(config: Config) -> list[Family]:
    """Return the families with a model's topology, those of its inputs first, and then those that lack few settings."""
    kinds = [kind for kind in FAMILIES.values() if kind.fixed["model.topology"] == config.model.topology]
    return sorted(kinds, key=lambda kind: ("model.front" in (lacks := kind.lacks(config.model)), len(lacks)))


# --- embeddings: folders of Sentence-Transformers

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
