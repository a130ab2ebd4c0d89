"""`clearhead demo see`: draw digits and shapes, train a classifier, and score it on unseen sizes and tilts of each."""

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..api import Classifier, load
from ..apps.evaluation import Evaluation
from ..config.messages import say
from ..inspection.page.page_data import png
from .demo_folder import DemoFolder, expect
from .drawn_figures import LABELS, Drawings, draw

IMAGES = "images"  # subfolder of the model folder with the drawings
EXPECTED = 0.97  # accuracy on the held-out images, with these settings and this seed
N_TRAINING, N_HELD_OUT = 30_000, 2_000
_SHOWN, _GAP = 12, 2  # images of each figure on a contact sheet, and pixels between two of them

# Every image is drawn with noise, so a small model needs no dropout. In three minutes it learns most at this learning
# rate, which is higher than the default for so many images. At this width bf16 isn't faster than fp32.
SETTINGS: dict[str, Any] = {
    "train.task": "classify",
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 128,
    "model.n_encoder_layers": 3,
    "model.n_decoder_layers": 0,
    "model.patch_size": 4,
    "model.dropout": 0.0,
    "data.split": 0.02,
    "data.batch_tokens": 64 * 49,
    "data.name": "Clearhead's drawings of digits and shapes",
    "data.licence": "MIT, as Clearhead itself",
    "train.label_smoothing": 0.0,
    "train.precision": "fp32",
    "train.steps": 1600,
    "train.lr": 0.01,
    "train.eval_every": 400,
    "train.save_every": 800,
}


def run_see_demo(out: Path) -> None:
    """Draw, train, score and give examples into `out`, replacing an earlier demo.

    The subfolder `images` contains the drawings as arrays, in the format that `clearhead train` reads, and contact
    sheets. Raises TrainingError if the folder contains something else, or the accuracy is below `EXPECTED`.
    """
    folder = DemoFolder(out, IMAGES, SETTINGS)
    training, held_out = draw(N_TRAINING, 0, held_out=False), draw(N_HELD_OUT, 0, held_out=True)
    folder.write(file for name, it in (("train", training), ("held-out", held_out)) for file in _files(name, it))
    say(
        f"{len(training.labels):,} images of {len(LABELS)} digits and shapes to train on and "
        f"{len(held_out.labels):,} held out. Each held-out image has a size and a tilt that this figure never has "
        f"together in training. {out / IMAGES}/train.png shows some.\n"
    )
    folder.train("train.npy", "train.txt")
    app = cast(Classifier, load(out))
    evaluation = app.evaluate([folder.path("held-out.npy"), folder.path("held-out.txt")])
    app.save_evaluation(evaluation)
    _report(evaluation)
    folder.say_done()
    say("Label some images, or look at what the model attends to:\n")
    first, second = (f"{folder.path('held-out.npy')}#{number}" for number in range(2))
    say(f"  {folder.command('classify', first, second)}\n  {folder.command('explain', first)}\n")
    expect("accuracy", evaluation.scores.scores.accuracy.mean, EXPECTED)


def _files(name: str, drawings: Drawings) -> Iterator[tuple[str, bytes]]:
    """Yield an array of images, a text file with a label for each, and a contact sheet with a row for each figure."""
    array = io.BytesIO()
    np.save(array, drawings.images)
    yield f"{name}.npy", array.getvalue()
    yield f"{name}.txt", "".join(f"{label}\n" for label in drawings.labels).encode()
    labels = np.array(drawings.labels)
    rows = [drawings.images[np.flatnonzero(labels == label)[:_SHOWN]] for label in LABELS]
    yield f"{name}.png", contact_sheet([row for row in rows if len(row) == _SHOWN] or [drawings.images[:_SHOWN]])


def _report(evaluation: Evaluation) -> None:
    scores = evaluation.scores.scores
    print(f"\nScores on {len(evaluation.sources):,} images with unseen combinations of figure, size and tilt:")
    print(f"  accuracy {scores.accuracy.mean:.4f}   (expected: at least {EXPECTED})")
    pairs = zip(evaluation.answers, evaluation.references, evaluation.sources)
    wrong = [(right[0], answer, source) for answer, right, source in pairs if answer not in right]
    if wrong:
        print("\nIts most frequent mistakes:")
    for (right, answer), count in Counter((right, answer) for right, answer, _ in wrong).most_common(5):
        first = next(source for *labels, source in wrong if labels == [right, answer])
        print(f"  {count:>3} x {right} labelled as {answer}, such as {first}")


def contact_sheet(rows: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return a PNG file with rows of images of one size: each row is (N, H, W)."""
    edge = ((0, 0), (0, _GAP), (0, _GAP))
    strips = [np.concatenate(list(np.pad(row, edge, constant_values=255)), 1) for row in rows]
    return png(np.concatenate(strips)[:-_GAP, :-_GAP, None])
