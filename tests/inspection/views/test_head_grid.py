import math
import re

import pytest
import torch
from rich.cells import cell_len, set_cell_size

from clearhead.inspection.record.labels import LabelledArray
from clearhead.inspection.views.head_grid import heads_of, render_heads, render_keys


def weights(n_heads: int, n_keys: int) -> LabelledArray:
    """Head 0 looks at one key, head 1 at all, the others at two."""
    w = torch.zeros(n_heads, 2, n_keys)
    w[0, :, 1] = 1
    w[1] = 1 / n_keys
    w[2:, :, :2] = 0.5
    return LabelledArray(w, ("head", "query", "key"), {"query": ["q0", "q1"], "key": [f"k{i}" for i in range(n_keys)]})


def test_the_entropy_of_a_head_is_that_of_its_rows() -> None:
    found = heads_of(weights(3, 8))
    assert [it.entropy for it in found] == pytest.approx([0.0, 3.0, 1.0])
    assert (found[0].query, found[0].key, found[0].weight) == ("q0", "k1", 1.0)


def test_where_nobody_looks_ahead_entropy_is_held_against_what_is_in_sight() -> None:
    tokens = ["a", "b", "c", "d"]
    even = torch.ones(4, 4).tril() / torch.arange(1, 5)[:, None]  # all that is in sight alike
    sharp = torch.tensor([[1.0, 0, 0, 0], [0.3, 0.7, 0, 0], [0, 0.9, 0.1, 0], [0.5, 0, 0, 0.5]])
    w = LabelledArray(torch.stack([even, sharp]), ("head", "query", "key"), {"query": tokens, "key": tokens})
    most = sum(math.log2(n) for n in range(1, 5)) / 4
    assert heads_of(w)[0].entropy == pytest.approx(most)
    text = render_heads("decoder.0.self", w)
    assert f"head 0: entropy {most:.2f} of {most:.2f} bits" in text
    assert 'strongest: "c" to "b" (0.90)' in text  # and not the first, which can see nothing but itself
    first = LabelledArray(w.values[:, :2], w.axes, {"query": tokens[:2], "key": tokens})  # as a film cuts it
    assert "of 0.50 bits" in render_heads("decoder.0.self", first)
    ahead = LabelledArray(torch.full((1, 4, 4), 0.25), w.axes, w.tokens)
    assert "entropy 2.00 of 2.00 bits" in render_heads("encoder.0.self", ahead)
    alone = LabelledArray(torch.ones(1, 1, 1), w.axes, {"query": ["a"], "key": ["a"]})
    assert 'entropy 0.00 of 0.00 bits; strongest: "a" to "a" (1.00)' in render_heads("decoder.0.self", alone)


@pytest.mark.parametrize("n_keys", [1, 3, 12, 200])
@pytest.mark.parametrize("n_heads", [3, 16])
def test_heads_stand_beside_each_other_as_far_as_there_is_room(n_heads: int, n_keys: int) -> None:
    w = weights(n_heads, max(n_keys, 2))
    text = render_heads("decoder.0.cross", w)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("head ") and "entropy" in line for line in lines) == n_heads
    assert all(f"head {n}:" in text for n in range(n_heads))
    assert ("(the first 78 of 200 keys)" in text) == (n_keys == 200)
    assert f"of {math.log2(max(n_keys, 2)):.2f} bits" in text


def test_colours_are_asked_for() -> None:
    w = weights(3, 5)
    assert "darker is more" in render_heads("x", w, color=True) and "denser is more" in render_heads("x", w)
    assert "\x1b[48;5;" in render_heads("x", w, color=True) and "█" not in render_heads("x", w, color=True)
    assert "\x1b" not in render_heads("x", w) and "█" in render_heads("x", w)


@pytest.mark.parametrize("color", [False, True])
def test_every_picture_stands_in_its_columns_beside_its_tokens(color: bool) -> None:
    w = weights(3, 5)
    named = LabelledArray(w.values, w.axes, {"query": ["猫が", "a long token"], "key": [f"鍵{i}" for i in range(5)]})
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in render_heads("x", named, color=color).splitlines()]
    start = cell_len(lines[2]) - cell_len(lines[2].lstrip())
    assert lines[2].endswith("  head 2") and lines[3].startswith("猫が ") and lines[4].startswith("a long to… ")
    assert start == 11
    if not color:  # what is left beside the tokens are the weights, head by head
        assert [set_cell_size(line, 18)[-7:] for line in lines[3:5]] == ["│ █   │", "│ █   │"]
    assert max(map(cell_len, lines)) <= 80


def test_keys_are_named_where_they_are_not_the_queries() -> None:
    w = weights(3, 5)
    assert render_keys(w) == ["keys, from left to right: k0 k1 k2 k3 k4"]
    many = LabelledArray(w.values, w.axes, {"query": ["q"], "key": ["猫" * 9] * 9})
    assert max(map(cell_len, render_keys(many))) <= 80 and len(render_keys(many)) > 3
    assert render_keys(LabelledArray(w.values, w.axes, {"query": ["a"], "key": ["a"]})) == []
