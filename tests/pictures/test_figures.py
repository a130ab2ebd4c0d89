"""Pictures show what they were given."""

import builtins
import io
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.errors import ConfigError, DataError, ModelError, TrainingError
from clearhead.pictures.canvas import drawing
from clearhead.pictures.figures import Curve, attention_heatmap, loss_curve

matplotlib = pytest.importorskip("matplotlib")
image = pytest.importorskip("matplotlib.image")

TRAINING = [{"step": step, "loss": 2 + 6 / step} for step in range(1, 101)]
VALIDATION = [{"step": step, "valid_loss": 2 + 5 / step, "valid_bleu": step / 3} for step in range(20, 101, 20)]


def colours(path: Path) -> set[tuple[int, ...]]:
    """The colours of a PNG, a byte a channel."""
    pixels = np.round(image.imread(path)[:, :, :3] * 255).astype(int)
    return set(map(tuple, np.unique(pixels.reshape(-1, 3), axis=0)))


def size(path: Path) -> tuple[int, int]:
    return image.imread(path).shape[:2]


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(colour.removeprefix("#")))


PALE, STRONG, WARM = rgb("#b9cbe4"), rgb("#1f4e8c"), rgb("#c2571a")


def test_a_loss_curve_has_training_validation_and_bleu_where_they_were_measured(tmp_path: Path) -> None:
    loss_curve(TRAINING, tmp_path / "training.png")
    loss_curve(TRAINING + VALIDATION, tmp_path / "all.png")
    assert PALE in colours(tmp_path / "training.png") and WARM not in colours(tmp_path / "training.png")
    assert {PALE, STRONG, WARM} <= colours(tmp_path / "all.png")
    assert size(tmp_path / "all.png")[0] > 1.3 * size(tmp_path / "training.png")[0]


def test_any_score_is_drawn_and_the_best_of_one_that_falls_is_its_lowest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.axes import Axes

    marked: list[tuple[str, tuple[int, float]]] = []
    monkeypatch.setattr(Axes, "annotate", lambda _, text, place, **__: marked.append((text, place)))
    bits = [{"step": step, "valid_loss": 5 / step, "valid_bits_per_byte": 2 + 3 / step} for step in (1, 2, 3)]
    for lower in (True, False):
        loss_curve(bits, tmp_path / "loss.png", Curve("bits_per_byte", "bits per byte", ".4f", lower))
        assert WARM in colours(tmp_path / "loss.png")
    assert marked == [("3.0000", (3, 3.0)), ("5.0000", (1, 5.0))]
    loss_curve(bits, tmp_path / "loss.png", Curve("accuracy", "accuracy"))
    assert WARM not in colours(tmp_path / "loss.png")


def test_the_same_metrics_give_the_same_picture_whatever_the_user_s_style(tmp_path: Path) -> None:
    loss_curve(TRAINING + VALIDATION, tmp_path / "a.png")
    with matplotlib.rc_context({"axes.facecolor": "black", "font.size": 30}):
        loss_curve(TRAINING + VALIDATION, tmp_path / "b.png")
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize(
    "records",
    [
        [{"step": 1, "loss": 3.0}],
        [{"step": 1, "valid_loss": 3.0, "valid_bleu": 0.0}],
        [{"step": 1, "loss": 3.0}, {"step": 2, "loss": math.nan}, {"step": 3, "loss": math.inf}],
        [{"step": 1, "loss": 3.0, "valid_bleu": math.nan}, {"step": 2, "valid_bleu": 3.0}],
        [{"step": 1, "loss": 3.0, "valid_bleu": math.nan}],
        [{"step": 7_000_000, "loss": 1e9}, {"note": "no step"}],
    ],
)
def test_few_and_odd_values_are_drawn_without_a_warning(tmp_path: Path, records: list) -> None:
    loss_curve(records, tmp_path / "loss.png")
    assert size(tmp_path / "loss.png") > (400, 800)


def test_metrics_without_a_loss_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        loss_curve([{"step": 1, "lr": 0.1}], tmp_path / "loss.png")
    assert caught.value.name == "loss" and "metrics.jsonl" in caught.value.expected


def test_each_weight_has_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    attention_heatmap(np.eye(8, 10), list("abcdefghij"), list("qrstuvwx"), path)
    darkest = tuple(int(255 * part) for part in matplotlib.colormaps["Blues"](1.0)[:3])
    dark = (np.abs(np.round(image.imread(path)[:, :, :3] * 255) - darkest) < 2).all(-1)
    dark[:, int(0.8 * dark.shape[1]) :] = False  # the scale at the right
    rows, columns = np.nonzero(dark)
    assert np.corrcoef(rows, columns)[0, 1] > 0.95  # from the upper left to the lower right
    assert dark.sum() == pytest.approx(8 * np.ptp(rows) / 8 * np.ptp(columns) / 8, rel=0.1)


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_the_same_weights_give_the_same_file(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / f"{n}.{ending}" for n in range(2)]
    for second, path in enumerate(paths):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(second))  # the time at which matplotlib draws, as it believes
        attention_heatmap(np.eye(3), "abc", "xyz", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_heads_stand_side_by_side(tmp_path: Path) -> None:
    weights = np.full((6, 5, 7), 1 / 7)
    for n_heads in (1, 2, 4, 6):
        attention_heatmap(weights[:n_heads], list("abcdefg"), list("vwxyz"), tmp_path / f"{n_heads}.png", "Layer 0")
    heights, widths = zip(*(size(tmp_path / f"{n}.png") for n in (1, 2, 4, 6)))
    assert widths[1] < widths[2] and heights[2] < heights[3] and abs(widths[2] - widths[3]) < 40


def test_any_piece_is_drawn_without_a_warning(tmp_path: Path) -> None:
    odd = [
        "茶",
        "🙂",
        "عربي",
        "हिन्दी",
        "$x^2$",
        "$\\frac",
        "\n",
        "\0",
        "\u2028",
        "\udc80",
        "",
        " ",
        "x" * 500,
        "Ġthe",
        "<i>",
    ]
    attention_heatmap(np.full((len(odd), len(odd)), 0.3), odd, odd, tmp_path / "a.png", title=f"Of {''.join(odd[:10])}")
    assert max(size(tmp_path / "a.png")) < 2400


@pytest.mark.parametrize("weights", [np.zeros((2, 2)), np.full((2, 2), np.nan), np.ones((1, 2, 2), dtype=np.float16)])
def test_odd_weights_are_drawn_without_a_warning(tmp_path: Path, weights: np.ndarray) -> None:
    attention_heatmap(weights, ["a", "b"], ["c", "d"], tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_long_sentence_makes_no_endless_picture(tmp_path: Path) -> None:
    attention_heatmap(np.eye(200, 300), ["piece"] * 300, ["piece"] * 200, tmp_path / "a.png")
    assert max(size(tmp_path / "a.png")) < 5000


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 3), (4, 2, 3), (0, 3, 2), (1, 1, 3, 2)])
def test_weights_that_do_not_fit_the_pieces_are_said(tmp_path: Path, shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError) as caught:
        attention_heatmap(np.zeros(shape), ["a", "b"], ["x", "y", "z"], tmp_path / "a.png")
    assert (caught.value.name, caught.value.value) == ("weights", shape)
    assert "T=3" in caught.value.expected and "S=2" in caught.value.expected
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.style", None)
    with pytest.raises(ConfigError, match=r"loss\.png") as caught:
        loss_curve(TRAINING, tmp_path / "loss.png")
    assert caught.value.name == "matplotlib" and "pip install matplotlib" in caught.value.fix


def test_a_picture_that_cannot_be_written_is_said_and_an_earlier_one_stays(
    tmp_path: Path, fail_from, disk_full
) -> None:
    loss_curve(TRAINING, tmp_path / "loss.png")
    before = (tmp_path / "loss.png").read_bytes()
    with pytest.raises(TrainingError, match="No space left on device"), fail_from(1, disk_full):
        loss_curve(TRAINING + VALIDATION, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes() == before


@pytest.mark.parametrize(
    ("draw", "again"),
    [
        (lambda path: loss_curve(TRAINING, path), "`resume=True`"),
        (lambda path: attention_heatmap([[1.0]], ["a"], ["b"], path), "run the command again"),
    ],
)
def test_on_a_full_disk_each_picture_is_drawn_again_by_the_verb_that_draws_it(
    tmp_path: Path, fail_from, disk_full, draw, again: str
) -> None:
    with pytest.raises(TrainingError, match="MiB are free") as caught, fail_from(1, disk_full):
        draw(tmp_path / "a.png")
    assert again in caught.value.fix


def test_drawing_opens_no_window_and_leaves_no_figure_behind(tmp_path: Path) -> None:
    loaded = "matplotlib.pyplot" in sys.modules
    loss_curve(TRAINING, tmp_path / "deep" / "loss.png")
    assert ("matplotlib.pyplot" in sys.modules) == loaded
    assert io.BytesIO((tmp_path / "deep" / "loss.png").read_bytes()).read(4) == b"\x89PNG"


def test_letters_that_no_font_has_are_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attention_heatmap([[1.0, 0.0]], ["𒀀", "𒀀"], ["𒁀"], tmp_path / "b.png")
    said = capsys.readouterr().err  # nothing, where there is a font for cuneiform
    assert said == "" or said.startswith("no installed font has 𒀀𒁀, so the picture shows empty boxes; install one")
    assert said.count("\n") <= 1


def test_a_figure_of_any_length_is_written(tmp_path: Path) -> None:
    with drawing(tmp_path / "long.png", again="") as figure:
        figure.set_size_inches(900, 1)
        figure.subplots()
    assert max(size(tmp_path / "long.png")) <= 16_100


def test_heads_may_be_named_and_put_in_rows(tmp_path: Path) -> None:
    weights = np.full((6, 5, 7), 1 / 7)
    for across in (2, 6):
        names = [f"{number}\n{number} bits" for number in range(6)]
        path = tmp_path / f"{across}.png"
        figure = attention_heatmap(weights, list("abcdefg"), list("vwxyz"), path, names=names, across=across)
        assert [panel.get_xlabel() for panel in figure.axes[:6]] == names
    assert size(tmp_path / "2.png")[0] > size(tmp_path / "6.png")[0]


def test_a_signal_while_matplotlib_is_imported_is_no_broken_installation(tmp_path: Path, monkeypatch) -> None:
    real, stopped = builtins.__import__, TrainingError("stopped by SIGTERM")

    def imported(name: str, *more: Any) -> Any:
        if name == "matplotlib.style":
            raise stopped
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", imported)
    with pytest.raises(TrainingError) as caught, drawing(tmp_path / "x.png", again=""):
        pass
    assert caught.value is stopped
