"""Measure a model without each of its parts, one at a time, and store the results for later runs."""

import hashlib
import inspect
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import ModelError, TrainingError
from ...folder.atomic import write_file, writing
from ...folder.manifest import digest, read_bytes
from ..record.switches import without
from ..record.uncompiled import uncompiled

WHOLE = "whole"  # the name of the model with all its parts
_FORMAT = 1

Watch = Callable[[str, int, int], None]  # called with the next part, the number of measured parts, and the total


@dataclass(frozen=True)
class Outcome:
    """The answers to all texts (empty if the task gives no answers), and the scores of each text."""

    answers: list[str]
    values: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class KeptOutcomes:
    """Outcomes stored in a folder, one file each.

    The folder is named after a digest of everything that the outcomes depend on, so outcomes for other data or other
    weights are never reused.
    """

    above: Path | None  # the parent folder; None stores nothing
    key: Mapping[str, Any]  # everything that the outcomes depend on
    problem: str = field(default="", init=False)  # the error if writing failed; then nothing more is written

    @property
    def folder(self) -> Path | None:
        """The folder that contains the files, if any."""
        return None if self.above is None else self.above / digest(_text(self.key))[:16]

    def get(self, name: str) -> Outcome | None:
        """Return the outcome stored under a name, or None if its file is missing, damaged or in another format."""
        if self.folder is None:
            return None
        with suppress(ModelError, ValueError, KeyError, TypeError):
            found = json.loads(read_bytes(self.folder / f"{name}.json"))
            if found["format_version"] == _FORMAT and found["sha256"] == digest(_text(found["outcome"])):
                return Outcome(**found["outcome"])
        return None

    def put(self, name: str, outcome: Outcome) -> None:
        """Write an outcome to the file for `name`, atomically. If writing fails, set `problem` instead of raising."""
        if self.folder is None or self.problem:
            return
        values = outcome.to_dict()
        kept = {"format_version": _FORMAT, "sha256": digest(_text(values)), "outcome": values}
        try:
            with writing(self.folder, again="run the command again", instead="work on a copy of the model"):
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (about := self.folder / "key.json").exists():
                    write_file(about, _text(self.key))
                write_file(self.folder / f"{name}.json", _text(kept))
        except TrainingError as error:
            self.problem = str(error)


def study(
    model: nn.Module, names: Iterable[str], measure: Callable[[], Outcome], kept: KeptOutcomes, watch: Watch
) -> tuple[dict[str, Outcome], int]:
    """Measure the whole model, and the model without each part.

    Args:
        names: the parts to switch off, one at a time.
        measure: measures the model in its current state.
        kept: stored outcomes, which aren't measured again.
        watch: called before each measurement, and after the last one with the name "comparing".

    Returns:
        The outcomes by name, starting with that of the `WHOLE` model, and the number of them that were stored already.
    """
    everything = (WHOLE, *names)
    found = {name: outcome for name in everything if (outcome := kept.get(name)) is not None}
    missing = [name for name in everything if name not in found]
    for number, name in enumerate(missing):
        watch(name, number, len(missing))
        with uncompiled(model), without(model, *(() if name == WHOLE else (name,))):
            outcome = measure()
        kept.put(name, outcome)
        found[name] = outcome
    watch("comparing", len(missing), len(missing))
    return {name: found[name] for name in everything}, len(everything) - len(missing)


def fingerprint(model: nn.Module) -> str:
    """Return a SHA-256 digest of a model's weights and classes.

    For custom classes, it also covers their source files, which may change between calls.
    """
    found, own = hashlib.sha256(), set[str]()
    for name, part in model.named_modules():
        module = type(part).__module__
        found.update(f"{name} {module}.{type(part).__qualname__}\n".encode())
        own |= {module} if module.partition(".")[0] not in ("clearhead", "torch") else set()
    for module in sorted(own):
        with suppress(OSError, TypeError, KeyError):  # a notebook has no source file, and a module may be unloaded
            found.update(inspect.getsource(sys.modules[module]).encode())
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def has_hooks(model: nn.Module) -> bool:
    """Return whether any part has hooks. They can change results without changing the weights."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def _text(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n").encode()
