"""The number of threads is chosen by timing steps, and what other programs use is noticed."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from clearhead.api import train
from clearhead.config import Config
from clearhead.folder.model_folder import read_card, read_config
from clearhead.tasks.translate import Translation
from clearhead.training.choices import thread_trial
from clearhead.training.choices.thread_trial import OtherPrograms, ThreadTiming, candidates, choose_threads, time_steps


class FakeSteps:
    """Steps that take as long as they are told to, by number of threads, and the turns that were taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: Mapping[int, float]) -> None:
        self.now, self.length, self.taken, self.batch = 0.0, seconds, [], 0
        monkeypatch.setattr(
            thread_trial, "time", SimpleNamespace(perf_counter=lambda: self.now, process_time=lambda: 0.0)
        )

    def next(self) -> int:
        self.batch += 1
        return 100 * self.batch

    def seconds(self, threads: int) -> float:
        self.taken.append((self.batch, threads))
        self.now += self.length[threads]
        return self.length[threads]


def test_numbers_of_threads_take_turns_with_the_same_batches(monkeypatch) -> None:
    steps = FakeSteps(monkeypatch, {1: 0.3, 2: 0.2})
    timing = time_steps(steps, [1, 2])  # type: ignore[arg-type]
    assert steps.taken == [(0, 2), (1, 2), (1, 1), (2, 1), (2, 2), (3, 2), (3, 1)]
    assert (timing.seconds, timing.tokens, timing.threads) == ({1: 0.3, 2: 0.2}, 200, 2)


def test_a_trial_of_long_steps_ends_after_one_turn(monkeypatch) -> None:
    steps = FakeSteps(monkeypatch, {1: 4.0, 2: 3.0})
    assert time_steps(steps, [1, 2]).seconds == {1: 4.0, 2: 3.0}  # type: ignore[arg-type]
    assert len(steps.taken) == 3


def test_fewer_threads_are_not_tried_once_the_steps_become_much_longer(monkeypatch) -> None:
    steps = FakeSteps(monkeypatch, {1: 9.0, 2: 0.5, 4: 0.26, 8: 0.2, 16: 0.25})
    timing = time_steps(steps, [1, 2, 4, 8, 16])  # type: ignore[arg-type]
    assert timing.seconds.keys() == {2, 4, 8, 16} and timing.threads == 8
    assert [count for _, count in steps.taken].count(2) == 1  # its time is hopeless, so no second turn


def test_more_threads_are_taken_only_if_they_are_clearly_faster() -> None:
    assert ThreadTiming({1: 1.0, 2: 0.81}, 100).threads == 1
    assert ThreadTiming({1: 1.0, 2: 0.8}, 100).threads == 2
    assert ThreadTiming({1: 1.0, 2: 0.7, 4: 0.6}, 100).threads == 2
    assert ThreadTiming({1: 1.0, 2: 2.3}, 100).threads == 1


def test_the_choice_names_what_was_measured_and_what_other_programs_use(monkeypatch) -> None:
    monkeypatch.setattr(thread_trial, "usable_cores", lambda: 2)
    assert str(ThreadTiming({1: 1.0, 2: 0.5}, 1500.0, 0.1).choice("target tokens")) == (
        "train.threads = 2: 3,000 target tokens per second in a trial, 1,500 with 1 thread"
    )
    assert str(ThreadTiming({1: 1.0, 2: 2.0}, 1500.0, 1.04).choice("tokens")) == (
        "train.threads = 1: 1,500 tokens per second in a trial, 750 with 2 threads; other programs use 1.0 of 2 cores "
        "(if they end soon, set --threads)"
    )


@pytest.mark.parametrize(("most", "tried"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_powers_of_two_and_all_threads_are_tried(monkeypatch, most: int, tried: list[int]) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = Config().assign({"train.threads": most, "train.device": "cpu"}, "machine")
    assert candidates(config) == tried
    assert candidates(config.assign({"train.device": "cuda"}, "machine")) == [most]
    assert candidates(config.override({"train.threads": most})) == [most]
    monkeypatch.setenv("OMP_NUM_THREADS", str(most))
    assert candidates(config) == [most]


def test_a_short_run_has_no_trial(monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    config = Config().assign({"train.threads": 2, "train.device": "cpu", "train.steps": 199}, "machine")
    assert choose_threads(config, None, None) == (config, [])  # type: ignore[arg-type]


def test_what_a_trial_chose_is_used_reported_and_written_down(toy, monkeypatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("clearhead.training.choices.hyperparameters.usable_cores", lambda: 2)
    monkeypatch.setattr(thread_trial, "_FEWEST", 1)
    slow = {1: 0.001, 2: 0.01}
    monkeypatch.setattr(thread_trial.Steps, "seconds", lambda self, threads: slow[threads])
    said: list[str] = []
    run = train(toy.config({"train.threads": None, "train.steps": 1}), toy.folder / "run", say=said.append)
    [line] = [it for it in said if it.startswith("train.threads = ")]
    assert line.startswith("train.threads = 1: ") and "with 2 threads" in line
    stored = read_config(run)
    assert (stored.train.threads, stored.origin("train.threads"), torch.get_num_threads()) == (1, "machine", 1)
    assert line in read_card(run)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_trial_leaves_the_same_weights_as_the_users_choice_of_its_number(toy, monkeypatch, threads: int) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("clearhead.training.choices.hyperparameters.usable_cores", lambda: 2)
    monkeypatch.setattr(thread_trial, "_FEWEST", 1)
    monkeypatch.setattr(ThreadTiming, "threads", threads)
    runs = [
        train(toy.config({"train.threads": asked, "train.precision": "bf16"}), toy.folder / name, say=lambda _: None)
        for asked, name in ((threads, "chosen"), (None, "tried"))
    ]
    assert len({(run / "model.safetensors").read_bytes() for run in runs}) == 1
    assert len({(run / "metrics.jsonl").read_text().count("\n") for run in runs}) == 1
    assert read_config(runs[1]).train.threads == threads


def test_a_step_of_a_trial_is_a_real_one_and_can_be_repeated(toy) -> None:
    config = toy.config().assign(
        {"model.src_vocab_size": 12, "model.tgt_vocab_size": 12, "train.device": "cpu"}, "data"
    )
    from clearhead.tasks.examples import Examples
    from clearhead.tokenization.ragged import Ragged
    from clearhead.tokenization.source_and_target import Tokenizers
    from clearhead.tokenization.tokenizer import Tokenizer

    task = Translation(Tokenizers(Tokenizer.without_text(), Tokenizer.without_text()), config)

    words = Ragged([[5, 6, 2], [7, 8, 9, 2]])
    steps = thread_trial.Steps(config, task, Examples(words, Ragged([[1, 5, 6, 2], [1, 7, 8, 9, 2]])))
    assert steps.next() == 7
    before = {name: it.clone() for name, it in steps.model.state_dict().items()}
    assert steps.seconds(1) > 0 and steps.seconds(2) > 0
    assert torch.get_num_threads() == 2
    assert any(not torch.equal(before[name], it) for name, it in steps.model.state_dict().items())


# --- other programs


def ticks(user: int, idle: int) -> str:
    """The times of two cores; this process may use the first only."""
    return f"cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 {user} 0 0 {idle} 0 0 0 0 0 0\ncpu1 99{user} 0 0 0 0 0 0 0 0 0\nintr 1 2\n"


def test_other_programs_use_what_this_process_does_not(monkeypatch) -> None:
    now, own, stat = 10.0, 5.0, ticks(100, 900)
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    monkeypatch.setattr(time, "process_time", lambda: own)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda _name: 100)
    monkeypatch.setattr(Path, "read_text", lambda _path: stat)
    others = OtherPrograms()
    now, own, stat = 20.0, 8.0, ticks(100 + 700, 900 + 300)  # 7 seconds of work, 3 of them this process's
    assert others.cores() == pytest.approx(0.4)


@pytest.mark.parametrize("content", [OSError(), "", "cpu0 a b"])
def test_where_the_system_does_not_tell_no_other_program_is_seen(monkeypatch, content: str | OSError) -> None:
    def read(_path: Path) -> str:
        if isinstance(content, OSError):
            raise content
        return content

    monkeypatch.setattr(Path, "read_text", read)
    assert OtherPrograms().cores() == 0.0
