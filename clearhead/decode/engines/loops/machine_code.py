"""The machine code of the loops: where it is, whether it's there, and a process that compiles it.

It's compiled once for a machine and version, and all processes load the same file. Looking for it imports neither numba
nor the loops.
"""

import hashlib
import importlib.util
import os
import platform
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from ....config.messages import say
from ....errors import ConfigError
from ....folder.atomic import cache_folder
from .jit import is_disabled

_AGAIN = 3600  # seconds after a failed attempt, in which no other one is made unasked
_PROCESSOR = Path("/proc/cpuinfo")  # on Linux
_FEATURES = ("model name", "flags", "Features", "CPU")  # the beginnings of its lines, on x86 and on ARM
_ON_WINDOWS = ("BELOW_NORMAL_PRIORITY_CLASS", "CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")
_started: dict[Path, "subprocess.Popen[bytes] | None"] = {}  # the process that has been started for a file, if any

# What a process that compiles runs. It finds this package, and no other files beside it or in the working directory.
_SCRIPT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import clearhead
del sys.path[0]
from clearhead.decode.engines.loops.build import main
main()
"""
_found: set[Path] = set()  # files that were there; what has been loaded stays when a file is removed


def machine_code_file() -> Path:
    """Return the file of machine code. Its folder depends on the source files, the processor and the compiler."""
    return cache_folder() / f"loops-{_fingerprint()}" / "loops.o"


def is_compiled() -> bool:
    """Return whether the loops are compiled, and may be used."""
    if is_disabled():
        return False
    path = machine_code_file()
    if path not in _found and os.access(path, os.R_OK):
        _found.add(path)
    return path in _found


def discard() -> None:
    """Forget a file that can't be used, and remove it."""
    _found.discard(machine_code_file())
    with suppress(OSError):
        machine_code_file().unlink()


def failure() -> str:
    """Return why the last attempt to compile the loops has failed, or "" if it hasn't, or isn't known to have."""
    try:
        return machine_code_file().with_suffix(".begun").read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return ""


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
    said = "NUMBA_DISABLE_JIT is set" if is_disabled() else _said_by_compiler()
    if not is_compiled():
        [*_, reason] = ["no reason is given", *said.strip().splitlines()]
        raise ConfigError(
            f"the engine loops can't be compiled here: {reason}",
            fix="leave out `decode.engine`, or choose another engine",
            name="decode.engine",
            value="loops",
        )
    say(f"compiled in {time.monotonic() - begun:.0f} s")


def prepare_later() -> None:
    """Let a process of low priority compile the loops, unless that's done, under way, or has just failed."""
    path = machine_code_file()
    if path in _started or is_disabled() or is_compiled() or not _python():
        return
    _started[path] = None
    with suppress(OSError):
        begun = path.with_suffix(".begun")
        if begun.exists() and time.time() - begun.stat().st_mtime < _AGAIN:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            _command("yield"),
            **_surroundings(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it goes on when this process is interrupted
            creationflags=sum(getattr(subprocess, name, 0) for name in _ON_WINDOWS),
        )
        _started[path] = process
        threading.Thread(target=process.wait, daemon=True).start()  # or it would stay as a zombie


def is_preparing() -> bool:
    """Return whether a process that this one has started is compiling the loops."""
    process = _started.get(machine_code_file())
    return process is not None and process.poll() is None


def _said_by_compiler() -> str:
    """Run a process that compiles the loops, and return what it reports."""
    if not _python():
        return "this program can't start Python"
    try:
        machine_code_file().parent.mkdir(parents=True, exist_ok=True)
        return subprocess.run(_command("wait"), **_surroundings(), capture_output=True, text=True, check=False).stderr
    except OSError as error:
        return str(error)


def _python() -> str:
    """Return the path of Python, or "" if this program contains it, and would be started itself."""
    return "" if getattr(sys, "frozen", False) else sys.executable or ""


def _command(other: str) -> list[str]:
    return [_python(), "-P", "-c", _SCRIPT, str(Path(__file__).parents[4]), str(machine_code_file().absolute()), other]


def _surroundings() -> dict[str, Any]:
    """Return a folder and an environment without settings of numba, since all processes use what's compiled."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return {"cwd": machine_code_file().parent, "env": environment}


@cache
def _fingerprint() -> str:
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found.update(path.read_bytes())
    found.update(_numba_version().encode())
    found.update(platform.machine().encode())
    if not _PROCESSOR.exists():
        found.update(platform.processor().encode())  # on Linux, this would start a process
    else:
        lines = _PROCESSOR.read_text(errors="replace").splitlines()
        found.update("\n".join(sorted({it for it in lines if it.startswith(_FEATURES)})).encode())
    return found.hexdigest()[:16]


def _numba_version() -> str:
    """Return the name of numba's metadata folder. `importlib.metadata` would take longer than decoding a sentence."""
    spec = importlib.util.find_spec("numba")
    if spec is None or not spec.origin:
        return ""
    return next((it.name for it in Path(spec.origin).parents[1].glob("numba-*.dist-info")), "")
