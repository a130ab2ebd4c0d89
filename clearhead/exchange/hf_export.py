"""Write a model as a folder of Hugging Face's Transformers."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..config import Config
from ..config.messages import say
from ..folder.atomic import Content, write_folder
from ..loading.loaded import LoadedModel
from .huggingface import CONFIG, folder_files

if TYPE_CHECKING:
    from torch import Tensor

WEIGHTS = "model.safetensors"
_OWN_TOKENIZER = ("qwen2",)  # families for which AutoTokenizer ignores tokenizer_class and tokenizer.json


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write a model to the folder `out`, for the nearest family.

    Args:
        loaded: the model.
        out: a folder that's new or empty.
        precision: fp32, the only one.

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


def write(config: Config, weights: "Mapping[str, Tensor]", tokenizer: str, out: Path) -> None:
    """Write the folder of a model in one step. See `export`."""
    from safetensors.torch import save_file

    files, theirs = folder_files(config, weights, tokenizer)
    alone = {name: it.detach().cpu().contiguous().clone() for name, it in theirs.items()}

    def contents() -> Iterator[tuple[str, Content]]:
        yield from files.items()
        yield WEIGHTS, lambda path: save_file(alone, path, {"format": "pt"})

    write_folder(out, contents())
