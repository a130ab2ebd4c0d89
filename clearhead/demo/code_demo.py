"""`clearhead demo generate`: a language model of Python's own library, scored beside gzip and xz, that writes code."""

import shlex
import time
from pathlib import Path
from typing import Any, cast

from ..api import LanguageModel, load
from ..apps.evaluation import Evaluation
from ..config import DataConfig
from ..config.messages import say
from ..data.forms import TextForm
from . import library
from .demo_folder import DemoFolder, command

LIBRARY = "library"  # the folder of the files, in that of the model
PROMPTS = (
    "def read_lines(path):\n",
    "class Stack:\n    def __init__(self",
    "import os\nimport sys\n\n",
)
CONTINUED: dict[str, Any] = {"chars": 200, "temperature": 0.6, "seed": 0}  # how they are gone on with

# The whole recipe. The shape is fixed, and the number of steps is what the time allows. Three minutes teach a small
# shape most, since it reads more, and ALiBi, since near tokens count for more from the first step on: rotary positions
# need 6% more bits.
SETTINGS: dict[str, Any] = {
    "train.task": "generate",
    "train.budget": "3m",
    "model.d_model": 192,
    "model.n_heads": 6,
    "model.d_ff": 512,
    "model.activation": "swiglu",
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
    """Train, score and let it write, into `out`, where it replaces an earlier such demo.

    The files of the library are in its folder `library`, as JSON lines, in the form that `clearhead train` reads.
    """
    begun = time.monotonic()
    folder = DemoFolder(out, LIBRARY, SETTINGS["data.name"])
    folder.refuse_others()
    root = library.folder()
    training, held_out = library.split(root)
    files = {"train.jsonl": training, "held-out.jsonl": held_out}
    folder.write({name: library.as_json_lines(sources) for name, sources in files.items()})
    say(f"{root}: {len(training):,} files to learn from, {len(held_out):,} held out.\n")
    folder.train(SETTINGS, "train.jsonl", began=begun)
    app = cast(LanguageModel, load(out))
    evaluation = app.evaluate(TextForm().read([str(out / LIBRARY / "held-out.jsonl")], DataConfig()))
    app.save_evaluation(evaluation)
    _report(evaluation, library.packed(training, held_out))
    _examples(app)
    say(f"\n{out} holds the model and evaluation.json (in {time.monotonic() - begun:.0f} seconds).")
    say("Go on with a text of your own:\n")
    say(f'  {shlex.quote(command())} generate {shlex.quote(str(out))} "def main(" --chars 300\n')


def _report(evaluation: Evaluation, packed: library.Packed) -> None:
    """What the model needs for the files that it has not seen, beside what packs any file."""
    print(f"\nBits for each byte of files that it has not seen ({evaluation.scores.characters:,} characters):")
    rows = {
        "this model": evaluation.scores.bits_per_byte,
        "gzip -9": packed.gzip,
        "xz -9": packed.xz,
        "xz -9 that has read the other files, too": packed.xz_after,
    }
    for name, bits in rows.items():
        print(f"  {bits:.3f}  {name}")


def _examples(app: LanguageModel) -> None:
    """Print what it makes of the beginnings."""
    print("\nIts own code, behind the beginnings that it was given:")
    for prompt in PROMPTS:
        lines = app(prompt, **CONTINUED).splitlines()
        print("\n" + "\n".join(f"  {line}".rstrip() for line in lines))
