"""Image and audio files: their kind by name, faults and digests, and the modality of the data they form."""

import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import DataError
from ...folder.archive import display_name
from ..files import STDIN, Input, is_stream
from ..lines import read_lines
from ..source import Rows
from .array_files import is_array_file, read_item, split_item

Modality = Literal["text", "image", "audio"]
SUFFIXES: Mapping[str, frozenset[str]] = {
    "image": frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")),
    "audio": frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf")),
}
PLURAL: Mapping[str, str] = {"image": "images", "audio": "recordings", "text": "texts"}
_BLOCK = 1 << 20
MANIFESTS = ("metadata.csv", "metadata.tsv", "metadata.jsonl", "manifest.csv", "manifest.tsv", "manifest.jsonl")
_LINES = 50  # of a manifest that decide
_FOLDERS, _OF_FOLDER = 50, 10  # folders that decide, and files of each
_STRAY = 0.2  # maximum share of audio files among images, or of images among audio files
_MOST_CELLS = 100  # of a line that decide
_CELLS = re.compile(rb'[",;\t]')


def modality_by_name(name: str) -> Modality | None:
    """Return the modality of a file by its name; None if it's neither an image nor audio."""
    suffix = Path(name).suffix.lower()
    if suffix in SUFFIXES["image"] or split_item(name) is not None:
        return "image"
    return "audio" if suffix in SUFFIXES["audio"] else None


def needs_labels(path: Path, modality: str) -> bool:
    """Return whether a file is an image, audio or an array, none of which contain labels."""
    return path.suffix.lower() in SUFFIXES[modality] or is_array_file(path)


def fault_of(name: str, modality: str) -> str:
    """Return why a file can't be used, or "". Its content is read later."""
    path = Path(name)
    if modality == "image" and (item := split_item(name)) is not None:
        path = Path(item[0])
    elif path.suffix.lower() not in SUFFIXES[modality]:
        return f"not an {modality} file by its name"
    try:
        if not path.is_file():
            return "not a file" if path.exists() else "no such file"
        if not os.access(path, os.R_OK):
            return "no permission to read it"
        return "" if path.stat().st_size else "empty file"
    except (OSError, ValueError) as error:  # a name that's too long, or has a NUL character
        return f"can't be read: {getattr(error, 'strerror', None) or error}"


def expect_file(name: str, expected: str) -> None:
    """Raise a DataError if a path doesn't name a file with content.

    Args:
        expected: what the file should be, for the message.
    """
    if not name.strip():
        raise DataError("a file name is empty", expected=expected, name=name, value=name)
    path = Path(name)
    try:
        fault = "doesn't exist" if not path.exists() else "isn't a file" if not path.is_file() else ""
        fault = fault or ("" if path.stat().st_size else "is empty")
    except (OSError, ValueError) as error:  # a name that's too long, or has a NUL character
        fault = f"can't be read: {getattr(error, 'strerror', None) or error}"
    if fault:
        shown = display_name(name)
        raise DataError(f"{shown} {fault}", expected=expected, name=shown)


def content_digest(name: str) -> bytes:
    """Return a digest of the content of a file, or of an item in an array file. Raise DataError if it can't be read."""
    if split_item(name) is not None:
        row: Any = read_item(name)
        return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
    whole = hashlib.blake2b(digest_size=16)
    try:
        with Path(name).open("rb") as file:
            while block := file.read(_BLOCK):
                whole.update(block)
    except OSError as error:
        raise DataError(f"{name} can't be read: {error.strerror}", name=name) from error
    return whole.digest()


# --- what some data consists of


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
        what, fix = f"{name} has {PLURAL['image']} and {PLURAL['audio']}", "move the others to another folder or table"
        raise DataError(what, expected="one of them", fix=fix, name=name, value=(n_images, n_audio))
    return "image" if n_images > n_audio else "audio"


def manifest_in(folder: Path) -> Path | None:
    """Return the table of the files in a folder, if it has one."""
    return next((folder / name for name in MANIFESTS if (folder / name).is_file()), None)


def _is_unseen(path: str | Path | Input) -> bool:
    """Return whether data can be read only once, and so can't be inspected."""
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
    """Yield the file that a cell of each line names. A first line without such a cell may be a header."""
    for number, line in enumerate(itertools.islice(read_lines(table), _LINES + 1)):
        cells = (cell.decode("utf-8", "replace").strip() for cell in _CELLS.split(line, _MOST_CELLS))
        kind: Modality | None = next((it for cell in cells if (it := _of_cell(cell))), None)
        if line.strip() and (kind or number or not header):
            yield kind


def _of_cell(cell: str) -> Modality | None:
    suffix = Path(cell).suffix
    return None if not suffix or " " in suffix else modality_by_name(cell)
