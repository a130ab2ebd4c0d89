"""Write a small model folder of every task, which later versions must read: `python -m tests.compatibility.write`.

tests/compatibility/VERSION/TASK is the folder of a run that stopped at half its steps, with its checkpoint. `continued`
has the weights that it ends with, and answers.json what each model answers. Run this once for a release.
"""

import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

import clearhead
from clearhead.api import train
from clearhead.config import Config
from clearhead.folder.model_folder import WEIGHTS
from tests.builders import make_encoder_folder, write_wave

HERE = Path(__file__).parent
STEPS = 40
SETTINGS = {
    "model.d_model": 8, "model.n_heads": 2, "model.d_ff": 8, "train.steps": STEPS, "train.warmup": 4, "train.lr": 0.02,
    "train.save_every": STEPS // 2, "train.eval_every": STEPS // 2, "train.threads": 1, "train.precision": "fp32",
    "data.batch_tokens": 2048, "data.split": 0.0,
}  # fmt: skip
ENCODER, DECODER = {"model.n_encoder_layers": 1}, {"model.n_decoder_layers": 1}
BOTH = ENCODER | DECODER | {"decode.min_len": 3, "decode.max_len": 6}
NUMBERS = ["one", "two", "three", "four", "five", "six"]
TEXTS = [f"{a} and {b}" for a in NUMBERS for b in NUMBERS]
SOUNDS = 8
WORDS = {"data.tokenizer": "word"}
RUNS: dict[str, dict[str, Any]] = {
    "translate": BOTH | WORDS,
    "summarize": BOTH | WORDS,
    "generate": DECODER | WORDS | {"decode.max_len": 6, "decode.sample": False, "data.max_len": 8},
    "classify": ENCODER | WORDS,
    "answer": ENCODER | WORDS,
    "fill": ENCODER | WORDS,
    "transcribe": BOTH | WORDS | {"model.n_mels": 8},
    "speak": BOTH | WORDS | {"model.n_mels": 8},
}
INPUTS: dict[str, Any] = {
    "generate": "one and",
    "answer": ("Which is first?", "two and five"),
    "fill": "one [MASK] two",
    "transcribe": "sounds/0.wav",
}


def write_data(folder: Path) -> None:
    """Write the training data of each task, as `TASK.tsv` or `TASK.jsonl`."""
    rows = {
        "translate": [{"en": it, "fr": it.upper()} for it in TEXTS],
        "summarize": [{"document": f"{it}. {it}.", "summary": it} for it in TEXTS],
        "generate": [{"text": it} for it in TEXTS],
        "classify": [{"text": it, "label": it.split()[0]} for it in TEXTS],
        "answer": [{"context": it, "question": "Which is first?", "answer": it.split()[0]} for it in TEXTS],
        "fill": [{"text": it} for it in TEXTS],
        "transcribe": [{"path": f"sounds/{i}.wav", "text": TEXTS[i]} for i in range(SOUNDS)],
    }
    rows["speak"] = rows["transcribe"]
    for task, lines in rows.items():
        (folder / f"{task}.jsonl").write_text("".join(f"{json.dumps(it)}\n" for it in lines), encoding="utf-8")
    for i in range(SOUNDS):
        write_wave(folder / "sounds" / f"{i}.wav", np.random.default_rng(i).uniform(-0.3, 0.3, 1600))


def answer(task: str) -> Any:
    """Return what the model in a task's folder answers, as JSON values."""
    app, given = clearhead.load(task), INPUTS.get(task, "one and two")
    if task == "answer":
        question, context = given
        return app(question, context=context)
    found = app(given)
    if task == "speak":  # samples and their rate; what they sound like depends on rounding
        return [len(found[0]), found[1]]
    return found if isinstance(found, str) else np.asarray(found[:8], np.float64).round(3).tolist()


def machine() -> str:
    """Return what bits depend on."""
    return f"torch {torch.__version__}, {platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


def resume(task: str, folder: str) -> None:
    """Continue the run in a folder up to its last step."""
    train(Config().override({"data.train": (f"{task}.jsonl",)}), folder, resume=True, progress=False)


class StoppedError(Exception):
    """Ends a run."""


def stop_at_half(step: dict[str, Any]) -> None:
    """Raise StoppedError after the first checkpoint."""
    if step["step"] > STEPS // 2:
        raise StoppedError


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, since runs name their data relative to the current one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def main() -> None:
    """Write the folder of this version."""
    out = HERE / clearhead.__version__
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with inside(out):
        write_data(Path())
        for task, settings in RUNS.items():
            config = Config().override({**SETTINGS, **settings, "train.task": task, "data.train": (f"{task}.jsonl",)})
            with suppress(StoppedError):
                train(config, task, on_step=stop_at_half, progress=False)
            shutil.rmtree(Path(task) / ".tokens")  # encoded again from the data
            shutil.copytree(task, f"{task}-continued")
            resume(task, f"{task}-continued")
            Path("continued").mkdir(exist_ok=True)
            shutil.copyfile(Path(f"{task}-continued") / WEIGHTS, f"continued/{task}.safetensors")
            shutil.rmtree(f"{task}-continued")
        make_encoder_folder(Path("embed"), task="embed", tokenizer="word")
        found = {task: answer(task) for task in (*RUNS, "embed")}
        about = {"machine": machine(), "answers": found}
        Path("answers.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
