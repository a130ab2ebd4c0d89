"""Which runs are warm starts; going on with one in the middle, and replacing another."""

import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.model_folder import load_model_folder
from clearhead.training import warm_start
from clearhead.training.signals import StoppedError
from clearhead.training.warm_start import ALSO, OF_WARM_START, PRETRAINED, WITHOUT
from tests.builders import quiet

PARTS = [WITHOUT, PRETRAINED, f"{ALSO}2", ""]
PLAIN = {"train.warm_start": "", "train.soup": None, "train.warm_steps": None}


# --- going on


@pytest.mark.parametrize("part", PARTS)
def test_a_run_goes_on_with_the_stage_that_it_was_in_without_being_told_again_how(
    warm, toy, said: list[str], part: str, outcome, cut_off_in
) -> None:
    out, again = toy.folder / "out", warm.files_alone()
    with cut_off_in(out / part):
        train(warm.settings(), out, say=quiet)
    with pytest.raises(ConfigError) as caught:
        train(again.override({"train.soup": 3}), out, resume=True, say=quiet)
    assert (caught.value.name, caught.value.value) == ("train.soup", 3)
    train(again, out, resume=True, say=said.append)
    assert f"resuming {out / part} at step 4 of {6 if part == PRETRAINED else 12}" in said
    assert outcome(out) == outcome(warm.out)
    train(again, out, resume=True, say=said.append)
    assert said[-1] == f"{out} is complete: it was trained to step 12; to train it further, use --init-from"
    assert {it.name for it in out.iterdir() if it.name.startswith(".")} == {WITHOUT}


def test_a_warm_start_in_progress_is_not_trained_over_and_goes_on_when_told_the_same(
    warm, toy, outcome, cut_off_in
) -> None:
    out = toy.folder / "out"
    with cut_off_in(out / PRETRAINED):
        train(warm.settings(), out, say=quiet)
    before = sorted(path.name for path in out.iterdir())
    for other in ({"train.seed": 8}, PLAIN):
        with pytest.raises(TrainingError) as caught:
            train(warm.settings(other), out, say=quiet)
        assert str(out) in caught.value.what and "resume=True" in str(caught.value)
    assert sorted(path.name for path in out.iterdir()) == before
    assert outcome(train(warm.settings(), out, resume=True, say=quiet)) == outcome(warm.out)


def test_a_signal_between_two_stages_says_how_to_go_on(warm, toy, outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    out, remove = toy.folder / "out", warm_start.remove_folder

    def stopped(path: Path) -> None:
        remove(path)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(warm_start, "remove_folder", stopped)
        with pytest.raises(StoppedError) as caught:
            train(warm.settings(), out, say=quiet)
    assert caught.value.exit_code == 130 and "resume=True" in caught.value.fix
    assert outcome(train(warm.settings(), out, resume=True, say=quiet)) == outcome(warm.out)


def test_texts_that_changed_in_the_middle_of_a_run_end_it(warm, toy, cut_off_in) -> None:
    (more := toy.folder / "more.txt").write_text("one two three\n")
    out, config = toy.folder / "out", warm.settings({"data.texts": (str(more),)})
    with cut_off_in(out / PRETRAINED):
        train(config, out, say=quiet)
    more.write_text("one two six\n")
    with pytest.raises(TrainingError) as caught:
        train(config, out, resume=True, say=quiet)
    assert caught.value.name == "the training data"


# --- replacing another run


@pytest.mark.parametrize(
    ("part", "before"),
    [
        (WITHOUT, "earlier"),
        (PRETRAINED, "plain"),
        ("", "earlier"),
        *(
            pytest.param(part, before, marks=pytest.mark.slow)
            for part, before in [(WITHOUT, "plain"), (PRETRAINED, "earlier"), (f"{ALSO}2", "plain"), ("", "plain")]
        ),
    ],
)
def test_what_is_to_be_replaced_is_not_taken_for_the_result(
    warm, part: str, before: str, outcome, request, copied, cut_off_in
) -> None:
    out = copied(request.getfixturevalue(before))
    with cut_off_in(out / part):
        train(warm.settings(), out, replace=True, say=quiet)
    said: list[str] = []
    train(warm.settings(), out, resume=True, say=said.append)
    assert f"resuming {out / part} at step 4 of {6 if part == PRETRAINED else 12}" in said
    assert outcome(out) == outcome(warm.out)


def test_what_a_replaced_run_left_on_its_way_is_not_taken_for_that_of_the_new_one(
    warm, toy, outcome, cut_off_in
) -> None:
    out = toy.folder / "out"
    with cut_off_in(out / f"{ALSO}2"):
        train(warm.settings({"train.seed": 8}), out, say=quiet)
    with cut_off_in(out / WITHOUT):
        train(warm.settings(), out, replace=True, say=quiet)
    assert outcome(train(warm.settings(), out, resume=True, say=quiet)) == outcome(warm.out)


def test_a_baseline_that_is_to_be_replaced_is_not_taken_for_that_of_the_new_run(
    warm, earlier, copied, outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    out = copied(earlier)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("clearhead.training.open_run.prepare", interrupt)
        train(warm.settings(), out, replace=True, say=quiet)
    assert load(out).config.train.seed == 5  # until there is something better
    assert outcome(train(warm.settings(), out, resume=True, say=quiet)) == outcome(warm.out)
    first, other = (load_model_folder(path / WITHOUT).weights for path in (warm.out, out))
    assert all(torch.equal(first[name], other[name]) for name in first)


def test_another_run_in_the_folder_is_known_before_the_first_step(warm, plain) -> None:
    with pytest.raises(TrainingError) as occupied:
        train(warm.settings(), plain, say=quiet)
    assert str(plain) in occupied.value.what
    with pytest.raises(ConfigError) as caught:
        train(warm.settings(), plain, resume=True, say=quiet)
    assert (caught.value.name, caught.value.value) == ("train.warm_start", "denoise")
    assert not (plain / WITHOUT).exists()


# --- what is rejected


@pytest.mark.parametrize(
    ("name", "value"),
    [("train.soup", 2), ("train.warm_steps", 6), ("train.hidden_span", 2.0), ("data.texts", ("x.txt",))],
)
def test_without_a_warm_start_its_own_settings_are_rejected(warm, tmp_path: Path, name: str, value: Any) -> None:
    others = dict.fromkeys(OF_WARM_START) | {name: value}
    with pytest.raises(ConfigError) as caught:
        train(warm.settings({"train.warm_start": "", **others}), tmp_path / "out", say=quiet)
    assert (caught.value.name, caught.value.value) == (name, value)
    assert caught.value.fix == "set train.warm_start=denoise as well"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"train.init_from": "m"}, "train.warm_start"),
        ({"train.budget": "5m", "train.steps": None}, "train.warm_steps"),
        ({"data.train": ("-",)}, "data.train"),
        ({"data.split": 0.0}, "data.split"),
        ({"train.task": "summarize", "data.joint": False, "model.tie": "target"}, "data.joint"),
    ],
)
def test_what_makes_no_sense_with_it_is_rejected(warm, tmp_path: Path, changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        train(warm.settings(changes), tmp_path / "out", say=quiet)
    assert caught.value.name == name
    assert not (tmp_path / "out").exists()


def test_a_language_model_has_nothing_to_denoise_and_needs_more_texts(warm, tmp_path: Path) -> None:
    (texts := tmp_path / "more.txt").write_text("one two\n")
    spans = {"data.texts": (str(texts),), "train.hidden_span": 2.0}
    for changes in ({}, spans):
        with pytest.raises(ConfigError, match="generate"):
            train(warm.settings({"train.task": "generate", **changes}), tmp_path / "out", say=quiet)
        assert not (tmp_path / "out").exists()


def test_texts_that_cannot_be_read_are_known_before_anything_is_learnt(warm, tmp_path: Path) -> None:
    (text := tmp_path / "text").write_text("one\n")
    (table := tmp_path / "more.TSV").write_text("one\ttwo\n")
    (blank := tmp_path / "blank").write_text("\n")
    (latin := tmp_path / "latin").write_bytes(b"\xe9\n")
    (tmp_path / "folder").mkdir()
    (packed := tmp_path / "folder" / "more.csv.gz").write_text("one,two\n")
    for paths, culprit in (
        ([table], table),
        ([text, tmp_path / "folder"], packed),
        ([text, latin], latin),
        ([tmp_path / "gone"], tmp_path / "gone"),
        ([blank], blank),
        (["-"], "standard input"),
    ):
        with pytest.raises((ConfigError, DataError)) as caught:
            train(warm.settings({"data.texts": tuple(map(str, paths))}), tmp_path / "out", say=quiet)
        assert str(culprit) in str(caught.value)
        assert not (tmp_path / "out" / WITHOUT / "config.json").exists()
