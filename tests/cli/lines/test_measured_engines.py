"""The engine of workers, chosen by measured speed and by what another process prepares. Clocks and speeds are fake."""

import os
import time
from collections.abc import Sequence

import pytest

from clearhead.cli.input_lines import Line, Place, Printed
from clearhead.cli.lines.answering import CAN_FORK
from clearhead.cli.lines.in_order import InOrder
from clearhead.cli.lines.measured_engines import Engines, n_bytes

HERE = os.getpid()
LINES: list[Place] = [(f"line {number}", Line(number, "a word")) for number in range(4)]
ANSWERS = [Printed("un mot")] * 4
SIZE = n_bytes(LINES)


class Machine:
    """A clock on which each line takes a second, and each opening of an engine ten."""

    def __init__(self, best: str = "fast") -> None:
        self.now, self.best, self.opened, self.prepares = 0.0, best, list[str](), False
        self.engines = Engines(self.use, "slow", lambda: self.prepares, lambda: self.now)

    def use(self, name: str) -> str:
        self.now += 10
        self.opened.append(name or self.best)
        return self.opened[-1]

    def answer(self, lines: Sequence[Place]) -> list[Printed]:
        self.now += len(lines)
        return [Printed("") for _ in lines]

    def next(self, left: float, workers: int = 2) -> str:
        """Return the next engine if the rest takes `left` seconds of a worker, at a second per line."""
        return self.engines.next(round(left / len(LINES) * SIZE), workers)


def test_a_core_is_left_to_a_preparation_if_the_rest_of_the_input_takes_long() -> None:
    machine = Machine("slow")
    machine.prepares = True
    assert not machine.engines.leaves_core(10**9)  # nothing is measured yet
    machine.engines.sample(machine.answer, LINES)
    assert not machine.engines.leaves_core(7 * SIZE) and machine.engines.leaves_core(8 * SIZE)
    machine.engines.unread = lambda: 8 * SIZE
    assert machine.engines.leaves_core(0) and machine.engines.patience
    machine.prepares, machine.best = False, "fast"
    assert machine.next(0) == "fast" and machine.opened == ["slow", "fast"]
    assert not machine.engines.leaves_core(0) and machine.engines.patience is None


def test_a_preparation_that_fails_changes_nothing() -> None:
    machine = Machine("slow")
    machine.prepares = True
    machine.engines.sample(machine.answer, LINES)
    machine.prepares = False
    assert machine.next(999) == "slow" and machine.engines.patience is None


@pytest.mark.parametrize(("seconds", "chosen"), [(3.0, "slow"), (3.8, "fast"), (9.0, "fast")])
def test_an_engine_that_was_ready_later_is_kept_unless_it_is_slower(seconds: float, chosen: str) -> None:
    machine = Machine("slow")
    machine.prepares = True
    machine.engines.sample(machine.answer, LINES)
    machine.engines.note("slow", LINES, ANSWERS, seconds)
    machine.prepares, machine.best = False, "fast"
    assert machine.next(8) == "fast"
    machine.engines.note("fast", LINES, ANSWERS, 4.0)
    assert {machine.next(8) for _ in range(3)} == {chosen}


@pytest.mark.parametrize(("seconds", "chosen"), [(3.0, "slow"), (3.8, "fast"), (9.0, "fast")])
def test_one_worker_tries_another_engine_if_the_rest_takes_long(seconds: float, chosen: str) -> None:
    machine = Machine()
    machine.engines.sample(machine.answer, LINES)
    assert machine.next(999) == "fast"  # no worker was measured yet
    machine.engines.note("fast", LINES, ANSWERS, 4.0)
    assert machine.next(119, workers=2) == "fast" and machine.opened == ["fast"]
    assert [machine.next(121) for _ in range(3)] == ["slow", "fast", "fast"]
    machine.engines.note("slow", LINES, ANSWERS, seconds)
    assert [machine.next(121) for _ in range(2)] == [chosen] * 2


def test_speeds_are_compared_by_the_length_of_answers() -> None:
    machine = Machine()
    machine.engines.sample(machine.answer, LINES)
    machine.engines.note("fast", LINES, [Printed("un mot " * 10)] * 4, 8.0)  # slower per line
    assert machine.next(999) == "slow"
    machine.engines.note("slow", LINES, ANSWERS, 4.0)
    assert machine.next(999) == "fast"


def test_without_a_rival_nothing_is_compared() -> None:
    engines = Engines(lambda name: name or "only")
    engines.sample(lambda chunk: [Printed("") for _ in chunk], LINES)
    engines.note("only", LINES, ANSWERS, 10**9)
    assert engines.next(10**9, 2) == "only" and not engines.leaves_core(10**9)


@pytest.mark.skipif(not CAN_FORK, reason="worker processes need Linux")
@pytest.mark.parametrize("works", [True, False])
def test_new_workers_share_the_engine_that_this_process_opens_when_it_is_ready(works: bool) -> None:
    best, looks = ["slow"], list[int]()

    def use(name: str) -> str:
        best[0] = name or ("fast" if len(looks) > 4 and works else "slow")
        return best[0]

    def is_preparing() -> bool:
        looks.append(1)
        return len(looks) < 5

    def answer(chunk: Sequence[Place]) -> list[Printed]:
        time.sleep(0.02)
        return [Printed(f"{os.getpid()} {best[0]}") for _ in chunk]

    engines = Engines(use, "", is_preparing)
    groups = iter([LINES * 250, LINES * 250])
    found = InOrder(answer, lambda: 3, lambda _: Printed(""), engines=engines).run(groups)
    answers = {it.text for _, some in found for it in some if not it.text.startswith(f"{HERE} ")}
    slow, fast = ({it.split()[0] for it in answers if it.endswith(name)} for name in ("slow", "fast"))
    assert (len(slow), len(fast), slow & fast) == (3, 3 if works else 0, set())
