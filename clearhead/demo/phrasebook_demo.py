"""`clearhead demo translate`: train a translator on the embedded phrasebook, and score it on unseen sentences."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from ..api import Translator, load
from ..apps.evaluation import Evaluation
from ..apps.pages import write_page
from ..config import preset
from ..config.messages import say
from ..errors import ConfigError
from ..pictures.figures import attention_heatmap
from ..readers.pairs import read_pairs
from .demo_folder import DemoFolder, expect
from .phrasebook import Phrase, everyday, split

PHRASES = "phrasebook"  # subfolder of the model folder with the sentences
PICTURES = ("loss.png", "attention.png")
PAGE = "demo.html"
WATCHED = "The black cat is sleeping."  # the sentence of the film and the page
REPEATS = 24  # copies of each everyday sentence in the training data, which is enough to learn them
VALIDATED = 100  # one in this many of the other training sentences is used for validation
EXPECTED = 0.98  # exact match on the held-out sentences, with these settings and this seed

# No label smoothing: each sentence has exactly one correct translation. With one thread and fp32, runs on the same kind
# of processor end with the same weights, bit for bit; two threads would hardly be faster.
SETTINGS = preset("nano") | {
    "model.dropout": 0.05,
    "data.tokenizer": "word",
    "data.joint": False,
    "data.batch_tokens": 2048,
    "data.name": "Clearhead's embedded phrasebook",
    "data.licence": "MIT, as Clearhead itself",
    "train.threads": 1,
    "train.precision": "fp32",
    "train.optimizer": "muon",
    "train.label_smoothing": 0.0,
    "train.steps": 1300,
    "train.lr": 0.006,
    "train.warmup": 100,
    "train.schedule": "linear",
    "train.eval_every": 260,
    "train.eval_sentences": 200,
    "train.save_every": 650,
    "train.watch": WATCHED,
}


def run_demo(out: Path) -> None:
    """Train, score, translate and draw into `out`, replacing an earlier demo.

    The subfolder `phrasebook` contains the sentences, in the format that `clearhead train` reads.
    Raises TrainingError if the folder contains something else, or the exact match is below `EXPECTED`.
    """
    folder = DemoFolder(out, PHRASES, SETTINGS)
    training, held_out = split()
    validation = training[::VALIDATED]
    rest = [phrase for at, phrase in enumerate(training) if at % VALIDATED]
    parts = {"train.tsv": rest + everyday() * REPEATS, "valid.tsv": validation, "held-out.tsv": held_out}
    folder.write((name, _lines(part)) for name, part in parts.items())
    say(
        f"The phrasebook has {len(training):,} English-French sentences to train on and {len(held_out):,} held out. "
        "Each held-out sentence combines two words that never occur together in training.\n"
        "Training also includes greetings and other everyday sentences.\n"
    )
    folder.train("train.tsv", valid="valid.tsv")
    app = cast(Translator, load(out))
    evaluation = app.evaluate(read_pairs([folder.path("held-out.tsv")]))
    app.save_evaluation(evaluation)
    _report(evaluation)
    example = _examples(app, evaluation)
    _draw_attention(app, example, out / PICTURES[1])
    write_page(app.loaded, app.explain(WATCHED), out / PAGE, folder.command("explain", WATCHED, "--html", PAGE))
    folder.say_done(", ".join(["the model", "evaluation.json", *(it for it in PICTURES if (out / it).exists())]))
    say("words.txt lists the words it knows. Try your own sentence:\n")
    say(f'  {folder.command("translate")} "{example}"\n')
    say(f"Open this page to see through the model, head by head:\n\n  {(out / PAGE).resolve().as_uri()}\n")
    expect("exact match", evaluation.scores.exact_match, EXPECTED)


def _lines(phrases: Sequence[Phrase]) -> bytes:
    return "".join(f"{phrase.english}\t{phrase.french}\n" for phrase in phrases).encode()


def _report(evaluation: Evaluation) -> None:
    scores = evaluation.scores
    print(f"\nScores on {scores.sentences:,} sentences with unseen combinations of words:")
    print(f"  exact match {scores.exact_match:.4f}   (expected: at least {EXPECTED})")
    print(f"  BLEU {scores.bleu:.2f}   chrF {scores.chrf:.2f}")


def _examples(app: Translator, evaluation: Evaluation) -> str:
    """Print translations of some held-out sentences, and return the longest source."""
    every = max(len(evaluation.sources) // 6, 1)
    chosen = evaluation.sources[::every][:6]
    print("\nFor example:")
    for text, translation in zip(chosen, app(chosen)):
        print(f"  {text}\n    {translation}")
    return max(chosen, key=lambda text: len(text.split()))


def _draw_attention(app: Translator, text: str, path: Path) -> None:
    """Draw the attention of each French word in the last decoder layer. Without matplotlib, print a message instead."""
    explanation, last = app.explain(text), app.config.model.n_decoder_layers - 1
    rows, columns = explanation.axes("decoder.cross")
    weights = explanation.weights("decoder.cross", last).numpy(force=True)
    try:
        attention_heatmap(weights, columns, rows, path, f"Attention to the source, layer {last}")
    except ConfigError as error:
        say(f"no attention picture: {error}")
