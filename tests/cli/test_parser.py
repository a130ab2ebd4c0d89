"""The help of the verbs, short and full, and the options that it names."""

import pytest

from clearhead.cli.entry import VERBS
from clearhead.config import PRESETS, settings

from .conftest import Run


def test_the_short_help_of_train_fits_a_screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in (80, 90, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = run("train", "--help").out.splitlines()
        assert len(lines) <= 45 and max(map(len, lines)) <= columns


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples_and_follows_the_width_of_the_terminal(
    run: Run, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for columns, widest in ((40, 60), (80, 80), (300, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        short, full = run(verb, "--help"), run(verb, "--help-all")
        assert (short.code, short.err, full.code, full.err) == (0, "", 0, "")
        assert f"usage: clearhead {verb}" in short.out and "\nexamples:\n  " in short.out
        described = full.out.split("\n\n", 1)[1].split("\nexamples:")[0].splitlines()
        assert max(len(line) for line in described if "|" not in line) <= widest  # lists of values aren't wrapped
        assert {it for it in short.out.replace(",", " ").split() if it.startswith("--")} <= set(
            full.out.replace(",", " ").split()
        )
        seen.append(full.out)
    assert len({*seen}) > 1 or verb in ("env", "demo", "example")


def test_the_full_help_of_train_names_every_setting(run: Run) -> None:
    text = run("train", "--help-all").out
    assert [name for name, it in settings().items() if (f"--{name} " in text) == it.fact] == []


def test_an_option_of_an_earlier_version_is_answered_with_its_new_name(run: Run) -> None:
    done = run("train", "pairs.tsv", "--model.activation=gelu")
    assert done.code == 2 and "--model.activation" in done.err and "--model.feed_forward" in done.err


def test_two_dashes_are_no_value(run: Run) -> None:
    for option in ("--out=--", "--train.steps=--"):
        done = run("train", "pairs.tsv", "--dry-run", option)
        assert done.code == 2 and option in done.err and "internal" not in done.err


@pytest.mark.parametrize("verb", ["translate", "summarize", "generate", "evaluate"])
def test_verbs_that_decode_let_you_choose_the_engine(run: Run, verb: str) -> None:
    assert "--engine" in run(verb, "--help").out


def test_an_option_shows_its_value_once_after_its_spellings(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = [line.strip() for line in run("train", "--help-all").out.splitlines()]
    assert "--valid, --data.valid FILE [FILE ...]" in lines
    assert f"--preset, --train.preset {'|'.join(PRESETS)}" in lines
