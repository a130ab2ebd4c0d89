"""`train --watch`: a text is looked at in each evaluation, which changes nothing of the run."""

import json
import re
from pathlib import Path

import pytest

from clearhead.api import load, train
from clearhead.cli import main
from clearhead.errors import ConfigError, DataError
from clearhead.folder.checkpoint import FILM
from clearhead.inspection.film.film import Film
from clearhead.training.report.metrics import read_metrics
from tests.builders import quiet

WATCHED = {"train.watch": "one two three", "train.steps": 8, "train.eval_every": 2, "train.save_every": 2}


def film_of(folder: Path) -> Film:
    return Film.of(read_metrics(folder / FILM), folder)


def test_a_run_that_is_watched_is_the_same_bit_for_bit(toy) -> None:
    watched = train(toy.config(WATCHED), toy.folder / "watched", say=quiet)
    alone = train(toy.config(WATCHED | {"train.watch": ""}), toy.folder / "alone", say=quiet)
    assert (watched / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    assert not (alone / FILM).exists()


def test_there_is_a_frame_of_each_evaluation_and_one_before_the_first_step(toy) -> None:
    folder = train(toy.config(WATCHED | {"train.average": 2}), toy.folder / "run", say=quiet)
    film = film_of(folder)
    assert [it.step for it in film.frames] == [0, 2, 4, 6, 8]
    assert film.frames[0].scores == {} and {*film.frames[1].scores} >= {"loss", "bleu"}
    last = film.frames[-1]
    assert {*last.weights} == {*last.axes} and "decoder.0.cross" in last.weights
    for place in last.weights:
        shown = last.labelled(place)
        assert shown.values.sum(-1).numpy() == pytest.approx(1, abs=1e-3)
        assert (len(shown.tokens["query"]), len(shown.tokens["key"])) == shown.shape[1:]
    assert len(last.lens) == 1 + sum(name.endswith("cross") for name in last.weights)


def test_the_last_frame_is_what_the_model_explains(toy) -> None:
    folder = train(toy.config(WATCHED | {"train.best": "loss"}), toy.folder / "run", say=quiet)
    best = min(film_of(folder).frames[1:], key=lambda it: it.scores["loss"])
    explanation = load(folder, device="cpu").explain(best.text, beam=1)
    assert explanation.answer == best.answer
    weights = explanation.weights("decoder.cross", 0)
    assert weights.numpy() == pytest.approx(best.labelled("decoder.0.cross").values.numpy(), abs=1e-3)


def test_a_run_that_goes_on_keeps_the_frames_that_it_has(toy) -> None:
    whole = train(toy.config(WATCHED), toy.folder / "whole", say=quiet)

    def stop(record: dict[str, object]) -> None:
        if record["step"] == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(toy.config(WATCHED), toy.folder / "cut", say=quiet, on_step=stop)
    train(toy.config(WATCHED), toy.folder / "cut", resume=True, say=quiet)
    frames = [[vars(it) for it in film_of(folder).frames] for folder in (whole, toy.folder / "cut")]
    assert frames[0] == frames[1]
    train(toy.config(WATCHED | {"train.watch": ""}), toy.folder / "cut", replace=True, say=quiet)
    assert not (toy.folder / "cut" / FILM).exists()


def test_what_cannot_be_watched_is_refused_before_training(toy) -> None:
    with pytest.raises(DataError, match="the text is blank"):
        train(toy.config(WATCHED | {"train.watch": " "}), toy.folder / "long", say=quiet)
    with pytest.raises(ConfigError, match=r"train\.watch='who'"):
        train(toy.config({"train.task": "answer", "train.watch": "who"}), toy.folder / "asked", say=quiet)
    said: list[str] = []
    train(toy.config(WATCHED | {"train.steps": 1, "data.split": 0.0}), toy.folder / "none", say=said.append)
    assert "train.watch has no effect: nothing is held out for validation" in said


def test_the_film_is_shown(toy, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = str(train(toy.config(WATCHED), toy.folder / "run", say=quiet))
    assert main(["explain", folder, "--film"]) == 0
    out = capfd.readouterr().out
    assert out.startswith('"one two three" at each evaluation\n\nstep 0  untrained\nanswer  ')
    assert out.count("decoder.0.cross: ") == 5 and "step 8  " in out and max(map(len, out.splitlines())) <= 80
    assert "BLEU " in out and "token accuracy " in out and "bleu" not in out  # as people call them
    assert out.count("keys, from left to right: ") == 1  # they are the same in each frame
    assert main(["explain", folder, "--film", "--attention", "encoder.self"]) == 0
    assert capfd.readouterr().out.count("encoder.0.self: ") == 5
    assert main(["explain", folder, "--film", "--lens"]) == 0
    out = capfd.readouterr().out
    assert out.startswith('"one two three" at each evaluation\n\nstep 0  untrained\nanswer  ')
    assert len(re.findall(r"^answer  .*\nlayer 0   .*\n(?:          .*\n)*embedded  ", out, re.M)) == 5
    assert main(["explain", folder, "--film", "--json"]) == 0
    values = json.loads(capfd.readouterr().out)
    assert values["format_version"] == 1 and len(values["frames"]) == 5 and "bleu" in values["frames"][1]["scores"]
    pytest.importorskip("matplotlib")
    for option, begin in (("png", b"\x89PNG"), ("svg", b"<?xml"), ("gif", b"GIF8")):
        assert main(["explain", folder, "--film", f"--{option}", str(tmp_path / f"film.{option}")]) == 0
        assert (tmp_path / f"film.{option}").read_bytes().startswith(begin)
    drawn = (tmp_path / "film.svg").read_text(encoding="utf-8")
    assert "BLEU" in drawn and "bleu" not in drawn
    capfd.readouterr()
    for arguments, option in (
        ([folder, "a text", "--film"], "--film"),
        ([folder, "--film", "--layer", "9"], "decoder.9.cross"),
        ([folder, "a text", "--gif", "x.gif"], "--gif"),
        (["--film"], "model folder"),
        ([folder, "--film", "--head", "0"], "--head"),
        ([folder, "--film", "--lens", "--gif", "x.gif"], "--lens"),
        ([folder, "--film", "--lens", "--layer", "0"], "--layer"),
        ([folder, "--film", "--greedy"], "--greedy"),
        ([folder, "--film", "--context", "x.txt"], "--context"),
        ([folder, "--film", "--beam", "3", "--device", "cpu"], "--beam"),
        ([folder, "--film", "--json", "--layer", "0"], "--layer"),
        ([folder, "--film", "--gif", "film.png"], "--gif"),
    ):
        assert main(["explain", *arguments]) == 2
        assert option in capfd.readouterr().err
    (Path(folder) / FILM).unlink()
    assert main(["explain", folder, "--film"]) == 1
    assert f"{folder} has no film" in capfd.readouterr().err
    with pytest.raises(DataError) as caught:
        Film.of([], Path(folder))
    assert caught.value.name == folder and "train.watch" in caught.value.expected


def test_a_film_whose_attentions_tell_no_weights_says_so_and_is_there_as_json(toy, monkeypatch, capfd) -> None:
    (toy.folder / "own_quiet.py").write_text(
        "from torch import nn\n\nclass Quiet(nn.Module):\n"
        "    def forward(self, q, k, v, *, mask=None, bias=None): return v.mean(2, keepdim=True).expand_as(q)\n"
    )
    monkeypatch.syspath_prepend(str(toy.folder))
    folder = str(train(toy.config(WATCHED | {"model.attention": "own_quiet:Quiet"}), toy.folder / "run", say=quiet))
    capfd.readouterr()
    assert main(["explain", folder, "--film"]) == 2
    assert "the film has no attention weights" in capfd.readouterr().err
    assert main(["explain", folder, "--film", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["frames"]) == 5
