"""`clearhead demo translate`: a translator of the embedded phrasebook, scored on what it has not seen, looked into."""

import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..api import Translator, load
from ..apps.evaluation import Evaluation
from ..config import preset
from ..config.messages import say
from ..errors import ConfigError, TrainingError
from ..pictures.figures import attention_heatmap
from ..readers.pairs import read_pairs
from .demo_folder import DemoFolder, command
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
    folder = DemoFolder(out, PHRASES, SETTINGS["data.name"])
    folder.refuse_others()
    training, held_out = split()
    folder.write({"train.tsv": _lines(training), "held-out.tsv": _lines(held_out)})
    say(
        f"The phrasebook: {len(training):,} English-French sentences to learn from, {len(held_out):,} held out, "
        "each with two words that never stand together in training.\n"
    )
    folder.train(SETTINGS, "train.tsv")
    app = cast(Translator, load(out))
    evaluation = app.evaluate(read_pairs([out / PHRASES / "held-out.tsv"]))
    app.save_evaluation(evaluation)
    _report(evaluation)
    example = _examples(app, evaluation)
    _draw_attention(app, example, out / PICTURES[1])
    seconds = time.monotonic() - begun
    pictures = "".join(f", {name}" for name in PICTURES if (out / name).exists())
    say(f"\n{out} holds the model, evaluation.json{pictures} (in {seconds:.0f} seconds).")
    say("The words that it knows are in words.txt. Go on with a sentence of your own:\n")
    say(f'  {shlex.quote(command())} translate {shlex.quote(str(out))} "{example}"\n')
    if evaluation.scores.exact_match < EXPECTED:
        raise TrainingError(
            f"exact match is {evaluation.scores.exact_match:.4f}; expected at least {EXPECTED} on every machine: "
            "please report this with the lines above"
        )


def _lines(phrases: Sequence[Phrase]) -> bytes:
    return "".join(f"{phrase.english}\t{phrase.french}\n" for phrase in phrases).encode()


def _report(evaluation: Evaluation) -> None:
    scores = evaluation.scores
    print(f"\nOn {scores.sentences:,} sentences whose combination of words it has never seen:")
    print(f"  exact match {scores.exact_match:.4f}   (expected: at least {EXPECTED})")
    print(f"  BLEU {scores.bleu:.2f}   chrF {scores.chrf:.2f}")


def _examples(app: Translator, evaluation: Evaluation) -> str:
    """Print some held-out sentences in the model's own words; the longest of them is drawn."""
    every = max(len(evaluation.sources) // 6, 1)
    chosen = evaluation.sources[::every][:6]
    print("\nFor example:")
    for text, translation in zip(chosen, app(chosen)):
        print(f"  {text}\n    {translation}")
    return max(chosen, key=lambda text: len(text.split()))


def _draw_attention(app: Translator, text: str, path: Path) -> None:
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
