"""Lists of images or recordings with their labels or transcripts: a folder for each label, arrays, or a manifest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ...config import DataConfig
from ...errors import DataError
from ..column_roles import Roles
from ..columns import Sample
from ..files import STDIN, Input
from ..in_memory import Rows
from ..json_lines import read_object
from ..lines import read_head, read_lines
from ..pairs import Pair, PairSource
from ..skipped import Report
from ..tables import sample_table
from .array_files import is_array_file, item_name, read_array
from .class_folders import Listed
from .images import checked_pixels
from .media_files import modality_by_name


class Listing(Protocol):
    """Numbers, names and targets, which can be read repeatedly."""

    @property
    def folder(self) -> Path:
        """The folder that names in it are relative to."""

    def __iter__(self) -> Iterator[Pair]: ...

    @property
    def report(self) -> Report:
        """The report of the last complete pass."""

    def close(self) -> None:
        """Delete copies of what can be read only once."""


# --- arrays


def arrays(first: str, second: str, expected: str) -> Listed:
    """List the items of an array of images, with the labels in an array or on the lines of a file.

    Raises:
        DataError: the first file isn't an array of images, or their numbers differ.
    """
    both = f"{first} and {second}"
    if not is_array_file(first):
        raise DataError(
            f"{first} isn't an array of images, so {second} can't be its labels",
            expected=expected,
            name=both,
            value=(first, second),
        )
    images = read_array(first)
    if images.ndim not in (3, 4):
        raise DataError(
            f"{first} has shape {images.shape}, which isn't that of images",
            expected="(N, H, W) or (N, H, W, C)",
            name=first,
            value=images.shape,
        )
    labels = _labels(second)
    if len(images) != len(labels):
        raise DataError(
            f"{first} has {len(images):,} images, and {second} has {len(labels):,} labels",
            expected="as many labels as images",
            name=both,
            value=(len(images), len(labels)),
        )
    if len(images):
        checked_pixels(images[0], f"an image in {first}")
    report = Report((first, second), "an array of images and one of labels", unit="rows", item="row")
    rows = list[Pair]()
    for number, label in enumerate(labels, 1):
        if label:
            rows.append((number, item_name(first, number - 1), label))
        else:
            report.skip(number, "empty label", item_name(first, number - 1))
    report.lines = len(labels)
    return Listed(rows, report, Path(first).parent)


def _labels(path: str) -> list[str]:
    if not is_array_file(path):
        return [line.decode("utf-8", "replace").strip() for line in read_lines(Input(path))]
    labels = read_array(path)
    if labels.dtype.kind not in "biuU" or labels.ndim not in (1, 2) or labels.size != len(labels):
        raise DataError(
            f"{path} has shape {labels.shape} and type {labels.dtype}, which aren't those of labels",
            expected="a whole number or a text for each image: (N,)",
            name=path,
            value=labels.shape,
        )
    return [str(it) for it in np.asarray(labels).reshape(-1).tolist()]


# --- manifests


class Manifest:
    """A table or JSON Lines with paths, relative to its own folder, and labels or transcripts."""

    def __init__(self, path: str | Path | Input, data: DataConfig, roles: Roles, modality: str) -> None:
        sample = _sample(path, data, roles, modality)
        self.columns = tuple(sample.names) if sample else ()
        self.pairs = PairSource(path, _with_columns(sample, data, roles, modality), roles)
        in_memory = isinstance(path, Rows) or str(path) == STDIN
        self.folder = Path() if in_memory else Path((path.path or "") if isinstance(path, Input) else path).parent

    def __iter__(self) -> Iterator[Pair]:
        for number, name, target in self.pairs:
            yield number, str(self.folder / name.strip()), target

    @property
    def report(self) -> Report:
        """The report of the last complete pass over the table."""
        return self.pairs.report

    def close(self) -> None:
        """Delete the copy of a stream."""
        self.pairs.close()


def _with_columns(sample: Sample | None, data: DataConfig, roles: Roles, modality: str) -> DataConfig:
    """Return the settings with the column of paths, which is found by the names of files in it."""
    if sample is None or data.source_column:
        return data
    columns = [i for i, cells in enumerate(sample.cells) if _are_media(cells, modality)]
    source, target = roles.named(sample.names)
    if len(columns) != 1 or columns[0] == source:
        return data
    [path] = columns
    is_row = modality_by_name(sample.names[path].strip()) == modality  # then there's no header
    if len(sample.names) == 2:
        target = 1 - path
    elif is_row or target in (None, path):
        return data  # which column has the targets is found by its content, or an error lists the columns
    names = [str(i + 1) if is_row else sample.names[i] for i in (path, target) if i is not None]
    return replace(data, source_column=names[0], target_column=data.target_column or names[1])


def _sample(path: Any, data: DataConfig, roles: Roles, modality: str) -> Sample | None:
    """Return the columns of the first rows of a manifest, or the keys of its first objects.

    Raises:
        DataError: it's a list of paths without targets.
    """
    if (isinstance(path, Rows) and path.pairs) or str(path) == STDIN:
        return None
    file = path if isinstance(path, Input) else Input(path)
    head = read_head(file)
    objects = [it for line in head if line.strip() and (it := read_object(line)[0]) is not None]
    if objects:
        keys = list(objects[0])
        cells = [[str(it.get(key, "")) for it in objects] for key in keys]
        return Sample(file.name, keys, cells, header=True, what="key")
    if found := sample_table(file.name, head, data):
        return found[1]
    if not data.separator and _are_media([line.decode("utf-8", "replace") for line in head], modality):
        what = f"{file.name} has no column of {roles.plural[1]}, only paths"
        raise DataError(what, expected=f"a table with the columns {roles.source} and {roles.target}", name=file.name)
    return None


def _are_media(cells: Sequence[str], modality: str) -> bool:
    """Return whether most cells name image or audio files."""
    filled = [cell for cell in cells if cell.strip()]
    return 2 * sum(modality_by_name(cell.strip()) == modality for cell in filled) > len(filled)
