"""The engine of plain loops before it's opened: what it supports, and its machine code.

The code is compiled once for a machine and version, by a process of its own, and all processes load the same file.
Looking for it imports neither numba nor the loops.
"""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ....config import DecodeConfig, ModelConfig
from ....config.messages import say
from ....errors import ConfigError, TrainingError
from ....folder.atomic import FolderLock, cache_folder, write_file
from ...engine import cpu_obstacle, engine_threads
from ...model_handle import ModelHandle
from .jit import is_disabled

if TYPE_CHECKING:
    from .entries import Entries
    from .loops_engine import LoopsEngine

_LOW = 5  # priority of a process that compiles: next to busy processes, it gets a quarter of a core
_UNUSED = 30 * 24 * 3600  # seconds, until a folder is removed
_AGAIN = 3600  # seconds after a failed attempt, in which no other one is made unasked
_PROCESSOR = Path("/proc/cpuinfo")  # on Linux
_FEATURES = ("model name", "flags", "Features", "CPU")  # the beginnings of its lines, on x86 and on ARM
_ON_WINDOWS = ("BELOW_NORMAL_PRIORITY_CLASS", "CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")
_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu")
_POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi")
_started: dict[Path, "subprocess.Popen[bytes] | None"] = {}  # the process that has been started for a file, if any

# What a process that compiles runs. It finds this package, and no other files beside it or in the working directory.
_SCRIPT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import clearhead
del sys.path[0]
from clearhead.decode.engines.loops.machine_code import main
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


def build(path: Path, other: str) -> None:
    """Compile the loops to a file, if it doesn't exist. If another process does, "wait" until it has, or "yield".

    While they're compiled, there's an empty file with the suffix `.begun`. After that has failed, it has the reason.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        try:
            lock = FolderLock(path.parent, say=lambda _: None)
            break
        except TrainingError:
            if other == "yield":
                return
            time.sleep(0.1)
    begun = path.with_suffix(".begun")
    try:
        if path.exists():
            return
        begun.write_text("")
        if other == "yield" and hasattr(os, "nice"):
            os.nice(_LOW)
        from .compiler import object_code

        code = object_code()

        from .entries import check  # only now, since importing the loops marks what's to compile

        check(code)
        write_file(path, hashlib.sha256(code).digest() + code)
        begun.unlink()
        _remove_unused(path.parent)
    except KeyboardInterrupt:
        begun.unlink(missing_ok=True)
        raise
    except Exception as error:
        begun.write_text(f"{type(error).__name__}: {error}", encoding="utf-8", errors="replace")
        raise
    finally:
        lock.release()


def _remove_unused(own: Path) -> None:
    """Remove the machine code of other versions and environments that nothing has used for a month."""
    for folder in own.parent.glob("loops-*"):
        with suppress(OSError):
            if folder != own and time.time() - folder.stat().st_mtime > _UNUSED:
                shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Build the file that's the first argument. The second one is "wait" or "yield"."""
    build(Path(sys.argv[1]), sys.argv[2])


def _loops() -> "Entries":
    """Return the compiled loops. The first call on a machine compiles them."""
    from .entries import AS_PYTHON, loaded

    if is_disabled():
        return AS_PYTHON
    prepare()
    try:
        return loaded(machine_code_file())
    except OSError:  # the file is damaged, or was removed after it was found
        discard()
        prepare()
        return loaded(machine_code_file())


class LoopsOpener:
    """Opens a `LoopsEngine`, and says whether one can be opened and used."""

    only_float32: ClassVar[bool] = True
    precisions: ClassVar[tuple[str, ...]] = ("fp32", "int8")

    @classmethod
    def obstacle(cls, config: ModelConfig, device: str, formats: Container[str]) -> str:
        """Return the reason why a model can't run here, or "".

        Args:
            config: the model's architecture.
            device: a torch device; the engine runs on "cpu" only.
            formats: not used, since the engine reads the weights themselves.
        """
        if found := cls.lacks() or cpu_obstacle(device):
            return found
        for setting, supported in (
            ("topology", config.topology != "encoder-only"),
            ("front", config.front == "tokens" or config.topology == "decoder-only"),
            ("copy", not config.copy),
            ("attention", config.attention == "softmax"),
            ("positions", config.positions in _POSITIONS),
            ("feed_forward", config.feed_forward in _ACTIVATIONS),
            ("norm", config.norm in ("layer", "rms")),
        ):
            if not supported:
                return f"it doesn't support model.{setting}={getattr(config, setting)!r}"
        return cache_obstacle()

    @classmethod
    def lacks(cls) -> str:
        """Return what isn't installed, or ""."""
        return "" if importlib.util.find_spec("numba") else "it needs numba: pip install numba"

    @classmethod
    def waits(cls, decode: DecodeConfig, is_converted: Callable[[str], bool]) -> str:
        if is_compiled():
            return ""
        return f"it can't be compiled here: {reason}" if (reason := failure()) else "it isn't compiled here yet"

    @classmethod
    def prepare(cls) -> None:
        """Compile it. Raise ConfigError if that's impossible here."""
        if reason := cls.lacks() or cache_obstacle():
            raise ConfigError(f"the engine loops can't be compiled: {reason}", name="decode.engine", value="loops")
        prepare()

    prepare_later = staticmethod(prepare_later)
    is_preparing = staticmethod(is_preparing)

    @classmethod
    def open(cls, model: ModelHandle, precision: str = "fp32") -> "LoopsEngine":
        """Return an engine for the model. It uses all cores, or OMP_NUM_THREADS."""
        from .loops_engine import LoopsEngine

        return LoopsEngine(model, _loops(), engine_threads(), precision)
