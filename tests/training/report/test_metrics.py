"""What training reports can be read, and goes back to where training goes back to."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import DataError, TrainingError
from clearhead.training.report.metrics import MetricsLog, read_metrics


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
        with pytest.raises(DataError) as caught:
            read()
        assert (caught.value.name, caught.value.line) == (str(path), 2)


def test_an_absent_log_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_metrics(tmp_path / "nothing")
    assert caught.value.name == str(tmp_path / "nothing")


def test_a_pipe_instead_of_a_log_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(DataError) as caught:
        read_metrics(tmp_path / "metrics.jsonl")
    assert caught.value.expected == "a regular file"


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda _, *how, **named: real(Path("/dev/full"), *how, **named))
    message = "No space left on device"
    with MetricsLog(tmp_path / "metrics.jsonl", after=0) as log, pytest.raises(TrainingError, match=message):
        log.write({"step": 1})
