"""Images or recordings with labels or transcripts: a folder for each label, a manifest, or arrays with their labels."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from ...config import DataConfig
from ...errors import DataError
from ...folder.archive import display_name
from ..column_roles import Roles
from ..files import STDIN, Input
from ..in_memory import as_paths
from ..pairs import Pair
from ..skipped import Report
from .class_folders import class_folders
from .listings import Listing, Manifest, arrays
from .media_files import PLURAL, content_digest, fault_of, needs_labels
from .modality import MANIFESTS, manifest_in

_PATH = 300  # characters of a path in a message


class MediaSource:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete copies of what can be read only once."""
        self._listing.close()

    @property
    def is_aligned(self) -> bool:
        """True if the targets are in a file of their own."""
        return len(self.report.paths) == 2

    @property
    def has_columns(self) -> bool:
        """True if the data is a table, whose columns can be chosen."""
        return isinstance(self._listing, Manifest)

    @property
    def columns(self) -> tuple[str, ...]:
        """The first row of a table, which may be its header, or the keys of its first object."""
        return self._listing.columns if isinstance(self._listing, Manifest) else ()

    def __iter__(self) -> Iterator[Pair]:
        """Yield number, name and target of each image or recording whose file exists."""
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
            raise DataError(
                f"no usable {PLURAL[self.modality]} in {name}\n  {report}",
                expected=self._expected,
                name=name,
                value=skipped,
            )
        self.report = report

    def digest(self) -> str:
        """Return the SHA-256 of the names in their folder, the targets, and the content of all files."""
        whole = hashlib.sha256()
        for _, name, target in self:
            within = Path(name).relative_to(self.folder) if Path(name).is_relative_to(self.folder) else name
            whole.update(f"{within}\0{target}\0{self.content_key(name)}\0".encode("utf-8", "surrogatepass"))
        return whole.hexdigest()

    def expect_digest(self, digest: str) -> None:
        """Raise a DataError if the files no longer have this digest."""
        self._digests.clear()
        if self.digest() != digest:
            name = " and ".join(self.report.paths)
            raise DataError(f"{name} changed while being read", fix="run the command again", name=name)

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

    def _listed(self, paths: list[str | Path | Input], data: DataConfig) -> Listing:
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
        return Manifest(path, data, self.roles, self.modality)

    def _of_folder(self, folder: Path, data: DataConfig) -> Listing:
        if manifest := manifest_in(folder):
            return Manifest(manifest, data, self.roles, self.modality)
        if self.roles.labels:
            return class_folders(folder, self.roles, self.modality, self._expected)
        raise DataError(
            f"{display_name(folder)} is a folder without a table of {self.roles.plural[1]}",
            expected=self._expected,
            fix=f"name the table, or save it in the folder as {MANIFESTS[0]}",
            name=display_name(folder),
        )
