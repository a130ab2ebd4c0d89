"""`clearhead demo hear`: synthesise telephone keys, train a transcriber, and score it on unseen strings of keys."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from ..api import load
from ..apps.evaluation import Evaluation
from ..apps.translator import Transcriber
from ..config import NEWEST
from ..config.messages import say
from .demo_folder import DemoFolder, expect
from .touch_tones import recordings, strings

RECORDINGS = "keys"  # subfolder of the model folder with the recordings
EXPECTED = 0.99  # exact match on the held-out strings at 10 dB, with these settings and this seed
NOISE = (5.0, 30.0)  # signal-to-noise ratio in training, in dB
HELD_OUT = {10: 500, 20: 200, 5: 200, 0: 200}  # recordings at each signal-to-noise ratio; the first is the one expected
N_TRAINING, REPEATS = 6_000, 0.3  # repeated keys are the hardest to count, so training has more than held-out strings

# Almost no augmentation: at another speed a key sounds like its neighbour, and a mask hides keys. At this width bf16 is
# slower than fp32. The last weights count repeated keys better than those with the lowest loss on 120 recordings.
SETTINGS: dict[str, Any] = {
    "train.task": "transcribe",
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 128,
    "model.n_encoder_layers": 2,
    "model.n_decoder_layers": 2,
    "model.dropout": 0.05,
    "model.augment": ("speed=0.02",),
    "data.max_len": 100,
    "data.split": 0.02,
    "data.batch_tokens": 2048,
    "data.name": "Clearhead's telephone keys",
    "data.licence": "MIT, as Clearhead itself",
    "train.label_smoothing": 0.0,
    "train.precision": "fp32",
    "train.steps": 2000,
    "train.lr": 0.005,
    "train.best": NEWEST,
    "train.eval_every": 500,
    "train.save_every": 1000,
}


def run_hear_demo(out: Path) -> None:
    """Make recordings, train, score and transcribe into `out`, replacing an earlier demo.

    The subfolder `keys` contains the recordings as WAV files, and tables in the format that `clearhead train` reads.
    Raises TrainingError if the folder contains something else, or the exact match at 10 dB is below `EXPECTED`.
    """
    folder = DemoFolder(out, RECORDINGS, SETTINGS)
    held_out = strings(max(HELD_OUT.values()), seed=0)
    training = strings(N_TRAINING, seed=1, repeats=REPEATS, without=held_out)
    folder.write(_files(training, held_out))
    say(
        f"{len(training):,} recordings of telephone keys to train on, and {len(held_out):,} held-out strings of keys, "
        f"which never occur in training. Listen to those in {out / RECORDINGS}.\n"
    )
    folder.train("train.csv")
    app = cast(Transcriber, load(out))
    evaluations = {noise: app.evaluate(folder.path(f"{_name(noise)}.csv")) for noise in HELD_OUT}
    first = next(iter(HELD_OUT))
    app.save_evaluation(evaluations[first])
    _report(evaluations)
    _examples(evaluations[min(HELD_OUT)])
    folder.say_done()
    say("Transcribe some recordings, or look at what the model attends to:\n")
    one, two = (folder.path(f"{_name(first)}/000{number}.wav") for number in range(2))
    say(f"  {folder.command('transcribe', one, two)}\n  {folder.command('explain', one)}\n")
    expect("exact match", evaluations[first].scores.exact_match, EXPECTED)


def _name(noise: int) -> str:
    return f"held-out-{noise}dB"


def _files(training: Sequence[str], held_out: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield all recordings, and a table of paths and keys for each part."""
    yield from _part("train", training, 0, NOISE)
    for noise, count in HELD_OUT.items():
        yield from _part(_name(noise), held_out[:count], 1 + noise, (noise, noise))


def _part(name: str, texts: Sequence[str], seed: int, noise: tuple[float, float]) -> Iterator[tuple[str, bytes]]:
    rows = ["path,text"]
    for number, (text, recording) in enumerate(zip(texts, recordings(texts, seed, noise))):
        path = f"{name}/{number:04}.wav"
        rows.append(f"{path},{text}")
        yield path, recording
    yield f"{name}.csv", "".join(f"{row}\n" for row in rows).encode()


def _report(evaluations: dict[int, Evaluation]) -> None:
    print("\nStrings of 3 to 10 keys that it never heard, written down without a mistake:")
    for noise, evaluation in evaluations.items():
        expected = f"   (expected: at least {EXPECTED})" if noise == next(iter(HELD_OUT)) else ""
        scores = evaluation.scores
        print(f"  {scores.exact_match:.4f}  of {len(evaluation.answers)} at {noise:>2} dB{expected}")
    print("(dB: power of a tone, compared with the white noise)")


def _examples(evaluation: Evaluation) -> None:
    """Print some transcripts in the loudest noise, and the keys."""
    print("\nFor example, in the loudest noise:")
    for source, answer, keys in list(zip(evaluation.sources, evaluation.answers, evaluation.references))[:5]:
        print(f"  {source}  {answer:<10}  {'right' if answer in keys else f'the keys were {keys[0]}'}")
