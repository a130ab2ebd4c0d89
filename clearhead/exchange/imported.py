"""A model read from another program's files, and how it becomes a model folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..config import Config
from ..config.config import read_setting
from ..errors import ConfigError, ModelError, shortened
from ..folder.atomic import Content
from ..folder.manifest import write_folder_with_manifest
from ..folder.model_folder import WEIGHTS, identity, model_files
from ..folder.weight_table import check_shapes, missing_weights
from ..tasks.registry import task_of
from ..tokenization.source_and_target import Tokenizers
from .weight_names import AGAIN

_MOST_TOKENS = 2048  # in a text to train on: models with rotary positions could read far more


@dataclass(frozen=True)
class Imported:
    """A model read from another program's files.

    Attributes:
        title: the name of its family, for messages.
        config: our settings.
        tokenizer: the text of a tokenizer file.
        weights: our weights, in the precision of the files.
        notes: what the user should know, such as what was left out.
    """

    title: str
    config: Config
    tokenizer: str
    weights: Mapping[str, Tensor]
    notes: list[str] = field(default_factory=list)

    def check(self, origin: Path) -> None:
        """Raise ModelError if the tokenizer or the weights don't fit the settings, or weights aren't finite numbers."""
        model = self.config.model
        if model.vocabulary_sizes:
            Tokenizers.for_model(self.tokenizer, model, origin=f"the tokenizer of {origin}")
        if missing := missing_weights(model, self.weights):
            what = f"{origin} has no weights for {shortened(missing)}"
            expected = "all weights of the model that its config.json describes"
            raise ModelError(what, expected=expected, fix=AGAIN, name=missing[0])
        check_shapes(model, {name: tuple(tensor.shape) for name, tensor in self.weights.items()})
        for name, tensor in self.weights.items():
            if not tensor.is_floating_point() or not tensor.isfinite().all():
                has = "NaN or infinity" if tensor.is_floating_point() else f"integers ({tensor.dtype})"
                what = f"the weights of {origin} for {name} contain {has}"
                raise ModelError(what, expected="finite floating-point numbers", fix=AGAIN, name=name)

    def write(self, out: Path, origin: Path) -> None:
        """Write a model folder in one step. Raise OSError if it can't be written."""
        card = f"# {self.title}\n\nImported by Clearhead from `{origin.name}`.\n"
        files = model_files(config=self.config.to_record(), tokenizer=self.tokenizer, card=card)
        distinct = {identity(tensor): (name, tensor) for name, tensor in self.weights.items()}
        weights = {name: _whole(tensor) for name, tensor in distinct.values()}

        def contents() -> Iterator[tuple[str, Content]]:
            yield from files.items()
            yield WEIGHTS, lambda path: save_file(weights, path)

        write_folder_with_manifest(out, contents())


def complete(settings: Mapping[str, Any], folder: Path) -> Config:
    """Return the whole configuration of a model: these settings, and those of its task.

    Args:
        settings: settings by their dotted names. One of them is train.task.
        folder: where they come from, for messages.

    Raises:
        ModelError: one of them isn't valid.
    """
    known = {it: value for it, value in settings.items() if it in ("train.task", "data.modality")}
    task = task_of(Config().assign(known, "model"))
    longest = min(settings.get("model.max_len", _MOST_TOKENS), _MOST_TOKENS)
    general = {"data.max_len": longest, "data.batch_tokens": max(4096, longest), "decode.suppress_special": False}
    general |= {"data.normalise": (), "decode.no_repeat_ngram": 0}
    try:
        of_task = {name: it for name, it in task.defaults.items() if not name.startswith("model.")}
        ours = {**of_task, **task.required, **general, **settings}
        return Config().assign({name: read_setting(name, value, "") for name, value in ours.items()}, "model")
    except ConfigError as error:
        raise ModelError(f"{folder} can't be read: {error.what}", expected=error.expected, name=error.name) from error


def _whole(tensor: Tensor) -> Tensor:
    """Return a tensor that can be written: contiguous, and in float32 if it has half the precision."""
    half = tensor.dtype in (torch.float16, torch.bfloat16)
    return (tensor.float() if half else tensor).contiguous()
