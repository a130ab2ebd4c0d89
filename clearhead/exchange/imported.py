"""A model read from another program's files, and how it becomes a model folder."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..folder.atomic import Content
from ..folder.manifest import write_folder_with_manifest
from ..folder.model_folder import WEIGHTS, model_files

if TYPE_CHECKING:
    from torch import Tensor


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
    weights: "Mapping[str, Tensor]"
    notes: list[str] = field(default_factory=list)

    def write(self, out: Path, origin: Path) -> None:
        """Write a model folder in one step.

        Raises:
            OSError: it can't be written.
        """
        from safetensors.torch import save_file

        card = f"# {self.title}\n\nImported by Clearhead from `{origin.name}`.\n"
        files = model_files(config=self.config.to_record(), tokenizer=self.tokenizer, card=card)
        weights = {name: _whole(tensor) for name, tensor in self.weights.items()}

        def contents() -> Iterator[tuple[str, Content]]:
            yield from files.items()
            yield WEIGHTS, lambda path: save_file(weights, path)

        write_folder_with_manifest(out, contents())


def _whole(tensor: "Tensor") -> "Tensor":
    """Return a tensor that can be written: contiguous, and in float32 if it has half the precision."""
    import torch

    half = tensor.dtype in (torch.float16, torch.bfloat16)
    return (tensor.float() if half else tensor).contiguous()
