"""Import a model: read another program's files and write a model folder."""

from collections.abc import Callable
from pathlib import Path

from ..config import messages
from ..errors import ModelError, TrainingError
from ..folder.archive import SUFFIXES, archive_names, unpacked
from ..folder.atomic import writing
from ..folder.checkpoint import check_not_foreign, describe_run
from ..folder.manifest import MANIFEST
from ..folder.model_folder import model_path
from .ctranslate2.ct2_folder import is_argos_package, is_ct2_folder, read_argos_package, read_ct2_folder
from .huggingface import CONFIG, read_folder
from .imported import Imported
from .marian import is_opus_folder, read_opus_folder
from .peft import import_adapter, is_peft_folder


@archive_names()
def import_model(
    folder: Path,
    out: Path,
    *,
    task: str | None = None,
    replace: bool = False,
    say: Callable[[str], None] = messages.say,
    base: Path | None = None,
) -> Path:
    """Read a model from another program's folder, write it to a model folder and return that.

    Args:
        folder: a folder of Hugging Face's Transformers, CTranslate2, Argos Translate or OPUS-MT, or an adapter of
            PEFT; or a zip archive of such a folder.
        out: the model folder to write.
        task: the task to use the model for (default: that of its class).
        replace: replace the run in `out`.
        say: receives messages for the user.
        base: the model folder that an adapter belongs to.

    Raises:
        DataError: the archive is damaged.
        ModelError: the folder is missing or damaged, or the model has something that isn't supported.
        TrainingError: `out` can't be written to, or has something else in it.
    """
    with writing(out):
        check_not_foreign(out)
        if (there := describe_run(out)) and not replace:
            fix = "choose another one with `out`, or replace it with `replace=True`"
            raise TrainingError(f"{out} contains {there}", expected="a new or empty folder", fix=fix, value=out)
    folder = unpacked(folder)
    if base is not None or is_peft_folder(folder):
        _import_adapter(folder, base and model_path(base), out)
        return out
    imported = read(folder, task)
    with writing(out, again="run the command again"):
        imported.write(out, folder)
    for note in imported.notes:
        say(note)
    return out


def _import_adapter(folder: Path, base: Path | None, out: Path) -> None:
    if base is None or not is_peft_folder(folder):
        what, fix = f"{folder} isn't an adapter of PEFT", "leave out base"
        if base is None:
            what = f"{folder} is an adapter of another model"
            fix = "name the model folder with base, on the command line --base MODEL"
        expected = "a folder with adapter_config.json, and the imported model that it adapts"
        raise ModelError(what, expected=expected, fix=fix, name="base", value=base)
    with writing(out, again="run the command again"):
        import_adapter(folder, base, out)


@archive_names()
def read(folder: Path, task: str | None = None) -> Imported:
    """Read a model from another program's folder, and check that its parts fit. See `import_model`."""
    folder = unpacked(folder)
    imported = _read(folder, task)
    imported.check(folder)
    return imported


def _read(folder: Path, task: str | None) -> Imported:
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "doesn't exist"
        expected = f"a folder with a model, or an archive of one ({' or '.join(SUFFIXES)})"
        raise ModelError(f"{folder} {what}", expected=expected, name="folder", value=folder)
    if is_ct2_folder(folder):
        return read_ct2_folder(folder, task)
    if is_argos_package(folder):
        return read_argos_package(folder, task)
    if is_opus_folder(folder):
        return read_opus_folder(folder, task)
    if (folder / MANIFEST).is_file():
        what, fix = f"{folder} is a model of Clearhead", "use it without importing it"
        raise ModelError(what, expected="a folder of another program", fix=fix, name="folder", value=folder)
    if not (folder / CONFIG).is_file():
        known = "config.json and safetensors of Hugging Face's Transformers, model.bin of CTranslate2, metadata.json of"
        expected = f"{known} Argos Translate, or an .npz file of OPUS-MT"
        raise ModelError(f"{folder} has no {CONFIG}", expected=expected, name="folder", value=folder)
    return read_folder(folder, task)
