"""`clearhead demo generate`: train a language model on Python's standard library and compare it with gzip and xz."""

import gzip
import hashlib
import json
import lzma
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..api import LanguageModel, load
from ..apps.evaluation import Evaluation
from ..config import DataConfig
from ..config.messages import say
from ..data.forms import TextForm
from ..errors import DataError
from .demo_folder import DemoFolder

LIBRARY = "library"  # subfolder of the model folder with the source files
PROMPTS = ("def read_lines(path):\n", "class Stack:\n    def __init__(self", "import os\nimport sys\n\n")
CONTINUED: dict[str, Any] = {"chars": 200, "temperature": 0.6, "seed": 0}  # decoding settings of the examples

# The shape is fixed, and the budget determines the number of steps. In three minutes, a small model learns most because
# it reads more text. ALiBi prefers nearby tokens from the first step on; rotary positions need 6% more bits.
SETTINGS: dict[str, Any] = {
    "train.task": "generate",
    "train.budget": "3m",
    "model.d_model": 192,
    "model.n_heads": 6,
    "model.d_ff": 512,
    "model.feed_forward": "swiglu",
    "model.tie": "none",
    "model.n_encoder_layers": 0,
    "model.n_decoder_layers": 2,
    "model.positions": "alibi",
    "model.pre_norm": True,
    "model.topology": "decoder-only",
    "data.tokenizer": "bpe",
    "data.vocab_size": 4000,
    "data.max_len": 256,
    "data.split": 0.01,
    "data.batch_tokens": 4096,
    "data.name": "the source of Python's standard library",
    "data.source": "the Python that trained it",
    "data.licence": "Python Software Foundation License",
    "train.optimizer": "muon",
    "train.weight_decay": 0.1,
}
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


def library_folder() -> Path:
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


def run_code_demo(out: Path) -> None:
    """Train, score and generate into `out`, replacing an earlier demo, or raise TrainingError if it's something else.

    The subfolder `library` contains the source files as JSON Lines, in the format that `clearhead train` reads.
    """
    folder = DemoFolder(out, LIBRARY, SETTINGS)
    root = library_folder()
    training, held_out = split(root)
    files = {"train.jsonl": training, "held-out.jsonl": held_out}
    folder.write((name, as_json_lines(sources)) for name, sources in files.items())
    say(f"{root} has {len(training):,} files to train on and {len(held_out):,} held out.\n")
    folder.train("train.jsonl")
    app = cast(LanguageModel, load(out))
    evaluation = app.evaluate(TextForm().read([folder.path("held-out.jsonl")], DataConfig()))
    app.save_evaluation(evaluation)
    _report(evaluation, packed(training, held_out))
    _examples(app)
    folder.say_done()
    say("Try a text of your own:\n")
    say(f'  {folder.command("generate")} "def main(" --chars 300\n')


def _report(evaluation: Evaluation, sizes: Packed) -> None:
    """Print the bits per byte that the model and general compressors need for the held-out files."""
    print(f"\nBits per byte of unseen files ({evaluation.scores.characters:,} characters):")
    rows = {
        "this model": evaluation.scores.bits_per_byte,
        "gzip -9": sizes.gzip,
        "xz -9": sizes.xz,
        "xz -9, primed with the training files": sizes.xz_after,
    }
    for name, bits in rows.items():
        print(f"  {bits:.3f}  {name}")


def _examples(app: LanguageModel) -> None:
    """Print a continuation of each prompt."""
    print("\nCode that the model wrote after each prompt:")
    for prompt in PROMPTS:
        lines = app(prompt, **CONTINUED).splitlines()
        print("\n" + "\n".join(f"  {line}".rstrip() for line in lines))
