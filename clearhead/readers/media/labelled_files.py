"""Lists of labelled files: a folder of images, recordings or texts for each label, or an array and its labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from ...errors import DataError, shortened
from ...folder.archive import display_name
from ..column_roles import Roles
from ..files import STDIN, Input, broken_links, is_folder, tree
from ..lines import read_lines
from ..skipped import Report
from ..tables import Pair
from .array_files import is_array_file, item_name, read_array
from .images import checked_pixels
from .media_files import PLURAL

_SPLITS = ("train", "training", "valid", "val", "validation", "dev", "test", "testing")
_TABLES = (".tsv", ".csv", ".jsonl", ".json", ".gz", ".xz")  # of data, which isn't a text with a label
_TEXTS = ("", ".txt", ".text")
_SEEN = 20  # files of a folder that tell what it holds
_FEWEST, _SHORT = 5, 4_000  # minimum files in the folder of a label, and maximum average bytes of its texts


@dataclass(frozen=True)
class Listed:
    """A list that was made when the data was opened."""

    rows: Sequence[Pair]
    report: Report
    folder: Path

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.rows)


def class_folders(folder: Path, roles: Roles, modality: str, expected: str) -> Listed:
    """List the files below each folder, which is named after their label. Hidden files and folders are ignored.

    Args:
        folder: the folder that has a folder for each label.
        roles: what source and target are, for messages.
        modality: image, audio or text.
        expected: the forms that the data can have, for messages.

    Raises:
        DataError: there are no folders, or they're the parts of a data set.
    """
    entries = sorted(it for it in folder.iterdir() if not it.name.startswith("."))
    labels, plural = [it for it in entries if it.is_dir()], PLURAL[modality]
    if not labels:
        name = display_name(folder)
        what = f"{name} has no folders in it, so its {plural} have no labels"
        raise DataError(what, expected=expected, name=name)
    _expect_labels(folder, [it.name for it in labels], expected)
    report = Report((display_name(folder),), f"{plural} in a folder for each {roles.target}", unit="files", item="file")
    rows, empty = list[Pair](), list[str]()
    for label in labels:
        files = _files(label)
        rows += [(number, name, label.name) for number, name in enumerate(files, len(rows) + 1)]
        empty += [] if files else [label.name]
    if empty:
        report.notes.append(f"labels without files, which are ignored: {shortened(empty)}")
    beside = [it for it in entries if not it.is_dir()]
    for number, file in enumerate(beside, len(rows) + 1):
        report.skip(number, f"not in the folder of a {roles.target}", str(file))
    report.lines = len(rows) + len(beside)
    return Listed(rows, report, folder)


def _expect_labels(folder: Path, names: Sequence[str], expected: str) -> None:
    parts = [name for name in names if name.lower() in _SPLITS]
    if len(parts) < len(names):
        return
    first, *others = sorted(parts, key=lambda name: _SPLITS.index(name.lower()))
    part = "test" if others and others[-1].lower().startswith("test") else "valid"
    more = f" and `data.{part}={folder / others[-1]}`" if others else ""
    what = f"the folders in {folder} are the parts of a data set, not labels: {', '.join(names)}"
    fix = f"name the parts: `data.train={folder / first}`{more}"
    raise DataError(what, expected=expected, fix=fix, name=str(folder), value=tuple(names))


def _files(label: Path) -> list[str]:
    """Return all files below a folder, and links to files that don't exist, which are then reported."""
    links = list(map(str, broken_links(label)))  # raises an error if a folder can't be read
    try:
        return [*(str(file.path) for file in tree(label)), *links]
    except DataError:  # there are no files
        return links


# --- arrays


def arrays(first: str, second: str, expected: str) -> Listed:
    """List the items of an array of images, with the labels in an array or on the lines of a file.

    Args:
        first: path of the images (N, H, W) or (N, H, W, C).
        second: path of their labels: an array (N,), or a text file with one per line.
        expected: the forms that the data can have, for messages.

    Raises:
        DataError: the first file isn't an array of images, or their numbers differ.
    """
    both = f"{first} and {second}"
    if not is_array_file(first):
        what = f"{first} isn't an array of images, so {second} can't be its labels"
        raise DataError(what, expected=expected, name=both, value=(first, second))
    images = read_array(first)
    if images.ndim not in (3, 4):
        what = f"{first} has shape {images.shape}, which isn't that of images"
        raise DataError(what, expected="(N, H, W) or (N, H, W, C)", name=first, value=images.shape)
    labels = _labels(second)
    if len(images) != len(labels):
        what = f"{first} has {len(images):,} images, and {second} has {len(labels):,} labels"
        raise DataError(what, expected="as many labels as images", name=both, value=(len(images), len(labels)))
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
        what = f"{path} has shape {labels.shape} and type {labels.dtype}, which aren't those of labels"
        raise DataError(what, expected="a whole number or a text for each image: (N,)", name=path, value=labels.shape)
    return [str(it) for it in np.asarray(labels).reshape(-1).tolist()]


# --- texts


def class_folder_of(paths: Sequence[str | Path | Input]) -> Path | None:
    """Return the folder that has a folder of texts for each label, or None for any other data."""
    if len(paths) != 1 or isinstance(paths[0], Input) or str(paths[0]) == STDIN or not is_folder(Path(paths[0])):
        return None
    folder = Path(paths[0])
    seen = [file for label in _folders(folder) for file in islice(label.rglob("[!.]*"), _SEEN) if file.is_file()]
    beside = any(it.suffix.lower() in _TABLES for it in folder.iterdir() if it.is_file())
    are_texts = len(seen) > len(_folders(folder)) and all(_is_text(file) for file in seen)
    return folder if are_texts and not beside else None


def are_labels(folder: Path) -> bool:
    """Return whether the folders in a folder look like labels: each has only files, which are short texts."""
    folders, sizes = _folders(folder), list[int]()
    for label in folders:
        inside = list(islice((it for it in label.iterdir() if not it.name.startswith(".")), _SEEN))
        texts = [it for it in inside if it.is_file() and _is_text(it)]
        if len(texts) < max(_FEWEST, len(inside)):
            return False
        sizes += [it.stat().st_size for it in texts]
    return len(folders) > 1 and sum(sizes) < _SHORT * len(sizes) and not {it.name for it in folders} <= {*_SPLITS}


def _is_text(file: Path) -> bool:
    return file.suffix.lower() in _TEXTS or file.name.isdigit()


def _folders(folder: Path) -> list[Path]:
    return [it for it in folder.iterdir() if it.is_dir() and not it.name.startswith(".")]
