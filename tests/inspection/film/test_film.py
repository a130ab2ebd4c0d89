"""Frames as text and as pictures, and damaged films."""

import json
from pathlib import Path

import pytest

from clearhead.errors import ConfigError, DataError
from clearhead.folder.checkpoint import FILM
from clearhead.inspection.film.film import Film
from clearhead.training.report.metrics import read_metrics


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
    assert "rows: 8 queries" in first and "(the first 3 of 8 queries)" in first and "\nd " not in first
    assert "rows: 3 queries" in last and "(the first" not in last


def test_the_lens_of_a_film_is_as_long_as_that_of_the_last_and_of_decoders_alone(tmp_path: Path) -> None:
    lens = [{"embedded": list(said), "layer 0": list(said.upper())} for said in ("abcd", "xy")]
    film = Film.of([frame(step, "q", lens=it) for step, it in enumerate(lens)], tmp_path)
    first, last = (block.splitlines()[-2:] for block in film.render_lens().split("\n\nstep 1"))
    assert (first, last) == (["layer 0   A B", "embedded  a b"], ["layer 0   X Y", "embedded  x y"])
    with pytest.raises(ConfigError) as caught:
        Film.of([frame(0, "q")], tmp_path).render_lens()
    assert caught.value.name == "lens"


def test_an_attention_that_a_film_lacks_is_named_with_those_it_has(tmp_path: Path) -> None:
    film = Film.of([frame(0, "a")], tmp_path)
    with pytest.raises(ConfigError) as caught:
        film.place("decoder.cros", 0)
    assert (caught.value.name, caught.value.value) == ("attention", "decoder.0.cros")
    assert caught.value.expected == "decoder.0.cross" and "'decoder.0.cross'" in caught.value.fix
    for name in ("cross", "decoder.0.cross", "."):
        with pytest.raises(ConfigError) as caught:
            film.place(name, 0)
        assert caught.value.name == "attention" and caught.value.expected == "decoder.0.cross"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"step": None}, "its values aren't those of a frame"),
        ({"text": 3}, "its values aren't those of a frame"),
        ({"scores": []}, "its values aren't those of a frame"),
        ({"scores": {"loss": "low"}}, "its values aren't those of a frame"),
        ({"probability": "high"}, "its values aren't those of a frame"),
        ({"weights": {"decoder.0.cross": [[[1.0]]]}}, "its values aren't those of a frame"),
        ({"weights": {"decoder.0.cross": [[["a", "b"]]]}}, "its values aren't those of a frame"),
        ({"weights": {"decoder.1.cross": [[[1.0, 0.0]]]}}, "it has no 'decoder.1.cross'"),
        ({"weights": 7}, "its values aren't those of a frame"),
    ],
)
def test_a_damaged_film_is_named_with_its_line(tmp_path: Path, damage: dict[str, object], message: str) -> None:
    good = frame(0, "a")
    with pytest.raises(DataError) as caught:
        Film.of([good, frame(1, "a") | damage], tmp_path)
    assert caught.value.what.endswith(f"line 2 is damaged: {message}")
    assert (caught.value.name, caught.value.line) == (str(tmp_path / FILM), 2)
    for name in good:
        with pytest.raises(DataError, match=f"it has no '{name}'") as caught:
            Film.of([{key: value for key, value in good.items() if key != name}], tmp_path)
        assert caught.value.line == 1


def test_frames_of_two_models_are_no_film(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        Film.of([frame(0, "a"), frame(1, "a", heads=3)], tmp_path)
    assert (caught.value.name, caught.value.line) == (str(tmp_path / FILM), 2)


def test_what_the_log_takes_for_a_number_is_a_text_all_the_same(tmp_path: Path) -> None:
    (tmp_path / FILM).write_text(json.dumps(frame(0, "a", text="NaN", answer="Infinity")) + "\n", encoding="utf-8")
    [only] = Film.of(read_metrics(tmp_path / FILM), tmp_path).frames
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
    from clearhead.inspection.film.film import _draw_curves

    records = [
        frame(0, "a"),
        *(frame(i, "a", scores={"loss": a, "bits_per_byte": b}) for i, (a, b) in enumerate(scores, 1)),
    ]
    film, figure = Film.of(records, tmp_path), figures.Figure()
    _draw_curves(figure.add_subplot(), film.frames, [1], {"bits_per_byte": "bits a byte"})
    assert [it.get_ylabel() for it in figure.axes if it.lines[-1].get_marker() == "o"] == drawn
