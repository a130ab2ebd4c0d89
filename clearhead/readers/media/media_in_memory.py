"""Write images and audio in memory to files next to a manifest, so that every reader can use them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from ..files import Input
from ..source import IN_MEMORY, Rows
from .array_files import item_name
from .audio import as_int16, checked_samples, wav_bytes
from .images import checked_pixels, is_image, pixels_of
from .media_files import modality_by_name

_EXPECTED = "(image, label) pairs, (recording, label) pairs, or an array (N, H, W[, C]) and N labels"


def write_media(data: Any, folder: Path) -> Path | None:
    """Write data that has images or recordings in memory to a folder.

    Args:
        data: pairs of an image and a label, or of a recording and a label or transcript; or a pair (images, labels). An
            image is a uint8 array (H, W) or (H, W, C) or a Pillow image; a recording is a tuple of samples and their
            rate; both may also be paths. Texts with a recording each are read as recordings with transcripts.
        folder: an existing folder.

    Returns:
        The manifest to read, or None if the data has no images or recordings in memory.

    Raises:
        DataError: an item isn't an image or a recording, or the numbers of items and labels differ.
    """
    pairs = _pairs(data)
    if pairs is None:
        return None
    arrays, rows = dict[tuple[int, ...], list[NDArray[np.uint8]]](), list[dict[str, str]]()
    for place, (source, target) in enumerate(pairs):
        name = f"item {place} of the data"
        if isinstance(source, str | Path):
            path = str(Path(source).absolute())
        elif isinstance(source, tuple):
            path = _write_audio(source, folder / f"{place}.wav", name)
        else:
            pixels = _pixels(source, name)
            alike = arrays.setdefault(pixels.shape, [])
            alike.append(pixels)
            path = item_name(_array_name(pixels.shape), len(alike) - 1)
        rows.append({"path": path, "target": _target(target, name)})
    for shape, alike in arrays.items():
        np.save(folder / _array_name(shape), np.stack(alike))
    manifest = folder / IN_MEMORY
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return manifest


def with_whole_paths(rows: Rows) -> bytes:
    """Return rows in memory as JSON Lines, with relative paths of images and audio made absolute."""
    with rows.open() as file:
        return b"".join(_whole(line) for line in file)


def _whole(line: bytes) -> bytes:
    row = {
        key: str(Path(value).absolute()) if isinstance(value, str) and modality_by_name(value) else value
        for key, value in json.loads(line).items()
    }
    return json.dumps(row).encode() + b"\n"


def _pairs(data: Any) -> list[tuple[Any, Any]] | None:
    """Return pairs of images or recordings and their targets; None for data of another kind."""
    if isinstance(data, str | Path | Input) or not isinstance(data, Sequence) or not data:
        return None
    if len(data) == 2 and _are_many(data[0]):
        images, labels = data
        if isinstance(labels, str) or not hasattr(labels, "__len__") or len(images) != len(labels):
            n_labels = len(labels) if hasattr(labels, "__len__") and not isinstance(labels, str) else 1
            what = f"the data has {len(images):,} images or recordings and {n_labels:,} labels"
            expected = "as many labels as images or recordings"
            raise DataError(what, expected=expected, name="data", value=(len(images), n_labels))
        return list(zip(images, labels))
    items = list(data)
    if any(
        isinstance(it, tuple | list) and len(it) == 2 and is_media(it[1]) and isinstance(it[0], str) for it in items
    ):
        items = [it[::-1] if isinstance(it, tuple | list) else it for it in items]
    if not any(isinstance(it, tuple | list) and len(it) == 2 and is_media(it[0]) for it in items):
        return None
    for place, item in enumerate(items):
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise DataError(f"item {place} of the data isn't a pair", expected=_EXPECTED, name="data")
        if not (is_media(item[0]) or isinstance(item[0], str | Path)):
            what = f"item {place} of the data has a {type(item[0]).__name__} instead of an image or recording"
            raise DataError(what, expected=_EXPECTED, name="data")
    return [(source, target) for source, target in items]


def is_media(value: Any) -> bool:
    """Return whether a value may be an image or a recording in memory."""
    is_audio = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], np.ndarray)
    return isinstance(value, np.ndarray) or is_audio or is_image(value)


def _are_many(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim in (3, 4)
    return isinstance(value, list) and len(value) > 0 and all(map(is_media, value))


def _pixels(source: Any, name: str) -> NDArray[np.uint8]:
    if is_image(source):
        return pixels_of(source)
    pixels = checked_pixels(source, name)
    return pixels[:, :, 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels


def _array_name(shape: tuple[int, ...]) -> str:
    return f"images-{'x'.join(map(str, shape))}.npy"


def _write_audio(source: tuple[Any, ...], path: Path, name: str) -> str:
    samples, rate = checked_samples(source, name)
    if not samples.size or not np.isfinite(samples).all():
        why = "has no samples" if not samples.size else "has samples that aren't numbers"
        raise DataError(f"{name} {why}", expected="audio", name="data")
    content = samples if samples.dtype == np.int16 else as_int16(samples)
    path.write_bytes(wav_bytes(content, rate))
    return path.name


def _target(target: Any, name: str) -> str:
    plain = target.item() if hasattr(target, "item") and getattr(target, "ndim", 1) == 0 else target
    if not isinstance(plain, str | int):
        what = f"{name} has a label of type {type(target).__name__}"
        raise DataError(what, expected="a text or a whole number", name="data", value=target)
    return str(plain)


def source_name(source: Any) -> str:
    """Return the name of a text, a path, an array or an image in memory."""
    return str(source) if isinstance(source, str | Path) else f"a {type(source).__name__}"
