"""What a model can do without each of its parts, one at a time; what was measured is kept, and not measured again."""

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

from ...errors import TrainingError
from ...folder.atomic import write_file, writing
from ..record.switches import without
from ..record.uncompiled import uncompiled

WHOLE = "whole"  # the model with all of its parts
_FORMAT = 1

Watch = Callable[[str, int, int], None]  # the part that is to be measured next, how many are, and how many will be


@dataclass(frozen=True)
class Outcome:
    """The answers to all texts, none where texts are scored and not answered; and the scores of each text by itself."""

    answers: list[str]
    values: dict[str, list[float]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Row:
    """The score without one part, and its change: between `low` and `high` in 95% of the samples.

    `p_value` as in `tasks.significance`. `changed`: how many answers are others; None where none are given. `sure`:
    whether the interval leaves out 0; never where all samples of the data are the same text.
    """

    name: str
    place: str
    layer: int
    head: int | None
    score: float
    change: float
    low: float
    high: float
    p_value: float
    changed: int | None
    sure: bool


@dataclass
class KeptOutcomes:
    """Outcomes in a folder, a file for each; without one, nothing is kept.

    `key` is all that they depend on, and the folder is named after it: what was measured on other data or with other
    weights is never taken for theirs. Where nothing can be written, the `problem` says why, and nothing more is tried.
    """

    above: Path | None
    key: Mapping[str, Any]
    problem: str = field(default="", init=False)

    @property
    def folder(self) -> Path | None:
        """Where they are."""
        return None if self.above is None else self.above / _digest(self.key)[:16]

    def get(self, name: str) -> Outcome | None:
        """What was kept under a name; a file that is damaged, or of another format, is as good as none."""
        if self.folder is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads((self.folder / f"{name}.json").read_bytes())
            if found["format_version"] == _FORMAT and found["sha256"] == _digest(found["outcome"]):
                return Outcome(**found["outcome"])
        return None

    def put(self, name: str, outcome: Outcome) -> None:
        """Keep an outcome: its file is there as a whole, or not at all."""
        if self.folder is None or self.problem:
            return
        values = outcome.to_dict()
        kept = {"format_version": _FORMAT, "sha256": _digest(values), "outcome": values}
        try:
            with writing(self.folder, again="give the command again", instead="work on a copy of the model"):
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (about := self.folder / "key.json").exists():
                    write_file(about, _text(self.key).encode())
                write_file(self.folder / f"{name}.json", _text(kept).encode())
        except TrainingError as error:
            self.problem = str(error)


def study(
    model: nn.Module, names: Iterable[str], measure: Callable[[], Outcome], kept: KeptOutcomes, watch: Watch
) -> tuple[dict[str, Outcome], int]:
    """What `measure` finds with the `WHOLE` model and without each of these parts alone, and how many were kept.

    `watch` is called before each measurement, and once behind the last, before all are compared.
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
    """SHA-256 of the weights, and of the classes that a model is made of: another attention is another model.

    Of classes that are somebody's own it is their file, too, where there is one: what it says may change between calls.
    """
    digest, own = hashlib.sha256(), set[str]()
    for name, part in model.named_modules():
        module = type(part).__module__
        digest.update(f"{name} {module}.{type(part).__qualname__}\n".encode())
        own |= {module} if module.partition(".")[0] not in ("clearhead", "torch") else set()
    for module in sorted(own):
        with suppress(OSError, TypeError, KeyError):  # a notebook has no file, and another module may be gone
            digest.update(inspect.getsource(sys.modules[module]).encode())
    for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def has_hooks(model: nn.Module) -> bool:
    """Whether there are hooks, as those of `without`: what is measured then is not what the weights say."""
    return any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def _digest(value: Any) -> str:
    return hashlib.sha256(_text(value).encode()).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) + "\n"
