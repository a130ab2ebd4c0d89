"""The laws of exercises 5 to 7: positions, add and norm, feed-forward (sections 3.5, 3.1 and 3.3)."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ..model.positions import sinusoid
from .laws import (
    Broken,
    Exercise,
    Work,
    differs,
    expect,
    expect_equal,
    expect_gradients,
    expect_shape,
    name_of,
    numbers,
    sizes,
)

# --- 5


def _table(work: Work, n: int, width: int) -> Tensor:
    found = work.positional_encoding(n, width)
    expect_shape(found, (n, width), "the table", n=n, d_model=width)
    expect(found.dtype == torch.float32, f"the table has numbers of type {found.dtype}, not torch.float32", n=n)
    table: Tensor = found
    return table


def _rows_count_from_zero(work: Work) -> None:
    """The table has a row for each position from 0, and a row is the same in every table."""
    for n in (1, 2, 3):
        table, longer = _table(work, n, 4), _table(work, n + 1, 4)
        one = differs(table[0], sinusoid(2, 4)[1].float()) is None
        expect(not one, "row 0 has the angles of position 1", n=n, d_model=4)
        expect_equal(longer[:n], table, f"with a row more, the table of {n}", n=n + 1, d_model=4)
    _table(work, 6000, 4)
    _table(work, 0, 4)


def _sines_and_cosines_alternate(work: Work) -> None:
    """Even columns are sines, and odd columns cosines of the same angle."""
    for n, pairs in sizes(3, 2):
        table = _table(work, n, 2 * pairs)
        expect_equal(table[0, 0::2], torch.zeros(pairs), "sin(0) in row 0", n=n, d_model=2 * pairs)
        expect_equal(table[0, 1::2], torch.ones(pairs), "cos(0) in row 0", n=n, d_model=2 * pairs)
        squares = table[:, 0::2] ** 2 + table[:, 1::2] ** 2
        expect_equal(squares, torch.ones(n, pairs), "sin^2 + cos^2", n=n, d_model=2 * pairs)


def _first_angle_is_the_position(work: Work) -> None:
    """The first pair turns by one radian per position."""
    for n in (8, 6000):
        expect_equal(_table(work, n, 4)[:, 0], torch.arange(float(n)).sin(), "column 0", n=n, d_model=4)


def _wavelengths_are_geometric(work: Work) -> None:
    """The wavelengths are a geometric series from 2 pi towards 10,000 times 2 pi."""
    for width in (2, 4, 6, 8, 64):
        table = _table(work, 2, width)
        for pair in range(width // 2):
            angle = 10_000 ** (-2 * pair / width)
            found = float(torch.atan2(table[1, 2 * pair], table[1, 2 * pair + 1]))
            what = f"pair {pair} turns by {found:.5g} radians per position, not by {angle:.5g}"
            expect(math.isclose(found, angle, rel_tol=1e-3, abs_tol=1e-7), what, d_model=width)


def _distances_decide_products(work: Work) -> None:
    """The product of two rows depends on their distance alone."""
    table = _table(work, 9, 6)
    products = table @ table.T
    for distance in range(9):
        same = products.diagonal(distance)
        what = f"rows at a distance of {distance} don't all have the same product"
        expect(differs(same, same[:1].expand(len(same))) is None, what, n=9, d_model=6)
    expect_equal(table, sinusoid(9, 6), "the table", n=9, d_model=6)


def _draw_positions(work: Work) -> Mapping[str, Tensor]:
    return {"positions 0 to 15": _table(work, 16, 16)}


# --- 6


def _normalised(work: Work, x: Tensor) -> Tensor:
    width = x.size(-1)
    found = work.layer_norm(x, torch.ones(width), torch.zeros(width))
    expect_shape(found, x.shape, "the norm", x=x)
    norm: Tensor = found
    return norm


def _tokens_have_mean_zero(work: Work) -> None:
    """Every token has mean 0 after the norm."""
    x, one, zero = torch.tensor([[0.0, 2.0]]), torch.ones(2), torch.zeros(2)
    if isinstance(found := work.layer_norm(x, one, zero), Tensor) and (found == 1).all():
        raise Broken("gain and bias are exchanged", name_of(_gain_and_bias_come_last), x=x, gain=one, bias=zero)
    for rows, columns in sizes(3, 3):
        x = numbers(rows, columns + 1) + 4 * torch.arange(columns + 1.0)  # no two numbers of a token are the same
        found = _normalised(work, x)
        across = rows > 1 and differs(found.mean(0), torch.zeros(columns + 1)) is None
        hint = "; every column does: use the last axis" if across else ""
        at = differs(found.mean(-1), torch.zeros(rows))
        expect(at is None, f"token {at and at[0]} doesn't have mean 0{hint}", x=x)


def _tokens_have_variance_one(work: Work) -> None:
    """Every token has variance 1 after the norm, where the variance divides by the width."""
    unbiased = abs(float(_normalised(work, 4 * torch.arange(4.0)[None]).var(correction=0)) - 3 / 4) < 0.01
    hint = ": divide the squares by the width, not by the width - 1" if unbiased else ""
    for width in (2, 3, 4):
        x = torch.arange(float(width)) * torch.tensor([[4.0], [0.5]])
        for token, variance in enumerate(_normalised(work, x).var(-1, correction=0).tolist()):
            expect(abs(variance - 1) < 0.01, f"the variance of token {token} is {variance:.3g}, not 1{hint}", x=x)


def _constant_tokens_work(work: Work) -> None:
    """A token whose numbers are all the same becomes zeros, not NaN."""
    expect_equal(_normalised(work, torch.full((1, 2), 3.0)), torch.zeros(1, 2), "the norm", x=[[3, 3]])


def _large_numbers_work(work: Work) -> None:
    """Adding the same number to all numbers of a token changes nothing, however large it is."""
    for added in (4.0, 10_000.0):
        x = torch.tensor([[0.0, 2.0]]) + added
        norm = _normalised(work, x)
        expect_equal(norm, torch.tensor([[-1.0, 1.0]]), "the norm", x=[[int(it) for it in x[0]]])


def _eps_is_under_the_root(work: Work) -> None:
    """eps is added to the variance, and the root is taken of both."""
    x, one, zero = torch.tensor([[0.0, 2.0]]), torch.ones(2), torch.zeros(2)
    for eps in (3.0, 8.0):
        found = work.layer_norm(x, one, zero, eps)
        fixed = differs(found.abs(), torch.ones(1, 2)) is None
        expect(not fixed, "the result doesn't depend on eps", x=x, eps=eps)
        expect_equal(found, (x - 1) / math.sqrt(1 + eps), "the norm", x=x, eps=eps)


def _texts_are_independent(work: Work) -> None:
    """The norm works on any number of texts at once, each token for itself."""
    x = numbers(2, 2, 3) + torch.arange(3.0)
    found = _normalised(work, x)
    for text in range(2):
        expect_equal(found[text], _normalised(work, x[text]), f"text {text} next to another one", x=x)


def _norms_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to the token, the gain and the bias, so that a model can learn."""
    x, gain, bias = torch.tensor([[1.0, 2.0, 4.0]]), numbers(3, seed=1), numbers(3, seed=2)
    expect_gradients(work.layer_norm, _layer_norm, x=x, gain=gain, bias=bias)
    ours = lambda x, *norm: work.add_and_norm(x, _moved, *norm)  # noqa: E731
    expect_gradients(ours, lambda x, *norm: _layer_norm(x + _moved(x), *norm), x=x, gain=gain, bias=bias)


def _moved(x: Tensor) -> Tensor:
    return x.roll(1, -1)


def _layer_norm(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    return torch.nn.functional.layer_norm(x, gain.shape, gain, bias)


def _gain_and_bias_come_last(work: Work) -> None:
    """The gain multiplies what's normalised, and the bias is added after that."""
    for rows, width in sizes(2, 3):
        x, gain, bias = numbers(rows, width) * 2, numbers(width, seed=1), numbers(width, seed=2)
        expected = _layer_norm(x, gain, bias)
        expect_equal(work.layer_norm(x, gain, bias), expected, "the norm", x=x, gain=gain, bias=bias)


def _sublayers_are_added(work: Work) -> None:
    """A sub-layer's output is added to its input: the residual connection."""
    gain, bias = torch.ones(3), torch.zeros(3)
    x, other = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[4.0, 1.0, 2.0]])
    found, changed = (work.add_and_norm(it, lambda it: it * 0, gain, bias) for it in (x, other))
    expect_shape(found, x.shape, "the result", x=x)
    expect(differs(found, changed) is not None, "with a sub-layer that returns zeros, x is lost", x=x)
    work.add_and_norm(x, lambda it: it, gain, bias)  # x isn't to be changed by a change of what the sub-layer returns


def _norms_come_after_the_sum(work: Work) -> None:
    """The norm comes after the sum, and the sub-layer reads the input as it is: LayerNorm(x + Sublayer(x))."""
    x, gain, bias, seen = numbers(2, 3) + 1, numbers(3, seed=1), numbers(3, seed=2), list[Tensor]()

    def sublayer(it: Tensor) -> Tensor:
        seen.append(it)
        return _moved(it)

    found = work.add_and_norm(x, sublayer, gain, bias)
    expect(bool(seen), "the sub-layer isn't called", x=x)
    expect(seen[0].shape == x.shape and differs(seen[0], x) is None, "the sub-layer doesn't read x itself", x=x)
    expected = _layer_norm(x + _moved(x), gain, bias)
    what = "with a sub-layer that moves numbers to the right, the result"
    expect_equal(found, expected, what, x=x, gain=gain, bias=bias)


def _draw_norm(work: Work) -> Mapping[str, Tensor]:
    x = numbers(4, 8) + torch.arange(4.0)[:, None]
    return {"before the norm": x, "after the norm": _normalised(work, x)}


# --- 7


def _feed_forward(work: Work, x: Tensor, inner: int, seed: int = 1) -> tuple[Tensor, list[Tensor]]:
    width = x.size(-1)
    shapes = ((width, inner), (inner,), (inner, width), (width,))
    weights = [numbers(*shape, seed=seed + i) for i, shape in enumerate(shapes)]
    found = work.feed_forward(x, *weights)
    expect_shape(found, x.shape, "the output", x=x, w_1=weights[0], w_2=weights[2])
    return found, weights


def _negative_sums_are_cut(work: Work) -> None:
    """Negative numbers inside become 0, and positive ones stay: max(0, .)."""
    one, zero = torch.ones(1, 1), torch.zeros(1)
    for value, sign in ((-1.0, 1), (2.0, 1), (-3.0, 1), (20.0, 1), (-1.0, -1)):
        x, w_1 = torch.tensor([[value]]), one * sign
        found = work.feed_forward(x, w_1, zero, one, zero)
        expect_equal(found, (x * sign).clamp(min=0), "with w_2 = [[1]] and without biases, the output", x=x, w_1=w_1)


def _nothing_passes_by(work: Work) -> None:
    """The output is a product with w_2, plus a bias: x itself isn't added."""
    x, one, zero = torch.tensor([[1.0]]), torch.ones(1, 1), torch.zeros(1)
    found = work.feed_forward(x, one, zero, one * 0, zero)
    expect_shape(found, (1, 1), "the output", x=x)
    expect_equal(found, one * 0, "with w_2 = [[0]] and without biases, the output", x=x)


def _layers_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to the token and both layers, so that a model can learn."""
    x, w_1, b_1 = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, -1.0], [2.0, 1.0]]), torch.tensor([0.5, -2.0])
    w_2, b_2 = torch.tensor([[1.0, 2.0], [3.0, -1.0]]), torch.tensor([1.0, 0.0])
    expect_gradients(work.feed_forward, _formula, x=x, w_1=w_1, b_1=b_1, w_2=w_2, b_2=b_2)


def _formula(x: Tensor, w_1: Tensor, b_1: Tensor, w_2: Tensor, b_2: Tensor) -> Tensor:
    return (x @ w_1 + b_1).clamp(min=0) @ w_2 + b_2


def _both_layers_have_a_bias(work: Work) -> None:
    """Each layer adds its own bias: the first before the cut, the second after it."""
    zero, none = torch.zeros(1, 1), torch.zeros(1)
    for first, second in ((0.0, -2.0), (3.0, 0.0), (-3.0, 1.0)):
        b_1, b_2, one = torch.tensor([first]), torch.tensor([second]), torch.ones(1, 1)
        found = work.feed_forward(zero, one, b_1, one, b_2)
        expected = torch.tensor([[max(0.0, first) + second]])
        expect_equal(found, expected, "for x = [[0]], the output", b_1=b_1, b_2=b_2)
    expect_equal(work.feed_forward(zero, zero, none, zero, none), zero, "the output", x=zero)


def _tokens_stay_apart(work: Work) -> None:
    """Every token is transformed alone, in the same way."""
    x = numbers(3, 2)
    together, weights = _feed_forward(work, x, 4)
    for token in range(3):
        alone = work.feed_forward(x[token : token + 1], *weights)
        expect_shape(alone, (1, 2), "the output", x=x[token : token + 1])
        expect_equal(together[token : token + 1], alone, f"token {token} next to others", x=x)


def _two_products(work: Work) -> None:
    """The output is max(0, x W_1 + b_1) W_2 + b_2."""
    for tokens, width, inner in (*sizes(2, 3, 3), (2, 2, 8)):
        x = numbers(tokens, width)
        found, (w_1, b_1, w_2, b_2) = _feed_forward(work, x, inner)
        right = _formula(x, w_1, b_1, w_2, b_2)
        expect_equal(found, right, "the output", x=x, w_1=w_1, b_1=b_1, w_2=w_2, b_2=b_2)


def _draw_feed_forward(work: Work) -> Mapping[str, Tensor]:
    x = numbers(4, 8)
    return {"4 tokens": x, "the same tokens after the feed-forward network": _feed_forward(work, x, 16)[0]}


EXERCISES = (
    Exercise(
        "step_05_positions",
        ("positional_encoding",),
        (
            _rows_count_from_zero,
            _sines_and_cosines_alternate,
            _first_angle_is_the_position,
            _wavelengths_are_geometric,
            _distances_decide_products,
        ),
        _draw_positions,
    ),
    Exercise(
        "step_06_add_and_norm",
        ("layer_norm", "add_and_norm"),
        (
            _tokens_have_mean_zero,
            _tokens_have_variance_one,
            _constant_tokens_work,
            _eps_is_under_the_root,
            _gain_and_bias_come_last,
            _texts_are_independent,
            _large_numbers_work,
            _sublayers_are_added,
            _norms_come_after_the_sum,
            _norms_let_gradients_flow,
        ),
        _draw_norm,
    ),
    Exercise(
        "step_07_feed_forward",
        ("feed_forward",),
        (
            _tokens_stay_apart,
            _nothing_passes_by,
            _negative_sums_are_cut,
            _both_layers_have_a_bias,
            _two_products,
            _layers_let_gradients_flow,
        ),
        _draw_feed_forward,
    ),
)
