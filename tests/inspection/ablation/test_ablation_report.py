"""The table and the picture of what each part is worth."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from clearhead.inspection.ablation import Ablation, Measure, PartEffect, Study

matplotlib = pytest.importorskip("matplotlib")
image = pytest.importorskip("matplotlib.image")


def row(name: str, change: float = 0.0, low: float = 0.0, high: float = 0.0, changed: int | None = 3) -> PartEffect:
    stack, layer, kind, *head = name.split(".")
    number = int(head[1]) if head else None
    return PartEffect(
        name, f"{stack}.{kind}", int(layer), number, 40.0 + change, change, low, high, 0.5, changed, low > 0 or high < 0
    )


def rows(
    n_layers: int, n_heads: int, change: float = -1.0, stacks: tuple[str, ...] = ("encoder", "decoder")
) -> list[PartEffect]:
    found = []
    for stack in stacks:
        kinds = ["self", "cross"] if stack == "decoder" and len(stacks) == 2 else ["self"]
        for layer in range(n_layers):
            for kind in kinds:
                name = f"{stack}.{layer}.{kind}"
                found += [row(name, 5 * change), *(row(f"{name}.head.{n}", change) for n in range(n_heads))]
            found.append(row(f"{stack}.{layer}.feed_forward", 3 * change))
    return found


def ablation(rows: list[PartEffect], *, lower: bool = False) -> Ablation:
    measure = Measure("bleu", "BLEU", ".2f", lower, 40.0, 1.5)
    folder = Path("somewhere")
    study = Study("translate", ["test.tsv"], 200, "sentences", "", 0, {"beam": 4}, "f00", folder, 2, "")
    return Ablation(measure, tuple(rows), study)


def test_the_table_has_a_line_for_each_part_in_order_within_80_columns() -> None:
    some = [row("encoder.0.self", -12.345, -15.0, -9.5, 120), row("encoder.0.self.head.15", 0.1, -0.2, 0.42)]
    some.append(row("decoder.11.feed_forward", 1.0, 0.5, 2.0, 7))
    lines = ablation(some).render().splitlines()
    assert lines[0] == "BLEU 40.00 ± 1.50: 200 sentences of test.tsv"
    assert lines[2].split() == ["without", "BLEU", "change", "95%", "CI", "changed/200"]
    assert lines[3].split() == ["encoder.0.self", "27.66", "-12.35", "-15.00", "to", "-9.50", "*", "120"]
    assert lines[4].split() == ["encoder.0.self.head.15", "40.10", "+0.10", "-0.20", "to", "+0.42", "3"]
    assert lines[5].split() == ["decoder.11.feed_forward", "41.00", "+1.00", "+0.50", "to", "+2.00", "*", "7"]
    assert max(map(len, lines)) <= 80
    assert len({line.rindex(line.split()[-1]) + len(line.split()[-1]) for line in lines[2:6]}) == 1  # one edge


def test_scores_of_which_less_is_better_and_texts_without_answers_are_told() -> None:
    text = ablation([row("decoder.0.self", 0.5, 0.1, 0.9, None)], lower=True).render()
    assert text.startswith("BLEU 40.00 ± 1.50 (lower is better): 200 sentences") and "changed/" not in text


def test_json_holds_all_but_what_is_about_this_computer() -> None:
    values = json.loads(json.dumps(ablation(rows(1, 2)).to_dict()))
    assert values["format_version"] == 1 and (values["score"], values["whole"], values["whole_interval"]) == (
        "bleu",
        40.0,
        1.5,
    )
    assert {"task", "data", "texts", "drawn", "sampled", "cut", "decode", "weights", "parts"} <= values.keys()
    assert not {"folder", "kept", "problem"} & values.keys()
    assert values["parts"][1] == {
        "name": "encoder.0.self.head.0", "place": "encoder.self", "layer": 0, "head": 0, "score": 39.0, "change": -1.0,
        "low": 0.0, "high": 0.0, "p_value": 0.5, "changed": 3, "sure": False,
    }  # fmt: skip


def pixels(path: Path) -> np.ndarray:
    return np.round(image.imread(path)[:, :, :3] * 255).astype(int)


def count(path: Path, colour: float, name: str = "RdBu") -> int:
    """How many pixels have a colour of the scale."""
    wanted = tuple(int(255 * part) for part in matplotlib.colormaps[name](colour)[:3])
    return int((np.abs(pixels(path) - wanted) < 2).all(-1).sum())


def test_what_makes_it_worse_is_red_and_what_makes_it_better_blue(tmp_path: Path) -> None:
    for name, change, lower in (("worse", -1.0, False), ("better", 1.0, False), ("fewer", -1.0, True)):
        some = [row("encoder.0.self.head.0", change), *(row(f"encoder.0.self.head.{n}") for n in range(1, 8))]
        ablation(some, lower=lower).plot(tmp_path / f"{name}.png")
    red, blue = ([count(tmp_path / f"{name}.png", end) for name in ("worse", "better", "fewer")] for end in (0.0, 1.0))
    assert red[0] > 5 * max(red[1:]) and min(blue[1:]) > 5 * blue[0]


def test_the_middle_of_the_scale_is_zero_and_heads_have_one_of_their_own(tmp_path: Path) -> None:
    heads = [row("decoder.0.self.head.0", -0.01), *(row(f"decoder.0.self.head.{n}") for n in range(1, 6))]
    ablation(heads).plot(tmp_path / "heads.png")
    ablation([*heads, row("decoder.0.self", -50.0)]).plot(tmp_path / "both.png")
    assert count(tmp_path / "both.png", 0.0) > 1.5 * count(tmp_path / "heads.png", 0.0) > 100
    assert count(tmp_path / "heads.png", 0.5) > 3 * count(tmp_path / "heads.png", 0.0)


@pytest.mark.parametrize(
    "some",
    [
        rows(1, 1),
        rows(6, 3),
        rows(6, 16),
        pytest.param(rows(24, 32), marks=pytest.mark.slow),
        rows(3, 8, stacks=("encoder",)),
        rows(3, 8, stacks=("decoder",)),
        [it for it in rows(2, 4) if it.head is not None],
        [it for it in rows(2, 4) if it.place.endswith("feed_forward")],
        [row("encoder.0.self")],
        [*rows(1, 2, change=1e-7, stacks=("encoder",)), *rows(1, 2, change=0.0, stacks=("decoder",))],
        rows(1, 2, change=12345.0),
        rows(1, 2, change=math.nan),
    ],
)
def test_any_shape_of_model_is_drawn_without_a_warning(tmp_path: Path, some: list[PartEffect]) -> None:
    ablation(some).plot(tmp_path / "new" / "a.png")
    height, width, _ = pixels(tmp_path / "new" / "a.png").shape
    assert min(height, width) > 250 and max(height, width) < 4000


def test_the_same_changes_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        ablation(rows(1, 2)).plot(tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
