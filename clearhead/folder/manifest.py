"""`manifest.json`: the SHA-256 of every file in a folder, used to detect damage.

{"format_version": 1, "files": {"model.safetensors": "6e34..."}, "finished": 300}
"""

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeGuard

from ..errors import ModelError
from .atomic import Content, move_into_place, partial_path, without_waiting, write_file, write_files, write_folder

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
RESTORE = "restore the folder from its source or a backup"


@dataclass(frozen=True)
class Manifest:
    """The content of `manifest.json`.

    Attributes:
        files: the digest of each file.
        incoming: the new digests of files being replaced. Until that's done, either digest is valid.
        finished: the step at which the run finished, or None.
    """

    files: dict[str, str] = field(default_factory=dict)
    incoming: dict[str, str] = field(default_factory=dict)
    finished: int | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the manifest of a folder. Raise ModelError if it's missing, damaged or in another format."""
        path = folder / MANIFEST
        values = read_json_object(path)
        check_format(path, values)
        files, incoming, finished = values.get("files"), values.get("incoming", {}), values.get("finished")
        if not (_is_digests(files) and _is_digests(incoming) and isinstance(finished, int | None)):
            what = f"{path} is damaged"
            raise ModelError(what, expected='"files" with the SHA-256 of each file', fix=RESTORE, name=MANIFEST)
        return cls(files, incoming, finished)

    def to_bytes(self) -> bytes:
        """Return the JSON text, without empty fields."""
        values: dict[str, Any] = {"format_version": FORMAT_VERSION, "files": self.files}
        values |= {"incoming": self.incoming} if self.incoming else {}
        values |= {"finished": self.finished} if self.finished is not None else {}
        return (json.dumps(values, indent=2) + "\n").encode()

    def _check(self, path: Path, size: int, found: str) -> None:
        """Raise ModelError unless the digest `found` of a file of `size` bytes is in the manifest."""
        expected = [digests[path.name] for digests in (self.files, self.incoming) if path.name in digests]
        manifest = path.parent / MANIFEST
        if not expected:
            raise ModelError(f"{manifest} has no digest for {path.name}", fix=RESTORE, name=path.name)
        if found not in expected:
            what = f"{path} is damaged or was edited ({size:,} bytes, SHA-256 {found})"
            fix = f"{RESTORE}; if you edited the file on purpose, write its new digest into {manifest}"
            raise ModelError(what, expected=f"SHA-256 {' or '.join(expected)}", fix=fix, name=path.name, value=found)


def replace_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Replace some files of a folder while keeping its manifest valid at every moment.

    The new digests are added to the manifest, the files are replaced, and then the old digests are removed. If the
    process is killed in between, each file is either the old or the new one, and both pass verification.
    """
    manifest = settled(folder)
    incoming = {name: digest(data) for name, data in files.items()}
    write_files(folder, files, before_moving=(MANIFEST, replace(manifest, incoming=incoming).to_bytes()))
    write_file(folder / MANIFEST, replace(manifest, files=manifest.files | incoming).to_bytes())


def complete_replacement(folder: Path) -> None:
    """Complete a `replace_files` that was interrupted after it had written all files.

    If files are missing, the old ones stay, and if there are none, the new ones are forgotten.
    """
    manifest = Manifest.read(folder)
    coming = [name for name in manifest.incoming if not _is_new(manifest, name, folder / name)]
    if manifest.incoming and all(_is_new(manifest, name, partial_path(folder / name)) for name in coming):
        move_into_place(folder, coming)
        write_file(folder / MANIFEST, settled(folder).to_bytes())
    elif not manifest.files:
        write_file(folder / MANIFEST, Manifest().to_bytes())


def mark_finished(folder: Path, step: int | None) -> None:
    """Record the step at which the run finished, or None if it hasn't finished."""
    write_file(folder / MANIFEST, replace(settled(folder), finished=step).to_bytes())


def write_folder_with_manifest(target: Path, files: Iterable[tuple[str, Content]]) -> None:
    """Write a folder with a manifest of its files, in one step (see `write_folder`)."""
    digests: dict[str, str] = {}

    def with_manifest() -> Iterator[tuple[str, Content]]:
        for name, data in files:
            if isinstance(data, bytes):
                digests[name] = digest(data)
            yield name, data if isinstance(data, bytes) else partial(_write_and_digest, data, digests)
        yield MANIFEST, Manifest(digests).to_bytes()

    write_folder(target, with_manifest())


def _write_and_digest(write: Callable[[Path], object], digests: dict[str, str], path: Path) -> None:
    """Write a file and note its digest, without having it in memory."""
    write(path)
    with path.open("rb") as file:
        digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()


def read_verified(folder: Path, names: Iterable[str] | None = None) -> dict[str, bytes]:
    """Read files (default: all in the manifest). Raise ModelError if one doesn't match its digest."""
    return {name: data for name, (data, _) in read_with_digests(folder, names).items()}


def read_with_digests(folder: Path, names: Iterable[str] | None = None) -> dict[str, tuple[bytes, str]]:
    """Do the same as `read_verified`, and return the digest of each file too."""
    manifest = Manifest.read(folder)
    wanted = tuple(manifest.files if names is None else names)
    while True:
        try:
            contents = {name: (data := read_bytes(folder / name), digest(data)) for name in wanted}
            for name, (data, found) in contents.items():
                manifest._check(folder / name, len(data), found)
        except ModelError:
            if manifest == (manifest := Manifest.read(folder)):
                raise
            # a run replaced files while they were read, so read them again
        else:
            return contents


def read_bytes(path: Path) -> bytes:
    """Read a regular file. Raise ModelError if it's missing, unreadable, or a pipe or device, which could block."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read() if regular else b""
    except FileNotFoundError as error:
        raise ModelError(f"{path} is missing", fix=RESTORE, name=path.name) from error
    except OSError as error:
        raise ModelError(f"can't read {path}: {error.strerror}", fix=RESTORE, name=path.name) from error
    if not regular:
        raise ModelError(f"{path} is a pipe or a device", expected="a regular file", fix=RESTORE, name=path.name)
    return data


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON file. Raise ModelError unless it's a JSON object; see `read_bytes`."""
    return parse_json_object(path, read_bytes(path))


def parse_json_object(path: Path, data: bytes) -> dict[str, Any]:
    """Parse the content of a JSON file. Raise ModelError unless it's a JSON object."""
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, or not UTF-8
        raise ModelError(f"{path} isn't JSON: {error}", fix=RESTORE, name=path.name) from error
    if not isinstance(values, dict):
        what = f"{path} contains a JSON {type(values).__name__}"
        raise ModelError(what, expected="a JSON object", fix=RESTORE, name=path.name)
    return values


def check_format(path: Path, values: Mapping[str, Any]) -> None:
    """Raise ModelError unless this version of Clearhead supports a file's `format_version`."""
    found = values.get("format_version")
    if type(found) is not int or found != FORMAT_VERSION:
        newer = type(found) is int and found > FORMAT_VERSION
        what = f"{path} has format_version={found!r}"
        expected = f"{FORMAT_VERSION}, which this version supports"
        fix = "install a newer Clearhead" if newer else RESTORE
        raise ModelError(what, expected=expected, fix=fix, name="format_version", value=found)


def digest(data: bytes) -> str:
    """Return the SHA-256 of `data` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def settled(folder: Path) -> Manifest:
    """Return the manifest, or an empty one, after moving the digests of replaced files from `incoming` to `files`."""
    if not (folder / MANIFEST).exists():
        return Manifest()
    manifest = Manifest.read(folder)
    arrived = {name: new for name, new in manifest.incoming.items() if _is_new(manifest, name, folder / name)}
    return replace(manifest, files=manifest.files | arrived, incoming={})


def _is_new(manifest: Manifest, name: str, path: Path) -> bool:
    """Return whether a path holds the new content of a file that is being replaced."""
    is_inside = Path(name).name == name  # a forged manifest can't name a file elsewhere
    return is_inside and path.exists() and digest(read_bytes(path)) == manifest.incoming[name]


def _is_digests(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values())
