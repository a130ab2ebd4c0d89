"""What waits is answered together, and what nobody waits for is dropped."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from clearhead.errors import DataError
from clearhead.serving.batching import Batcher
from clearhead.serving.groups import AtOnce
from clearhead.serving.limits import RequestError
from clearhead.serving.work import Work

DOUBLE = Work("double")


class Model:
    """Doubles numbers, a batch at a time and only while `open` is set. 13 can't be read, 666 is a bug."""

    def __init__(self, most: int = 100) -> None:
        self.batches: list[list[int]] = []
        self.open, self.most = threading.Event(), most
        self.open.set()

    def group(self, _work: Work) -> AtOnce:
        return AtOnce(self.run, most=self.most)

    def run(self, inputs: list[int]) -> list[int]:
        self.open.wait(20)
        self.batches.append(inputs)
        if 666 in inputs:
            raise ZeroDivisionError
        if 13 in inputs:
            raise DataError("13 can't be read", name="input")
        return [2 * it for it in inputs]


def running(use: Callable[..., Any], model: Model, most: int = 100) -> Any:
    """Run a coroutine with a batcher."""
    batcher = Batcher(model.group, most=most, name="test")
    try:
        return asyncio.run(asyncio.wait_for(use(batcher), 20))
    finally:
        batcher.close()
        batcher._thread.join(20)
        assert not batcher._thread.is_alive()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_what_gathers_during_a_batch_is_the_next_batch() -> None:
    model = Model()

    async def use(batcher: Batcher) -> list[list[int]]:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [1], 10))
        await until(lambda: batcher.busy == 1)
        others = [asyncio.ensure_future(batcher.answers(DOUBLE, [n, n + 1], 10)) for n in (2, 4)]
        await until(lambda: batcher.waiting == 4)
        model.open.set()
        return await asyncio.gather(first, *others)

    assert running(use, model) == [[2], [4, 6], [8, 10]]
    assert model.batches == [[1], [2, 3, 4, 5]]


def test_other_work_has_its_own_batches_and_a_batch_has_its_limit() -> None:
    model = Model(most=2)

    async def use(batcher: Batcher) -> None:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [9], 10))
        await until(lambda: batcher.busy == 1)
        work = [Work("double", (("n", n % 2),)) for n in range(8)]
        asked = [asyncio.ensure_future(batcher.answers(it, [n], 10)) for n, it in enumerate(work)]
        await until(lambda: batcher.waiting == 8)
        model.open.set()
        assert await asyncio.gather(first, *asked) == [[18], *([2 * n] for n in range(8))]

    running(use, model)
    assert all(len(it) <= 2 and len({n % 2 for n in it}) == 1 for it in model.batches)
    assert len(model.batches) == 5


def test_a_full_queue_rejects_with_the_seconds_to_wait() -> None:
    model = Model()

    async def use(batcher: Batcher) -> RequestError:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [1], 10))
        await until(lambda: batcher.busy == 1)
        waiting = asyncio.ensure_future(batcher.answers(DOUBLE, [2, 3], 10))
        await until(lambda: batcher.waiting == 2)
        with pytest.raises(RequestError) as error:
            await batcher.answers(DOUBLE, [4, 5], 10)
        model.open.set()
        assert await first == [2] and await waiting == [4, 6]
        return error.value

    error = running(use, model, most=3)
    assert error.status == 429 and int(error.headers["Retry-After"]) >= 1


def test_a_request_that_never_fits_into_the_queue_is_told_so() -> None:
    async def use(batcher: Batcher) -> None:
        with pytest.raises(RequestError) as error:
            await batcher.answers(DOUBLE, [1, 2, 3, 4], 10)
        assert error.value.status == 400

    running(use, Model(), most=3)


def test_an_input_that_cannot_be_read_fails_alone() -> None:
    model = Model()

    async def use(batcher: Batcher) -> list[Any]:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [1], 10))
        await until(lambda: batcher.busy == 1)
        asked = [asyncio.ensure_future(batcher.answers(DOUBLE, [n], 10)) for n in (2, 13, 3)]
        await until(lambda: batcher.waiting == 3)
        model.open.set()
        return await asyncio.gather(first, *asked, return_exceptions=True)

    one, two, error, three = running(use, model)
    assert (one, two, three) == ([2], [4], [6])
    assert isinstance(error, DataError)


def test_a_bug_reaches_who_asked_and_the_thread_lives_on() -> None:
    async def use(batcher: Batcher) -> None:
        with pytest.raises(ZeroDivisionError):
            await batcher.answers(DOUBLE, [666], 10)
        assert await batcher.answers(DOUBLE, [4], 10) == [8]

    running(use, Model())


def test_what_nobody_waits_for_is_never_computed() -> None:
    model = Model()

    async def use(batcher: Batcher) -> None:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [1], 10))
        await until(lambda: batcher.busy == 1)
        left = asyncio.ensure_future(batcher.answers(DOUBLE, [2, 3], 10))
        stays = asyncio.ensure_future(batcher.answers(DOUBLE, [4], 10))
        await until(lambda: batcher.waiting == 3)
        left.cancel()
        model.open.set()
        assert await first == [2] and await stays == [8]

    running(use, model)
    assert model.batches == [[1], [4]]


def test_too_late_is_429_before_the_model_began_and_504_after() -> None:
    model = Model()

    async def use(batcher: Batcher) -> list[int]:
        model.open.clear()
        first = asyncio.ensure_future(batcher.answers(DOUBLE, [1], 0.1))
        await until(lambda: batcher.busy == 1)
        second = asyncio.ensure_future(batcher.answers(DOUBLE, [2], 0.1))
        late = await asyncio.gather(first, second, return_exceptions=True)
        model.open.set()
        return [it.status for it in late if isinstance(it, RequestError)]

    assert running(use, model) == [504, 429]


def test_a_closed_batcher_answers_what_waits_and_then_takes_nothing_new() -> None:
    model = Model()

    async def use(batcher: Batcher) -> None:
        model.open.clear()
        asked = [asyncio.ensure_future(batcher.answers(DOUBLE, [n], 10)) for n in range(3)]
        await until(lambda: batcher.busy + batcher.waiting == 3)
        batcher.close()
        asked.append(asyncio.ensure_future(batcher.answers(DOUBLE, [3], 10)))
        model.open.set()
        assert await asyncio.gather(*asked) == [[0], [2], [4], [6]]
        await until(lambda: not batcher._thread.is_alive())
        with pytest.raises(RequestError) as error:
            await batcher.answers(DOUBLE, [4], 10)
        assert error.value.status == 503

    running(use, model)


def test_a_stream_without_pieces_ends_with_its_answer_or_error() -> None:
    async def use(batcher: Batcher) -> None:
        assert [it async for it in batcher.stream(DOUBLE, [4, 5], 10)] == [(0, None, 8), (1, None, 10)]
        with pytest.raises(DataError):
            await anext(batcher.stream(DOUBLE, [13], 10))

    running(use, Model())


def test_a_stream_that_takes_too_long_is_an_error() -> None:
    model = Model()

    async def use(batcher: Batcher) -> None:
        model.open.clear()
        with pytest.raises(RequestError) as error:
            await anext(batcher.stream(DOUBLE, [4], 0.05))
        assert error.value.status == 504
        model.open.set()

    running(use, model)
