"""`clearhead demo generate`: train a language model on Python's standard library and compare it with gzip and xz."""

from pathlib import Path
from typing import Any, cast

from ..api import LanguageModel, load
from ..apps.evaluation import Evaluation
from ..config import DataConfig
from ..config.messages import say
from ..data.forms import TextForm
from . import library
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


def run_code_demo(out: Path) -> None:
    """Train, score and generate into `out`, replacing an earlier demo, or raise TrainingError if it's something else.

    The subfolder `library` contains the source files as JSON Lines, in the format that `clearhead train` reads.
    """
    folder = DemoFolder(out, LIBRARY, SETTINGS)
    root = library.folder()
    training, held_out = library.split(root)
    files = {"train.jsonl": training, "held-out.jsonl": held_out}
    folder.write((name, library.as_json_lines(sources)) for name, sources in files.items())
    say(f"{root} has {len(training):,} files to train on and {len(held_out):,} held out.\n")
    folder.train("train.jsonl")
    app = cast(LanguageModel, load(out))
    evaluation = app.evaluate(TextForm().read([folder.path("held-out.jsonl")], DataConfig()))
    app.save_evaluation(evaluation)
    _report(evaluation, library.packed(training, held_out))
    _examples(app)
    folder.say_done()
    say("Try a text of your own:\n")
    say(f'  {folder.command("generate")} "def main(" --chars 300\n')


def _report(evaluation: Evaluation, packed: library.Packed) -> None:
    """Print the bits per byte that the model and general compressors need for the held-out files."""
    print(f"\nBits per byte of unseen files ({evaluation.scores.characters:,} characters):")
    rows = {
        "this model": evaluation.scores.bits_per_byte,
        "gzip -9": packed.gzip,
        "xz -9": packed.xz,
        "xz -9, primed with the training files": packed.xz_after,
    }
    for name, bits in rows.items():
        print(f"  {bits:.3f}  {name}")


def _examples(app: LanguageModel) -> None:
    """Print a continuation of each prompt."""
    print("\nCode that the model wrote after each prompt:")
    for prompt in PROMPTS:
        lines = app(prompt, **CONTINUED).splitlines()
        print("\n" + "\n".join(f"  {line}".rstrip() for line in lines))
