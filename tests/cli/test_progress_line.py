import io

import pytest

from clearhead.cli.output import ProgressLine
from tests.builders import Terminal


def told(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, term: str = "xterm") -> list[str]:
    """What stands on the line, one after the other, when each part takes ten minutes."""
    monkeypatch.setenv("TERM", term)
    clock = iter([0.0, 600.0, 1200.0, 7199.0])
    with ProgressLine(stream, lambda: next(clock)) as line:
        for done in range(4):
            line(f"part {done}", done, 12)
        line("comparing", 12, 12)
    return stream.getvalue().split("\r\x1b[K")


def test_a_terminal_has_one_line_with_the_time_left_which_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told(Terminal(), monkeypatch)
    assert lines == [
        "",
        "0 of 12  part 0",
        "1 of 12  1:50:00 left  part 1",
        "2 of 12  1:40:00 left  part 2",
        "3 of 12  5:59:57 left  part 3",
        "12 of 12  comparing",
        "",
    ]


def test_minutes_without_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0, 61.0])
    stream = Terminal()
    ProgressLine(stream, lambda: next(clock))("a", 1, 3)
    assert stream.getvalue() == "\r\x1b[K1 of 3  2:02 left  a"


def test_elsewhere_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(io.StringIO(), monkeypatch) == [""]
    assert told(Terminal(), monkeypatch, "dumb") == [""]


def test_that_nobody_reads_it_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with ProgressLine(stream) as line:
        stream.close()
        line("a", 0, 1)
    monkeypatch.setattr("sys.stderr", None)
    with ProgressLine() as line:
        line("a", 0, 1)
