"""Lines answered by worker processes, whatever becomes of the workers."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from clearhead.cli.input_lines import Line, Place, Printed
from clearhead.cli.lines.answering import CAN_FORK
from clearhead.cli.lines.in_order import InOrder
from clearhead.decode.engine import engine_threads
from clearhead.errors import DataError, ModelError

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="worker processes need Linux")
HERE = os.getpid()


def places(count: int, start: int = 1, **texts: str) -> list[Place]:
    """Lines of different lengths; `n7="x"` sets line 7."""
    return [
        (f"line {number}", Line(number, texts.get(f"n{number}", f"{'word ' * (number * 7 % 13)}{number}")))
        for number in range(start, start + count)
    ]


def answer(chunk: Sequence[Place]) -> list[Printed]:
    return [Printed(line.text.upper()) for _, line in chunk]


def unanswered(place: Place) -> Printed:
    return Printed("", (place[0],), failed=True)


def run(groups, function=answer, workers=3) -> list[Printed]:
    return [it for _, found in InOrder(function, lambda: workers, unanswered).run(iter(groups)) for it in found]


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("sizes", [[1], [64, 65], [700], [3, 900, 1, 300, 2], []])
def test_answers_come_in_the_order_of_the_lines(workers: int, sizes: list[int]) -> None:
    groups = [places(size, 1 + sum(sizes[:number])) for number, size in enumerate(sizes)]
    assert [it.text for it in run(groups, workers=workers)] == [
        line.text.upper() for group in groups for _, line in group
    ]


def test_many_lines_are_answered_in_other_processes_and_few_in_this_one() -> None:
    def who(chunk: Sequence[Place]) -> list[Printed]:
        time.sleep(0.01)
        return [Printed(str(os.getpid())) for _ in chunk]

    assert {it.text for it in run([places(64)], who)} == {str(os.getpid())}
    assert len({it.text for it in run([places(2000)], who)} - {str(os.getpid())}) == 3


def test_an_engine_uses_one_thread_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    found = run([places(700)], lambda chunk: [Printed(f"{os.getpid() == HERE} {engine_threads()}") for _ in chunk])
    assert {it.text for it in found} == {"True 4", "False 1"}


def test_workers_that_die_are_replaced_and_their_lines_are_answered_once(tmp_path: Path) -> None:
    def fatal(chunk: Sequence[Place]) -> list[Printed]:
        for _, line in chunk:
            flag = tmp_path / line.text
            if line.text.startswith("once") and os.getpid() != HERE and not flag.exists():
                flag.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return answer(chunk)

    group = places(600, n100="once a", n200="once b", n300="once c")
    assert [it.text for it in run([group], fatal)] == [line.text.upper() for _, line in group]


def test_a_line_that_kills_its_worker_every_time_is_reported_and_costs_no_other(tmp_path: Path) -> None:
    def fatal(chunk: Sequence[Place]) -> list[Printed]:
        if os.getpid() != HERE and any(line.text == "a poisonous line" for _, line in chunk):
            os._exit(1)
        return answer(chunk)

    group = places(600, n123="a poisonous line", n456="a poisonous line")
    found = run([group], fatal)
    assert [it.notes for it in found if it.failed] == [("line 123",), ("line 456",)]
    assert [it.text for it in found if not it.failed] == [
        line.text.upper() for _, line in group if line.text != "a poisonous line"
    ]


def test_workers_that_all_die_are_an_error() -> None:
    def fatal(chunk: Sequence[Place]) -> list[Printed]:
        if os.getpid() != HERE:
            os._exit(1)
        return answer(chunk)

    with pytest.raises(ModelError, match="workers keep dying") as caught:
        run([places(600)], fatal)
    assert caught.value.name == "--workers"


def test_an_error_in_a_worker_is_raised_here_with_its_parts() -> None:
    def faulty(chunk: Sequence[Place]) -> list[Printed]:
        if any(line.number == 500 for _, line in chunk) and os.getpid() != HERE:
            raise DataError("line 500 is wrong", name="it", value=500)
        return answer(chunk)

    with pytest.raises(DataError, match="line 500 is wrong") as caught:
        run([places(600, n500="x" * 99)], faulty)
    assert (caught.value.name, caught.value.value) == ("it", 500)


def test_while_no_input_comes_answers_do(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    taken = []

    def groups():
        for start in (1, 201):
            os.read(reading, 1)
            taken.append(start)
            yield places(200, start)

    os.write(writing, b"x")
    found = InOrder(answer, lambda: 2, unanswered).run(groups(), reading)
    assert len(next(found)[1]) == 200 and taken == [1]  # it would wait forever for the second group
    os.write(writing, b"x")
    assert len(next(found)[1]) == 200
    os.close(writing)
    assert list(found) == []
    os.close(reading)


def test_lines_are_taken_no_further_ahead_than_a_few_groups() -> None:
    taken = []

    def groups():
        for number in range(20):
            taken.append(number)
            yield places(100, 1 + 100 * number)

    for number, _ in enumerate(InOrder(answer, lambda: 2, unanswered).run(groups())):
        assert len(taken) <= number + 5
