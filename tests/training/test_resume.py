"""A run that was stopped, however, and resumed ends as if it had not been: bit for bit."""

import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import train
from clearhead.config import Config, preset
from clearhead.errors import ConfigError, DataError, ModelError, TrainingError
from clearhead.folder.checkpoint import Checkpoint, RunFolder, has_begun, read_checkpoint
from clearhead.folder.manifest import replace_files
from clearhead.tasks.translate import Translation
from clearhead.training.choices import hyperparameters
from clearhead.training.report.metrics import read_metrics
from clearhead.training.report.progress import Progress
from clearhead.training.signals import StoppedError
from clearhead.training.trainer import Trainer
from tests.builders import damage, quiet

STEPS = 12  # of the toy run
CALLS = 82  # about so many calls with which a toy run renames, syncs or removes
PICTURES = ["matplotlib.figure", "matplotlib.backends.backend_agg"]


def until_finished(config: Config, out: Path, say: Callable[[str], None] = quiet) -> Path:
    return train(config, out, resume=True, say=say)


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int) -> None:
    """Send this process a signal in the middle of a step."""
    update = Progress.update

    def interrupted(self: Progress, **values: Any) -> None:
        if values["step"] == step:
            signal.raise_signal(number)
        update(self, **values)

    monkeypatch.setattr(Progress, "update", interrupted)


def stopped_run(toy, monkeypatch: pytest.MonkeyPatch, step: int, changes: dict[str, Any] | None = None) -> Path:
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_at(patch, step, signal.SIGTERM)
        train(toy.config(changes), toy.folder / "run", say=quiet)
    return toy.folder / "run"


@pytest.fixture
def stopped(toy, run_stopped_at_6: Path) -> Path:
    """A run that a signal ended after step 6."""
    return Path(shutil.copytree(run_stopped_at_6, toy.folder / "run"))


@pytest.fixture
def finished(toy, finished_run: Path) -> Path:
    """A run that is complete."""
    return Path(shutil.copytree(finished_run, toy.folder / "finished"))


# --- kill -9


def spawn(config: Config, out: Path) -> ForkServerProcess:
    """A training in a process of its own, which need not import torch again."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["clearhead.training.run", "torch._dynamo", "sacrebleu.metrics", *PICTURES])
    process = context.Process(target=train, args=(config, out), kwargs={"resume": True})
    process.start()
    return process


def kill_when(process: ForkServerProcess, moment: Callable[[], bool]) -> bool:
    """Kill a process as soon as the moment has come; whether it was killed before it ended by itself."""
    deadline = time.monotonic() + 60
    while process.is_alive() and not moment():
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def n_lines(out: Path) -> int:
    log = out / "metrics.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def moments(out: Path, rng: random.Random, lines: range) -> Iterator[Callable[[], bool]]:
    """Moments that come one after the other: between two steps, in one, in an evaluation, while it is saved."""
    for line in lines:
        pause = rng.choice([0.0, rng.uniform(0, 0.03), None])

        def reached(line: int = line, pause: float | None = pause) -> bool:
            if n_lines(out) < line:
                return False
            if pause is None:  # the next checkpoint is being written
                return any((out / "checkpoints").glob(".*.partial/*"))
            time.sleep(pause)
            return True

        yield reached


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
def test_a_run_that_is_killed_often_ends_as_if_it_had_not_been(toy, outcome, seed: int) -> None:
    lines = range(3, 43, 4) if seed else range(3, 43, 10)
    changes = {
        "train.steps": 40,
        "train.log_every": 1,
        "train.eval_every": 6,
        "train.save_every": 3,
        "model.max_len": 64,
        "train.seed": seed,
        "train.threads": 1 + seed % 2,
        "train.precision": "bf16" if seed % 2 else "fp32",
    }
    config, out = toy.config(changes), toy.folder / "killed"
    expected = spawn(config, toy.folder / "run")
    kills = sum(kill_when(spawn(config, out), moment) for moment in moments(out, random.Random(seed), lines))
    assert kills == len(lines)
    last = spawn(config, out)
    for process in (expected, last):
        process.join()
        assert process.exitcode == 0
    assert outcome(out) == outcome(toy.folder / "run")


def test_a_run_that_dies_at_a_call_that_writes_ends_as_if_it_had_not(toy, outcome, uninterrupted, fail_from, killed):
    rng, config = random.Random(0), toy.config()
    for number in [1, 3, *rng.sample(range(4, CALLS), 5)]:
        out = toy.folder / f"run-{number}"
        with fail_from(number, killed), pytest.raises(type(killed)):
            train(config, out, resume=True, say=quiet)
        assert outcome(until_finished(config, out)) == uninterrupted


# --- signals


@pytest.mark.parametrize("step", [1, 4, 10, STEPS])
def test_a_run_that_a_signal_stops_at_any_step_ends_as_if_it_had_not(
    toy, outcome, uninterrupted, monkeypatch, step: int
) -> None:
    number = (signal.SIGINT, signal.SIGTERM)[step % 2]
    with monkeypatch.context() as patch, pytest.raises(StoppedError) as stopped:
        stop_at(patch, step, number)
        train(toy.config(), toy.folder / "run", say=quiet)
    assert stopped.value.exit_code == (130, 143)[step % 2]
    name = "Ctrl-C" if number == signal.SIGINT else "SIGTERM"
    assert name in stopped.value.what and f" step {step} " in stopped.value.what
    said: list[str] = []
    assert outcome(until_finished(toy.config(), toy.folder / "run", said.append)) == uninterrupted
    assert f"resuming {toy.folder / 'run'} at step {step} of {STEPS}" in said


def test_a_run_that_is_stopped_at_every_step_ends_as_if_it_had_not(toy, outcome, uninterrupted, monkeypatch) -> None:
    for step in range(1, STEPS + 1):
        with monkeypatch.context() as patch, pytest.raises(StoppedError):
            stop_at(patch, step, signal.SIGINT)
            train(toy.config(), toy.folder / "run", resume=True, say=quiet)
    assert outcome(until_finished(toy.config(), toy.folder / "run")) == uninterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_evaluation_that_a_signal_meets_is_neither_lost_nor_done_again(
    toy, outcome, uninterrupted, monkeypatch, number: int
) -> None:
    evaluate, evaluations = Translation.evaluate, 0

    def interrupted(*arguments: Any, **named: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        if evaluations == 2:
            signal.raise_signal(number)
        return evaluate(*arguments, **named)

    monkeypatch.setattr(Translation, "evaluate", interrupted)
    with pytest.raises(StoppedError, match=" step 10 "):
        train(toy.config(), toy.folder / "run", say=quiet)
    assert outcome(until_finished(toy.config(), toy.folder / "run")) == uninterrupted
    assert evaluations == 4  # at steps 5, 10 and 12, and in the end


def test_a_second_signal_ends_a_run_at_once_and_it_goes_on_from_the_last_checkpoint(
    toy, outcome, uninterrupted, monkeypatch, said
) -> None:
    update = Progress.update

    def interrupted(self: Progress, **values: Any) -> None:
        update(self, **values)
        if values["step"] == 6:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            raise AssertionError("it went on")

    with (
        monkeypatch.context() as patch,
        pytest.raises(StoppedError) as stopped,
    ):
        patch.setattr(Progress, "update", interrupted)
        train(toy.config(), toy.folder / "run", say=quiet)
    assert stopped.value.exit_code == 143
    assert outcome(until_finished(toy.config(), toy.folder / "run", said.append)) == uninterrupted
    assert any(line.endswith(f"at step 4 of {STEPS}") for line in said)


def test_a_signal_before_the_first_step_ends_a_run_at_once(toy, outcome, uninterrupted, said) -> None:
    def interrupt(message: str) -> None:
        if message.startswith("tokenizer"):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(StoppedError) as stopped:
        train(toy.config(), toy.folder / "run", say=interrupt)
    assert stopped.value.exit_code == 130
    assert outcome(until_finished(toy.config(), toy.folder / "run", said.append)) == uninterrupted


def test_a_signal_while_the_finished_model_is_scored_loses_nothing(toy, outcome, uninterrupted, monkeypatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch, pytest.raises(StoppedError) as stopped:
        patch.setattr("clearhead.training.run.load_model_folder", interrupt)
        train(toy.config(), toy.folder / "run", say=quiet)
    assert stopped.value.exit_code == 143
    assert outcome(until_finished(toy.config(), toy.folder / "run")) == uninterrupted


# --- what resume does, says and refuses


def test_a_new_run_and_one_with_resume_are_the_same_where_there_is_nothing_to_resume(
    toy, outcome, uninterrupted, said
) -> None:
    assert outcome(train(toy.config(), toy.folder / "run", resume=True, say=said.append)) == uninterrupted
    assert any(line.startswith(f"{toy.folder / 'run'} has nothing to resume") for line in said)


def bare(toy) -> Config:
    """The settings of a user who names only the files."""
    return Config().override({"data.train": toy.config().data.train})


@pytest.fixture
def without_checkpoint(toy, finished: Path) -> Path:
    """A run that isn't complete, with weights and scores, but whose checkpoints are damaged."""
    manifest = json.loads((finished / "manifest.json").read_bytes())
    del manifest["finished"]
    (finished / "manifest.json").write_text(json.dumps(manifest))
    for checkpoint in (finished / "checkpoints").iterdir():
        damage(checkpoint / "state.json")
    return finished


def test_without_an_intact_checkpoint_a_run_restarts_with_its_own_settings_and_says_so(
    toy, outcome, uninterrupted, without_checkpoint: Path, said
) -> None:
    assert outcome(until_finished(bare(toy), without_checkpoint, said.append)) == uninterrupted
    assert any(str(without_checkpoint) in line and "no complete checkpoint" in line for line in said)


def test_a_run_that_restarts_rejects_settings_that_contradict_it(toy, without_checkpoint: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        until_finished(toy.config({"train.steps": 24}), without_checkpoint)
    assert (caught.value.name, caught.value.value) == ("train.steps", 24)


def test_a_run_that_restarts_needs_the_data_that_it_began_with(toy, without_checkpoint: Path) -> None:
    other = toy.folder / "other.tsv"
    other.write_text(Path(bare(toy).data.train[0]).read_text().replace("one", "two", 1))
    with pytest.raises(TrainingError) as caught:
        until_finished(Config().override({"data.train": (str(other),)}), without_checkpoint)
    assert caught.value.name == "the training data"


def test_a_run_that_restarts_may_be_of_a_version_that_recorded_no_digest(
    toy, outcome, uninterrupted, without_checkpoint: Path
) -> None:
    config = json.loads((without_checkpoint / "config.json").read_bytes())
    del config["data"]["digest"]
    replace_files(without_checkpoint, {"config.json": json.dumps(config).encode()})
    restarted = outcome(until_finished(bare(toy), without_checkpoint))
    assert all(restarted[name] == uninterrupted[name] for name in ("files", "checkpoint", "tensors", "metrics"))


def test_a_run_that_restarts_removes_what_it_wrote_before(toy, without_checkpoint: Path) -> None:
    def interrupt(message: str) -> None:
        if "parameters;" in message:
            signal.raise_signal(signal.SIGINT)

    before = (without_checkpoint / "config.json").read_bytes()
    with pytest.raises(StoppedError):
        until_finished(bare(toy), without_checkpoint, interrupt)
    assert (without_checkpoint / "config.json").read_bytes() == before
    names = {path.name for path in without_checkpoint.iterdir()}
    assert names == {"README.md", "checkpoints", "config.json", "manifest.json", "metrics.jsonl", "tokenizer.json",
                     "words.txt", ".tokens"}  # fmt: skip
    assert read_metrics(without_checkpoint / "metrics.jsonl") == []


def test_a_run_that_restarts_starts_from_the_same_weights(toy, outcome, finished: Path, monkeypatch) -> None:
    changes = {"train.init_from": str(finished), "train.save_every": 12, "train.lr": 1e-3}
    changes |= dict.fromkeys(("data.tokenizer", "model.d_model", "model.n_heads", "model.d_ff"))
    changes = {name: value for name, value in changes.items() if value}
    expected = outcome(train(toy.config(changes), toy.folder / "expected", say=quiet))
    out = toy.folder / "run"
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        patch.setattr(RunFolder, "save_checkpoint", raise_(StoppedError("killed", 1)))
        stop_at(patch, 6, signal.SIGTERM)
        train(toy.config(changes), out, say=quiet)
    assert not (out / "checkpoints").exists() and n_lines(out)
    assert outcome(until_finished(bare(toy), out)) == expected


def first_calls(fail_from, killed: BaseException, start: Callable[[], object], every: int = 1) -> Iterator[int]:
    """Kill a run at each call in turn that changes a file, or at some of them, up to its first step."""
    for number in range(1, 60, every):
        try:
            with fail_from(number, killed):
                start()
        except FirstStepError:
            return
        except type(killed):
            yield number
    raise AssertionError("the first step never came")


class FirstStepError(Exception): ...


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_twice_before_its_first_step_begins_with_its_settings(
    toy, monkeypatch, fail_from, killed, every: int
) -> None:
    monkeypatch.setattr(Trainer, "train", raise_(FirstStepError()))
    out, once, config, n_killed = toy.folder / "run", toy.folder / "once", toy.config(), 0

    def start(asked: Config, *, resume: bool) -> None:
        train(asked, out, resume=resume, say=quiet)

    def files() -> dict[str, bytes]:
        names = ("config.json", "tokenizer.json", "README.md", "words.txt", "manifest.json")
        return {name: (out / name).read_bytes() for name in names}

    with pytest.raises(FirstStepError):
        start(config, resume=False)
    expected = files()
    shutil.rmtree(out)
    for _ in first_calls(fail_from, killed, lambda: start(config, resume=False)):
        asked = bare(toy) if has_begun(out) else config  # or else nothing can be known about the settings
        shutil.copytree(out, once) if out.exists() else once.mkdir()
        for _ in first_calls(fail_from, killed, partial(start, asked, resume=True), every):
            n_killed += 1
            with pytest.raises(FirstStepError):
                start(bare(toy) if has_begun(out) else asked, resume=True)
            assert files() == expected
            shutil.rmtree(out)
            shutil.copytree(once, out)
        shutil.rmtree(once)
        shutil.rmtree(out)
    assert n_killed > 100 / every


def test_a_run_whose_first_files_are_lost_starts_again_with_and_without_resume(
    toy, outcome, uninterrupted, monkeypatch, fail_from, killed
) -> None:
    for resume, lost in itertools.product([False, True], [".tokenizer.json.partial", ".README.md.partial"]):
        out = toy.folder / f"{resume}{lost}"
        for number in itertools.count(1):
            shutil.rmtree(out, ignore_errors=True)
            with fail_from(number, killed), pytest.raises(type(killed)):
                train(toy.config(), out, say=quiet)
            if (out / "config.json").exists():
                break
        (out / lost).unlink()
        assert outcome(train(toy.config(), out, resume=resume, say=quiet)) == uninterrupted


@pytest.mark.parametrize("number", range(2, 9))
def test_a_run_that_is_killed_when_it_is_about_to_finish_leaves_nothing_else(
    toy, uninterrupted, finished: Path, monkeypatch, fail_from, killed, number: int
) -> None:
    """Kill it after the scores, and while it saves its last checkpoint."""
    out, finish, save = toy.folder / "run", RunFolder.finish, RunFolder.save_checkpoint

    def kill(method: Callable[..., Any]) -> Callable[..., Any]:
        def killing(self: RunFolder, done: int | Checkpoint) -> Any:
            if (done.step if isinstance(done, Checkpoint) else done) < STEPS:
                return method(self, done)
            with fail_from(number, killed):
                method(self, done)
            raise killed

        return killing

    with monkeypatch.context() as patch, pytest.raises(type(killed)):
        patch.setattr(RunFolder, *(("finish", kill(finish)) if number % 2 else ("save_checkpoint", kill(save))))
        train(toy.config(), out, say=quiet)
    until_finished(toy.config(), out)

    def names(run: Path) -> set[str]:
        return {str(path.relative_to(run)) for path in run.rglob("*")}

    assert names(out) == names(finished)


def test_resuming_a_finished_run_changes_nothing(toy, finished: Path, said) -> None:
    run = finished

    def everything() -> dict[Path, tuple[int, bytes]]:
        files = (path for path in run.rglob("*") if path.is_file())
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

    before = everything()
    assert len(before) > 10
    assert train(toy.config(), run, resume=True, say=said.append) == run
    assert everything() == before
    assert said == [f"{run} is complete: it was trained to step {STEPS}; to train it further, use --init-from"]


@pytest.mark.parametrize("which", ["stopped", "finished"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train.lr", 0.5),
        ("train.steps", 24),
        ("model.d_model", 64),
        ("data.tokenizer", "unigram"),
        ("train.threads", 2),
        ("train.precision", "bf16"),
    ],
)
def test_a_setting_that_contradicts_the_runs_is_rejected(toy, request, which: str, name: str, value: object) -> None:
    run = request.getfixturevalue(which)
    with pytest.raises(ConfigError) as caught:
        train(toy.config({name: value}), run, resume=True, say=quiet)
    assert (caught.value.name, caught.value.value) == (name, value)


def test_settings_that_nobody_gives_are_those_of_the_run(toy, outcome, uninterrupted, stopped: Path) -> None:
    run = stopped
    files = toy.config().data.train
    bare = Config().override({"data.train": files, "train.precision": "auto", "train.lr": None})
    assert outcome(train(bare, run, resume=True, say=quiet)) == uninterrupted


@pytest.mark.parametrize("changes", [{}, {"data.joint": False}], ids=str)
def test_a_file_of_all_settings_begins_and_resumes_a_run_as_its_options_do(
    toy, outcome, monkeypatch, changes: dict[str, Any]
) -> None:
    """As `--print-config` writes it, with what the user did not set in comments."""
    options = {
        "model.d_ff": 64,
        "train.steps": 12,
        "train.save_every": 4,
        "train.threads": 1,
        "train.precision": "fp32",
    }
    options |= {"data.train": toy.config().data.train, "data.max_len": 12, "data.tokenizer": "word"} | changes
    options |= {"train.eval_every": 6}
    config = Config().override(preset("nano") | options)
    expected = train(config, toy.folder / "expected", say=quiet)
    (toy.folder / "all.toml").write_text(config.to_toml())
    asked = Config.from_toml(toy.folder / "all.toml")
    with monkeypatch.context() as patch, pytest.raises(StoppedError):
        stop_at(patch, 6, signal.SIGTERM)
        train(asked, toy.folder / "run", say=quiet)
    again = train(asked, toy.folder / "run", resume=True, say=quiet)
    assert outcome(again) == outcome(expected)


def machine(patch: pytest.MonkeyPatch, *, cores: int, precision: str) -> None:
    patch.setattr(hyperparameters, "_precision", lambda _device, _threads: (precision, "the test says so"))
    patch.setattr("os.sched_getaffinity", lambda _process: set(range(cores)), raising=False)
    patch.setattr("os.cpu_count", lambda: cores)
    patch.delenv("OMP_NUM_THREADS", raising=False)


def test_what_the_machine_decided_is_decided_once(toy, outcome, monkeypatch) -> None:
    config = toy.config({"train.precision": "auto", "train.threads": None})
    machine(monkeypatch, cores=1, precision="bf16")
    expected = outcome(train(config, toy.folder / "expected", say=quiet))
    run = stopped_run(toy, monkeypatch, 6, {"train.precision": "auto", "train.threads": None})
    machine(monkeypatch, cores=7, precision="fp32")
    choices, _ = hyperparameters.choose_machine(config)
    assert (choices.train.threads, choices.train.precision) == (7, "fp32")
    assert outcome(until_finished(config, run)) == expected
    stored = json.loads((run / "config.json").read_bytes())["train"]
    assert (stored["threads"], stored["precision"], torch.get_num_threads()) == (1, "bf16", 1)


def test_all_choices_are_written_down_before_the_first_step(toy, monkeypatch) -> None:
    def end(*_: Any) -> None:
        raise KeyError("the first step")

    monkeypatch.setattr(Trainer, "_next_step", end)
    with pytest.raises(KeyError, match="the first step"):
        train(Config().override({"data.train": (str(toy.pairs()),)}), toy.folder / "run", say=quiet)
    stored = json.loads((toy.folder / "run" / "config.json").read_bytes())
    never = {  # None means something here: as many as heads; as model.dropout; as steps say; answers, of prompts
        *(("model", it) for it in ("image_size", "image_channels", "patch_size", "sample_rate")),  # not of texts
        ("model", "n_kv_heads"),
        ("model", "attention_dropout"),
        ("model", "activation_dropout"),
        ("model", "feed_forward"),
        *(("model", it) for it in ("d_head", "attention_scale", "window", "final_norm", "embedding_scale")),
        *(("model", it) for it in ("qkv_bias", "projection_bias", "start_id")),  # as bias, as tie says, as bos_id
        ("train", "epochs"),
        ("train", "loss_on"),
        ("train", "warm_steps"),
        ("train", "hidden_span"),
        ("train", "soup"),
        ("data", "batch_sentences"),
    }
    assert {
        (part, name) for part in ("model", "data", "train") for name, it in stored[part].items() if it is None
    } <= never
    assert "auto" not in stored["train"].values()


def test_a_device_that_is_gone_is_rejected(toy, monkeypatch, stopped: Path) -> None:
    def gone(asked: str) -> str:
        raise ConfigError("it's gone", name="train.device", value=asked)

    monkeypatch.setattr("clearhead.training.prepare.choose_device", gone)
    with pytest.raises(ConfigError) as caught:
        until_finished(toy.config(), stopped)
    assert (caught.value.name, caught.value.value) == ("train.device", "cpu")


@pytest.mark.parametrize("which", ["train", "valid"])
def test_changed_data_are_refused(toy, monkeypatch, which: str) -> None:
    changes = {"data.valid": (str(toy.pairs(8, name="valid.tsv")),)}
    run = stopped_run(toy, monkeypatch, 6, changes)
    changed = toy.folder / {"train": "pairs.tsv", "valid": "valid.tsv"}[which]
    text = changed.read_text()
    changed.write_text(text.replace("one", "two", 1))
    name = {"train": "training", "valid": "validation"}[which]
    config = toy.config(changes | {"data.train": (str(toy.folder / "pairs.tsv"),)})
    with pytest.raises(TrainingError) as caught:
        until_finished(config, run)
    assert caught.value.name == f"the {name} data"
    changed.write_text(text)
    until_finished(config, run)


@pytest.mark.parametrize(("which", "name"), [("stopped", "data.valid"), ("finished", "data.test")])
def test_a_file_to_score_on_that_the_run_was_begun_without_is_rejected_and_spoils_nothing(
    toy, outcome, uninterrupted, request, said, which: str, name: str
) -> None:
    run = request.getfixturevalue(which)
    added = str(toy.pairs(8, name="added.tsv"))
    with pytest.raises(ConfigError) as caught:
        train(toy.config({name: (added,)}), run, resume=True, say=quiet)
    assert (caught.value.name, caught.value.value) == (name, (added,))
    assert outcome(until_finished(toy.config(), run, said.append)) == uninterrupted
    assert which == "finished" or any(str(run / ".tokens") in line for line in said)


def test_files_may_have_moved(toy, outcome, uninterrupted, stopped: Path) -> None:
    moved = toy.pairs(name="elsewhere.tsv")
    result = outcome(until_finished(toy.config({"data.train": (str(moved),)}), stopped))
    assert result == uninterrupted


def test_an_occupied_folder_is_rejected_without_resume_and_left_as_it_was(
    toy, outcome, uninterrupted, finished: Path
) -> None:
    with pytest.raises(TrainingError, match=re.escape(str(finished))):
        train(toy.config(), finished, say=quiet)
    assert outcome(finished) == uninterrupted


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_in_use_by_another_run_is_refused(toy, resume: bool) -> None:
    out = toy.folder / "run"
    with RunFolder.create(out, say=quiet), pytest.raises(TrainingError, match="in use"):
        train(toy.config(), out, resume=resume, say=quiet)


# --- disks and files that fail


def test_a_disk_that_is_full_while_a_checkpoint_is_written_loses_no_earlier_one(
    toy, outcome, uninterrupted, monkeypatch, disk_full
) -> None:
    save = RunFolder.save_checkpoint

    def full(self: RunFolder, checkpoint: Checkpoint) -> Path:
        if checkpoint.step < 8:
            return save(self, checkpoint)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", raise_(disk_full))
            return save(self, checkpoint)

    out = toy.folder / "run"
    with monkeypatch.context() as patch, pytest.raises(TrainingError, match="No space left"):
        patch.setattr(RunFolder, "save_checkpoint", full)
        train(toy.config(), out, say=quiet)
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000004"]
    assert read_checkpoint(out / "checkpoints" / "step-00000004").step == 4
    assert outcome(until_finished(toy.config(), out)) == uninterrupted


def raise_(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def test_a_disk_that_is_full_at_any_moment_is_said_and_the_run_goes_on_later(
    toy, outcome, uninterrupted, fail_from, disk_full
) -> None:
    for number in random.Random(1).sample(range(1, CALLS), 5):
        out = toy.folder / f"run-{number}"
        with fail_from(number, disk_full), pytest.raises(TrainingError, match="No space left on device"):
            train(toy.config(), out, resume=True, say=quiet)
        assert outcome(until_finished(toy.config(), out)) == uninterrupted


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"])
def test_a_damaged_newest_checkpoint_is_passed_over(toy, outcome, uninterrupted, monkeypatch, said, file: str) -> None:
    run = stopped_run(toy, monkeypatch, 9)
    damage(run / "checkpoints" / "step-00000009" / file)
    assert outcome(until_finished(toy.config(), run, said.append)) == uninterrupted
    assert any(f"step-00000009/{file}" in line for line in said)
    assert any(line.endswith(f"at step 8 of {STEPS}") for line in said)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "manifest.json"])
def test_what_the_run_wrote_down_is_verified_before_it_goes_on(toy, stopped: Path, file: str) -> None:
    run = stopped
    damage(run / file)
    with pytest.raises(ModelError, match=re.escape(str(run / file))):
        until_finished(toy.config(), run)
    (run / file).unlink()
    with pytest.raises((ModelError, TrainingError), match=re.escape(file)):
        until_finished(toy.config(), run)


def test_a_folder_that_may_not_be_written_to_is_refused(toy, fail_from, read_only) -> None:
    with fail_from(1, read_only), pytest.raises(TrainingError, match="Read-only file system"):
        train(toy.config(), toy.folder / "run", say=quiet)


# --- other ways to train


@pytest.mark.parametrize(
    "changes",
    [
        {"train.optimizer": "adamw", "train.weight_decay": 0.1, "train.schedule": "cosine", "data.split": 0.0},
        {"train.optimizer": "adam", "data.joint": False, "model.positions": "rotary", "model.tie": "none"},
        {"train.optimizer": "muon", "train.precision": "bf16"},
        pytest.param({"train.threads": 2, "train.precision": "bf16"}, marks=pytest.mark.slow),
        {"train.best": "loss", "train.clip": 0.0, "train.precision": "bf16"},
        {"data.batch_tokens": 16, "train.log_every": 5, "train.label_smoothing": 0.0},
    ],
    ids=str,
)
def test_resume_is_exact_with_other_settings(toy, outcome, monkeypatch, changes: dict[str, Any]) -> None:
    expected = outcome(train(toy.config(changes), toy.folder / "expected", say=quiet))
    run = stopped_run(toy, monkeypatch, 7, changes)
    assert outcome(until_finished(toy.config(changes), run)) == expected


def test_a_mean_of_checkpoints_is_the_same_however_often_a_run_is_stopped_between_them(
    toy, outcome, monkeypatch
) -> None:
    changes = {"train.average": 3, "train.save_every": 2, "train.best": "loss"}
    config = toy.config(changes)
    expected = outcome(train(config, toy.folder / "expected", say=quiet))
    for step in (5, 7, 9, 11):
        with monkeypatch.context() as patch, pytest.raises(StoppedError):
            stop_at(patch, step, signal.SIGINT)
            train(config, toy.folder / "run", resume=True, say=quiet)
    assert outcome(until_finished(config, toy.folder / "run")) == expected
    assert [it["averaged"] for it in expected["metrics"] if "averaged" in it] == [3]


def test_a_model_card_that_is_gone_is_written_again(toy, stopped: Path) -> None:
    run = stopped
    assert "training hasn't finished" in (run / "README.md").read_text()
    (run / "README.md").unlink()
    until_finished(toy.config(), run)
    card = (run / "README.md").read_text()
    assert "| validation | 6 |" in card and "hasn't finished" not in card


# --- folders from elsewhere


@pytest.mark.parametrize("name", ["README.md", "metrics.jsonl", ".replaced", ".asked.json", ".kept.json"])
def test_a_pipe_in_place_of_a_file_of_the_run_does_not_block(toy, run_stopped_at_6: Path, name: str) -> None:
    out = toy.folder / "out"
    if name == ".asked.json":  # only read if nothing else is there
        out.mkdir()
    else:
        shutil.copytree(run_stopped_at_6, out)
    (out / name).unlink(missing_ok=True)
    os.mkfifo(out / name)
    with pytest.raises((ModelError, DataError, TrainingError)) as caught:
        train(toy.config(), out, resume=True, say=quiet)
    assert caught.value.expected in ("a regular file", "a folder on a disk that can be written to")


@pytest.mark.parametrize(("name", "value"), [("epoch", "x"), ("best", []), ("last_step", None), ("since", None)])
def test_a_checkpoint_with_a_strange_value_is_an_error_that_names_it(
    toy, run_stopped_at_6: Path, name: str, value: Any
) -> None:
    out = Path(shutil.copytree(run_stopped_at_6, toy.folder / "out"))
    newest = max((out / "checkpoints").iterdir())
    content = json.loads((newest / "state.json").read_bytes())
    if value is None:
        del content["state"][name]
    else:
        content["state"][name] = value
    replace_files(newest, {"state.json": json.dumps(content).encode()})
    (out / ".kept.json").unlink(missing_ok=True)
    with pytest.raises(ModelError) as caught:
        train(toy.config(), out, resume=True, say=quiet)
    assert caught.value.name == name
