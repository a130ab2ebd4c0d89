"""Several processes train what one process trains, and stop, fail and resume together."""

import json
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from clearhead.api import train
from clearhead.config import Config
from clearhead.errors import ClearheadError, ConfigError, TrainingError
from clearhead.training.distributed.processes import Processes
from clearhead.training.report.metrics import read_metrics
from clearhead.training.report.progress import Progress
from tests.builders import make_questions

WORDS = ["one", "two", "three", "four", "five", "six"]


Signals = dict[int, tuple[int, int]]  # by process: a step, and the signal that it gets in this step


def member(
    rank: int, count: int, port: int, dtype: torch.dtype, signals: Signals, config: Config, out: Path, resume: bool
) -> None:
    """One process of a run, as torchrun starts it. Its messages go to a file beside the folder."""
    with out.with_suffix(".log").open("a") as log:
        os.dup2(log.fileno(), 2)
    sys.stderr = sys.__stderr__
    if rank in signals:
        at, number = signals[rank]
        update = Progress.update

        def interrupted(self: Progress, **values: Any) -> None:
            if values["step"] == at:
                os.kill(os.getpid(), number)
            update(self, **values)

        Progress.update = interrupted
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()}, MASTER_ADDR="127.0.0.1")
    torch.set_default_dtype(dtype)
    try:
        train(config, out, resume=resume)
    except ClearheadError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


def exit_codes(
    count: int,
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    dtype: torch.dtype = torch.float32,
    signals: Signals | None = None,
) -> list[int | None]:
    """Run the processes of a training run to their end, and return their exit codes. None imports torch again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["clearhead.training.run", "torch._dynamo", "sacrebleu.metrics"])
    shared = count, port, dtype, signals or {}, config, out, resume
    processes = [context.Process(target=member, args=(rank, *shared)) for rank in range(count)]
    for it in processes:
        it.start()
    for it in processes:
        it.join(120)
    return [it.exitcode for it in processes]


def run(count: int, config: Config, out: Path, **options: Any) -> Path:
    assert exit_codes(count, config, out, **options) == [0] * count
    return out


def said(out: Path) -> str:
    return out.with_suffix(".log").read_text()


def losses(out: Path) -> list[float]:
    return [it["loss"] for it in read_metrics(out / "metrics.jsonl") if "loss" in it]


# --- the same model


def data_of(task: str, folder: Path) -> Path:
    """Examples of different lengths."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 6))) for _ in range(40)]
    path = folder / f"{task}.tsv"
    match task:
        case "answer":
            path = path.with_suffix(".json")
            path.write_text(json.dumps(make_questions(30)))
        case "classify":
            path.write_text("text\tlabel\n" + "".join(f"{it}\t{it.split()[0]}\n" for it in texts))
        case "generate" | "fill":
            path = path.with_suffix(".txt")
            path.write_text("\n".join(texts * 4))
        case _:
            path.write_text("".join(f"{it}\t{it[::-1]}\n" for it in texts))
    return path


def config_for(toy, task: str, **changes: Any) -> Config:
    """Four steps of two batches each, without anything random."""
    same = {"train.task": task, "data.train": (str(data_of(task, toy.folder)),), "data.split": 0.2}
    same |= {"model.dropout": 0.0, "model.attention_dropout": 0.0, "train.steps": 4, "train.eval_every": 2}
    same |= {"train.optimizer": "adam", "train.adam": (0.9, 0.98, 1e-4), "train.accumulate": 2, "train.log_every": 1}
    return toy.config(same | {"data.tokenizer": "character", "data.max_len": 60, "data.batch_tokens": 64} | changes)


@pytest.mark.parametrize(
    ("task", "count"),
    [
        ("translate", 4),
        *(
            pytest.param(*it, marks=pytest.mark.slow)
            for it in (("translate", 2), ("answer", 2), ("summarize", 2), ("generate", 4))
        ),
        ("classify", 2),
    ],
)
def test_several_processes_train_the_model_of_one(toy, task: str, count: int) -> None:
    config = config_for(toy, task)
    one, several = (run(n, config, toy.folder / str(n), dtype=torch.float64) for n in (1, count))
    expected, found = (load_file(it / "model.safetensors") for it in (one, several))
    assert {it.dtype for it in expected.values()} == {np.dtype("float64")}
    assert found.keys() == expected.keys()
    assert max(np.abs(found[name] - expected[name]).max() for name in expected) < 1e-12
    assert losses(several) == pytest.approx(losses(one), abs=1e-12)


def test_masks_differ_between_processes_and_the_model_learns_all_the_same(toy) -> None:
    out = run(2, config_for(toy, "fill", **{"train.steps": 30, "train.lr": 0.01}), toy.folder / "fill")
    assert losses(out)[-1] < 0.9 * losses(out)[0]


def test_a_batch_with_fewer_examples_than_processes_is_dealt_to_some_of_them(toy) -> None:
    config = config_for(toy, "translate", **{"data.batch_sentences": 1})
    one, three = (run(n, config, toy.folder / str(n), dtype=torch.float64) for n in (1, 3))
    assert losses(three) == pytest.approx(losses(one), abs=1e-12)


# --- stopping and resuming


def long(toy, **changes: Any) -> Config:
    """Sixty steps with dropout, Muon and averages."""
    return toy.config({"train.steps": 60, "train.save_every": 10, "train.eval_every": 20, "train.log_every": 1,
                       "train.average": 0.9, "train.optimizer": "muon", **changes})  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Config], Path]:
    """The folder of the long run in two processes, which nothing has stopped."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    return lambda config: out if out.exists() else run(2, config, out)


def same_bits(one: Path, other: Path) -> bool:
    names = ("model.safetensors", "checkpoints/step-00000060/optimizer.safetensors")
    return all((one / it).read_bytes() == (other / it).read_bytes() for it in names) and losses(one) == losses(other)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("killed", [[1], pytest.param([0, 1], marks=pytest.mark.slow)])
def test_a_run_with_killed_processes_resumes_bit_for_bit(toy, undisturbed, killed: list[int]) -> None:
    config, out = long(toy), toy.folder / "killed"
    assert 0 not in exit_codes(2, config, out, signals=dict.fromkeys(killed, (27, signal.SIGKILL)))
    assert ("another process of this run ended" in said(out)) == (killed == [1])
    run(2, config, out, resume=True)
    assert same_bits(out, undisturbed(config))


def test_a_signal_to_one_process_stops_all_after_the_same_step(toy, undisturbed) -> None:
    config, out = long(toy), toy.folder / "stopped"
    assert 0 not in exit_codes(2, config, out, signals={1: (27, signal.SIGTERM)})
    assert said(out).count("stopped by SIGTERM: a checkpoint of step 27 is saved") == 1
    run(2, config, out, resume=True)
    assert same_bits(out, undisturbed(config))


def test_another_number_of_processes_resumes_with_the_same_batches(toy) -> None:
    changes = {"model.dropout": 0.0, "train.optimizer": "adam", "train.average": 0.0, "train.adam": (0.9, 0.98, 1e-4)}
    config, out, expected = long(toy, **changes), toy.folder / "resumed", toy.folder / "one"
    run(1, config, expected, dtype=torch.float64)
    assert 0 not in exit_codes(3, config, out, dtype=torch.float64, signals={0: (27, signal.SIGTERM)})
    run(2, config, out, resume=True, dtype=torch.float64)
    assert losses(out) == pytest.approx(losses(expected), abs=1e-9)


# --- errors


def test_an_error_of_every_process_is_reported_once(toy) -> None:
    config, out = long(toy, **{"train.lr": 1e30, "train.optimizer": "adam", "train.clip": 0.0}), toy.folder / "diverged"
    assert 0 not in exit_codes(2, config, out)
    assert said(out).count("nothing was updated, and") == 1


def test_an_error_of_the_first_process_ends_the_others(toy) -> None:
    config, out = toy.config({"data.train": (str(toy.folder / "missing.tsv"),)}), toy.folder / "none"
    assert 0 not in exit_codes(2, config, out)
    assert said(out).count("missing.tsv") == 1


def test_processes_that_torchrun_has_not_started_are_named(monkeypatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(TrainingError, match="can't connect"):
        train(Config(), "run")


@pytest.mark.parametrize(
    ("name", "value"), [("train.warm_start", "denoise"), ("data.train", ("-",)), ("data.valid", ("-",))]
)
def test_what_several_processes_cannot_do_is_named(name: str, value: Any) -> None:
    config = Config().override({"data.train": ("pairs.tsv",)}).override({name: value})
    with pytest.raises(ConfigError) as caught:
        Processes(count=2).check_supports(config, warm_start=bool(config.train.warm_start))
    assert caught.value.name == name
