import os
import signal
import threading
from collections.abc import Iterator

import pytest

from clearhead.errors import TrainingError
from clearhead.training.signals import StoppedError, StopSignals

NUMBERS = [signal.SIGINT, signal.SIGTERM]


def spoken(number: int) -> str:
    return {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[signal.Signals(number)]


@pytest.fixture(autouse=True)
def handlers_are_put_back() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    assert [signal.getsignal(number) for number in NUMBERS] == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_work_where_it_arrives(number: signal.Signals, code: int) -> None:
    with pytest.raises(StoppedError) as stopped, StopSignals():
        signal.raise_signal(number)
        raise AssertionError("it went on")
    assert stopped.value.exit_code == code
    said = f"stopped by {spoken(number)}: everything saved so far is intact"
    assert str(stopped.value) == f"{said}\n  continue in the same way with `resume=True`"
    assert isinstance(stopped.value, TrainingError)


@pytest.mark.parametrize("number", NUMBERS)
def test_where_signals_are_held_the_first_is_only_noted_and_answered(number: signal.Signals, capfd) -> None:
    steps = 0
    with pytest.raises(StoppedError, match=f"{spoken(number)}: .* step 1,000 "), StopSignals() as stop, stop.held():
        signal.raise_signal(number)
        steps += 1
        assert stop.requested == number
        stop.raise_stopped(1000)
    assert steps == 1
    assert capfd.readouterr().err == "stopping after this step; press Ctrl-C again to stop at once\n"


def test_a_signal_that_another_process_had_first_is_still_the_first_one_here() -> None:
    with pytest.raises(StoppedError, match=" step 7 "), StopSignals(silent=True) as stop, stop.held():
        stop.requested = signal.SIGTERM  # as the other processes of the run say
        signal.raise_signal(signal.SIGTERM)
        stop.raise_stopped(7)


@pytest.mark.parametrize("first", NUMBERS)
@pytest.mark.parametrize("second", NUMBERS)
def test_the_second_ends_at_once_whichever_they_are(first: signal.Signals, second: signal.Signals) -> None:
    with (
        pytest.raises(StoppedError, match=f"stopped by {spoken(second)}: ") as stopped,
        StopSignals() as stop,
        stop.held(),
    ):
        signal.raise_signal(first)
        signal.raise_signal(second)
        raise AssertionError("it went on")
    assert stopped.value.exit_code == 128 + second


def test_a_held_signal_that_nobody_looked_at_ends_the_work_when_it_is_no_longer_held() -> None:
    steps = 0
    with pytest.raises(StoppedError), StopSignals() as stop:
        with stop.held():
            signal.raise_signal(signal.SIGINT)
            steps += 1
        steps += 1
    assert steps == 1


def test_an_error_in_what_was_held_is_not_hidden_by_a_signal() -> None:
    with pytest.raises(KeyError), StopSignals() as stop, stop.held():
        signal.raise_signal(signal.SIGINT)
        raise KeyError


def test_before_the_first_step_no_checkpoint_is_promised() -> None:
    with (
        pytest.raises(StoppedError, match="stopped by SIGTERM: training hasn't begun"),
        StopSignals() as stop,
        stop.held(),
    ):
        signal.raise_signal(signal.SIGTERM)
        stop.raise_stopped(0)


def test_a_closed_stderr_does_not_matter() -> None:
    kept = os.dup(2)
    try:
        with pytest.raises(StoppedError), StopSignals() as stop, stop.held():
            os.close(2)
            signal.raise_signal(signal.SIGINT)
            stop.raise_stopped(1)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_in_another_thread_nothing_is_changed() -> None:
    seen: list[object] = []

    def work() -> None:
        with StopSignals() as stop:
            seen.extend([signal.getsignal(signal.SIGINT), stop.requested])

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, None]


def test_an_ignored_signal_is_heard_within_and_ignored_again_afterwards() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(StoppedError), StopSignals():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
