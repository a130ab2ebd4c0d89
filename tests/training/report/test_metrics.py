"""What training reports can be read, and goes back to where training goes back to."""

import io
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError, TrainingError
from clearhead.training.report.metrics import MetricsLog, Progress, read_metrics


def write(path: Path, steps: range, after: int) -> None:
    with MetricsLog(path, after=after) as log:
        for step in steps:
            log.write({"step": step, "loss": 1 / step})


@given(loss=st.floats())
def test_a_float_is_read_back_to_the_same_bits_and_the_file_is_json(tmp_path_factory, loss: float) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    with MetricsLog(path, after=0) as log:
        log.write({"step": 1, "loss": loss, "text": "é\n\u2028"})
    (record,) = read_metrics(path)
    assert record == {"step": 1, "loss": pytest.approx(loss, abs=0, rel=0, nan_ok=True), "text": "é\n\u2028"}
    assert math.copysign(1, record["loss"]) == math.copysign(1, loss) or math.isnan(loss)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_every_line_is_in_the_file_before_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with MetricsLog(path, after=0) as log:
        for step in (1, 2):
            log.write({"step": step})
            assert len(read_metrics(path)) == step


def test_a_resumed_run_writes_the_file_of_an_uninterrupted_one(tmp_path: Path) -> None:
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    write(whole, range(1, 101), after=0)
    write(resumed, range(1, 71), after=0)  # killed at 70, its last checkpoint of step 40
    write(resumed, range(41, 101), after=40)
    assert resumed.read_bytes() == whole.read_bytes()


@given(cut=st.integers(0, 200))
def test_a_log_that_was_torn_anywhere_is_read_and_goes_on(tmp_path_factory, cut: int) -> None:
    path = tmp_path_factory.mktemp("log") / "metrics.jsonl"
    write(path, range(1, 11), after=0)
    data = path.read_bytes()[:cut]
    path.write_bytes(data)
    whole = data.count(b"\n")
    assert [record["step"] for record in read_metrics(path)] == list(range(1, whole + 1))
    write(path, range(whole + 1, 11), after=whole)
    assert [record["step"] for record in read_metrics(path)] == list(range(1, 11))


def test_zeros_that_a_power_cut_left_at_the_end_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(1, 4), after=0)
    before = path.read_bytes()
    path.write_bytes(before + b"\0" * 50 + b"\n[]\n" + b"\0" * 9)
    assert len(read_metrics(path)) == 3
    write(path, range(0), after=3)
    assert path.read_bytes() == before


def test_a_log_that_needs_no_cut_is_not_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(1, 4), after=0)
    before = path.stat()
    write(path, range(0), after=3)
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_cut_that_is_killed_leaves_the_whole_log_or_the_cut_one(tmp_path: Path, crash_points) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, range(1, 11), after=0)
    lengths = [len(read_metrics(path)) for _ in crash_points(lambda: MetricsLog(path, after=4).close())]
    assert set(lengths) == {10, 4} and len(read_metrics(path)) == 4


@pytest.mark.parametrize("line", ["half a li", "[]", "[" * 100_000])
def test_damage_in_the_middle_is_said_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n')
    for read in (lambda: read_metrics(path), lambda: MetricsLog(path, after=3)):
        with pytest.raises(
            DataError, match=r"metrics.jsonl, line 2 is damaged: expected a JSON object; delete the line"
        ):
            read()


def test_an_absent_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read the metrics .*nothing: No such file or directory"):
        read_metrics(tmp_path / "nothing")


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda _, *how, **named: real(Path("/dev/full"), *how, **named))
    with MetricsLog(tmp_path / "metrics.jsonl", after=0) as log, pytest.raises(TrainingError, match="No space left"):
        log.write({"step": 1})


# --- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def test_the_loss_that_is_shown_is_a_moving_average() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = Progress(100, stream=stream, every=0, clock=clock)
    expected = None
    for step, loss in enumerate([9.0, 3.0, 5.0, 4.0], start=1):
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

    with Progress(9, stream=Gone()) as progress, pytest.raises(TrainingError, match="nobody reads its messages; go on"):
        progress.update(step=1, epoch=0, loss=1.0, tokens_per_second=1.0)
