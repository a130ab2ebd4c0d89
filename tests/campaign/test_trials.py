"""The campaign sees what it's there to see: wrong ends, exceptions, crashes and processes that hang."""

import os
import random
import signal
import time
from itertools import islice
from pathlib import Path

import pytest

from tests.campaign import trials
from tests.campaign.__main__ import kinds, table
from tests.campaign.trials import InProcess, Outcome, WrongError, call, dice, mutated, verdict_of


class Mixed(InProcess):
    """Trials that end in every way, by their number."""

    name = "mixed"

    def trial(self, rng: random.Random, room: Path) -> None:
        assert Path.cwd() == room.resolve() and not list(room.iterdir())
        match self.numbers.pop(0):
            case 1:
                raise WrongError("another answer")
            case 2:
                raise RuntimeError("unexpected")
            case 3:
                os.kill(os.getpid(), signal.SIGKILL)
            case 4:
                time.sleep(60)

    def trials(self, numbers, seed):
        self.numbers = list(numbers)
        for outcome in super().trials(list(self.numbers), seed):
            if outcome.verdict in ("crash", "hang"):  # the trials after it begin in another process
                self.numbers = self.numbers[self.numbers.index(outcome.number) + 1 :]
            yield outcome


def test_every_end_is_told_from_the_others_and_no_trial_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "PATIENCE", 0.5)
    outcomes = list(Mixed().trials([0, 1, 2, 3, 5, 4, 6], 0))
    assert [it.number for it in outcomes] == [0, 1, 2, 3, 5, 4, 6]
    assert [it.verdict for it in outcomes] == ["right", "wrong", "traceback", "crash", "right", "hang", "right"]
    assert "another answer" in outcomes[1].detail and "unexpected" in outcomes[2].detail


@pytest.mark.parametrize(
    ("code", "output"),
    [
        (1, "internal error: ValueError: x"),
        (0, "/lib/x.py:3: RuntimeWarning: overflow"),
        (1, "Traceback (most recent call last):"),
        (1, "thread '<unnamed>' panicked at src/lib.rs"),
        (-6, "free(): invalid pointer"),
        (99, "error: x"),
        (1, "nothing that says what is wrong"),
    ],
)
def test_what_no_user_should_see_is_wrong(code: int, output: str) -> None:
    with pytest.raises(WrongError):
        verdict_of(code, output)


def test_answers_and_errors_are_right() -> None:
    verdict_of(0, "3 of 3 lines used")
    verdict_of(2, "error: --beam=0\n  expected: at least 1")


def test_a_command_line_runs_in_this_process_and_its_streams_are_read() -> None:
    called = call("--version")
    assert called.code == 0 and called.out.startswith(b"clearhead ") and not called.err
    assert call("nothing").checked().code == 2


def test_a_trial_is_the_same_each_time() -> None:
    content = b"one\ttwo\nthree\tfour\n"
    first, second = (mutated(content, dice("x", 3, 0)) for _ in range(2))
    assert first == second
    changed = {mutated(content, dice("x", number, 0)) for number in islice(range(100), 50)}
    assert len(changed) > 25


def test_the_table_sums_what_counts_in_one_column() -> None:
    names = [kind.name for kind in kinds()]
    assert len({*names}) == len(names)
    outcomes = [Outcome(name, 0, "wrong" if name == "kill-see" else "right", count=2) for name in names]
    kills = next(row.split() for row in table(outcomes).splitlines() if row.startswith("all kills"))
    n_kinds = sum(name.startswith("kill") for name in names)
    assert kills[2:] == [str(n_kinds), str(2 * n_kinds), "1", "0", "0", "0"]
