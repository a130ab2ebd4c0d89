"""Pictures or sounds with labels or transcripts: a folder for each label, a manifest, or arrays with their labels."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from ...config import DataConfig
from ...errors import DataError
from ..column_roles import Roles
from ..files import STDIN, Input, is_stream, tree
from ..in_memory import Rows, as_paths
from ..lines import read_lines
from ..pairs import Pair, PairSource
from ..skipped import Report
from . import images, sounds
from .array_files import is_array_file, item_name, read_array, split_item

Modality = Literal["text", "image", "audio"]
SUFFIXES: Mapping[str, frozenset[str]] = {"image": images.SUFFIXES, "audio": sounds.SUFFIXES}
MANIFESTS = ("metadata.csv", "metadata.tsv", "metadata.jsonl", "manifest.csv", "manifest.tsv", "manifest.jsonl")
_SPLITS = frozenset(("train", "training", "valid", "val", "validation", "dev", "test", "testing"))
_BLOCK = 1 << 20
_PLURAL = {"image": "pictures", "audio": "sounds"}


class MediaSource:
    """Names of pictures or sounds with their labels or transcripts, which can be read repeatedly.

    with MediaSource("animals", DataConfig(), PICTURES, "image") as source:
        for number, path, label in source: ...

    Args:
        data_or_paths: a folder with a folder for each label; a manifest (a table or JSON Lines with paths, relative to
            its own folder), or a folder that has one; an array file and one of labels; or rows in memory.
        data: the settings that say how to read a manifest.
        roles: what source and target are.
        modality: image or audio.

    Raises:
        DataError: the data has another form, or nothing in it can be used.
    """

    def __init__(self, data_or_paths: Any, data: DataConfig, roles: Roles, modality: str) -> None:
        self.roles, self.modality, self.is_aligned = roles, modality, False
        paths = as_paths(data_or_paths)
        self._digests: dict[str, bytes] = {}
        self._manifest: PairSource | None = None
        self._rows: list[Pair] = []
        self._base = Path()
        names = tuple(path.name if isinstance(path, Input) else str(path) for path in paths)
        self.report = Report(names, unit="files", item="file")
        if len(paths) == 2 and not any(isinstance(path, Input) for path in paths):
            self._open_arrays(*map(str, paths))
        elif len(paths) == 1:
            self._open(paths[0], data)
        else:
            raise DataError(
                f"{len(paths)} files were named", expected=self._expected, name=" and ".join(names), value=len(paths)
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete copies of what can be read only once."""
        if self._manifest is not None:
            self._manifest.close()

    def __iter__(self) -> Iterator[Pair]:
        """Yield number, name and target of each picture or sound whose file exists."""
        report = replace(self.report, lines=0, used=0, skipped={}, examples=[], notes=[])
        for number, name, target in self._rows if self._manifest is None else self._of_manifest(report):
            if self._manifest is None:
                report.lines += 1
            if fault := self._fault(name):
                report.skip(number, fault, name)
                continue
            report.used += 1
            yield number, name, target
        if self._manifest is not None:
            report.used = self._manifest.report.used - (sum(report.skipped.values()) - self._n_unread)
        if not report.used:
            where = " and ".join(report.paths)
            raise DataError(f"no usable {_PLURAL[self.modality]} in {where}\n  {report}", name=where)
        self.report = report

    def digest(self) -> str:
        """Return the SHA-256 of the names, the targets and the content of all files."""
        whole = hashlib.sha256()
        for _, name, target in self:
            whole.update(f"{name}\0{target}\0".encode("utf-8", "surrogatepass"))
            whole.update(self.content_key(name).encode())
        return whole.hexdigest()

    def expect_digest(self, digest: str) -> None:
        """Raise a DataError if the files no longer have this digest."""
        self._digests.clear()
        if self.digest() != digest:
            name = " and ".join(self.report.paths)
            raise DataError(f"{name} changed while being read", fix="run the command again", name=name)

    def content_key(self, name: str) -> str:
        """Return a digest of one picture or sound, so that copies of it can stay on one side of a split."""
        if name not in self._digests:
            self._digests[name] = _digest(name)
        return self._digests[name].hex()

    # --- forms of the data

    @property
    def _expected(self) -> str:
        plural = _PLURAL[self.modality]
        arrays = ", or an array file and one of labels" if self.roles.labels else ""
        folder = f"a folder of {plural} with a folder for each label, or " if self.roles.labels else ""
        return f"{folder}a table of paths and {self.roles.target}s{arrays}"

    def _open(self, path: str | Path | Input, data: DataConfig) -> None:
        if isinstance(path, Input) or str(path) == STDIN:
            self._open_manifest(path, data)
            return
        folder = Path(path)
        if not folder.is_dir():
            if folder.suffix.lower() in SUFFIXES[self.modality] or is_array_file(folder):
                raise DataError(
                    f"{path} has no {self.roles.target}s", expected=self._expected, name=str(path), value=str(path)
                )
            self._open_manifest(path, data)
            return
        if manifests := [name for name in MANIFESTS if (folder / name).is_file()]:
            self._open_manifest(folder / manifests[0], data)
        elif self.roles.labels:
            self._open_folders(folder)
        else:
            raise DataError(
                f"{path} is a folder without a table of {self.roles.target}s",
                expected=self._expected,
                fix=f"name the table, or save it in the folder as {MANIFESTS[0]}",
                name=str(path),
            )

    def _open_manifest(self, path: str | Path | Input, data: DataConfig) -> None:
        self._manifest = PairSource(path, data, self.roles)
        self.report = self._manifest.report
        if not isinstance(path, Rows) and str(path) != STDIN:
            self._base = Path(path.name if isinstance(path, Input) else path).parent

    def _open_folders(self, folder: Path) -> None:
        labels = sorted(it for it in folder.iterdir() if it.is_dir() and not it.name.startswith("."))
        if not labels:
            raise DataError(
                f"{folder} has no folders in it, so its {_PLURAL[self.modality]} have no labels",
                expected=self._expected,
                name=str(folder),
            )
        if {label.name.lower() for label in labels} <= _SPLITS:
            raise DataError(
                f"the folders in {folder} aren't labels but parts of a data set: "
                + ", ".join(label.name for label in labels),
                expected=self._expected,
                fix=f"name one of them: {labels[-1]}, and another one with --valid or --test",
                name=str(folder),
            )
        self.report.form = f"{_PLURAL[self.modality]} in a folder for each {self.roles.target}"
        number = 0
        for label in labels:
            for file in _files(label):
                number += 1
                self._rows.append((number, file.name, label.name))

    def _open_arrays(self, first: str, second: str) -> None:
        if not self.roles.labels or self.modality != "image" or not is_array_file(first):
            raise DataError(
                "two files were named", expected=self._expected, name=f"{first} and {second}", value=(first, second)
            )
        pictures = read_array(first)
        if is_array_file(second):
            labels = [str(it) for it in np.asarray(read_array(second)).reshape(-1).tolist()]
        else:
            labels = [line.decode("utf-8", "replace").strip() for line in read_lines(Input(second))]
        if len(pictures) != len(labels):
            raise DataError(
                f"{first} has {len(pictures):,} pictures, and {second} has {len(labels):,} labels",
                expected="as many labels as pictures",
                name=f"{first} and {second}",
                value=(len(pictures), len(labels)),
            )
        self.is_aligned = True
        self.report.form, self.report.unit, self.report.item = "an array of pictures and one of labels", "rows", "row"
        self._rows = [(number, item_name(first, number - 1), label) for number, label in enumerate(labels, 1)]

    def _of_manifest(self, report: Report) -> Iterator[Pair]:
        assert self._manifest is not None
        for number, path, target in self._manifest:
            yield number, self._resolved(path), target
        read = self._manifest.report
        for name in ("form", "unit", "item", "lines", "headers", "files", "licence", "source"):
            setattr(report, name, getattr(read, name))
        self._n_unread = sum(read.skipped.values())
        report.skipped = {**read.skipped, **report.skipped}
        report.examples, report.notes = [*read.examples, *report.examples], [*read.notes]

    def _resolved(self, path: str) -> str:
        """Return a path of the manifest, which may name an item of an array file."""
        return str(self._base / path.strip())

    def _fault(self, name: str) -> str:
        """Return why a file can't be used, or ""; its content is read later."""
        if (item := split_item(name)) is not None:
            return "" if Path(item[0]).exists() else "no such file"
        path = Path(name)
        if path.suffix.lower() not in SUFFIXES[self.modality]:
            return f"not named as {_PLURAL[self.modality]} are"
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return "no such file"
        except OSError as error:
            return f"can't be read: {error.strerror}"
        return "" if size else "empty file"


def _files(label: Path) -> list[Input]:
    try:
        return tree(label)
    except DataError:  # an empty folder: a label without examples
        return []


def _digest(name: str) -> bytes:
    if (item := split_item(name)) is not None:
        row: Any = read_array(item[0])[item[1]]
        return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
    whole = hashlib.blake2b(digest_size=16)
    with ExitStack() as opened:
        try:
            file = opened.enter_context(Path(name).open("rb"))
            while block := file.read(_BLOCK):
                whole.update(block)
        except OSError as error:
            raise DataError(f"{name} can't be read: {error.strerror}", name=name) from error
    return whole.digest()


def modality_of(paths: Iterable[str | Path | Input]) -> Modality:
    """Return what some data consists of, by the names of its files or the first paths in its manifest."""
    paths = list(paths)
    if not paths or any(isinstance(path, Input) or str(path) == STDIN for path in paths):
        return "text"
    first = Path(str(paths[0]))
    try:
        if is_stream(paths[0]):
            return "text"
        if first.is_dir():
            manifests = [first / name for name in MANIFESTS if (first / name).is_file()]
            return _modality_of_manifest(manifests[0]) if manifests else _modality_of_folder(first)
        if is_array_file(first):
            return "image"
        return _modality_by_name(first.name) or (_modality_of_manifest(first) if len(paths) == 1 else "text")
    except (OSError, DataError):  # reading it will raise a clear error
        return "text"


def has_manifest(folder: Path) -> bool:
    """Return whether a folder has a table of its files."""
    return any((folder / name).is_file() for name in MANIFESTS)


_FEW = 50  # files or lines whose names decide


def _modality_by_name(name: str) -> Modality | None:
    suffix = Path(name).suffix.lower()
    return "image" if suffix in images.SUFFIXES else "audio" if suffix in sounds.SUFFIXES else None


def _modality_of_folder(folder: Path) -> Modality:
    found: list[Modality | None] = []
    for label in sorted(it for it in folder.iterdir() if not it.name.startswith(".")):
        inside = sorted(label.rglob("*"))[:_FEW] if label.is_dir() else [label]
        found += [_modality_by_name(it.name) for it in inside if it.is_file() and not it.name.startswith(".")]
        if len(found) >= _FEW:
            break
    return _most(found)


def _modality_of_manifest(path: Path) -> Modality:
    """Return image or audio if most of the first lines name such a file."""
    found: list[Modality | None] = []
    for number, line in enumerate(read_lines(Input(path))):
        if number > _FEW:
            break
        cells = line.decode("utf-8", "replace").replace('"', "\t").replace(",", "\t").replace(";", "\t").split("\t")
        kinds = [kind for cell in cells if (kind := _modality_of_cell(cell.strip()))]
        if line.strip() and number:  # the first may be a header
            found.append(kinds[0] if kinds else None)
    return _most(found)


def _modality_of_cell(cell: str) -> Modality | None:
    if " " in Path(cell).suffix or not Path(cell).suffix:
        return None
    item = split_item(cell)
    return "image" if item else _modality_by_name(cell)


def _most(found: list[Modality | None]) -> Modality:
    kinds: tuple[Modality, ...] = ("image", "audio")
    for modality in kinds:
        if found and 2 * found.count(modality) > len(found):
            return modality
    return "text"
