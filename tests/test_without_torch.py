"""What answers a text imports without torch, so that an engine that needs none can start in a fraction of a second."""

import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "clearhead"
# Folders, whose files all count, and single files.
WITHOUT = [
    "errors.py",
    "config",
    "tokenization",
    "readers",
    "data",
    "scoring",
    "decode/*.py",
    "decode/engines/loops",
    "tasks",
    "serving",
]
TORCH = {  # training and embeddings
    *("tasks/loss.py", "tasks/denoise.py"),
    *("tasks/embed.py", "tasks/fill/task.py"),
}

SCRIPT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    if "torch" in sys.modules:
        sys.exit(f"{name} imports torch")
"""


def modules(path: str) -> list[str]:
    files = sorted((PACKAGE / path).rglob("*.py") if (PACKAGE / path).is_dir() else PACKAGE.glob(path))
    assert files, f"{path} names nothing"
    light = [it for it in files if it.name != "views.py" and it.relative_to(PACKAGE).as_posix() not in TORCH]
    return [".".join(("clearhead", *it.relative_to(PACKAGE).with_suffix("").parts)) for it in light]


def test_these_modules_import_without_torch() -> None:
    names = [name.removesuffix(".__init__") for path in WITHOUT for name in modules(path)]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
