"""`clearhead demo speak`: synthesise telephone keys, train a model that speaks them, and listen to unseen strings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..api import load
from ..apps.translator import Speaker
from ..config.messages import say
from .demo_folder import DemoFolder, expect
from .touch_tones import heard, press, strings, wav

RECORDINGS = "keys"  # subfolder of the model folder with the recordings
EXPECTED = 0.95  # exact match on the held-out strings, with these settings and this seed
N_TRAINING, N_HELD_OUT = 6_000, 100

SETTINGS: dict[str, Any] = {
    "train.task": "speak",
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 128,
    "model.n_encoder_layers": 2,
    "model.n_decoder_layers": 2,
    "model.n_mels": 64,
    "model.dropout": 0.0,
    "model.pre_norm": True,
    "data.max_len": 100,
    "data.vocab_size": 256,
    "data.split": 0.02,
    "data.batch_tokens": 2048,
    "data.name": "Clearhead's telephone keys",
    "data.licence": "MIT, as Clearhead itself",
    "decode.beam": 1,
    "train.label_smoothing": 0.0,
    "train.precision": "fp32",
    "train.steps": 400,
    "train.lr": 0.005,
    "train.eval_every": 200,
    "train.save_every": 200,
}


def run_speak_demo(out: Path) -> None:
    """Make recordings, train, and speak into `out`, replacing an earlier demo.

    The subfolder `keys` contains the recordings as WAV files, a table in the format that `clearhead train` reads, and
    what the model speaks. Raises TrainingError if the folder contains something else, or if the tones are those of the
    text less often than `EXPECTED`.
    """
    folder = DemoFolder(out, RECORDINGS, SETTINGS)
    held_out = strings(N_HELD_OUT, seed=0)
    training = strings(N_TRAINING, seed=1, without=held_out)
    folder.write(_files(training))
    say(
        f"{len(training):,} recordings of telephone keys to train on, and {len(held_out):,} held-out strings of keys, "
        f"which never occur in training. Listen to those in {out / RECORDINGS}.\n"
    )
    folder.train("train.csv")
    app = cast(Speaker, load(out))
    spoken = [samples for samples, _ in app(held_out)]
    found = list(map(heard, spoken))
    rate = float(np.mean([one == other for one, other in zip(found, held_out)]))
    print("\nStrings of 3 to 10 keys that it never heard, spoken without a wrong tone:")
    print(f"  {rate:.4f}  of {len(held_out)}   (expected: at least {EXPECTED})")
    print("\nFor example, with the keys that formulas find in the sound:")
    for text, keys, samples in list(zip(held_out, found, spoken))[:5]:
        path = Path(folder.path(f"spoken-{text.replace('*', 'x')}.wav"))
        path.write_bytes(wav(samples / 32768))
        print(f"  {text:<10}  {keys:<10}  {path}")
    folder.say_done("the model")
    say("Let it speak other keys, or look at which key each sound comes from:\n")
    say(f"  {folder.command('speak', '357A', '--out', 'spoken.wav')}")
    say(f"  {folder.command('explain', '357A', '--alignment')}\n")
    expect("exact match", rate, EXPECTED)


def _files(texts: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield a recording of each text, and a table of texts and paths."""
    rows = ["text,path"]
    for number, text in enumerate(texts):
        path = f"train/{number:04}.wav"
        rows.append(f"{text},{path}")
        yield path, wav(press(text))
    yield "train.csv", "".join(f"{row}\n" for row in rows).encode()
