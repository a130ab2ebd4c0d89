"""`clearhead env`: print versions and hardware, for bug reports."""

import os
import platform
import sys
from pathlib import Path
from typing import Any

from ...version import __version__
from ..output import to_json
from ..parser import Options, Parser, Verb

_LIBRARIES = (
    "torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "rich", "tomli-w", "loky", "numba", "matplotlib",
    "tensorboard",
)  # fmt: skip


def _add_options(parser: Parser) -> None:
    parser.add_flag("--json", "print the values as JSON")
    parser.add_flag("--prepare", "compile the engine loops now, for a container image or an installation that you copy")


def _run(options: Options) -> None:
    if options.prepare:
        from ...decode.registry import prepare_engines  # slow to import, like those below

        prepare_engines()
    values: dict[str, Any] = {"clearhead": __version__, "python": sys.version.split()[0]}
    values["platform"] = platform.platform()
    values |= {name: _version(name) for name in _LIBRARIES}
    values |= {"processor": processor(), "cores": os.cpu_count(), "memory": _memory(), **_choices()}
    print(to_json(values) if options.json else "\n".join(f"{name:<12} {value}" for name, value in values.items()))


def _version(library: str) -> str:
    from importlib import metadata  # slow to import, and `clearhead --help` imports every verb

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


def _choices() -> dict[str, Any]:
    """Return the settings that training would choose here, or the error if torch's installation is broken."""
    try:
        import torch

        from ...config import Config
        from ...training.choices.hyperparameters import choose_machine

        chosen = choose_machine(Config())[0].train
        cards = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    except Exception as error:  # importing torch and its libraries can fail in many ways
        return {"device": f"can't be chosen: {type(error).__name__}: {' '.join(str(error).split())}"}
    return {
        "graphics": ", ".join(cards) or "none",
        "device": chosen.device,
        "threads": chosen.threads,
        "precision": chosen.precision,
    }


def processor() -> str:
    """Return the name of the processor."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return "unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.1f} GB"


VERB = Verb(
    name="env",
    summary="print versions and hardware, for bug reports",
    usage="[--json] [--prepare]",
    examples=("clearhead env", "clearhead env --prepare"),
    add_options=_add_options,
    run=_run,
)
