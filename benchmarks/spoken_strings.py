"""Train a model that speaks strings of digits, let a transcriber listen to it, and print a table of error rates.

    python benchmarks/spoken_strings.py $CLEARHEAD_DATA/fsdd/train-wav.tar.xz runs/speak

The data is the Free Spoken Digit Dataset, as in benchmarks/spoken.py: 3 to 7 digits of one speaker joined with short
pauses. The speaking model learns from recordings 10 to 29 of each speaker, and its texts begin with the speaker's name.
The transcriber learns from recordings 30 to 49 with the recipe spoken-strings; `--listener DIR` names one that was
trained before. None of the scored strings is in the training data of the speaking model.

real        recordings of the strings, from recordings 5 to 9
codes       the same after the codebook and Griffin-Lim: the best that a model could do
greedy ...  what the model speaks, by settings of the search

Further options are settings for both models' training, such as `--train.steps=20`.
"""

import argparse
import csv
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from spoken import N_STRINGS, Recording, recordings, write_strings

import clearhead
from clearhead.apps.translator import Speaker, Transcriber
from clearhead.config import Config
from clearhead.config.values import read_toml
from clearhead.readers.media.audio import read_audio
from clearhead.scoring.speech_scores import error_rates

SPOKEN, HEARD, REFERENCE = (10, 29), (30, 49), (5, 9)  # the recordings of each speaker, first and last
SEARCHES = {
    "greedy": {"beam": 1},
    "beam 4": {"beam": 4},
    "top-p 0.8": {"sample": True, "top_p": 0.8},
    "top-p 0.5": {"sample": True, "top_p": 0.5},
}


def rows_of(table: Path) -> list[tuple[Path, str]]:
    """Return the paths and texts of a table that `write_strings` wrote."""
    with table.open(newline="") as file:
        return [(table.parent / path, text) for path, text in csv.reader(file) if path != "path"]


def strings(folder: Path, spoken: Sequence[Recording], part: str, without: frozenset[str] = frozenset()) -> Path:
    """Write strings of each speaker, with texts that begin with the speaker's name, such as "theo 357"."""
    found = []
    for speaker in sorted({it.speaker for it in spoken}):
        own = [it for it in spoken if it.speaker == speaker]
        table = write_strings(folder / part / speaker, own, N_STRINGS[part] // 6, f"{part} {speaker}")
        found += [
            (str(path.relative_to(folder / part)), f"{speaker} {it}")
            for path, it in rows_of(table)
            if it not in without
        ]
    table = folder / part / "strings.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "text"), *found])
    return table


def trained(config: str, train: Path, valid: Path, out: Path, options: Sequence[str]) -> float:
    """Train a model, and return the minutes that it took."""
    values: dict[str, object] = {"data.train": (str(train),), "data.valid": (str(valid),)}
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        values[name] = value
    began = time.monotonic()
    settings = Config.from_dict(read_toml(Path(config)), source=config)
    clearhead.train(settings.override(values, source="options"), out, replace=True)
    return (time.monotonic() - began) / 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--listener", type=Path, help="a transcriber of strings of digits")
    options, more = parser.parse_known_args()
    every, data = list(recordings(options.archive)), options.out / "data"

    def numbered(ends: tuple[int, int]) -> list[Recording]:
        return [it for it in every if ends[0] <= it.number <= ends[1]]

    test = strings(data, numbered(REFERENCE), "test")
    names, texts = zip(*rows_of(test))
    digits = [text.split()[1] for text in texts]
    apart = frozenset(digits)
    train, valid = (strings(data, numbered(SPOKEN), part, apart) for part in ("train", "valid"))
    minutes = trained("speak-strings", train, valid, options.out / "model", more)
    if (listener := options.listener) is None:
        listener, heard = options.out / "listener", options.out / "heard"
        parts = (write_strings(heard / part, numbered(HEARD), N_STRINGS[part], part) for part in ("train", "valid"))
        trained("spoken-strings", *parts, listener, more)
    app, ear = clearhead.load(options.out / "model"), clearhead.load(listener)
    assert isinstance(app, Speaker) and isinstance(ear, Transcriber)
    codebook = app.task.codebook
    real = [read_audio(name, codebook.sample_rate)[0] for name in names]
    size = sum(it.numel() for it in app.model.parameters())
    print(f"{size:,} parameters, {codebook.vocab_size:,} codes, {minutes:.1f} minutes of training\n")
    print("| sound | CER | exactly right | seconds | real-time factor |\n|---|---|---|---|---|")

    def show(name: str, sounds: Sequence[np.ndarray], taken: float) -> None:
        found = ear([(it, codebook.sample_rate) for it in sounds])
        _, cer = error_rates(found, digits)
        right, seconds = np.mean([a == b for a, b in zip(found, digits)]), sum(map(len, sounds)) / codebook.sample_rate
        factor = f"{taken / seconds:.3f}" if taken else ""
        rate = f"{cer.rate:.4f} ({cer.low:.4f} to {cer.high:.4f})"
        print(f"| {name} | {rate} | {right:.4f} | {seconds:,.0f} | {factor} |", flush=True)

    show("real", real, 0.0)
    show("codes", [codebook.samples(codebook.codes(it)) for it in real], 0.0)
    for name, search in SEARCHES.items():
        began = time.monotonic()
        sounds = [samples for samples, _ in app(texts, **search)]
        show(name, sounds, time.monotonic() - began)


if __name__ == "__main__":
    main()
