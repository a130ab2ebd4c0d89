"""Small data of every form, and small runs of every task."""

import json
import random
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.builders import make_questions, write_wave

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
_TINY = {
    "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 32, "data.batch_tokens": 256, "data.max_len": 40,
    "train.steps": 12, "train.save_every": 2, "train.eval_every": 4, "train.log_every": 1, "train.warmup": 3,
    "data.split": 0.1, "train.threads": 1,
}  # fmt: skip
_ENCODER = {"model.n_encoder_layers": 1}
_DECODER = {"model.n_decoder_layers": 1}
_TEXT = {"data.tokenizer": "word"}

# The options of a run of each task. Every one has dropout, so that the random numbers matter.
RUNS: Mapping[str, Mapping[str, object]] = {
    "translate": {**_TINY, **_ENCODER, **_DECODER, **_TEXT},
    "generate": {**_TINY, **_DECODER, **_TEXT},
    "fill": {**_TINY, **_ENCODER, **_TEXT},
    "classify": {**_TINY, **_ENCODER, **_TEXT},
    "answer": {**_TINY, **_ENCODER, **_TEXT},
    "summarize": {**_TINY, **_ENCODER, **_DECODER, **_TEXT},
    "see": {**_TINY, **_ENCODER, "train.task": "classify", "data.max_len": None},
    "hear": {**_TINY, **_ENCODER, "train.task": "classify"},
    "transcribe": {**_TINY, **_ENCODER, **_DECODER, **_TEXT},
}


def data_files(folder: Path) -> dict[str, list[Path]]:
    """Write small data of every form. Return the files or folder to train each task on, and those of other forms."""
    rng = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(60)]
    files = dict[str, list[Path]]()

    def write(name: str, content: str | bytes, *keys: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        for key in keys:
            files[key] = [path]
        return path

    write("pairs.tsv", "".join(f"{it}\t{it[::-1]}\n" for it in texts), "translate")
    write("pairs.csv", "en,fr\n" + "".join(f'"{it}, yes","{it[::-1]}"\n' for it in texts), "csv")
    write("pairs.jsonl", "".join(json.dumps({"en": it, "fr": it[::-1]}) + "\n" for it in texts), "jsonl")
    write("nested.jsonl", "".join(json.dumps({"x": {"en": it, "fr": it[::-1]}}) + "\n" for it in texts), "nested")
    write("list.json", json.dumps([{"en": it, "fr": it[::-1]} for it in texts], indent=1), "json")
    write("labels.tsv", "text\tlabel\n" + "".join(f"{it}\t{it.split()[0]}\n" for it in texts), "classify")
    write("text.txt", "\n".join(texts * 4), "generate", "fill")
    write("summaries.tsv", "".join(f"{' '.join(texts[i : i + 3])}\t{it}\n" for i, it in enumerate(texts)), "summarize")
    write("questions.json", json.dumps(make_questions(30)), "answer")
    files["aligned"] = [write("a.en", "\n".join(texts)), write("a.fr", "\n".join(it[::-1] for it in texts))]
    noise = np.random.default_rng(0)
    np.save(folder / "images.npy", noise.integers(0, 255, (60, 8, 8), np.uint8))
    np.save(folder / "numbers.npy", np.arange(60) % 3)
    files["see"] = [folder / "images.npy", folder / "numbers.npy"]
    rows = ["path,text"]
    for i in range(40):
        samples = noise.normal(0, 0.05, 1600) * (1 + i % 2)
        path = write_wave(folder / "sounds" / ("loud" if i % 2 else "low") / f"{i}.wav", samples)
        rows.append(f"{path.relative_to(folder)},{WORDS[i % 8]} {WORDS[i % 3]}")
    files["hear"] = [folder / "sounds"]
    write("calls.csv", "\n".join(rows), "transcribe")
    return files


def train_options(run: str, files: Mapping[str, list[Path]], **changes: object) -> list[str]:
    """Return the arguments of `clearhead` that train a small model."""
    settings = {"train.task": run, **RUNS[run], **changes}
    chosen = [f"--{name}={value}" for name, value in settings.items() if value is not None]
    return ["train", *map(str, files[run]), *chosen]
