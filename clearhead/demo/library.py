"""What everybody has who has Python: the source of its standard library, most of it to learn from and some held out."""

import gzip
import hashlib
import json
import lzma
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError

_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}  # folders
_HELD_OUT = 20  # one file of so many


@dataclass(frozen=True)
class Source:
    """A file of the library: its path in it, with /, and its text."""

    path: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """By the path alone, so that it is the same files on all machines that have them."""
        return int(hashlib.sha256(self.path.encode()).hexdigest(), 16) % _HELD_OUT == 0


def folder() -> Path:
    """Where the standard library of the running Python lies."""
    return Path(sysconfig.get_path("stdlib"))


def split(root: Path) -> tuple[list[Source], list[Source]]:
    """The files to learn from and those that are held out, each in the order of their paths.

    Tests, installed packages, empty files and those that are not UTF-8 are left out; where that leaves nothing for one
    of the two, a DataError.
    """
    found = sorted(_sources(root), key=lambda it: it.path)
    training, held_out = ([it for it in found if it.is_held_out is held] for held in (False, True))
    if not training or not held_out:
        raise DataError(
            f"{root} has {len(found):,} files of Python source; expected those of the standard library, which this "
            "Python comes without: another one, such as python.org's, has them"
        )
    return training, held_out


def _sources(root: Path) -> list[Source]:
    found = []
    for path in root.rglob("*.py"):
        inside = path.relative_to(root)
        if _LEFT_OUT.isdisjoint(inside.parts):
            try:
                text = path.read_bytes().decode()
            except (OSError, UnicodeDecodeError):
                continue
            if text.strip() and "\0" not in text:
                found.append(Source(inside.as_posix(), text))
    return found


def as_json_lines(sources: Sequence[Source]) -> bytes:
    """A document a line, in the form that `clearhead train` reads."""
    return "".join(f"{json.dumps({'path': it.path, 'text': it.text})}\n" for it in sources).encode()


@dataclass(frozen=True)
class Packed:
    """What general programs need for the held-out files, in bits per byte; `after` those that were learnt from, too."""

    gzip: float
    xz: float
    xz_after: float


def packed(training: Sequence[Source], held_out: Sequence[Source]) -> Packed:
    """The sizes that `gzip -9` and `xz -9` pack to, the files one behind the other.

    xz_after = 8 (size of xz(training + held out) - size of xz(training)) / bytes held out
    """
    before, text = ("".join(it.text for it in sources).encode() for sources in (training, held_out))

    def bits(size: int) -> float:
        return 8 * size / len(text)

    def xz(data: bytes) -> int:
        return len(lzma.compress(data, preset=9))

    return Packed(bits(len(gzip.compress(text, 9))), bits(xz(text)), bits(xz(before + text) - xz(before)))
