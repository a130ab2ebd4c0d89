"""The source files of Python's standard library, split into training and held-out files."""

import gzip
import hashlib
import json
import lzma
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError

_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}  # excluded folders
_HELD_OUT = 20  # one file in this many is held out


@dataclass(frozen=True)
class SourceFile:
    """A source file: its path in the library, separated by `/`, and its text."""

    path: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """True if the file is held out. This depends only on its path, so the split is the same on every machine."""
        return int(hashlib.sha256(self.path.encode()).hexdigest(), 16) % _HELD_OUT == 0


def folder() -> Path:
    """Return the folder of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def split(root: Path) -> tuple[list[SourceFile], list[SourceFile]]:
    """Return the training files and the held-out files, sorted by path. Raise DataError if there are none of one kind.

    Tests, installed packages, empty files and files that aren't UTF-8 are left out.
    """
    found = sorted(_sources(root), key=lambda it: it.path)
    training, held_out = ([it for it in found if it.is_held_out is held] for held in (False, True))
    if not training or not held_out:
        what = f"{root} has {len(found):,} Python source files"
        expected = "the source of the standard library, which isn't part of this Python installation"
        fix = "use another Python, such as the one from python.org"
        raise DataError(what, expected=expected, fix=fix, name=str(root), value=len(found))
    return training, held_out


def _sources(root: Path) -> list[SourceFile]:
    found = []
    for path in root.rglob("*.py"):
        inside = path.relative_to(root)
        if _LEFT_OUT.isdisjoint(inside.parts):
            try:
                text = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            if text.strip() and "\0" not in text:
                found.append(SourceFile(inside.as_posix(), text))
    return found


def as_json_lines(sources: Sequence[SourceFile]) -> bytes:
    """Return one document per line, in the format that `clearhead train` reads."""
    return "".join(f"{json.dumps({'path': it.path, 'text': it.text})}\n" for it in sources).encode()


@dataclass(frozen=True)
class Packed:
    """Bits per byte of the compressed held-out files. `xz_after` is primed with the training files."""

    gzip: float
    xz: float
    xz_after: float


def packed(training: Sequence[SourceFile], held_out: Sequence[SourceFile]) -> Packed:
    """Compress the concatenated files with `gzip -9` and `xz -9`.

    xz_after = 8 (size of xz(training + held out) - size of xz(training)) / bytes held out
    """
    before, text = ("".join(it.text for it in sources).encode() for sources in (training, held_out))

    def bits(size: int) -> float:
        return 8 * size / len(text)

    def xz(data: bytes) -> int:
        return len(lzma.compress(data, preset=9))

    return Packed(bits(len(gzip.compress(text, 9))), bits(xz(text)), bits(xz(before + text) - xz(before)))
