"""Weights in safetensors files, read one tensor at a time. Nothing else is read: pickled weights could run code."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import ModelError
from ..folder.manifest import read_json_object

_WHOLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
AGAIN = "download the folder again"


class SafetensorsFiles:
    """The tensors of a folder with model.safetensors, or with several files and an index of them.

    Raises:
        ModelError: there are no such files, or one is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, Any] = {}  # of each tensor
        self._stack = ExitStack()
        for path in _paths(folder):
            try:
                file = self._stack.enter_context(safe_open(path, "pt"))
                self._files |= dict.fromkeys(file.keys(), file)
            except (SafetensorError, OSError) as error:
                raise ModelError(f"can't read {path}: {error}", fix=AGAIN, name=path.name) from error

    def names(self) -> Sequence[str]:
        return list(self._files)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._files[name].get_slice(name).get_shape())

    def read(self, name: str) -> Tensor:
        """Read a tensor. Its numbers stay in the file until they are used."""
        return self._files[name].get_tensor(name)


def _paths(folder: Path) -> list[Path]:
    if (folder / _WHOLE).is_file():
        return [folder / _WHOLE]
    index = folder / _INDEX
    if index.is_file():
        parts = read_json_object(index).get("weight_map")
        named = isinstance(parts, dict) and all(isinstance(it, str) and Path(it).name == it for it in parts.values())
        if not isinstance(parts, dict) or not named:
            raise ModelError(f"{index} is damaged", expected='"weight_map" with file names', fix=AGAIN, name=_INDEX)
        return [folder / name for name in sorted(set(parts.values()))]
    pickled = sorted(path.name for pattern in _PICKLED for path in folder.glob(pattern))
    if pickled:
        what = f"{folder} has its weights in {pickled[0]}, a pickle, which could run any code when it is read"
        fix = "convert it where you trust it: AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR)"
        raise ModelError(what, expected=_WHOLE, fix=fix, name=pickled[0])
    raise ModelError(f"{folder} has no weights", expected=f"{_WHOLE} or {_INDEX}", name="folder", value=folder)
