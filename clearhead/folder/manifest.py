"""`manifest.json`: the SHA-256 of each file of a folder, so that what is read is what was written.

{"format_version": 1, "files": {"model.safetensors": "6e34..."}, "finished": 300}
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeGuard

from ..errors import ModelError
from .atomic import write_file, write_files, write_folder

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
RESTORE = "restore the folder from where it came from"


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` holds: the digest of each file, and the step at which the run was complete, if it was.

    `incoming` has the digests of files that are being replaced: until that is done, either of the two is right.
    """

    files: dict[str, str] = field(default_factory=dict)
    incoming: dict[str, str] = field(default_factory=dict)
    finished: int | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The manifest of a folder; one that is absent, damaged or of another format is a ModelError."""
        path = folder / MANIFEST
        values = parse_json_object(path, read_bytes(path))
        check_format(path, values)
        files, incoming, finished = values.get("files"), values.get("incoming", {}), values.get("finished")
        if not (_is_digests(files) and _is_digests(incoming) and isinstance(finished, int | None)):
            raise ModelError(f'{path} is damaged: expected "files" with the SHA-256 of each file; {RESTORE}')
        return cls(files, incoming, finished)

    def to_bytes(self) -> bytes:
        """The JSON text; what is empty is left out."""
        values: dict[str, Any] = {"format_version": FORMAT_VERSION, "files": self.files}
        values |= {"incoming": self.incoming} if self.incoming else {}
        values |= {"finished": self.finished} if self.finished is not None else {}
        return (json.dumps(values, indent=2) + "\n").encode()

    def check(self, path: Path, data: bytes) -> None:
        """Raise a ModelError unless `data`, the content of `path`, has the digest that the manifest says."""
        expected = [digests[path.name] for digests in (self.files, self.incoming) if path.name in digests]
        manifest = path.parent / MANIFEST
        if not expected:
            raise ModelError(f"{manifest} has no digest of {path.name}; {RESTORE}")
        found = digest(data)
        if found not in expected:
            raise ModelError(
                f"{path} is damaged, or was changed by hand ({len(data):,} bytes)\n"
                f"  expected SHA-256: {' or '.join(expected)}\n  found:            {found}\n"
                f"  {RESTORE}; if the change was meant, write the digest found into {manifest}"
            )


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace some files of a folder and keep its manifest true at every moment.

    The manifest first names the new digests beside the old ones, then the files move, then the old digests go: a
    process killed anywhere in between leaves a folder in which each file is the old one or the new, and verifies.
    """
    manifest = _settled(folder)
    incoming = {name: digest(data) for name, data in files.items()}
    write_files(folder, files, before_moving=(MANIFEST, replace(manifest, incoming=incoming).to_bytes()))
    write_file(folder / MANIFEST, replace(manifest, files=manifest.files | incoming).to_bytes())


def mark_finished(folder: Path, step: int | None) -> None:
    """Write into the manifest that the run is complete at `step`, or that it is not (None)."""
    write_file(folder / MANIFEST, replace(_settled(folder), finished=step).to_bytes())


def write_folder_with_manifest(target: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """`write_folder`, and the manifest of what was in `files` last."""

    def with_manifest() -> Iterator[tuple[str, bytes]]:
        digests = {}
        for name, data in files:
            digests[name] = digest(data)
            yield name, data
        yield MANIFEST, Manifest(digests).to_bytes()

    write_folder(target, with_manifest())


def read_verified(folder: Path, names: Iterable[str] | None = None) -> dict[str, bytes]:
    """The contents of files (None: all that the manifest names), each equal to its digest; otherwise a ModelError."""
    manifest = Manifest.read(folder)
    wanted = tuple(manifest.files if names is None else names)
    while True:
        try:
            contents = {name: read_bytes(folder / name) for name in wanted}
            for name, data in contents.items():
                manifest.check(folder / name, data)
        except ModelError:
            if manifest == (manifest := Manifest.read(folder)):
                raise
            # a run replaced files while we read them: once more
        else:
            return contents


def read_bytes(path: Path) -> bytes:
    """The content of a file; one that is missing or cannot be read is a ModelError."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing; {RESTORE}") from error
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}; {RESTORE}") from error


def parse_json_object(path: Path, data: bytes) -> dict[str, Any]:
    """The object in a JSON file whose content is `data`; anything else is a ModelError that names `path`."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, or no UTF-8
        raise ModelError(f"{path} is not JSON: {error}; {RESTORE}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path} holds a JSON {type(values).__name__}, expected an object; {RESTORE}")
    return values


def check_format(path: Path, values: Mapping[str, Any]) -> None:
    """Raise a ModelError unless a file's `format_version` is the one that is read here."""
    found = values.get("format_version")
    if type(found) is int and found > FORMAT_VERSION:
        raise ModelError(
            f"{path} has format_version {found}, this version reads {FORMAT_VERSION}; install a newer Clearhead"
        )
    if type(found) is not int or found != FORMAT_VERSION:
        raise ModelError(f"{path} has format_version {found!r}, expected {FORMAT_VERSION}; {RESTORE}")


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _settled(folder: Path) -> Manifest:
    """The manifest after the question is closed which incoming files arrived; an empty one where there is none."""
    if not (folder / MANIFEST).exists():
        return Manifest()
    manifest = Manifest.read(folder)
    arrived = {}
    for name, expected in manifest.incoming.items():
        path = folder / name
        if path.exists() and digest(read_bytes(path)) == expected:
            arrived[name] = expected
    return replace(manifest, files=manifest.files | arrived, incoming={})


def _is_digests(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values())
