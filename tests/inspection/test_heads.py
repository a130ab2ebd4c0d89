import math

import pytest
import torch

from clearhead.inspection.heads import heads_of, render_heads
from clearhead.inspection.labelled import Labelled


def weights(n_heads: int, n_keys: int) -> Labelled:
    """Head 0 looks at one key, head 1 at all, the others at two."""
    w = torch.zeros(n_heads, 2, n_keys)
    w[0, :, 1] = 1
    w[1] = 1 / n_keys
    w[2:, :, :2] = 0.5
    return Labelled(w, ("head", "query", "key"), {"query": ["q0", "q1"], "key": [f"k{i}" for i in range(n_keys)]})


def test_the_entropy_of_a_head_is_that_of_its_rows() -> None:
    found = heads_of(weights(3, 8))
    assert [it.entropy for it in found] == pytest.approx([0.0, 3.0, 1.0])
    assert (found[0].query, found[0].key, found[0].weight) == ("q0", "k1", 1.0)


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
    assert "\x1b[48;5;" in render_heads("x", w, color=True) and "█" not in render_heads("x", w, color=True)
    assert "\x1b" not in render_heads("x", w) and "█" in render_heads("x", w)
