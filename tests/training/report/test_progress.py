"""What a terminal and a pipe show of a run."""

import io
import re

import pytest

from clearhead.errors import TrainingError
from clearhead.training.report.progress import Progress
from tests.builders import Terminal


class Clock:
    """Seconds that pass as told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def train(progress: Progress, clock: Clock, steps: range, seconds: float = 1.0) -> None:
    for step in steps:
        clock.now += seconds
        progress.update(step=step, epoch=step // 50, loss=8 - step / 100, tokens_per_second=12_345.6)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_elsewhere_than_on_a_terminal_there_is_a_line_at_first_at_last_and_every_ten_seconds() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(125, stream=stream, clock=clock) as progress:
        train(progress, clock, range(1, 126))
    lines = stream.getvalue().splitlines()
    assert [int(line.split("/")[0].removeprefix("step ")) for line in lines] == [*range(1, 122, 10), 125]
    assert "\x1b" not in stream.getvalue() and "\r" not in stream.getvalue()
    assert lines[0] == "step 1/125  epoch 1  loss 7.990  12,346 tokens/s"
    assert lines[10].startswith("step 101/125  epoch 3  loss ") and lines[10].endswith("  12,346 tokens/s  0:24 left")


def test_the_speed_of_a_task_is_in_its_own_unit() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(1, unit="patches", stream=stream, clock=clock) as progress:
        train(progress, clock, range(1, 2))
    assert "  12,346 patches/s" in stream.getvalue() and "tokens" not in stream.getvalue()


def test_the_loss_that_is_shown_is_a_moving_average() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(100, stream=stream, every=0, clock=clock)
    expected = None
    for step, loss in enumerate([9.0, 3.0, 5.0, 4.0], start=1):
        clock.now += 1
        progress.update(step=step, epoch=0, loss=loss, tokens_per_second=1.0)
        expected = loss if expected is None else expected + (loss - expected) / 10
        assert f"loss {expected:.3f}" in stream.getvalue().splitlines()[-1]


@pytest.mark.parametrize(("seconds", "left"), [(1, "1:30 left"), (100, "2:30:00 left"), (0.5, "0:45 left")])
def test_the_time_left_is_that_of_the_steps_left_at_the_pace_so_far(seconds: float, left: str) -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(1100, stream=stream, every=0, clock=clock)
    train(progress, clock, range(1000, 1011), seconds)  # resumed at 1000: the steps before cost this process nothing
    assert stream.getvalue().splitlines()[-1].endswith(left)


def test_messages_stand_on_lines_of_their_own() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(20, stream=stream, clock=clock)
    train(progress, clock, range(1, 3))
    progress.message("step 2: bleu 31.4  [bold]")
    assert stream.getvalue().splitlines()[-1] == "step 2: bleu 31.4  [bold]"


def test_on_a_terminal_one_line_lives_and_messages_stand_above_it(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stream, clock = Terminal(), Clock()
    with Progress(200, stream=stream, clock=clock) as progress:
        train(progress, clock, range(1, 151))
        progress.message("step 150: bleu 31.4  [bold]")
    text = plain(stream.getvalue())
    assert "step 150: bleu 31.4  [bold]\n" in text
    assert re.search(r"step 150/200 \S* *epoch 4  loss 6\.5\d\d  12,346 tokens/s  0:50 left", text.splitlines()[-1])
    assert stream.getvalue().count("\n") < 6


def test_no_color_takes_colours_away_and_nothing_else(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = {}
    for setting in (None, "1"):
        monkeypatch.delenv("NO_COLOR", raising=False)
        if setting:
            monkeypatch.setenv("NO_COLOR", setting)
        stream, clock = Terminal(), Clock()
        with Progress(200, stream=stream, clock=clock) as progress:
            train(progress, clock, range(1, 10))
        shown[setting] = stream.getvalue()
    colour = re.compile(r"\x1b\[[0-9;]*(3|9)[0-8][0-9;]*m")
    assert colour.search(shown[None]) and not colour.search(shown["1"])
    without_bar = [re.sub("[╸━ ]+", " ", plain(text)) for text in shown.values()]
    assert without_bar[0] == without_bar[1]


def test_a_terminal_that_cannot_move_its_cursor_gets_plain_lines(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream, clock = Terminal(), Clock()
    with Progress(20, stream=stream, clock=clock) as progress:
        train(progress, clock, range(1, 21))
    assert "\x1b" not in stream.getvalue() and len(stream.getvalue().splitlines()) == 3


def test_what_receives_the_messages_gets_evaluations_too_and_nothing_is_printed(capsys) -> None:
    said: list[str] = []
    with Progress(10, say=said.append) as progress:
        progress.update(step=1, epoch=0, loss=9.2, tokens_per_second=9000.0)
        progress.evaluation("step 1: bleu 0.1")
        progress.message("training stops early")
    assert said == ["step 1: bleu 0.1", "training stops early"]
    assert capsys.readouterr() == ("", "")


def test_nothing_goes_to_stdout(capsys) -> None:
    with Progress(1) as progress:
        progress.update(step=1, epoch=0, loss=1.0, tokens_per_second=1.0)
        progress.message("done")
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 2


def test_without_stderr_nothing_is_said_and_nothing_fails(capsys, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", None)  # as Python has it after `2>&-`
        with Progress(1) as progress:
            progress.update(step=1, epoch=0, loss=1.0, tokens_per_second=1.0)
            progress.message("done")
    assert capsys.readouterr() == ("", "")


def test_a_stream_whose_reader_has_gone_ends_training() -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    with Progress(9, stream=Gone()) as progress, pytest.raises(TrainingError, match="resume=True"):
        progress.update(step=1, epoch=0, loss=1.0, tokens_per_second=1.0)


def test_a_pipe_gets_one_line_a_second_and_the_newest_of_what_came_too_early() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(40, stream=stream, clock=clock) as progress:
        for step in range(1, 41):
            train(progress, clock, range(step, step + 1), 0.1)
            progress.evaluation(f"step {step}: bleu {step}")
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 6 and lines[0].startswith("step 1/40  ") and lines[-1] == "step 40: bleu 40"


def test_a_message_comes_at_once_and_after_what_was_held_back() -> None:
    stream, clock = io.StringIO(), Clock()
    with Progress(9, stream=stream, clock=clock) as progress:
        train(progress, clock, range(1, 2))
        progress.evaluation("step 1: bleu 1")
        progress.message("training stops early")
        assert stream.getvalue().splitlines()[1:] == ["step 1: bleu 1", "training stops early"]


def test_an_error_is_not_hidden_by_a_pipe_that_breaks_at_the_end() -> None:
    class Late(io.StringIO):
        def write(self, text: str) -> int:
            if "bleu" in text:
                raise BrokenPipeError
            return super().write(text)

    with pytest.raises(KeyError), Progress(9, stream=Late(), clock=Clock()) as progress:
        progress.update(step=1, epoch=0, loss=1.0, tokens_per_second=1.0)
        progress.evaluation("step 1: bleu 1")
        raise KeyError
