"""Prove that a refactoring changed no behaviour: both versions train the same weights and give the same answers.

    python benchmarks/same_bits.py HEAD~3                        # against the working tree
    python benchmarks/same_bits.py HEAD~3 HEAD --demo runs/demo  # against a commit, with a model trained before

Each version trains every case in CASES on the same small data, in 32-bit floats on one thread. The weights must be
equal byte for byte. Then both versions load models that the old version trained: they explain a text with one of each
task, as JSON and as a page, translate 200 held-out sentences in every way in DECODING, and export in every format in
EXPORTS. Texts, scores, the pages' data and the exported files must be equal. If you rename tensors, add the names to
RENAMED, and if you rename settings, add them to RENAMED_SETTINGS.

The exit status is 1 if anything differs. It takes a few minutes on an idle core.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

REPOSITORY = Path(__file__).resolve().parents[1]
RENAMED: dict[str, str] = {}  # old tensor names to new ones: regular expression -> replacement
RENAMED_SETTINGS: dict[str, str] = {}  # arguments of the old version to those of the new one, such as "--model.a=b"
N_HELD_OUT = 200

SMALL = "--threads 1 --train.precision=fp32 --train.steps=12 --train.eval_every=6 --data.vocab_size=320 "
SMALL += "--data.batch_tokens=512 --data.split=0.05 --model.d_model=32 --model.n_heads=4 --model.d_ff=64"
ENCODER, DECODER = "--model.n_encoder_layers=2", "--model.n_decoder_layers=2"
PAIRS = f"pairs.tsv --task translate {SMALL} {ENCODER} {DECODER}"
MODERN = "--model.pre_norm=true --model.positions=rotary --model.norm=rms --model.feed_forward=swiglu"
CASES = {  # arguments of `clearhead train`
    "translate, post-norm": PAIRS,
    "translate, pre-norm and rotary": f"{PAIRS} {MODERN} --train.optimizer=muon --data.subword_dropout=0.1",
    "translate, ALiBi, grouped heads": f"{PAIRS} --model.positions=alibi --model.n_kv_heads=2 --data.tokenizer=unigram",
    "generate": f"text.txt --task generate {SMALL} {DECODER} --data.max_len=32",
    "classify": f"labels.tsv --task classify {SMALL} {ENCODER}",
    "classify, warm start": f"labels.tsv --task classify {SMALL} {ENCODER} --warm-start denoise --train.soup=2",
    "answer": f"questions.json --task answer {SMALL} {ENCODER}",
    "fill": f"text.txt --task fill {SMALL} {ENCODER}",
    "summarize, copy": f"documents.jsonl --task summarize {SMALL} {ENCODER} {DECODER} --model.copy=true",
}
DEMO = "pairs.tsv --task translate --threads 1 --train.precision=fp32 --preset nano --train.steps=60 "
DEMO += "--train.eval_every=30 --train.optimizer=muon --train.lr=0.006 --train.warmup=20 --data.tokenizer=word"
DECODING = {  # options of `clearhead translate`
    "beam 4": "--beam 4 --engine torch",
    "greedy": "--beam 1 --engine torch",
    "sampled": "--sample --temperature 2 --seed 7 --engine torch",
    "4-best": "--beam 4 --n-best 4 --engine torch",
    "loops": "--beam 4 --n-best 2 --engine loops",
    "packed int8": "--beam 4 --engine packed --precision int8",
    "packed bf16": "--beam 4 --engine packed --precision bf16",
    "ct2": "--beam 4 --engine ct2",
}
EXPLAINED = {  # arguments of `clearhead explain` after the model; a case without an entry isn't explained
    "translate, post-norm": ["the red dog sees the old river"],
    "translate, ALiBi, grouped heads": ["the red dog sees the old river", "--without", "decoder.1.cross.head.0"],
    "generate": ["the red dog", "--seed", "3"],
    "classify": ["the red dog sees the old river"],
    "answer": ["what sees the old river?", "--context", "context.txt"],
    "fill": ["the red [MASK] sees the old river"],
    "summarize, copy": ["the red dog sees the old river the big cat likes the small house"],
}
EXPORTS = ("huggingface", "onnx", "ct2", "page")

Answers = list[list[tuple[str, float]]]  # texts and scores for each source, best first
ADJECTIVES = ["big", "small", "old", "new", "red", "green", "quick", "slow"]
ANIMALS = ["dog", "cat", "horse", "bird", "fish", "mouse"]
THINGS = ["house", "river", "garden", "table", "bridge", "tower"]
VERBS = ["sees", "likes", "follows", "finds", "hides", "passes"]


# Runs `python -m clearhead` for each list of arguments. One process for all of them imports torch once, not each time.
RUN = """
import json, pathlib, runpy, sys, clearhead
found = pathlib.Path(clearhead.__file__)
assert found.is_relative_to(sys.argv[1]), f"imported {found}; expected the package in {sys.argv[1]}"
for arguments in json.load(sys.stdin):
    sys.argv = ["clearhead", *arguments]
    try:
        runpy.run_module("clearhead", run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"exit code {ended.code}: clearhead {' '.join(arguments)}")
"""


@dataclass(frozen=True)
class Version:
    """A checkout of the code. Its commands run in `data`, which lies outside it."""

    root: Path
    data: Path
    settings: dict[str, str]  # arguments to replace

    def clearhead(self, commands: list[list[str]], folder: Path | None = None) -> str:
        """Run command lines in a folder (default: `data`) with this version of the package. Return what they print.

        Exits if one fails.
        """
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(self.root)],
            cwd=folder or self.data,
            env=os.environ | {"PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"},
            input=json.dumps([[self.settings.get(it, it) for it in command] for command in commands]),
            capture_output=True,
            encoding="utf-8",
        )
        if done.returncode:
            sys.exit(f"{done.stderr}\nthe {self.root.name} version failed")
        return done.stdout

    def train(self, runs: dict[str, str]) -> list[Path]:
        """Train a model for each entry, name -> arguments, and return their folders."""
        folders = [self.data / f"{self.root.name} {name}" for name in runs]
        self.clearhead([["train", *it.split(), "--out", str(out)] for it, out in zip(runs.values(), folders)])
        return folders

    def translate(self, model: Path, sources: list[str]) -> list[Answers]:
        """Return the answers to the sources for each entry of DECODING."""
        command = ["translate", str(model), *sources, "--json", "--threads", "1"]
        printed = self.clearhead([[*command, *options.split()] for options in DECODING.values()])
        results = [json.loads(line) for line in printed.splitlines()]
        answers = [[(it["text"], it["score"]) for it in (result, *result["alternatives"])] for result in results]
        return [answers[i : i + len(sources)] for i in range(0, len(sources) * len(DECODING), len(sources))]

    def explain(self, models: dict[str, Path]) -> Iterator[tuple[str, dict[str, str]]]:
        """Explain a text with each model: name, and its results as JSON and the data of its page."""
        page = self.data / "page.html"
        for name, arguments in EXPLAINED.items():
            command = ["explain", str(models[name]), *arguments, "--threads", "1"]
            document = self.clearhead([[*command, "--json"]])
            self.clearhead([[*command, "--html", str(page)]])
            yield name, {"JSON": timeless(document)} | page_data(page)

    def export(self, model: Path) -> Iterator[tuple[str, dict[str, str]]]:
        """Export a model in each format: format, and the digest of each file, or the data of a page."""
        for format_name in EXPORTS:
            folder = self.data / f"{self.root.name} exports"
            folder.mkdir(exist_ok=True)
            out = folder / f"{format_name}{'.html' * (format_name == 'page')}"
            self.clearhead([["export", str(model), "--to", format_name, "--out", out.name]], folder)
            files = sorted(path for path in out.rglob("*") if path.is_file())
            digests = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
            yield format_name, digests or page_data(out)


def timeless(data: str) -> str:
    """Leave out how long each step took."""
    return re.sub(r'"milliseconds": ?[-+.e\d]+', '"milliseconds": 0', data)


def page_data(page: Path) -> dict[str, str]:
    """Return the data of a page, but not its code: id -> content."""
    written = page.read_text(encoding="utf-8")
    return dict(re.findall(r'<script type="[^"]+" id="(\w+)">(.*?)</script>', timeless(written), re.DOTALL))


@contextmanager
def checkout(commit: str | None, folder: Path) -> Iterator[Path]:
    """Check a commit out into `folder`, or copy the working tree there so that you can go on editing."""
    if commit is None:
        shutil.copytree(REPOSITORY / "clearhead", folder / "clearhead", ignore=shutil.ignore_patterns("__pycache__"))
        yield folder
        return
    git = ("git", "-C", str(REPOSITORY), "worktree")
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def write_data(folder: Path) -> None:
    """Write the training data of all cases, and held-out sentences to translate."""
    rng = random.Random(0)
    lines = [*dict.fromkeys(_sentence(rng) for _ in range(1500))]  # all different
    sentences = [line.split() for line in lines]
    pairs = [f"{line}\t{' '.join(word[::-1] for word in line.split()[::-1])}\n" for line in lines]
    (folder / "held-out.tsv").write_text("".join(pairs[:N_HELD_OUT]))
    (folder / "pairs.tsv").write_text("".join(pairs[N_HELD_OUT:]))
    (folder / "text.txt").write_text("".join(f"{line}.\n" for line in lines[:800]))
    labelled = [f"{' '.join(words)}\t{'animal' if words[-1] in ANIMALS else 'thing'}\n" for words in sentences[:600]]
    (folder / "context.txt").write_text(f"{'. '.join(lines[:6])}.\n")
    (folder / "labels.tsv").write_text("text\tlabel\n" + "".join(labelled))
    groups = [sentences[i : i + 4] for i in range(0, 800, 4)]
    articles = [{"title": f"article {i}", "paragraphs": [_paragraph(group, i)]} for i, group in enumerate(groups)]
    (folder / "questions.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    documents = [{"source": [" ".join(it) for it in group], "target": [" ".join(group[0][:4])]} for group in groups]
    (folder / "documents.jsonl").write_text("".join(f"{json.dumps(document)}\n" for document in documents))


def _sentence(rng: random.Random) -> str:
    """Draw a sentence such as "the red dog sees the old river"."""
    subject, thing = (f"the {rng.choice(ADJECTIVES)} {rng.choice(ANIMALS + THINGS)}" for _ in range(2))
    return f"{subject} {rng.choice(VERBS)} {thing}"


def _paragraph(sentences: list[list[str]], number: int) -> dict[str, object]:
    """Ask for the subject of each sentence, in SQuAD's form."""
    context, questions = "", []
    for i, words in enumerate(sentences):
        answer = {"text": " ".join(words[:3]), "answer_start": len(context)}
        questions.append({"id": f"{number}-{i}", "question": f"what {' '.join(words[3:])}?", "answers": [answer]})
        context += f"{' '.join(words)}. "
    return {"context": context.rstrip(), "qas": questions}


def weights(run: Path) -> dict[str, dict[str, np.ndarray]]:
    """Load the weights that a run kept, and those of its sub-runs: sub-folder -> tensor name -> tensor."""
    found = {path.parent.relative_to(run): path for path in sorted(run.rglob("model.safetensors"))}
    return {str(part): load_file(path) for part, path in found.items() if "checkpoints" not in part.parts}


def new_name(tensor: str) -> str:
    """Return the new name of an old tensor."""
    for pattern, replacement in RENAMED.items():
        tensor = re.sub(pattern, replacement, tensor)
    return tensor


def tensor_difference(old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> str:
    """Describe the first difference between two sets of tensors; return an empty string if they are equal."""
    renamed = {new_name(name): tensor for name, tensor in old.items()}
    if len(renamed) != len(old):
        return "RENAMED gives two tensors the same name"
    if names := sorted(renamed.keys() ^ new.keys()):
        return f"{names[0]} is only in the {'old' if names[0] in renamed else 'new'} weights"
    for name, a in renamed.items():
        b = new[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{name} is {a.dtype}{a.shape} and {b.dtype}{b.shape}"
        if a.tobytes() != b.tobytes():
            return f"{name} differs by up to {np.abs(a.astype(np.float64) - b.astype(np.float64)).max():.3g}"
    return ""


def answer_difference(sources: list[str], old: Answers, new: Answers) -> str:
    """Describe the first difference between two lists of answers; return an empty string if they are equal."""
    if len(old) != len(sources) or len(new) != len(sources):
        return f"{len(old)} and {len(new)} answers to {len(sources)} sentences"
    return next((f"{source!r}: {a} and {b}" for source, a, b in zip(sources, old, new) if a != b), "")


def text_difference(old: dict[str, str], new: dict[str, str]) -> str:
    """Name the first text that differs, and where; return an empty string if all are equal."""
    if names := sorted(old.keys() ^ new.keys()):
        return f"{names[0]} is only in the {'old' if names[0] in old else 'new'} version"
    for name, a in old.items():
        b = new[name]
        if a != b:
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            return f"{name} at {at:,}: {a[max(0, at - 20) : at + 20]!r} and {b[max(0, at - 20) : at + 20]!r}"
    return ""


def rows(old: Version, new: Version, demo: Path | None) -> Iterator[tuple[str, int, str | None]]:
    """Compare both versions: case, count, and its first difference, or None for what only one version has."""
    trained = dict(zip(CASES, old.train(CASES)))
    for case, *runs in zip(CASES, trained.values(), new.train(CASES)):
        kept_old, kept_new = map(weights, runs)
        for part in sorted({*kept_old, *kept_new}):
            name = case if part == "." else f"  {part}"
            if part == "." or (part in kept_old and part in kept_new):
                yield name, len(kept_old[part]), tensor_difference(kept_old[part], kept_new[part])
            else:
                yield f"{name} (only {'old' if part in kept_old else 'new'})", 0, None
    for (name, before), (_, after) in zip(old.explain(trained), new.explain(trained)):
        yield f"explain: {name}", len(before), text_difference(before, after)
    [model] = [demo] if demo else old.train({"demo": DEMO})
    held_out = (demo / "phrasebook" if demo else old.data) / "held-out.tsv"
    lines = held_out.read_text(encoding="utf-8").splitlines()
    sources = [line.split("\t")[0] for line in lines[:: len(lines) // N_HELD_OUT][:N_HELD_OUT]]
    for name, *answers in zip(DECODING, old.translate(model, sources), new.translate(model, sources)):
        yield f"translate: {name}", len(sources), answer_difference(sources, *answers)
    for (name, before), (_, after) in zip(old.export(model), new.export(model)):
        yield f"export: {name}", len(before), text_difference(before, after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the commit before the refactoring")
    parser.add_argument("new", nargs="?", help="the commit after it (default: the working tree)")
    parser.add_argument("--demo", type=Path, metavar="DIR", help="folder that the old `clearhead demo` wrote")
    options = parser.parse_args()
    begun, differ = time.monotonic(), False
    with (
        tempfile.TemporaryDirectory(prefix="same-bits-") as name,
        checkout(options.old, Path(name).resolve() / "old") as old_root,
        checkout(options.new, Path(name).resolve() / "new") as new_root,
    ):
        data = Path(name).resolve() / "data"
        data.mkdir()
        write_data(data)
        print(f"{'case':36}{'count':>8}  difference", flush=True)
        demo = options.demo and options.demo.resolve()
        for case, count, difference in rows(
            Version(old_root, data, {}), Version(new_root, data, RENAMED_SETTINGS), demo
        ):
            differ = differ or bool(difference)
            print(f"{case:36}{count:8}  {'-' if difference is None else difference or 'equal'}", flush=True)
    print(f"{'DIFFERENT' if differ else 'all equal'} after {time.monotonic() - begun:.0f} seconds")
    sys.exit(differ)


if __name__ == "__main__":
    main()
