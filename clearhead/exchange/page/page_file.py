"""Write a model as one HTML file that answers in the browser: the page of `explain --html`, with the model inside.

The scripts in `static/embedded/` run the model. They take everything that they know about it from here:
settings, tokenizers, the parts to show, and the place of each tensor among the weights. A model with a setting that
they don't know is rejected.
"""

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...config import TASKS, Config, ModelConfig
from ...config.notations import read_rotary
from ...config.values import spell
from ...errors import ModelError
from ...folder.atomic import write_file
from ...folder.checkpoint import FILM
from ...folder.model_folder import identity
from ...inspection.page.document import STATIC, document
from ...inspection.page.page_data import FORMAT_VERSION, film_data, model_facts
from ...inspection.page.part_data import part_facts
from ...inspection.record.recorder import record
from ...inspection.views.alignment import alignment_layer
from ...loading import LoadedModel
from ...model.feed_forward import FEED_FORWARDS
from ...model.transformer import evaluation
from ...tasks.sequences import Sequences
from ...tokenization.learning import SPECIALS
from ...tokenization.tokenizer import Tokenizer
from ...training.report.metrics import read_metrics
from ...version import __version__

SCRIPTS = (files(__package__) / "static", *STATIC)
LARGEST = 100_000_000  # bytes of a file that a browser opens without trouble
_GRADIENTS = {"what": "integrated gradients", "why": "a model in a page can't compute gradients"}
_SAMPLES = {"what": "sampling", "why": "a model in a page searches for the most likely answer"}
_STORED = (
    "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "max_len", "window", "positions", "norm",
    "norm_eps", "pre_norm", "tie", "logit_scale", "begin", "topology",
)  # fmt: skip
_RESOLVED = ("d_head", "n_kv_heads", "feed_forward", "embedding_scale")  # with defaults that depend on other settings
_SEARCH = (
    "beam", "alpha", "max_extra", "max_len", "min_len", "max_ratio", "min_ratio", "no_repeat_ngram",
    "repetition_penalty", "unknown",
)  # fmt: skip
_STEPS = {"NFC": "NFC", "NFKC": "NFKC", "Lowercase": "lowercase", "Replace": "fold", "Strip": "strip"}
_SPLITS = {"bpe": "subwords", "unigram": "subwords", "word": "words", "character": "characters"}


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write a model to the file `out`, for any browser.

    Args:
        precision: fp32, or int8 for matrices in 8 bits, each row with its own scale. Computations are in float32.

    Raises:
        ModelError: the scripts can't run a part of the model, or the file would be too large for a browser.
    """
    check_task(loaded.config)
    source, target = loaded.tokenizers.source, loaded.tokenizers.target
    tokenizers: dict[str, Any] = {
        "source": page_tokenizer(source)
    }  # before the settings, since another program's have other ids
    tokenizers["target"] = None if loaded.tokenizers.joint else page_tokenizer(target)
    check_settings(loaded.config.model)
    table, weights = _packed(loaded.model, precision)
    command = f"clearhead export {loaded.path.resolve().name} --to page --out {out.name}"
    command += f" --precision {precision}" if precision != "fp32" else ""
    about = _about(loaded, command) | {"tokenizers": tokenizers, "weights": table}
    size = 4 * len(weights) // 3 + len(json.dumps(about))
    if size > LARGEST:
        what = f"the page would have {size / 1e6:,.0f} MB, which is too large for a browser"
        fix = "set `precision=int8`" if precision != "int8" else "serve the model with `clearhead serve`"
        raise ModelError(what, expected=f"at most {LARGEST / 1e6:,.0f} MB", fix=fix, name="precision", value=precision)
    write_file(out, embedded_document(about, weights).encode())


def embedded_document(about: Mapping[str, Any], weights: bytes) -> str:
    """Return the HTML of a page that holds a model and answers by itself.

    Args:
        about: all that its scripts know about the model, except for the weights.
        weights: the numbers of the model, one tensor after the other.
    """
    names = " · ".join(it["name"] for it in about["models"])
    return document("embedded", about, names, blocks={"weights": b64encode(weights).decode()}, folders=SCRIPTS)


def _about(loaded: LoadedModel, command: str) -> dict[str, Any]:
    """Return everything that the scripts know about a model, except for its tokenizers and weights."""
    config, name = loaded.config, loaded.path.resolve().name
    task, model, special = config.train.task or "translate", config.model, config.model.special
    decode = {it: getattr(config.decode, it) for it in _SEARCH} | {"eos": special.eos}
    decode |= {"beam": 1 if config.decode.sample else config.decode.beam}
    decode |= {"suppress": loaded.tokenizers.target.suppressed(config.decode)}
    longest = loaded.task.readable[0] + model.begins if isinstance(loaded.task, Sequences) else model.max_len
    return {
        "models": [{"name": name, "task": task, "reads": "text", "examples": loaded.examples()}],
        "task": task,
        "longest": longest,
        "settings": _settings(model),
        "decode": decode,
        "special": {it: getattr(special, it) for it in ("pad", "bos", "eos", "unk", "start")},
        "parts": _parts(loaded.model, config),
        "page": _page(loaded, name) | {"command": command, "task": task},
    }


def page_tokenizer(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the steps and the vocabulary of a tokenizer that Clearhead trained, as the scripts read it.

    Raises:
        ModelError: it's another program's.
    """
    if tokenizer.is_foreign:
        what = "the tokenizer is another program's, which a page can't run"
        expected = "a tokenizer that Clearhead trained"
        raise ModelError(what, expected=expected, name="tokenizer.json", value=tokenizer.kind)
    file = json.loads(tokenizer.to_json())
    steps = [it["type"] for it in file["normalizer"]["normalizers"]]
    model, merges, scores = file["model"], list[list[int]](), list[float]()
    if tokenizer.kind == "unigram":
        pieces, scores = [it[0] for it in model["vocab"]], [it[1] for it in model["vocab"]]
    else:
        pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    if tokenizer.kind == "bpe":
        ids = {piece: i for i, piece in enumerate(pieces)}
        pairs = [it.split(" ") if isinstance(it, str) else it for it in model["merges"]]
        merges = [[ids[left], ids[right], ids[left + right]] for left, right in pairs]
    return {
        "normalizers": ["prepend" if it == "Prepend" else _STEPS[it] for it in steps],
        "split": _SPLITS[tokenizer.kind],
        "kind": tokenizer.kind if tokenizer.kind in ("bpe", "unigram") else "whole",
        "pieces": [*SPECIALS, *pieces[len(SPECIALS) :]],
        "scores": scores,
        "merges": merges,
    }


def _page(loaded: LoadedModel, name: str) -> dict[str, Any]:
    """Return what every answer's page says about the model."""
    config, film = loaded.config, loaded.path / FILM
    values: dict[str, Any] = {"format_version": FORMAT_VERSION, "kind": "page", "version": __version__}
    values["model"] = model_facts(loaded.model, config, name)
    values["left_out"] = [_GRADIENTS, *([_SAMPLES] if config.decode.sample else [])]
    if config.model.topology == "encoder-decoder":
        values["alignment_layer"] = alignment_layer(config.model.n_decoder_layers)
    if film.exists() and (frames := read_metrics(film)):
        values["film"] = film_data(frames, lambda what, why: values["left_out"].append({"what": what, "why": why}))
    return values


def _settings(model: ModelConfig) -> dict[str, Any]:
    """Return the settings that a model is built from, with their defaults filled in."""
    found = model.resolved()
    rotary = read_rotary(model.rotary)
    rescale = 1.0 if model.attention_scale is None else model.attention_scale * math.sqrt(model.head_width)
    return {
        **{it: getattr(model, it) for it in _STORED},
        **{it: found[f"model.{it}"] for it in _RESOLVED},
        "rescale": rescale,
        "rotary_base": rotary.base,
        "rotary_scaling": rotary.scaling,
    }


def _parts(model: nn.Module, config: Config) -> list[dict[str, Any]]:
    """Return the parts of the model as the page shows them, without values."""
    special = config.model.special
    read, written = torch.tensor([[special.eos]]), torch.tensor([[special.start]])
    inputs = (written,) if config.model.topology == "decoder-only" else (read, written)
    with evaluation(model), torch.inference_mode(), record(model) as trace:
        model(*(it.to(config.train.device) for it in inputs))
    return part_facts(model, trace)


def _packed(model: nn.Module, precision: str) -> tuple[list[dict[str, Any]], bytes]:
    """Return where each tensor lies among the bytes of all, and the bytes. A tied tensor is there once."""
    seen, floats, whole, table = set[object](), list[NDArray[Any]](), list[NDArray[Any]](), list[dict[str, Any]]()
    at = {"f4": 0, "i1": 0}
    for name, tensor in model.state_dict().items():
        if identity(tensor) in seen:
            continue
        seen.add(identity(tensor))
        values = tensor.detach().float().numpy(force=True)
        entry: dict[str, Any] = {"name": name, "shape": list(values.shape)}
        if precision == "int8" and values.ndim == 2 and not name.endswith("positions.table"):
            scales = np.abs(values).max(1, keepdims=True) / np.float32(127)
            entry |= {"scales": at["f4"], "whole": at["i1"]}
            rounded = np.rint(values / np.where(scales == 0, np.float32(1), scales)).astype("i1")
            whole.append(rounded)
            at["i1"] += rounded.size
            values = scales
        else:
            entry["at"] = at["f4"]
        floats.append(np.ascontiguousarray(values, "<f4"))
        at["f4"] += 4 * values.size
        table.append(entry)
    for entry in table:
        if "whole" in entry:
            entry["at"] = at["f4"] + entry.pop("whole")  # all floats come first, so that each is aligned
    return table, b"".join(it.tobytes() for it in (*floats, *whole))


# --- supported settings

_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi")
_CHOICES: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "topology": ("encoder-decoder", "decoder-only"),
        "front": ("tokens",),
        "attention": ("softmax",),
        "positions": _POSITIONS,
        "norm": ("layer", "rms"),
        "feed_forward": tuple(FEED_FORWARDS),
        "copy": (False,),
        "end": (True,),
    }
)
_ANY = (
    "src_vocab_size", "tgt_vocab_size", "d_model", "n_heads", "n_kv_heads", "d_head", "d_ff", "n_encoder_layers",
    "n_decoder_layers", "max_len", "attention_scale", "window", "rotary", "norm_eps", "pre_norm",
    "final_norm", "embedding_norm", "embedding_scale", "bias", "qkv_bias", "tie", "projection_bias", "logit_scale",
    "begin", "start_id", "mask_id",
    "dropout", "attention_dropout", "activation_dropout",  # only in training
)  # fmt: skip


def check_task(config: Config) -> None:
    """Raise ModelError if the scripts can't do a model's task."""
    task = config.train.task or "translate"
    able = [name for name, spec in TASKS.items() if spec.in_page]
    if task not in able:
        raise _unsupported("train.task", task, " or ".join(able))
    if config.data.modality != "text":
        raise _unsupported("data.modality", config.data.modality, "text")


def check_settings(model: ModelConfig) -> None:
    """Raise ModelError if the scripts can't run a model, with the first setting that they don't know."""
    for setting in fields(model):
        value = getattr(model, setting.name)
        known = _CHOICES.get(setting.name, (setting.default,))
        if setting.name not in _ANY and value not in known:
            expected = ", ".join(map(spell, (it for it in known if it is not None)))
            raise _unsupported(f"model.{setting.name}", value, expected)


def _unsupported(name: str, value: Any, expected: str) -> ModelError:
    what = f"{name}={spell(value)} can't run in a page"
    return ModelError(what, expected=expected, fix="serve the model with `clearhead serve`", name=name, value=value)
