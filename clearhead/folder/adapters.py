"""Adapters on disk: low-rank updates of the weights of a base model (Hu et al. 2021), in a separate model folder.

config.json  adapter.json  adapter.safetensors  tokenizer.json  README.md  manifest.json

adapter.json names the base and its weights: {"format_version": 1, "base": "../en-fr", "base_weights": "6e34...",
"scale": 2.0}. adapter.safetensors has lora_a (R, in) and lora_b (out, R) for each updated matrix, which becomes
W + scale lora_b lora_a, and all weights that the base lacks, such as those of another head.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from ..config import ModelConfig
from ..config.values import is_text
from ..errors import ModelError
from .manifest import FORMAT_VERSION, RESTORE, Manifest, check_format, digest, parse_json_object, read_verified
from .weight_table import weight_table

ADAPTER, ADAPTER_WEIGHTS = "adapter.json", "adapter.safetensors"
_A, _B = ".lora_a", ".lora_b"
_WEIGHTS = "model.safetensors"  # of a model without an adapter


@dataclass(frozen=True)
class Adapter:
    """The content of `adapter.json`.

    Attributes:
        base: the model folder that the adapter belongs to, relative to the adapter's folder, or absolute.
        base_weights: the SHA-256 of the base's weights file.
        scale: factor of the updates.
    """

    base: str
    base_weights: str
    scale: float

    @classmethod
    def of(cls, folder: Path, base: Path, base_weights: str, scale: float) -> Self:
        """Return the content for an adapter. It finds its base by a relative path, wherever both are moved together.

        Args:
            folder: the adapter's folder.
            base: the folder of the base.
            base_weights: the SHA-256 of the base's weights file.
            scale: factor of the updates.
        """
        try:
            path = Path(os.path.relpath(base.resolve(), folder.resolve()))
        except ValueError:  # on Windows, there's no way from one drive to another
            path = base.resolve()
        return cls(path.as_posix(), base_weights, scale)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the file of a folder. Raise ModelError if it's missing or damaged."""
        return cls.parse(folder / ADAPTER, read_verified(folder, (ADAPTER,))[ADAPTER])

    @classmethod
    def parse(cls, path: Path, data: bytes) -> Self:
        """Parse the content of the file. Raise ModelError if it's damaged or in another format."""
        values = parse_json_object(path, data)
        check_format(path, values)
        base, weights, scale = (values.get(name) for name in ("base", "base_weights", "scale"))
        if not (is_text(base) and isinstance(weights, str) and is_factor(scale)):
            expected = '"base", a folder, "base_weights", the SHA-256 of its weights, and "scale", a number'
            raise ModelError(f"{path} is damaged", expected=expected, fix=RESTORE, name=ADAPTER)
        return cls(str(base), str(weights), float(cast(float, scale)))

    def to_bytes(self) -> bytes:
        values = {"format_version": FORMAT_VERSION, "base": self.base, "base_weights": self.base_weights}
        return (json.dumps({**values, "scale": self.scale}, indent=2) + "\n").encode()

    def base_folder(self, folder: Path, named: Path | None = None) -> Path:
        """Return the folder of the base: the one that's `named`, or else that of the file.

        Raises:
            ModelError: there's no such folder, or it's an adapter itself.
        """
        base = named or Path(os.path.normpath(folder / self.base))
        if is_adapter(base):
            what = f"{base} is an adapter, so it can't be the base of {folder}"
            fix = "merge it first: clearhead export --merge"
            raise ModelError(what, expected="a model with weights of its own", fix=fix, name="base", value=base)
        if named is None and not base.is_dir():
            what = f"{folder} is an adapter of {base}, which doesn't exist"
            expected = f"a model folder whose weights have SHA-256 {self.base_weights}"
            fix = f"name the folder: --adapter {folder} with the model, or load(MODEL, adapter={str(folder)!r})"
            raise ModelError(what, expected=expected, fix=fix, name="base", value=base)
        return base

    def check_base(self, folder: Path, base: Path, found: str) -> None:
        """Raise ModelError unless a base has the weights that this adapter was trained on.

        Args:
            folder: the adapter's folder, for the message.
            base: the folder of the base, for the message.
            found: the SHA-256 of the base's weights file.
        """
        if found != self.base_weights:
            what = f"{folder} is an adapter of other weights than those of {base} (SHA-256 {found})"
            fix = "use the model that the adapter was trained on, or train the adapter again"
            raise ModelError(what, expected=f"SHA-256 {self.base_weights}", fix=fix, name="base", value=found)

    def digest(self, weights: str) -> str:
        """Return a digest of the merged weights, given that of the adapter's file."""
        return digest(f"{self.base_weights} {weights} {self.scale}".encode())


def is_factor(value: Any) -> bool:
    """Return whether a value of JSON is a number that float32 can hold. Integers of JSON can have any size."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= float(np.finfo(np.float32).max)


def expect_adapter(folder: Path) -> Adapter:
    """Return the adapter of a folder. Raise ModelError if the folder has none."""
    if not is_adapter(folder):
        what = f"isn't an adapter: it has no {ADAPTER}" if folder.exists() else "doesn't exist"
        what, expected = f"{folder} {what}", "a folder that `clearhead train --adapter lora` has written"
        raise ModelError(what, expected=expected, name="adapter", value=folder)
    return Adapter.read(folder)


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has an adapter rather than a complete model."""
    return (folder / ADAPTER).is_file()


def weights_file(names: Iterable[str]) -> str:
    """Return the name of the file for weights with these names."""
    return ADAPTER_WEIGHTS if any(name.endswith(_A) for name in names) else _WEIGHTS


def weights_file_in(folder: Path) -> str:
    """Return the name of the weights file that a folder has, or will have."""
    return ADAPTER_WEIGHTS if is_adapter(folder) else _WEIGHTS


def weights_digest(folder: Path) -> str | None:
    """Return the digest of a folder's weights without reading them, or None if it has none."""
    found = Manifest.read(folder).files.get(weights_file_in(folder))
    return Adapter.read(folder).digest(found) if found is not None and is_adapter(folder) else found


def base_weights(weights: Mapping[str, Any], base: ModelConfig, model: ModelConfig) -> dict[str, Any]:
    """Return the weights of a base by their names in a model, which may have a head that the base lacks, or another.

    Args:
        weights: the weights by their names in the base.
        base: settings of the base.
        model: settings of the model. Weights of a head that it doesn't have are left out.
    """
    if base.topology == "encoder-only" and base.head == "none" and model.head != "none":
        return {f"encoder.{name}": weight for name, weight in weights.items()}
    known = weight_table(model)
    return {name: weight for name, weight in weights.items() if not name.startswith("head.") or name in known}


def merged(base: Mapping[str, Any], adapter: Mapping[str, NDArray[Any]], scale: float, path: Path) -> dict[str, Any]:
    """Return the weights of a base with an adapter: plain names replace weights, and pairs update matrices.

    Arrays that don't change are those of `base`.

    Args:
        base: the weights of the base by their names in the adapter's model; see `base_weights`.
        adapter: the content of the adapter's weights file.
        scale: factor of the updates.
        path: the adapter's weights file, for the message.

    Raises:
        ModelError: the adapter has updates for matrices of other names or shapes.
    """
    plain = {name: it for name, it in adapter.items() if not name.endswith((_A, _B))}
    found = {**base, **plain}
    for name in {it.removesuffix(_A).removesuffix(_B) for it in adapter.keys() - plain.keys()}:
        weight, a, b = base.get(f"{name}.weight"), adapter.get(name + _A), adapter.get(name + _B)
        shapes = [None if it is None else tuple(it.shape) for it in (weight, b, a)]
        if weight is None or a is None or b is None or not _fit(*shapes):
            what = f"{path} doesn't fit its base: {name} has an update of shapes {shapes[1]} and {shapes[2]}"
            expected = f"(out, R) and (R, in), for a matrix of shape {shapes[0]}"
            raise ModelError(what, expected=expected, fix="use the model that the adapter was made for", name=name)
        found[f"{name}.weight"] = _updated(weight, a, b, scale)
    return found


def _fit(matrix: Any, b: Any, a: Any) -> bool:
    """Return whether (out, R) times (R, in) has the shape of a matrix."""
    return len(a) == len(b) == 2 and (b[0], a[1]) == matrix and b[1] == a[0]


def _updated(weight: Any, a: NDArray[Any], b: NDArray[Any], scale: float) -> NDArray[np.float32]:
    """Return W + s B A in float32, computed by numpy even for a tensor, so every reader gets the same bits."""
    matrix = weight if isinstance(weight, np.ndarray) else weight.float().numpy()
    return matrix.astype(np.float32) + np.float32(scale) * (b @ a).astype(np.float32)
