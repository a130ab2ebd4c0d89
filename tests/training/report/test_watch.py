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

WATCHED = {"train.watch": "one two three", "train.steps": 8, "train.eval_every": 2, "train.save_every": 2}


def quiet(_message: str) -> None: ...


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
    assert out.startswith('"one two three" at each evaluation\n\nstep 0  nothing learnt\nanswer  ')
    assert out.count("decoder.0.cross: ") == 5 and "step 8  " in out and max(map(len, out.splitlines())) <= 80
    assert "BLEU " in out and "token accuracy " in out and "bleu" not in out  # as people call them
    assert out.count("keys, from left to right: ") == 1  # they are the same in each frame
    assert main(["explain", folder, "--film", "--attention", "encoder.self"]) == 0
    assert capfd.readouterr().out.count("encoder.0.self: ") == 5
    assert main(["explain", folder, "--film", "--lens"]) == 0
    out = capfd.readouterr().out
    assert out.startswith('"one two three" at each evaluation\n\nstep 0  nothing learnt\nanswer  ')
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
    for arguments, message in (
        ([folder, "a text", "--film"], "--film is of the text of `train --watch`; expected no 'a text' beside it"),
        ([folder, "--film", "--layer", "9"], "decoder.9.cross was not kept; there are encoder.0.self"),
        ([folder, "a text", "--gif", "x.gif"], "--gif is the film as a moving picture; expected --film beside it"),
        (["--film"], "no model folder is given"),
        ([folder, "--film", "--head", "0"], "--film shows what a run has kept; expected no --head beside it"),
        (
            [folder, "--film", "--lens", "--gif", "x.gif"],
            "--film and --lens together are words; expected no --png, --svg or",
        ),
        ([folder, "--film", "--lens", "--layer", "0"], "this view is of the whole model; expected no --layer"),
        ([folder, "--film", "--greedy"], "expected no --greedy beside it"),
        ([folder, "--film", "--context", "x.txt"], "expected no --context beside it"),
        ([folder, "--film", "--beam", "3", "--device", "cpu"], "expected no --beam and --device beside it"),
        ([folder, "--film", "--json", "--layer", "0"], "expected no --layer beside it"),
        (
            [folder, "--film", "--gif", "film.png"],
            "argument --gif: film.png has another ending; expected the name of a file with",
        ),
    ):
        assert main(["explain", *arguments]) == 2
        assert message in capfd.readouterr().err
    (Path(folder) / FILM).unlink()
    assert main(["explain", folder, "--film"]) == 1
    assert 'has no film; expected a model that was trained with --watch "a text"' in capfd.readouterr().err


def frame(step: int, *queries: str, heads: int = 2, **others: object) -> dict[str, object]:
    """A line of a film: a place where each query looks at the first of two keys."""
    axes, weights = [list(queries), ["k", "l"]], [[[1.0, 0.0]] * len(queries)] * heads
    scores = {"loss": 3.0 / step, "bleu": 10.0 * step} if step else {}
    said = {"text": "a text", "answer": " ".join(queries), "lens": {}}
    found = {"step": step, "scores": scores, **said, "axes": {"decoder.0.cross": axes}}
    return found | {"weights": {"decoder.0.cross": weights}} | others


def test_of_an_answer_without_an_end_as_much_is_shown_as_of_the_last(tmp_path: Path) -> None:
    film = Film.of([frame(0, *"abcdefgh"), frame(1, *"xyz")], tmp_path)
    first, last = film.render("decoder.0.cross").split("\n\nstep 1")
    assert "rows are 8 queries" in first and "(the first 3 of 8 queries)" in first and "\nd " not in first
    assert "rows are 3 queries" in last and "(the first" not in last


def test_the_lens_of_a_film_is_as_long_as_that_of_the_last_and_of_decoders_alone(tmp_path: Path) -> None:
    lens = [{"embedded": list(said), "layer 0": list(said.upper())} for said in ("abcd", "xy")]
    film = Film.of([frame(step, "q", lens=it) for step, it in enumerate(lens)], tmp_path)
    first, last = (block.splitlines()[-2:] for block in film.render_lens().split("\n\nstep 1"))
    assert (first, last) == (["layer 0   A B", "embedded  a b"], ["layer 0   X Y", "embedded  x y"])
    with pytest.raises(ConfigError, match="would have said, and the model of this film has none"):
        Film.of([frame(0, "q")], tmp_path).render_lens()


def test_a_film_whose_attentions_tell_no_weights_says_so_and_is_there_as_json(toy, monkeypatch, capfd) -> None:
    (toy.folder / "own_quiet.py").write_text(
        "from torch import nn\n\nclass Quiet(nn.Module):\n"
        "    def forward(self, q, k, v, *, mask=None, bias=None): return v.mean(2, keepdim=True).expand_as(q)\n"
    )
    monkeypatch.syspath_prepend(str(toy.folder))
    folder = str(train(toy.config(WATCHED | {"model.attention": "own_quiet:Quiet"}), toy.folder / "run", say=quiet))
    capfd.readouterr()
    assert main(["explain", folder, "--film"]) == 2
    assert "no attention was kept of this run: those of its model do not tell their weights" in capfd.readouterr().err
    assert main(["explain", folder, "--film", "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["frames"]) == 5


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"step": None}, "its values are not those of a frame"),
        ({"text": 3}, "its values are not those of a frame"),
        ({"scores": []}, "its values are not those of a frame"),
        ({"scores": {"loss": "low"}}, "its values are not those of a frame"),
        ({"weights": {"decoder.0.cross": [[[1.0]]]}}, "its values are not those of a frame"),
        ({"weights": {"decoder.0.cross": [[["a", "b"]]]}}, "its values are not those of a frame"),
        ({"weights": {"decoder.1.cross": [[[1.0, 0.0]]]}}, "it has no 'decoder.1.cross'"),
        ({"weights": 7}, "its values are not those of a frame"),
    ],
)
def test_a_damaged_film_is_named_with_its_line(tmp_path: Path, damage: dict[str, object], message: str) -> None:
    good = frame(0, "a")
    with pytest.raises(
        DataError, match=f"film.jsonl, line 2 is damaged: {message}; expected a frame as `train --watch`"
    ):
        Film.of([good, frame(1, "a") | damage], tmp_path)
    for name in good:
        with pytest.raises(DataError, match=f"film.jsonl, line 1 is damaged: it has no '{name}'"):
            Film.of([{key: value for key, value in good.items() if key != name}], tmp_path)


def test_frames_of_two_models_are_no_film(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"film\.jsonl, line 2 is of another model than line 1: its attentions are others"
    ):
        Film.of([frame(0, "a"), frame(1, "a", heads=3)], tmp_path)


def test_what_the_log_takes_for_a_number_is_a_text_all_the_same(tmp_path: Path) -> None:
    (tmp_path / FILM).write_text(json.dumps(frame(0, "a", text="NaN", answer="Infinity")) + "\n", encoding="utf-8")
    [only] = film_of(tmp_path).frames
    assert (only.text, only.answer) == ("NaN", "Infinity")


def test_the_pictures_of_a_moving_one_are_of_one_size(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from PIL import Image

    film = Film.of([frame(0, *"abcdefgh"), frame(1, "a long token", "b"), frame(2, "a", "b")], tmp_path)
    film.draw("decoder.0.cross", tmp_path / "new" / "film.gif", moving=True)
    with Image.open(tmp_path / "new" / "film.gif") as moving:
        assert moving.n_frames == 3
        sizes = []
        for number in range(3):
            moving.seek(number)
            sizes.append(moving.size)
    assert len(set(sizes)) == 1


@pytest.mark.parametrize(
    ("scores", "drawn"),
    [
        ([(4.0, 5.770), (2.0, 2.885), (1.0, 1.443)], ["bits a byte"]),
        ([(4.0, 5.770), (2.0, 2.500), (1.0, 1.443)], ["loss", "bits a byte"]),
        ([(4.0, 5.770)], ["loss", "bits a byte"]),
    ],
)
def test_a_score_that_is_the_loss_in_another_unit_is_one_curve_with_it(
    tmp_path: Path, scores: list[tuple[float, float]], drawn: list[str]
) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    from clearhead.inspection.film.film_pictures import draw_curves

    records = [
        frame(0, "a"),
        *(frame(i, "a", scores={"loss": a, "bits_per_byte": b}) for i, (a, b) in enumerate(scores, 1)),
    ]
    film, figure = Film.of(records, tmp_path), figures.Figure()
    draw_curves(figure.add_subplot(), film.frames, [1], {"bits_per_byte": "bits a byte"})
    assert [it.get_ylabel() for it in figure.axes if it.lines[-1].get_marker() == "o"] == drawn
