"""Images or recordings with labels or transcripts: a folder for each label, a manifest, or arrays with their labels."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...config import DataConfig
from ...errors import DataError
from ...folder.archive import display_name
from ..column_roles import Roles
from ..columns import Sample
from ..files import STDIN, Input
from ..json_lines import read_object
from ..lines import read_head
from ..pairs import Pair, PairSource
from ..skipped import Report
from ..source import Rows, Source, as_paths
from ..tables import sample_table
from .labelled_files import Listed, arrays, class_folders
from .media_files import MANIFESTS, PLURAL, content_digest, fault_of, manifest_in, modality_by_name, needs_labels

_PATH = 300  # characters of a path in a message


class MediaSource(Source):
    """Names of images or recordings with their labels or transcripts, which can be read repeatedly.

    with MediaSource("animals", DataConfig(), IMAGES, "image") as source:
        for number, path, label in source: ...

    Files that don't exist, are empty or have another kind of name are counted in `report`. The others aren't opened.

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
        self.roles, self.modality = roles, modality
        self._digests: dict[str, bytes] = {}
        self._listing = self._listed(as_paths(data_or_paths), data)
        self.folder = self._listing.folder
        self.report = self._described(self._listing.report)

    def close(self) -> None:
        if isinstance(self._listing, PathTable):
            self._listing.pairs.close()

    @property
    def is_aligned(self) -> bool:
        """True if the targets are in a separate file."""
        return len(self.report.paths) == 2

    @property
    def has_columns(self) -> bool:
        """True if the data is a table, whose columns can be chosen."""
        return isinstance(self._listing, PathTable)

    @property
    def columns(self) -> tuple[str, ...]:
        """The first row of a table, which may be its header, or the keys of its first object."""
        return self._listing.columns if isinstance(self._listing, PathTable) else ()

    def __iter__(self) -> Iterator[Pair]:
        """Yield number, name and target of each image or recording whose file exists."""
        return self.rows()

    def rows(self) -> Iterator[Pair]:
        """Yield what `__iter__` does, unless a subclass has it otherwise."""
        faults, used = Report(()), 0
        for number, name, target in self._listing:
            if fault := fault_of(name, self.modality):
                faults.skip(number, fault, name)
            else:
                used += 1
                yield number, name, target
        read = self._listing.report
        skipped, examples = {**read.skipped, **faults.skipped}, [*read.examples, *faults.examples]
        report = self._described(replace(read, used=used, skipped=skipped, examples=examples))
        if not used:
            name = " and ".join(report.paths)
            what = f"no usable {PLURAL[self.modality]} in {name}\n  {report}"
            raise DataError(what, expected=self._expected, name=name, value=skipped)
        self.report = report

    def digest(self) -> str:
        """Return the SHA-256 of the names in their folder, the targets, and the content of all files."""
        whole = hashlib.sha256()
        for _, name, target in self.rows():
            within = Path(name).relative_to(self.folder) if Path(name).is_relative_to(self.folder) else name
            whole.update(f"{within}\0{target}\0{self.content_key(name)}\0".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def expect_digest(self, digest: str) -> None:
        self._digests.clear()
        super().expect_digest(digest)

    def content_key(self, name: str) -> str:
        """Return a digest of one image or recording, so that copies of it can stay on one side of a split."""
        if name not in self._digests:
            self._digests[name] = content_digest(name)
        return self._digests[name].hex()

    def _described(self, report: Report) -> Report:
        return replace(report, folder=str(self.folder), width=_PATH)

    # --- forms of the data

    @property
    def _expected(self) -> str:
        plural, targets = PLURAL[self.modality], self.roles.plural[1]
        folder = f"a folder of {plural} with a folder for each label, or " if self.roles.labels else ""
        array = ", or an array of images and a file of labels" if self._may_be_arrays else ""
        return f"{folder}a table of paths and {targets}{array}"

    @property
    def _may_be_arrays(self) -> bool:
        return self.roles.labels and self.modality == "image"

    def _listed(self, paths: list[str | Path | Input], data: DataConfig) -> "Listed | PathTable":
        if len(paths) == 2 and self._may_be_arrays and not any(isinstance(path, Input) for path in paths):
            return arrays(str(paths[0]), str(paths[1]), self._expected)
        if len(paths) != 1:
            names = [path.name if isinstance(path, Input) else str(path) for path in paths]
            fix = "name one folder or table that has all of them" if len(paths) > 1 else ""
            what = f"{len(paths)} files were named"
            raise DataError(what, expected=self._expected, fix=fix, name=" and ".join(names), value=len(paths))
        path = paths[0]
        folder = None if isinstance(path, Input) or str(path) == STDIN else Path(path)
        if folder is not None and folder.is_dir():
            return self._of_folder(folder, data)
        if folder is not None and needs_labels(folder, self.modality):
            what = f"{path} has no {self.roles.plural[1]}"
            raise DataError(what, expected=self._expected, name=str(path), value=str(path))
        return PathTable(path, data, self.roles, self.modality)

    def _of_folder(self, folder: Path, data: DataConfig) -> "Listed | PathTable":
        if manifest := manifest_in(folder):
            return PathTable(manifest, data, self.roles, self.modality)
        if self.roles.labels:
            return class_folders(folder, self.roles, self.modality, self._expected)
        what = f"{display_name(folder)} is a folder without a table of {self.roles.plural[1]}"
        fix = f"name the table, or save it in the folder as {MANIFESTS[0]}"
        raise DataError(what, expected=self._expected, fix=fix, name=display_name(folder))


# --- tables of paths


class PathTable:
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
        return self.pairs.report


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
    """Return the columns or keys of the first rows of a manifest. Raise DataError if it's a list of paths only."""
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
