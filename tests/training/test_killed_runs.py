"""A run of any kind that is killed often, and resumed without its options, ends as if it had not been."""

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from clearhead.folder.checkpoint import has_begun

from ..campaign.models import RUNS, WORDS, data_files, train_options

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL"),
]
PRELOADED = ["clearhead.training.run", "torch._dynamo", "sacrebleu.metrics", "matplotlib.backends.backend_agg"]
KILLS = 6
OTHERS = {
    "warm start": {"train.warm_start": "denoise", "train.warm_steps": 20},
    "memory": {"train.memory": "2GB", "train.micro_batches": 2},
    "mean of checkpoints": {
        "train.average": 3,
        "data.vocab_size": 300,
        "data.subword_dropout": 0.1,
        "data.tokenizer": "bpe",
    },
    "moving average": {"train.optimizer": "adamw", "train.accumulate": 2, "train.average": 0.9},
}


def start(arguments: list[str]) -> ForkServerProcess:
    """Start `clearhead train ARGUMENTS` in a process of its own, which need not import torch again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_main, args=(arguments,))
    process.start()
    return process


def _main(arguments: list[str]) -> None:
    from clearhead.cli.entry import main

    os.environ.pop("OMP_NUM_THREADS", None)
    sys.exit(main(["train", *arguments]))


def ended(arguments: list[str]) -> int | None:
    process = start(arguments)
    process.join()
    return process.exitcode


def n_lines(out: Path) -> int:
    logs = [out / "metrics.jsonl", *out.glob(".*/metrics.jsonl")]  # those of a warm start's stages are hidden
    return sum(it.read_bytes().count(b"\n") for it in logs if it.exists())


def outcome(out: Path) -> dict[str, Any]:
    """All files of a run, but for the times that it took."""
    files: dict[str, Any] = {str(it.relative_to(out)): it.read_bytes() for it in out.rglob("*") if it.is_file()}
    for name, content in files.items():
        if name.endswith("metrics.jsonl"):
            files[name] = [{**json.loads(line), "seconds": 0} for line in content.splitlines()]
        elif name.endswith("state.json"):
            files[name] = json.loads(content)["state"] | {"seconds": 0}
        elif Path(name).name in ("manifest.json", "loss.png"):  # digests and a picture of the others
            files[name] = None
    return files


def kill_often(out: Path, files: list[str], options: list[str], n_expected: int, seed: int) -> None:
    """Kill a run at random moments, and resume it with its files alone as soon as it has begun."""
    dice = random.Random(seed)
    for moment in sorted(dice.randrange(n_expected) for _ in range(KILLS)):
        begun = has_begun(out) or (out / ".asked.json").exists()
        process = start([*files, *([] if begun else options), "--out", str(out), "--resume"])
        while process.is_alive() and n_lines(out) < moment:
            time.sleep(0.002)
        time.sleep(dice.choice([0.0, 0.01, 0.1]))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    assert ended([*files, "--out", str(out), "--resume"]) == 0


@pytest.mark.parametrize("kind", [*RUNS, *OTHERS])
def test_a_run_of_any_kind_that_is_killed_often_ends_as_if_it_had_not_been(tmp_path: Path, kind: str) -> None:
    task = kind if kind in RUNS else "translate"
    changes = {"train.steps": 40, "train.save_every": 5, "train.eval_every": 7, **OTHERS.get(kind, {})}
    _, *given = train_options(task, data_files(tmp_path / "data"), **changes)
    files, options = ([it for it in given if it.startswith("--") == is_option] for is_option in (False, True))
    assert ended([*given, "--out", str(tmp_path / "whole")]) == 0
    kill_often(tmp_path / "run", files, options, n_lines(tmp_path / "whole"), seed=len(kind))
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_a_run_without_options_that_is_killed_often_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    """A trial chooses its threads; the uninterrupted run gets the same number."""
    dice, file = random.Random(0), tmp_path / "pairs.tsv"
    texts = {" ".join(dice.choices(WORDS, k=dice.randint(1, 3))) for _ in range(45)}
    file.write_text("".join(f"{it}\t{' '.join(reversed(it.split()))}\n" for it in sorted(texts)))
    kill_often(tmp_path / "run", [str(file)], [], 65, seed=0)
    chosen = json.loads((tmp_path / "run" / "config.json").read_bytes())["train"]
    same = [f"--threads={chosen['threads']}", f"--train.precision={chosen['precision']}"]
    assert ended([str(file), *same, "--out", str(tmp_path / "whole")]) == 0
    names = ("model.safetensors", "metrics.jsonl", "checkpoints/step-00001000/optimizer.safetensors")
    run, expected = (outcome(tmp_path / it) for it in ("run", "whole"))
    assert [run[it] for it in names] == [expected[it] for it in names]
