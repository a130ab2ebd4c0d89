"""Prepare the Free Spoken Digit Dataset (https://github.com/Jakobovski/free-spoken-digit-dataset), train, and score.

    python benchmarks/spoken.py $CLEARHEAD_DATA/fsdd/train-wav.tar.xz digits runs/digits
    python benchmarks/spoken.py $CLEARHEAD_DATA/fsdd/train-wav.tar.xz speakers runs/speakers
    python benchmarks/spoken.py $CLEARHEAD_DATA/fsdd/train-wav.tar.xz strings runs/strings

digits    one digit per file: trains on recordings 10 to 49 of each speaker, scores 5 to 9
speakers  trains on all speakers but one, and scores that one; six runs
strings   three to seven digits of one speaker joined with short pauses: trains on recordings 14 to 49, chooses by
          strings of 10 to 13, scores strings of 5 to 9

Each run uses the recipe spoken-digits or the recipe spoken-strings; further options are passed to
`clearhead train`. `--prepare` only writes the data. The result is a row of a Markdown table.
"""

import argparse
import csv
import io
import random
import tarfile
import time
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import clearhead
from clearhead.config import Config
from clearhead.config.values import read_toml

RATE, PAUSE = 8000, 0.15  # samples per second; longest pause between two digits in seconds
N_STRINGS = {"train": 12_000, "valid": 300, "test": 500}


class Recording(NamedTuple):
    """One spoken digit."""

    digit: str
    speaker: str
    number: int
    samples: np.ndarray


def recordings(archive: Path) -> Iterator[Recording]:
    """Yield the recordings of the archive, whose files are named digit_speaker_number.wav."""
    with tarfile.open(archive) as tar:
        for member in sorted(tar, key=lambda it: it.name):
            if member.name.endswith(".wav"):
                digit, speaker, number = Path(member.name).stem.split("_")
                with wave.open(io.BytesIO(tar.extractfile(member).read())) as file:
                    samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
                yield Recording(digit, speaker, int(number), samples)


def write_wave(path: Path, samples: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(samples.astype("<i2").tobytes())


def write_digits(folder: Path, spoken: list[Recording]) -> Path:
    """Write a folder for each digit."""
    for it in spoken:
        write_wave(folder / it.digit / f"{it.speaker}_{it.number}.wav", it.samples)
    return folder


def write_strings(folder: Path, spoken: list[Recording], count: int, seed: str) -> Path:
    """Write strings of digits, each of one speaker, with a table of their paths and transcripts."""
    dice = random.Random(seed)
    by_speaker: dict[str, list[Recording]] = {}
    for it in spoken:
        by_speaker.setdefault(it.speaker, []).append(it)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "strings.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("path", "text"))
        for number in range(count):
            chosen = dice.choices(by_speaker[dice.choice(sorted(by_speaker))], k=dice.randint(3, 7))
            parts = [chosen[0].samples]
            for it in chosen[1:]:
                parts += [np.zeros(int(dice.random() * PAUSE * RATE), np.int16), it.samples]
            write_wave(folder / f"{number}.wav", np.concatenate(parts))
            table.writerow((f"{number}.wav", "".join(it.digit for it in chosen)))
    return folder / "strings.csv"


def scored(config: str, train: Path, test: Path, out: Path, valid: Path | None, options: list[str]) -> str:
    """Train and score. Return the cells of a row: the scores, parameters, and minutes."""
    values = {"data.train": (str(train),)} | ({"data.valid": (str(valid),)} if valid else {})
    for option in options:
        name, _, value = option.removeprefix("--").partition("=")
        values[name] = value
    began = time.monotonic()
    settings = Config.from_dict(read_toml(Path(config)), source=config)
    clearhead.train(settings.override(values, source="options"), out, replace=True)
    minutes = (time.monotonic() - began) / 60
    app = clearhead.load(out)
    found = app.evaluate(str(test)).judged.scores.to_dict()
    names = [it for it in ("accuracy", "cer", "wer", "exact_match") if it in found]
    spans = [f"{name} {found[name]:.4f}" + interval(found.get(f"{name}_interval")) for name in names]
    size = sum(it.numel() for it in app.model.parameters())
    return f"{'; '.join(spans)} | {size:,} | {minutes:.1f}"


def interval(ends: list[float] | None) -> str:
    return f" ({ends[0]:.4f} to {ends[1]:.4f})" if ends else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", type=Path)
    parser.add_argument("what", choices=("digits", "speakers", "strings"))
    parser.add_argument("out", type=Path)
    parser.add_argument("--prepare", action="store_true", help="only write the data")
    options, more = parser.parse_known_args()
    spoken, data = list(recordings(options.archive)), options.out / "data"

    def numbered(first: int, last: int) -> list[Recording]:
        return [it for it in spoken if first <= it.number <= last]

    runs: dict[str, tuple[str, Path, Path, Path | None]] = {}
    if options.what == "digits":
        train, test = write_digits(data / "train", numbered(10, 49)), write_digits(data / "test", numbered(5, 9))
        runs["digits"] = ("spoken-digits", train, test, None)
    elif options.what == "speakers":
        for speaker in sorted({it.speaker for it in spoken}):
            others = write_digits(data / speaker / "train", [it for it in spoken if it.speaker != speaker])
            own = write_digits(data / speaker / "test", [it for it in spoken if it.speaker == speaker])
            runs[f"without {speaker}"] = ("spoken-digits", others, own, None)
    else:
        ranges = {"train": (14, 49), "valid": (10, 13), "test": (5, 9)}
        tables = {it: write_strings(data / it, numbered(*ranges[it]), N_STRINGS[it], it) for it in ranges}
        runs["strings"] = ("spoken-strings", tables["train"], tables["test"], tables["valid"])
    if options.prepare:
        return
    print("| run | score | parameters | minutes |\n|---|---|---|---|")
    for name, (config, train, test, valid) in runs.items():
        cells = scored(config, train, test, options.out / name.replace(" ", "-"), valid, more)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
