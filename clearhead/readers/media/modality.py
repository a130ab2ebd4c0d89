"""Detect whether data consists of texts, images or audio, by the names of its files."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import DataError
from ..files import STDIN, Input, is_stream
from ..in_memory import Rows
from ..lines import read_lines
from .array_files import is_array_file
from .media_files import PLURAL, Modality, modality_by_name

MANIFESTS = ("metadata.csv", "metadata.tsv", "metadata.jsonl", "manifest.csv", "manifest.tsv", "manifest.jsonl")
_LINES = 50  # of a manifest that decide
_FOLDERS, _OF_FOLDER = 50, 10  # folders that decide, and files of each
_STRAY = 0.2  # maximum share of audio files among images, or of images among audio files
_MOST_CELLS = 100  # of a line that decide
_CELLS = re.compile(rb'[",;\t]')


def modality_of(paths: Iterable[str | Path | Input]) -> Modality:
    """Return what some data consists of, by the names of its files or the first paths in its manifest.

    Raises:
        DataError: it's a mixture of images and audio.
    """
    paths = list(paths)
    if not paths or any(_is_unseen(path) for path in paths):
        return "text"
    found = _kinds(paths[0], alone=len(paths) == 1)
    n_images, n_audio = found.count("image"), found.count("audio")
    if 2 * (n_images + n_audio) <= len(found):
        return "text"
    if min(n_images, n_audio) > _STRAY * (n_images + n_audio):
        name = paths[0].name if isinstance(paths[0], Input) else str(paths[0])
        raise DataError(
            f"{name} has {PLURAL['image']} and {PLURAL['audio']}",
            expected="one of them",
            fix="move the others to another folder or table",
            name=name,
            value=(n_images, n_audio),
        )
    return "image" if n_images > n_audio else "audio"


def manifest_in(folder: Path) -> Path | None:
    """Return the table of the files in a folder, if it has one."""
    return next((folder / name for name in MANIFESTS if (folder / name).is_file()), None)


def _is_unseen(path: str | Path | Input) -> bool:
    """Return whether data is read only once, so that it can't be inspected."""
    if isinstance(path, Input):
        return not isinstance(path, Rows)
    return str(path) == STDIN or is_stream(path)


def _kinds(path: str | Path | Input, *, alone: bool) -> Sequence[Modality | None]:
    """Return what some of the files are. Errors are left to the reader, which has a clearer message."""
    try:
        if isinstance(path, Rows):
            return list(_of_lines(path, header=False))
        first = Path(str(path))
        if first.is_dir():
            manifest = manifest_in(first)
            return list(_of_lines(Input(manifest))) if manifest else list(_of_folder(first))
        if is_array_file(first):
            return ["image"]
        if kind := modality_by_name(first.name):
            return [kind]
        return list(_of_lines(Input(first))) if alone else []
    except (OSError, ValueError, DataError):
        return []


def _of_folder(folder: Path) -> Iterator[Modality | None]:
    inside = sorted(it for it in folder.iterdir() if not it.name.startswith("."))
    for entry in [it for it in inside if it.is_dir()][:_FOLDERS]:
        files = (it for it in entry.rglob("*") if not it.name.startswith(".") and it.is_file())
        yield from (modality_by_name(it.name) for it in itertools.islice(files, _OF_FOLDER))
    yield from (modality_by_name(it.name) for it in inside[:_OF_FOLDER] if it.is_file())


def _of_lines(table: Input, *, header: bool = True) -> Iterator[Modality | None]:
    """Yield what a cell of each line names. A first line without such a cell may be a header."""
    for number, line in enumerate(itertools.islice(read_lines(table), _LINES + 1)):
        cells = (cell.decode("utf-8", "replace").strip() for cell in _CELLS.split(line, _MOST_CELLS))
        kind: Modality | None = next((it for cell in cells if (it := _of_cell(cell))), None)
        if line.strip() and (kind or number or not header):
            yield kind


def _of_cell(cell: str) -> Modality | None:
    suffix = Path(cell).suffix
    return None if not suffix or " " in suffix else modality_by_name(cell)
