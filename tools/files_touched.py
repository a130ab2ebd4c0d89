"""List the files of the package whose code runs in one training step and in one call of a translator.

    python -m tools.files_touched

It trains a small translator with the default settings, and watches one step of the training loop, without evaluations
and checkpoints. Then it loads the model, and watches the second call with a text. The fewer files, the less there is to
read for someone who follows a step or a call.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import clearhead

PACKAGE = Path(clearhead.__file__).parent
STEPS, WATCHED = 8, 5  # the watched step begins after the callback of step WATCHED
PAIRS = [(f"the {a} dog sees {n} cats", f"le chien {a} voit {n} chats") for a in ("red", "old") for n in range(400)]


@contextmanager
def touched() -> Iterator[set[str]]:
    """Collect the files of the package with a function that is called inside the `with` block, in this thread."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := Path(frame.f_code.co_filename)).is_relative_to(PACKAGE):
            files.add(str(file.relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


def touched_by_step(out: Path) -> set[str]:
    """Train a model, and return the files that one step touches."""
    files: set[str] = set()

    def on_step(record: dict[str, Any]) -> None:
        nonlocal files
        if record["step"] == WATCHED:
            files = watch.enter_context(touched())
        elif record["step"] == WATCHED + 1:
            watch.close()

    settings = {"train.task": "translate", "train.steps": STEPS, "train.eval_every": STEPS, "data.vocab_size": 280}
    with ExitStack() as watch:
        clearhead.train(clearhead.Config().override(settings), out, data=PAIRS, on_step=on_step)
    return files


def touched_by_call(app: Callable[[str], object]) -> set[str]:
    """Return the files that a call of an app touches when it isn't the first one."""
    app("the red dog sees 3 cats")
    with touched() as files:
        app("the old dog sees 5 cats")
    return files


def main() -> None:
    """Print both lists."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "model"
        lists = {"one training step": touched_by_step(out), "one app(text)": touched_by_call(clearhead.load(out))}
    for what, files in lists.items():
        print(f"{what}: {len(files)} files")
        for name in sorted(files):
            print(f"  {name}")


if __name__ == "__main__":
    main()
