"""Adapters in the format of PEFT: adapter_config.json and adapter_model.safetensors with low-rank updates by module.

PEFT names modules as Transformers does, so the tables of names in `families/` serve here too. A matrix of ours that is
made of several of theirs, such as that of queries, keys and values, has one update, and so has each of theirs.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..config import Config, ModelConfig
from ..errors import ModelError, shortened
from ..folder.adapters import ADAPTER, ADAPTER_WEIGHTS, Adapter, is_adapter, is_factor, merged
from ..folder.atomic import write_folder
from ..folder.manifest import read_bytes, read_json_object, read_verified, write_folder_with_manifest
from ..folder.model_folder import load_model_folder, model_files, weights_from_bytes, weights_to_bytes
from ..folder.weight_table import check_numbers, stored_tensors, tied_names
from ..loading import LoadedModel
from ..tasks.classify.regression import rescaled
from .families.family import Family
from .huggingface import families
from .weight_names import AGAIN, Name, TensorsInMemory, plain_name, to_ours, to_theirs

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_PAIR = re.compile(r"(.+)\.lora_([AB])\.weight")
_TASKS = {"generate": "CAUSAL_LM", "translate": "SEQ_2_SEQ_LM", "summarize": "SEQ_2_SEQ_LM"}
_UNSUPPORTED = {
    "use_dora": False,
    "bias": "none",
    "lora_bias": False,
    "alora_invocation_tokens": None,
    "layer_replication": None,
}
_KEEP_BASE = (True, False, None, "gaussian", "eva", "orthogonal", "mica")  # other initialisations change its weights


@dataclass(frozen=True)
class Update:
    """A low-rank update s B A of a matrix. A (R, in), B (out, R)"""

    a: Tensor
    b: Tensor
    scale: float = 1.0


@dataclass(frozen=True)
class PeftFolder:
    """The content of a folder: updates by the name of their module, and whole weights by name."""

    updates: dict[str, Update] = field(default_factory=dict)
    plain: dict[str, Tensor] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> "PeftFolder":
        """Read a folder. Raise ModelError if it's damaged, or has something other than low-rank updates."""
        values = read_json_object(folder / CONFIG)
        if values.get("peft_type") != "LORA":
            raise _unsupported(folder, "peft_type", values.get("peft_type"), "'LORA'")
        for name, expected in _UNSUPPORTED.items():
            if values.get(name, expected) != expected:
                raise _unsupported(folder, name, values[name], repr(expected))
        if (init := values.get("init_lora_weights", True)) not in _KEEP_BASE:
            expected = "an adapter of unchanged weights, which PEFT saves with path_initial_model_for_weight_conversion"
            raise _unsupported(folder, "init_lora_weights", init, expected)
        data = read_bytes(folder / WEIGHTS)
        stored_tensors(folder / WEIGHTS, data)  # raises an error if it's damaged
        tensors = {name.removeprefix(_PREFIX): it for name, it in weights_from_bytes(folder / WEIGHTS, data).items()}
        modules = {found[1] for name in tensors if (found := _PAIR.fullmatch(name))}
        pairs = {name: [tensors.pop(f"{name}.lora_{it}.weight", None) for it in "AB"] for name in sorted(modules)}
        updates = {}
        for name, (a, b) in pairs.items():
            if a is None or b is None or a.dim() != 2 or b.dim() != 2 or a.size(0) != b.size(1):
                what = f"{folder / WEIGHTS} has no pair of matrices for {name}"
                raise ModelError(what, expected="lora_A (R, in) and lora_B (out, R)", fix=AGAIN, name=name)
            updates[name] = Update(a.float(), b.float(), _scale(folder, values, name, a.size(0)))
        if not updates:
            raise ModelError(f"{folder / WEIGHTS} has no updates", expected="lora_A and lora_B", name=WEIGHTS)
        if strange := [name for name in tensors if ".lora_" in name]:
            what = f"{folder / WEIGHTS} has {shortened(strange)}, which isn't a low-rank update of a linear layer"
            raise ModelError(what, expected="lora_A and lora_B", name=strange[0])
        return cls(updates, tensors)


def is_peft_folder(folder: Path) -> bool:
    """Return whether a folder has an adapter in the format of PEFT."""
    return (folder / CONFIG).is_file()


def import_adapter(folder: Path, base: Path, out: Path) -> None:
    """Read an adapter of PEFT for a model folder, and write it as a folder of ours.

    Args:
        base: the model folder that it adapts, imported from the model that PEFT adapted.

    Raises:
        ModelError: one of the folders is damaged, or the adapter doesn't fit the base.
    """
    theirs, model = PeftFolder.read(folder), load_model_folder(base, allow_custom_code=True)
    weights, scale = to_our_adapter(theirs, model.config, folder)
    data = weights_to_bytes(weights)
    stored = stored_tensors(folder / WEIGHTS, data)
    check_numbers(model.config.model, stored)
    merged(model.weights, {name: it.array() for name, it in stored.items()}, scale, folder / WEIGHTS)  # checks shapes
    card = f"# Adapter\n\nImported by Clearhead from `{folder.name}`, for `{base.name}`.\n"
    files = model_files(config=model.config.to_record(), tokenizer=model.tokenizer, weights=weights, card=card)
    adapter = Adapter.of(out, base, model.weights_digest, scale)
    write_folder_with_manifest(out, [*files.items(), (ADAPTER, adapter.to_bytes())])


def export(loaded: LoadedModel, out: Path) -> None:
    """Write the adapter of a model to the folder `out`, for use with the base's export for Transformers.

    Raises:
        ModelError: the model has no adapter, or a part without a counterpart.
    """
    path = loaded.path
    load_model_folder(path, allow_custom_code=True, base=loaded.base)  # raises an error if it's damaged
    if not is_adapter(path):
        expected = "the folder of an adapter, or a model with --adapter"
        raise ModelError(f"{path} has no adapter to export", expected=expected, name=str(path))
    ours = weights_from_bytes(path / ADAPTER_WEIGHTS, read_verified(path, (ADAPTER_WEIGHTS,))[ADAPTER_WEIGHTS])
    theirs, transposed = to_their_adapter(ours, Adapter.read(path).scale, loaded.config)
    tensors = {f"{_PREFIX}{name}": it for name, it in theirs.plain.items()}
    for name, it in theirs.updates.items():
        tensors |= {f"{_PREFIX}{name}.lora_A.weight": it.a, f"{_PREFIX}{name}.lora_B.weight": it.b}
    config = _their_config(theirs, loaded.config, fan_in_fan_out=transposed)
    data = weights_to_bytes({name: it.contiguous().clone() for name, it in tensors.items()})
    write_folder(out, [(CONFIG, (json.dumps(config, indent=2) + "\n").encode()), (WEIGHTS, data)])


# --- names ----------------------------------------------------------------------------------------------------------


def to_our_adapter(theirs: PeftFolder, config: Config, origin: Path) -> tuple[dict[str, Tensor], float]:
    """Return the weights of an adapter of ours, and the factor of its updates.

    Args:
        theirs: the adapter.
        config: the settings of the base.
        origin: where the adapter comes from, for messages.

    Raises:
        ModelError: it updates modules that the base doesn't have, or an embedding.
    """
    kind, names = _family_with(theirs, config, origin)
    scales = {it.scale for it in theirs.updates.values()}
    scale = scales.pop() if len(scales) == 1 else 1.0
    found: dict[str, Tensor] = {}
    updates = {plain_name(f"{name}.weight", kind.prefix): it for name, it in theirs.updates.items()}
    for name in names:
        parts = [updates.get(it) for it in name.theirs]
        if not any(parts):
            continue
        if name.ours in tied_names(config.model) or name.skipped or name.added:
            what = f"{origin / WEIGHTS} updates {name.theirs[0]}, which isn't a linear layer of its own"
            raise ModelError(what, expected="updates of linear layers", name=name.theirs[0])
        a, b = _joined([it and Update(it.a, it.b * (it.scale / scale)) for it in parts], name)
        rows, columns = _orders(kind, config.model, name.ours, b.size(0), a.size(1))
        stem = name.ours.removesuffix(".weight")
        found |= {f"{stem}.lora_a": a[:, columns.argsort()], f"{stem}.lora_b": b[rows.argsort()]}
    plain = rescaled(_our_plain(theirs, names, kind.prefix), (), config.data.number_scale)
    return {**found, **plain}, scale


def _our_plain(theirs: PeftFolder, names: list[Name], prefix: str) -> dict[str, Tensor]:
    known = {plain_name(it, prefix) for it in theirs.plain}
    there = TensorsInMemory({name: it.float() for name, it in theirs.plain.items()})
    return to_ours([it for it in names if known.issuperset(it.sources)], there, prefix)[0]


def to_their_adapter(ours: Mapping[str, Tensor], scale: float, config: Config) -> tuple[PeftFolder, bool]:
    """Return an adapter of theirs, and whether their matrices have a row for each input.

    Args:
        ours: the weights of an adapter.
        scale: the factor of its updates.
        config: the settings of the adapted model.

    Raises:
        ModelError: a weight has no counterpart, or no family has all parts of the model.
    """
    kind = families(config)[0]
    kind.config(config)  # raises an error if the model has a part without a counterpart
    prefix = "" if config.train.task == "embed" else kind.prefix
    names = kind.names(config.model)
    by_name, updates, transposed = {it.ours: it for it in names}, dict[str, Update](), False
    for stem in [it.removesuffix(".lora_a") for it in ours if it.endswith(".lora_a")]:
        name, a, b = by_name[f"{stem}.weight"], ours[f"{stem}.lora_a"], ours[f"{stem}.lora_b"]
        rows, columns = _orders(kind, config.model, name.ours, b.size(0), a.size(1))
        transposed |= name.transposed
        parts = b[rows].split(name.splits or b.size(0) // len(name.theirs))
        for theirs, part in zip(name.theirs, parts):
            used = part.any(0)  # the rank of theirs
            if used.any():
                updates[prefix + theirs.removesuffix(".weight")] = Update(a[:, columns][used], part[:, used], scale)
    plain = rescaled({name: it for name, it in ours.items() if ".lora_" not in name}, config.data.number_scale)
    return PeftFolder(updates, to_theirs(names, plain, prefix)), transposed


def _family_with(theirs: PeftFolder, config: Config, origin: Path) -> tuple[Family, list[Name]]:
    """Return the nearest family that has all modules of an adapter, and its names."""
    asked = {f"{name}.weight" for name in theirs.updates} | theirs.plain.keys()
    unknown: list[str] = []
    for kind in families(config):
        names = kind.names(config.model)
        known = {it for name in names for it in (*name.sources, *name.bias().sources)}
        missing = [it for it in asked if plain_name(it, kind.prefix) not in known]
        if not missing:
            return kind, names
        unknown = unknown or missing
    what = f"{origin} adapts modules that the base doesn't have: {shortened(sorted(unknown))}"
    expected = "the adapter of a model that the base was imported from"
    raise ModelError(what, expected=expected, name=min(unknown, default=str(origin)))


def _joined(parts: list[Update | None], name: Name) -> tuple[Tensor, Tensor]:
    """Return one pair for several matrices that form one of ours. (R, in), (out, R)

    A pair that all of them share stays as it is. Otherwise the ranks are added, and each matrix has its own.
    """
    given = [it for it in parts if it is not None]
    if len(given) == len(parts) and all(torch.equal(it.a, given[0].a) for it in given):
        return given[0].a, torch.cat([it.b for it in given])
    sizes = name.splits or [given[0].b.size(0)] * len(parts)
    columns = [given[0].b.new_zeros(size, 0) if it is None else it.b for it, size in zip(parts, sizes)]
    return torch.cat([it.a for it in given]), torch.block_diag(*columns)


def _orders(kind: Family, model: ModelConfig, name: str, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Return which row and column of ours each of an exported matrix is. (out,), (in,)"""
    places = torch.arange(rows * columns).view(rows, columns)
    there = kind.arranged(model, {name: places})[name]
    return there[:, 0] // columns, there[0] % columns


# --- settings -------------------------------------------------------------------------------------------------------


def _scale(folder: Path, values: Mapping[str, Any], module: str, rank: int) -> float:
    """Return the factor of a module's update, as PEFT computes it."""
    alpha = _of_module(values.get("alpha_pattern"), module, values.get("lora_alpha", 8))
    asked = _of_module(values.get("rank_pattern"), module, values.get("r", 8))
    if asked != rank or not is_factor(alpha):
        name = "r" if asked != rank else "lora_alpha"
        raise _unsupported(folder, name, asked if name == "r" else alpha, str(rank) if name == "r" else "a number")
    return float(alpha / math.sqrt(rank) if values.get("use_rslora") else alpha / rank)


def _of_module(patterns: Any, module: str, default: Any) -> Any:
    """Return the value for a module. The names are patterns for the end of a module's name."""
    for pattern, value in patterns.items() if isinstance(patterns, dict) else ():
        try:
            if re.match(rf"(.*\.)?({pattern})$", module):
                return value
        except (re.error, OverflowError, RecursionError):
            continue
    return default


def _their_config(theirs: PeftFolder, config: Config, *, fan_in_fan_out: bool) -> dict[str, Any]:
    """Return the content of adapter_config.json."""
    ranks = {name: it.a.size(0) for name, it in theirs.updates.items()}
    usual = max(set(ranks.values()), key=[*ranks.values()].count, default=8)
    scale = next((it.scale for it in theirs.updates.values()), 1.0)
    other = {name: rank for name, rank in ranks.items() if rank != usual}
    heads = sorted({name.rpartition(".")[0] for name in theirs.plain})
    return {
        "peft_type": "LORA",
        "task_type": _TASKS.get(config.train.task or "translate"),
        "base_model_name_or_path": None,
        "inference_mode": True,
        "r": usual,
        "lora_alpha": scale * usual,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": fan_in_fan_out,
        "target_modules": list(ranks),
        "modules_to_save": heads or None,
        "rank_pattern": {re.escape(name): rank for name, rank in other.items()},
        "alpha_pattern": {re.escape(name): scale * rank for name, rank in other.items()},
    }


def _unsupported(folder: Path, name: str, value: Any, expected: str) -> ModelError:
    what = f"{folder / CONFIG} has {name}={value!r}, which isn't supported"
    return ModelError(what, expected=expected, name=name, value=value)
