"""`clearhead demo`: train a translator on the embedded phrasebook, score it on what it has not seen, look inside."""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..app import App, load, train
from ..config import Config, preset
from ..errors import ConfigError, ModelError, TrainingError
from ..evaluation import Evaluation
from ..figures import attention_heatmap
from ..messages import say
from ..storage import write_file, writing
from ..text.sources import read_pairs
from ..training.checkpoint import RunFolder
from ..training.manifest import MANIFEST
from ..training.model_folder import read_config
from ..training.signals import StoppedError
from .phrasebook import Phrase, split

PHRASES = "phrasebook"  # the folder of the phrases, in that of the model
PICTURES = ("loss.png", "attention.png")
EXPECTED = 0.98  # of the held-out sentences word for word, with these settings and seed

# No label smoothing: a phrase of the book has one right translation, and no doubt about it is to be learnt.
SETTINGS = preset("nano") | {
    "model.dropout": 0.05,
    "data.tokenizer": "word",
    "data.joint": False,
    "data.split": 0.01,
    "data.batch_tokens": 2048,
    "data.name": "Clearhead's embedded phrasebook",
    "data.licence": "MIT, as Clearhead itself",
    "train.optimizer": "muon",
    "train.label_smoothing": 0.0,
    "train.steps": 1150,
    "train.lr": 0.006,
    "train.warmup": 100,
    "train.schedule": "linear",
    "train.eval_every": 230,
    "train.eval_sentences": 200,
    "train.save_every": 650,
}


def run_demo(out: Path) -> None:
    """Train, score, translate and draw into `out`, where it replaces an earlier demo.

    The phrases are in its folder `phrasebook`, in the form that `clearhead train` reads.
    """
    begun = time.monotonic()
    _refuse_others(out)
    data = out / PHRASES
    training, held_out = split()
    _write_phrases(out, {"train.tsv": training, "held-out.tsv": held_out})
    say(
        f"The phrasebook: {len(training):,} English-French sentences to learn from, {len(held_out):,} held out, "
        "each with two words that never stand together in training.\n"
    )
    config = Config().override(SETTINGS | {"data.train": (str(data / "train.tsv"),)})
    try:
        train(config, out, replace=True)
    except StoppedError as error:
        raise StoppedError("stopped; the same command begins the demo anew", error.exit_code) from error
    app = load(out)
    evaluation = app.evaluate(read_pairs([data / "held-out.tsv"]))
    app.save_evaluation(evaluation)
    _report(evaluation)
    example = _examples(app, evaluation)
    _draw_attention(app, example, out / PICTURES[1])
    seconds = time.monotonic() - begun
    pictures = "".join(f", {name}" for name in PICTURES if (out / name).exists())
    say(f"\n{out} holds the model, evaluation.json{pictures} (in {seconds:.0f} seconds).")
    say("The words that it knows are in words.txt. Go on with a sentence of your own:\n")
    say(f'  {shlex.quote(_command())} translate {shlex.quote(str(out))} "{example}"\n')
    if evaluation.scores.exact_match < EXPECTED:
        raise TrainingError(
            f"exact match is {evaluation.scores.exact_match:.4f}; expected at least {EXPECTED} on every machine: "
            "please report this with the lines above"
        )


def _refuse_others(out: Path) -> None:
    """Raise TrainingError where `out` holds something else than an earlier demo, or one that was ended early."""
    if not out.is_dir():  # a file is refused by whoever makes the folder
        return
    names = {it.name for it in out.iterdir() if not it.name.startswith(".")}
    if not names or names in ({MANIFEST}, {MANIFEST, PHRASES}):  # nothing, or a demo that had not begun to train
        return
    try:
        ours = read_config(out).data.name == SETTINGS["data.name"]
    except ModelError:
        ours = False
    if not ours:
        raise TrainingError(f"{out} holds something else than an earlier demo; give another folder with --out")


def _write_phrases(out: Path, files: Mapping[str, Sequence[Phrase]]) -> None:
    """Write the phrases into the folder `out`, which this makes or takes over, and in which nobody may be at work.

    The model of an earlier demo stays until training begins to replace it.
    """
    with RunFolder.create(out, replace=True) as folder, writing(out):
        folder.write_files({})  # nothing but a manifest, by which the folder is a run's
        (out / PHRASES).mkdir(exist_ok=True)
        for name, phrases in files.items():
            lines = "".join(f"{phrase.english}\t{phrase.french}\n" for phrase in phrases)
            write_file(out / PHRASES / name, lines.encode())


def _report(evaluation: Evaluation) -> None:
    scores = evaluation.scores
    print(f"\nOn {scores.sentences:,} sentences whose combination of words it has never seen:")
    print(f"  exact match {scores.exact_match:.4f}   (expected: at least {EXPECTED})")
    print(f"  BLEU {scores.bleu:.2f}   chrF {scores.chrf:.2f}")


def _examples(app: App, evaluation: Evaluation) -> str:
    """Print some held-out sentences in the model's own words; the longest of them is drawn."""
    every = max(len(evaluation.sources) // 6, 1)
    chosen = evaluation.sources[::every][:6]
    print("\nFor example:")
    for text, translation in zip(chosen, app(chosen)):
        print(f"  {text}\n    {translation}")
    return max(chosen, key=lambda text: len(text.split()))


def _draw_attention(app: App, text: str, path: Path) -> None:
    """Where each French word looked, in the last decoder layer, while the answer was read back to the model.

    Without matplotlib there is no picture, as there is none of the loss, and that is no reason to fail.
    """
    explanation, last = app.explain(text), app.config.model.n_decoder_layers - 1
    rows, columns = explanation.axes("decoder.cross")
    weights = explanation.weights("decoder.cross", last).numpy(force=True)
    try:
        attention_heatmap(weights, columns, rows, path, f"Attention to the source, layer {last}")
    except ConfigError as error:
        say(f"no picture of the attention: {error}")


def _command() -> str:
    """How this program was called, so that the reader can call it again."""
    called = Path(sys.argv[0])
    return str(called) if called.name == "clearhead" and called.exists() else "clearhead"
