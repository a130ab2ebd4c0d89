"""The machine code of the loops: where it is, whether it's there, and a process that compiles it.

It's compiled once for a machine and version, and all processes load the same file. Looking for it imports neither numba
nor the loops.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from ....config.messages import say
from ....errors import ConfigError
from ....folder.user_cache import cache_folder
from .jit import is_disabled

_UNUSED = 30 * 24 * 3600  # seconds, until a folder is removed
_AGAIN = 3600  # seconds after a failed attempt, in which no other one is made unasked
_PROCESSOR = Path("/proc/cpuinfo")  # on Linux
_started: set[Path] = set()  # files that a process has been started for
_found: set[Path] = set()  # files that were there; what has been loaded stays when a file is removed


def machine_code_file() -> Path:
    """Return the file of machine code. Its folder depends on the source files, the processor and the compiler."""
    return cache_folder() / f"loops-{_fingerprint()}" / "loops.o"


def is_compiled() -> bool:
    """Return whether the loops are compiled, and may be used."""
    if is_disabled():
        return False
    path = machine_code_file()
    with suppress(OSError):  # a cache that can't be read
        if path not in _found and path.is_file():
            _found.add(path)
    return path in _found


def cache_obstacle() -> str:
    """Return the reason why the machine code can neither be loaded nor written, or ""."""
    folder, reason = machine_code_file().parent, "it can't be written to"
    try:
        above = next(it for it in (folder, *folder.parents) if it.exists())
        if is_disabled() or is_compiled() or (above.is_dir() and os.access(above, os.R_OK | os.W_OK | os.X_OK)):
            return ""
    except OSError as error:
        reason = error.strerror or str(error)
    return f"it needs its cache folder {folder} ({reason}); XDG_CACHE_HOME chooses another place"


def prepare() -> None:
    """Compile the loops if that hasn't been done on this machine, and say so.

    Raises:
        ConfigError: they can't be compiled here.
    """
    if is_compiled():
        with suppress(OSError):  # a cache that can't be written to
            os.utime(machine_code_file().parent)  # it's in use
        return
    say("compiling the engine loops for this machine, once; this takes some seconds")
    begun = time.monotonic()
    done = subprocess.run(_command("wait"), env=_environment(), capture_output=True, text=True, check=False)
    if not is_compiled():
        [*_, reason] = ["no reason is given", *done.stderr.strip().splitlines()]
        raise ConfigError(
            f"the engine loops can't be compiled here: {reason}",
            fix="leave out `decode.engine`, or choose another engine",
            name="decode.engine",
            value="loops",
        )
    say(f"compiled in {time.monotonic() - begun:.0f} s")
    _remove_unused()


def prepare_later() -> None:
    """Let a process of low priority compile the loops, unless that's done, under way, or has just failed."""
    path = machine_code_file()
    if path in _started or is_disabled() or is_compiled():
        return
    _started.add(path)
    with suppress(OSError):
        begun = path.with_suffix(".begun")
        if begun.exists() and time.time() - begun.stat().st_mtime < _AGAIN:
            return
        subprocess.Popen(
            _command("yield"),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it goes on when this process is interrupted
        )


def _command(other: str) -> list[str]:
    return [sys.executable, "-m", "clearhead.decode.engines.loops.build", str(machine_code_file()), other]


def _environment() -> dict[str, str]:
    """Return the environment, in which this package is found however it was found here."""
    own = str(Path(__file__).parents[4])
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (own, os.environ.get("PYTHONPATH"))))}


def _remove_unused() -> None:
    """Remove the machine code of other versions and environments that nothing has used for a month."""
    for folder in cache_folder().glob("loops-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


@cache
def _fingerprint() -> str:
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
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
