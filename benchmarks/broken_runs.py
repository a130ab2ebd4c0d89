"""Train runs with one fault each, and some without, and compare what `clearhead diagnose` says first with the fault.

python benchmarks/broken_runs.py WORK [--only NAME ...] [--kind broken|healthy]

Needs $CLEARHEAD_DATA. Trained models and diagnoses in WORK are reused, so that a run that was stopped continues.
"""

import argparse
import json
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(os.environ.get("CLEARHEAD_DATA", "data"))
PAIRS, STEPS = 5000, 400
_OFF = ["--train.threads=1", "--train.precision=fp32", "--train.eval_every=50"]
Rows = list[list[str]]


@dataclass(frozen=True)
class Case:
    """A run: its data, its options, and the causes that are right, such as "train.lr". A healthy run has none.

    Args:
        data: which data: fr, de, labels or text.
        causes: names of causes, any of which may come first.
        change: changes the training rows.
        options: options of `clearhead train`.
        valid: name of a file to validate on (default: part of the training data).
    """

    data: str
    causes: Sequence[str]
    change: Callable[[Rows, random.Random], Rows] | None = None
    options: Sequence[str] = ()
    valid: str = ""


def shuffled(rows: Rows, dice: random.Random) -> Rows:
    """Shuffle the targets."""
    targets = [row[1] for row in rows]
    dice.shuffle(targets)
    return [[row[0], target] for row, target in zip(rows, targets)]


def numbered(rows: Rows, dice: random.Random) -> Rows:
    """Add a column of ids."""
    return [[*row, str(dice.randrange(10**6, 10**7))] for row in rows]


def alike(rows: Rows, dice: random.Random) -> Rows:
    """Keep 60 pairs, many times."""
    return [dice.choice(rows[:60]) for _ in rows]


def mostly_one(rows: Rows, dice: random.Random) -> Rows:
    """Give 19 of 20 texts the same label."""
    return [[row[0], rows[0][1] if dice.random() < 0.95 else row[1]] for row in rows]


def random_labels(rows: Rows, dice: random.Random) -> Rows:
    """Draw the labels at random."""
    return [[row[0], dice.choice(["A", "B", "C"])] for row in rows]


def equal(rows: Rows, dice: random.Random) -> Rows:
    """Let most targets be copies of their sources."""
    return [[row[0], row[0] if dice.random() < 0.9 else row[1]] for row in rows]


LABELS = ["--task=classify", f"--steps={STEPS}"]
TEXT = ["--task=generate", f"--steps={STEPS}", "--data.max_len=128", "--preset=nano"]
HEALTHY = {
    **{f"healthy-fr-{seed}": Case("fr", (), options=[f"--train.seed={seed}"]) for seed in range(3)},
    **{f"healthy-de-{seed}": Case("de", (), options=[f"--train.seed={seed}"]) for seed in range(2)},
    **{f"healthy-labels-{seed}": Case("labels", (), options=[f"--train.seed={seed}"]) for seed in range(4)},
    **{f"healthy-text-{seed}": Case("text", (), options=[f"--train.seed={seed}"]) for seed in range(3)},
    "healthy-adam": Case("fr", (), options=["--train.optimizer=adam"]),
    "healthy-long": Case("fr", (), options=["--steps=1000"]),
    "healthy-pre-norm": Case("fr", (), options=["--model.pre_norm=true"]),
    "healthy-small": Case("de", (), options=["--model.d_model=64", "--model.d_ff=128", "--model.n_heads=2"]),
    "healthy-cosine": Case("fr", (), options=["--train.schedule=cosine", "--model.dropout=0.2"]),
    "healthy-unigram": Case("fr", (), options=["--data.tokenizer=unigram", "--train.label_smoothing=0"]),
    "healthy-rate": Case("fr", (), options=["--train.lr=0.002"]),
    "healthy-labels-smoothed": Case("labels", (), options=["--train.r_drop=0", "--model.dropout=0.2"]),
}
BROKEN = {
    "rate-x100": Case("fr", ["train.lr"], options=["--train.lr=0.4"]),
    "rate-/100": Case("fr", ["train.lr"], options=["--train.lr=0.00004"]),
    "rate-x100-labels": Case("labels", ["train.lr"], options=["--train.lr=0.4"]),
    "rate-/100-text": Case("text", ["train.lr"], options=["--train.lr=0.00014"]),
    "shuffled-targets": Case("fr", ["unrelated"], shuffled),
    "shuffled-labels": Case("labels", ["unrelated"], random_labels),
    "masked-loss": Case("fr", ["objective"], options=["--task=broken_task:MaskedLoss", "--allow-custom-code"]),
    "no-warmup": Case(
        "fr",
        ["train.warmup", "train.lr"],
        options=[
            "--train.warmup=0",
            "--train.optimizer=adam",
            "--train.lr=0.003",
            "--train.schedule=constant",
            "--model.n_encoder_layers=4",
            "--model.n_decoder_layers=4",
        ],
    ),
    "tiny-vocabulary": Case("fr", ["vocabulary"], options=["--data.vocab_size=270"]),
    "tiny-word-vocabulary": Case("fr", ["vocabulary"], options=["--data.tokenizer=word", "--data.vocab_size=150"]),
    "wrong-column": Case(
        "fr", ["column", "unrelated"], numbered, ["--task=translate", "--source-column=1", "--target-column=3"]
    ),
    "duplicated-validation": Case("fr", ["leak"], valid="train"),
    "frozen": Case(
        "fr", ["train.freeze"], options=["--freeze=encoder.blocks.0,encoder.blocks.1,decoder.blocks.0,decoder.blocks.1"]
    ),
    "dropout": Case("fr", ["model.dropout"], options=["--model.dropout=0.8"]),
    "short-limit": Case("fr", ["data.max_len"], options=["--data.max_len=6"]),
    "few-steps": Case("fr", ["few_steps"], options=["--steps=25"]),
    "smoothing": Case("fr", ["train.label_smoothing"], options=["--train.label_smoothing=0.9"]),
    "few-pairs": Case("fr", ["few_examples"], alike),
    "one-label": Case("labels", ["dominant"], mostly_one),
    "copies": Case("fr", ["copies"], equal),
    "tiny-model": Case("fr", ["model.d_model"], options=["--model.d_model=4", "--model.n_heads=1", "--model.d_ff=8"]),
    "search": Case("fr", ["decode.min_ratio", "decode.max_len", "search"], options=["--decode.max_len=2"]),
    "weight-decay": Case("fr", ["train.weight_decay"], options=["--train.weight_decay=30", "--train.optimizer=adamw"]),
    "attention-scale": Case("fr", ["model.attention_scale"], options=["--model.attention_scale=60"]),
}
MASKED = '''"""A translation task whose loss leaves out all target tokens but the last."""

from clearhead.tasks.translate import Translation


class MaskedLoss(Translation):
    def loss(self, model, examples, rows, *, smoothing):
        import torch
        from clearhead.tasks.loss import smoothed_cross_entropy

        batch = self.forcing.batch(examples, rows)
        logits, outputs = self.forcing.logits(model, batch), batch.outputs
        last = outputs == self.special.eos
        return smoothed_cross_entropy(logits[last], outputs[last], smoothing=smoothing, pad=self.special.pad)
'''


def base_options(data: str) -> list[str]:
    """Return the options of every run on these data, as a user with little time would give them."""
    return {"labels": LABELS, "text": TEXT}.get(data, [f"--steps={STEPS}", "--preset=nano"])


def write_data(folder: Path, case: Case) -> list[str]:
    """Write the training data of a run, and return options that name them."""
    dice = random.Random(0)
    if case.data == "text":
        with lzma.open(DATA / "tinyshakespeare/input.txt.xz", "rt", encoding="utf-8") as file:
            (folder / "text.txt").write_text(file.read(300_000), encoding="utf-8")
        return [str(folder / "text.txt")]
    rows, path = list(_rows(case.data)), folder / "train.tsv"
    dice.shuffle(rows)
    rows = rows[:PAIRS]
    changed = case.change(rows, dice) if case.change else rows
    path.write_text("".join("\t".join(row) + "\n" for row in changed), encoding="utf-8")
    if not case.valid:
        return [str(path)]
    valid = folder / "valid.tsv"
    valid.write_text("".join("\t".join(row) + "\n" for row in changed[:300]), encoding="utf-8")
    return [str(path), f"--valid={valid}"]


def _rows(data: str) -> Iterator[list[str]]:
    name = {"fr": "tatoeba/eng-fra.train.tsv.xz", "de": "tatoeba/eng-deu.train.tsv.xz", "labels": "trec/train.txt.xz"}
    encoding = "latin-1" if data == "labels" else "utf-8"
    with lzma.open(DATA / name[data], "rt", encoding=encoding) as lines:
        for line in lines:
            if data == "labels":
                label, _, text = line.strip().partition(" ")
                yield [text.replace("\t", " "), label.partition(":")[0]]
            else:
                yield line.rstrip("\n").split("\t")[:2]


def run(work: Path, name: str, case: Case) -> dict[str, object]:
    """Train and diagnose one run, unless that was done before. Return the diagnosis."""
    folder, python = work / name.replace("/", "by"), [sys.executable, "-m", "clearhead"]
    model, report = folder / "model", folder / "diagnosis.json"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "broken_task.py").write_text(MASKED)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    if not (model / "loss.png").exists():
        given = {it.split("=")[0] for it in case.options}
        options = [it for it in [*base_options(case.data), *_OFF] if it.split("=")[0] not in given]
        command = [*python, "train", *write_data(folder, case), "--out", str(model), *options, *case.options]
        with (folder / "log.txt").open("w") as log:
            if subprocess.run(command, env=environment, stdout=log, stderr=log).returncode:
                return {"causes": [{"cause": "refused", "weight": 0.0}]}
    if not report.exists():
        command = [*python, "diagnose", str(model), "--json", *(["--allow-custom-code"] * ("masked" in name))]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode:
            return {"causes": [{"cause": "failed", "weight": 0.0}], "error": done.stderr[-300:], "seconds": 0.0}
        report.write_text(done.stdout)
    return json.loads(report.read_text())  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("work", type=Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--kind", choices=("broken", "healthy"))
    options = parser.parse_args()
    cases = {**({} if options.kind == "healthy" else BROKEN), **({} if options.kind == "broken" else HEALTHY)}
    right = {True: 0, False: 0}
    print(f"{'run':<26}{'expected':<24}{'first':<26}{'weight':>7}  second")
    chosen = {name: case for name, case in cases.items() if not options.only or name in options.only}
    for name, case in chosen.items():
        found = run(options.work, name, case)
        causes: list[dict[str, object]] = found["causes"]  # type: ignore[assignment]
        first, second = ([str(it["cause"]) for it in causes] + ["", ""])[:2]
        weight = float(causes[0]["weight"]) if causes else 0.0  # type: ignore[arg-type]
        is_right = first in case.causes if case.causes else not causes
        right[bool(case.causes)] += is_right
        mark = "" if is_right else "  WRONG"
        print(f"{name:<26}{(case.causes or ['nothing'])[0]:<24}{first:<26}{weight:>7.0%}  {second}{mark}", flush=True)
    counts = {True: sum(bool(it.causes) for it in chosen.values())}
    counts[False] = len(chosen) - counts[True]
    print(f"broken: the right cause comes first in {right[True]} of {counts[True]}")
    print(f"healthy: no alarm in {right[False]} of {counts[False]}")


if __name__ == "__main__":
    main()
