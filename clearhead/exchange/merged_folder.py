"""Write a model folder of our own: that of a model with an adapter, merged into its weights."""

from pathlib import Path

from ..errors import ModelError
from ..folder.adapters import is_adapter
from ..folder.manifest import write_folder_with_manifest
from ..folder.model_folder import CARD, load_model_folder, model_files, read_card
from ..loading.loaded import LoadedModel


def export(loaded: LoadedModel, out: Path, *, precision: str = "fp32") -> None:
    """Write a model folder to `out`. Raise ModelError if the model has no adapter."""
    folder = load_model_folder(loaded.path, allow_custom_code=True, base=loaded.base)  # `load` checked consent
    if not is_adapter(loaded.path):
        what = f"{loaded.path} has no adapter to merge"
        raise ModelError(what, expected="the folder of an adapter, or a model with --adapter", name=str(loaded.path))
    config = loaded.stored.assign({"train.adapter": ()}, "default")
    card = read_card(loaded.path) if (loaded.path / CARD).exists() else None
    files = model_files(config=config.to_record(), tokenizer=folder.tokenizer, weights=folder.weights, card=card)
    write_folder_with_manifest(out, files.items())
