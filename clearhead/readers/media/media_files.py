"""Image and audio files: what they are by their names, why one can't be used, and the digest of its content."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...errors import DataError
from ...folder.archive import display_name
from .array_files import is_array_file, read_item, split_item

Modality = Literal["text", "image", "audio"]
SUFFIXES: Mapping[str, frozenset[str]] = {
    "image": frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")),
    "audio": frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf")),
}
PLURAL: Mapping[str, str] = {"image": "images", "audio": "recordings", "text": "texts"}
_BLOCK = 1 << 20


def modality_by_name(name: str) -> Modality | None:
    """Return what a file is by its name; None if it's neither an image nor audio."""
    suffix = Path(name).suffix.lower()
    if suffix in SUFFIXES["image"] or split_item(name) is not None:
        return "image"
    return "audio" if suffix in SUFFIXES["audio"] else None


def needs_labels(path: Path, modality: str) -> bool:
    """Return whether a file is an image, audio or an array, which have no labels of their own."""
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
        name: the path.
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
    """Return a digest of the content of a file, or of an item in an array file.

    Raises:
        DataError: it can't be read.
    """
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
