"""The folder with the machine code of the loops. Looking there imports neither numba nor the loops."""

import hashlib
import importlib.util
import os
import shutil
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from ....folder.user_cache import cache_folder

_UNUSED = 30 * 24 * 3600  # seconds, until a folder is removed
_PROCESSOR = Path("/proc/cpuinfo")  # on Linux


def machine_code_folder() -> Path:
    """Return the folder for machine code, which depends on the source files, the processor and the compiler."""
    return cache_folder() / f"loops-{_fingerprint()}"


_found: set[Path] = set()  # folders where the search was; what has been loaded stays when a folder is removed


def is_compiled() -> bool:
    """Return whether the search is compiled, and may be used. It's saved after everything that it calls."""
    if _is_disabled():
        return False
    folder = machine_code_folder()
    with suppress(OSError):  # a cache that can't be read
        if folder not in _found and any(folder.glob("*/beam_loops.search-*.nbi")):
            _found.add(folder)
    return folder in _found


def cache_obstacle() -> str:
    """Return the reason why the machine code can neither be loaded nor written, or ""."""
    folder, reason = machine_code_folder(), "it can't be written to"
    try:
        above = next(it for it in (folder, *folder.parents) if it.exists())
        if _is_disabled() or is_compiled() or (above.is_dir() and os.access(above, os.R_OK | os.W_OK | os.X_OK)):
            return ""
    except OSError as error:
        reason = error.strerror or str(error)
    return f"it needs its cache folder {folder} ({reason}); XDG_CACHE_HOME chooses another place"


def mark_used() -> None:
    """Record that the machine code is in use, by the time of its folder."""
    with suppress(OSError):  # a cache that can't be written to
        os.utime(machine_code_folder())


def remove_unused() -> None:
    """Remove the machine code of other versions and environments that nothing has used for a month."""
    for folder in cache_folder().glob("loops-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def _is_disabled() -> bool:
    return os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


@cache
def _fingerprint() -> str:
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):  # numba only looks at a function's own file
        found.update(f"{path}\n".encode() + path.read_bytes())
    found.update(_numba_version().encode())
    if _PROCESSOR.exists():
        lines = _PROCESSOR.read_text(errors="replace").splitlines()
        found.update("\n".join(sorted({it for it in lines if it.startswith(("model name", "flags"))})).encode())
    return found.hexdigest()[:16]


def _numba_version() -> str:
    """Return the name of numba's metadata folder. `importlib.metadata` would take longer than decoding a sentence."""
    spec = importlib.util.find_spec("numba")
    if spec is None or not spec.origin:
        return ""
    return next((it.name for it in Path(spec.origin).parents[1].glob("numba-*.dist-info")), "")
