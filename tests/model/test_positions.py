import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import ModelError
from clearhead.model.attention import Attend, SelfAttention, merge_heads
from clearhead.model.positions import (
    Alibi,
    Learned,
    Positions,
    Relative,
    Rotary,
    Rotation,
    Sinusoidal,
    alibi_slopes,
    rotate,
    sinusoid,
)

PLACES = st.integers(0, 4000)


def scores(q: torch.Tensor, k: torch.Tensor, scheme: Positions, start: int) -> torch.Tensor:
    """What self-attention compares: the scores of queries and keys whose first stands at `start`. (B, H, T, T)"""
    seen: dict[str, torch.Tensor] = {}

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, mask=None, bias=None) -> torch.Tensor:
        seen["scores"] = q @ k.transpose(-2, -1) + (0 if bias is None else bias)
        return v

    part = SelfAttention(q.size(1) * q.size(3), q.size(1), attend=Attend())
    part.attend.forward = attend
    part.qkv = Given(torch.cat([q, k, k], 1))
    at = torch.arange(q.size(2))[None] + start
    part(torch.zeros(q.size(0), q.size(2), 1), bias=scheme.bias(at, at), rotation=scheme.rotation(at))
    return seen["scores"]


class Given(torch.nn.Module):
    """Gives heads (B, H, T, K) as a product of all of them would, whatever it reads."""

    def __init__(self, heads: torch.Tensor) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return merge_heads(self.heads)


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("name", ["rotary", "relative", "alibi"])
def test_the_scores_of_attention_depend_on_distances_alone(name, two_sided) -> None:
    """Queries rotated without their keys, or the other way round, would fail here."""
    schemes = {
        "rotary": Rotary(6),
        "relative": Relative(2, two_sided=two_sided),
        "alibi": Alibi(2, two_sided=two_sided),
    }
    q, k, scheme = torch.randn(1, 2, 7, 6), torch.randn(1, 2, 7, 6), schemes[name]
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    here = scores(q, k, scheme, 0)
    torch.testing.assert_close(scores(q, k, scheme, 1000), here, rtol=0, atol=1e-10)
    assert not torch.allclose(here, q @ k.transpose(-2, -1))
    same = torch.ones(1, 2, 7, 6)  # if tokens differ in nothing, the score is a function of the distance
    diagonals = scores(same, same, scheme, 5)
    torch.testing.assert_close(diagonals[..., 1:, 1:], diagonals[..., :-1, :-1])


def test_rotary_scores_of_a_token_with_itself_are_highest_at_distance_zero() -> None:
    x = torch.randn(1, 1, 1, 8).expand(1, 1, 20, 8)
    found = scores(x, x, Rotary(8), 3)[0, 0]
    assert found.argmax(-1).tolist() == list(range(20))


@pytest.mark.parametrize("two_sided", [True, False])
def test_alibi_penalises_distance_and_rewards_none(two_sided) -> None:
    at = torch.arange(6)[None]
    bias = Alibi(4, two_sided=two_sided).bias(at, at)[0]
    back = torch.stack([bias[:, 5, 5 - distance] for distance in range(6)], 1)
    assert (back[:, 0] == 0).all() and (back.diff(dim=1) < 0).all()  # further back, lower
    ahead = torch.stack([bias[:, 0, distance] for distance in range(6)], 1)
    assert (ahead.diff(dim=1) < 0).all() if two_sided else not ahead.any()
    assert (back[:-1, 1:] < back[1:, 1:]).all()  # the first head looks nearest


@pytest.mark.parametrize("scheme", [Sinusoidal, Learned])
def test_a_table_tells_every_position_from_every_other(scheme) -> None:
    embedded = scheme(16, max_len=300).embed(torch.zeros(1, 300, 16), torch.arange(300)[None])[0]
    apart = torch.cdist(embedded, embedded) + torch.eye(300)
    assert apart.min() > 1e-3


def test_sinusoids_are_alike_as_their_distance_says() -> None:
    """PE(p) . PE(p + k) is the same for every p, and largest for k = 0."""
    table = sinusoid(200, 32)
    products = table @ table.T
    torch.testing.assert_close(products[1:, 1:], products[:-1, :-1], rtol=0, atol=1e-11)
    assert products.argmax(-1).tolist() == list(range(200))


def test_a_table_that_would_fill_the_memory_is_an_error_at_once() -> None:
    with pytest.raises(ModelError) as caught:
        Sinusoidal(512, max_len=10**9)
    assert (caught.value.name, caught.value.value) == ("max_len", 10**9)


@pytest.mark.parametrize("d_model", [1, 2, 7, 8])
def test_the_sinusoid_is_the_papers_formula_for_even_and_odd_widths(d_model) -> None:
    table = sinusoid(50, d_model)
    assert table.shape == (50, d_model)
    for position in range(50):
        for column in range(d_model):
            angle = position / 10_000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert math.isclose(table[position, column], expected, rel_tol=0, abs_tol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 17, 1000])
def test_the_sinusoid_k_positions_on_is_the_same_rotation_of_it_everywhere(k) -> None:
    table = sinusoid(5000, 16)
    turn = torch.zeros(16, 16)
    for i in range(0, 16, 2):
        angle = k / 10_000 ** (i / 16)
        turn[i, i] = turn[i + 1, i + 1] = math.cos(angle)
        turn[i, i + 1], turn[i + 1, i] = math.sin(angle), -math.sin(angle)
    torch.testing.assert_close(turn @ turn.T, torch.eye(16), rtol=0, atol=1e-15)
    torch.testing.assert_close(table[k:], table[:-k] @ turn.T, rtol=0, atol=1e-11)


@pytest.mark.parametrize("scheme", [Sinusoidal, Learned])
def test_a_table_adds_the_row_of_each_position_and_has_5000_of_them(scheme) -> None:
    positions, x = scheme(6), torch.randn(2, 3, 6)
    assert positions.table.shape == (5000, 6)
    result = positions.embed(x, torch.tensor([[0, 1, 2], [7, 4999, 7]]))
    for b, row in enumerate([[0, 1, 2], [7, 4999, 7]]):
        for t, place in enumerate(row):
            torch.testing.assert_close(result[b, t], x[b, t] + positions.table[place], rtol=0, atol=0)


@pytest.mark.parametrize("scheme", [Sinusoidal, Learned])
def test_a_position_beyond_the_table_is_refused_with_what_to_do(scheme) -> None:
    with pytest.raises(ModelError) as caught:
        scheme(6, max_len=8).embed(torch.zeros(1, 2, 6), torch.tensor([[3, 8]]))
    assert (caught.value.name, caught.value.value) == ("positions", 8)


def test_endless_are_the_schemes_that_any_position_can_be_asked_of() -> None:
    far, x = torch.tensor([[10**6, 10**6 + 1]]), torch.zeros(1, 2, 8)
    for scheme in (Positions(), Sinusoidal(8, max_len=9), Learned(8, max_len=9), Rotary(8), Relative(2), Alibi(2)):
        if scheme.endless:
            assert scheme.embed(x, far).equal(x)
            rotation, bias = scheme.rotation(far), scheme.bias(far, far)
            assert rotation is None or rotation.cos.isfinite().all()
            assert bias is None or bias.isfinite().all()
        else:
            with pytest.raises(ModelError) as caught:
                scheme.embed(x, far)
            assert (caught.value.name, caught.value.value) == ("positions", 1000001)


def test_only_learned_and_relative_positions_are_learned() -> None:
    schemes = [Positions(), Sinusoidal(8), Learned(8), Rotary(8), Relative(2), Alibi(2)]
    assert [len(list(scheme.parameters())) for scheme in schemes] == [0, 0, 1, 0, 1, 0]
    assert [list(scheme.state_dict()) for scheme in schemes] == [[], [], ["table"], [], ["table"], []]


def test_learned_positions_start_at_the_size_of_an_embedding_before_it_is_scaled() -> None:
    table = Learned(64, max_len=1000).table
    assert math.isclose(table.std().item(), 64**-0.5, rel_tol=0.02) and abs(table.mean()) < 0.002


def test_every_scheme_opens_one_door_and_leaves_the_others_shut() -> None:
    x, at = torch.randn(1, 3, 8), torch.arange(3)[None]
    schemes = [Positions(), Sinusoidal(8), Learned(8), Rotary(4), Relative(2), Alibi(2)]
    doors = [
        (scheme.embed(x, at) is not x, scheme.rotation(at) is not None, scheme.bias(at, at) is not None)
        for scheme in schemes
    ]
    embeds, rotates, biases = (True, False, False), (False, True, False), (False, False, True)
    assert doors == [(False, False, False), embeds, embeds, rotates, biases, biases]


@pytest.mark.parametrize("base", [10_000.0, 100.0])
def test_rotation_multiplies_pairs_as_complex_numbers_by_a_growing_angle(base) -> None:
    x, at = torch.randn(2, 3, 4, 6), torch.tensor([[0, 1, 2, 3], [5, 6, 7, 4000]])
    pairs = torch.complex(x[..., :3], x[..., 3:])
    frequency = torch.tensor([base ** (-2 * i / 6) for i in range(3)])
    turned = pairs * torch.exp(1j * at[:, None, :, None] * frequency)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    torch.testing.assert_close(rotate(x, Rotary(6, base).rotation(at)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("same_halves", [True, False])
def test_the_gradient_of_a_rotation_is_that_of_its_equation(same_halves) -> None:
    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, requires_grad=True)
    cos, sin = Rotary(6).rotation(torch.arange(4)[None])
    if not same_halves:  # as a position scheme of one's own may return
        cos, sin = torch.randn_like(cos), torch.randn_like(sin)
    assert torch.autograd.gradcheck(lambda x: rotate(x, Rotation(cos, sin)), x)


def test_a_learned_rotation_has_a_gradient() -> None:
    frequency = torch.rand(3, dtype=torch.float64, requires_grad=True)

    def turn(frequency: torch.Tensor) -> torch.Tensor:
        angle = torch.arange(4.0)[None, None, :, None] * frequency.repeat(2)
        return rotate(x, Rotation(angle.cos(), angle.sin()))

    x = torch.randn(2, 3, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(turn, frequency)


def turned(x: torch.Tensor, place: int) -> torch.Tensor:
    return rotate(x, Rotary(x.size(-1)).rotation(torch.tensor([[place]])))


@given(PLACES, PLACES, PLACES)
@settings(deadline=None)
def test_the_product_of_a_turned_query_and_key_depends_on_their_distance_alone(query_at, key_at, shift) -> None:
    q, k = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 1, 8)
    here = (turned(q, query_at) * turned(k, key_at)).sum(-1)
    there = (turned(q, query_at + shift) * turned(k, key_at + shift)).sum(-1)
    torch.testing.assert_close(here, there, rtol=0, atol=1e-11)


def test_another_distance_gives_another_product() -> None:
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    products = {round((turned(q, 100) * turned(k, place)).sum().item(), 9) for place in range(90, 110)}
    assert len(products) == 20


def test_rotation_keeps_lengths_and_does_nothing_at_position_zero() -> None:
    x = torch.randn(1, 1, 1, 8)
    torch.testing.assert_close(turned(x, 0), x, rtol=0, atol=0)
    torch.testing.assert_close(turned(x, 1234).norm(), x.norm())


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.bfloat16, 2**-8), (torch.float32, 2**-24)])
def test_far_out_a_rotation_loses_no_more_than_the_last_rounding_in_any_precision(dtype, rounding) -> None:
    positions, at = Rotary(8).to(dtype), torch.arange(3000, 3100)[None]
    x = torch.randn(1, 1, 100, 8).to(dtype)
    result = rotate(x, positions.rotation(at))
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), rotate(x.double(), positions.rotation(at)), rtol=rounding, atol=1e-6)


def test_rotary_positions_refuse_an_odd_head_width() -> None:
    with pytest.raises(ModelError) as caught:
        Rotary(7)
    assert (caught.value.name, caught.value.value) == ("d_head", 7)


def t5_bucket(distance: int, n_buckets: int, max_distance: int, *, two_sided: bool) -> int:
    """T5's definition with whole numbers: near distances have a bucket each, far ones share logarithmic ones.

    distance: key position minus query position. Of `half` buckets for a direction, half are exact; bucket number
    exact + j begins where distance / exact = (max_distance / exact)^(j / (half - exact)).
    """
    half = n_buckets // 2 if two_sided else n_buckets
    ahead = half if two_sided and distance > 0 else 0
    distance = abs(distance) if two_sided else max(-distance, 0)
    exact = half // 2
    if distance < exact:
        return ahead + distance
    steps = half - exact
    j = 0
    while j < steps - 1 and distance**steps * exact ** (j + 1) >= max_distance ** (j + 1) * exact**steps:
        j += 1
    return ahead + exact + j


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize(("n_buckets", "max_distance"), [(32, 128), (16, 64), (32, 1000), (10, 20)])
def test_buckets_are_t5s_for_every_distance(n_buckets, max_distance, two_sided) -> None:
    scheme = Relative(2, two_sided=two_sided, n_buckets=n_buckets, max_distance=max_distance)
    distances = list(range(-1500, 1501))
    expected = [t5_bucket(distance, n_buckets, max_distance, two_sided=two_sided) for distance in distances]
    assert scheme.bucket(torch.tensor(distances)).tolist() == expected
    assert set(expected) == set(range(n_buckets)) - ({n_buckets // 2} if two_sided else set())  # 0 looks nowhere


@pytest.mark.parametrize("two_sided", [True, False])
def test_a_relative_bias_is_the_heads_number_for_the_bucket_of_the_distance(two_sided) -> None:
    scheme = Relative(3, two_sided=two_sided)
    assert not scheme.table.any()  # at first no distance is preferred
    torch.nn.init.normal_(scheme.table)
    queries, keys = torch.tensor([[0, 1], [300, 301]]), torch.tensor([[0, 1, 2, 40], [5, 250, 300, 301]])
    bias = scheme.bias(queries, keys)
    assert bias.shape == (2, 3, 2, 4)
    for b in range(2):
        for t in range(2):
            for s in range(4):
                bucket = t5_bucket(int(keys[b, s] - queries[b, t]), 32, 128, two_sided=two_sided)
                torch.testing.assert_close(bias[b, :, t, s], scheme.table[bucket], rtol=0, atol=0)


@pytest.mark.parametrize("two_sided", [True, False])
@pytest.mark.parametrize("make", [Relative, Alibi])
@given(shift=PLACES)
@settings(deadline=None)
def test_a_bias_depends_on_distances_alone(make, two_sided, shift) -> None:
    scheme, at = make(4, two_sided=two_sided), torch.tensor([[0, 1, 5, 200]])
    for parameter in scheme.parameters():
        torch.nn.init.normal_(parameter)
    torch.testing.assert_close(scheme.bias(at, at), scheme.bias(at + shift, at + shift), rtol=0, atol=0)


@pytest.mark.parametrize("n_heads", [1, 2, 4, 8, 16, 64])
def test_alibi_slopes_are_a_geometric_row_down_to_one_256th(n_heads) -> None:
    assert alibi_slopes(n_heads) == [2 ** (-8 / n_heads * (head + 1)) for head in range(n_heads)]
    assert alibi_slopes(n_heads)[-1] == 1 / 256


@pytest.mark.parametrize(("n_heads", "power"), [(3, 2), (6, 4), (7, 4), (12, 8), (20, 16)])
def test_other_numbers_of_heads_take_every_second_slope_of_twice_the_power_below(n_heads, power) -> None:
    slopes = alibi_slopes(n_heads)
    assert len(slopes) == n_heads == len(set(slopes))
    assert slopes[:power] == alibi_slopes(power)
    assert slopes[power:] == alibi_slopes(2 * power)[0::2][: n_heads - power]


@pytest.mark.parametrize("two_sided", [True, False])
def test_alibi_subtracts_the_slope_times_the_distance_in_one_or_both_directions(two_sided) -> None:
    queries, keys = torch.tensor([[2, 3], [9, 10]]), torch.tensor([[0, 1, 2, 3, 4], [6, 7, 8, 9, 20]])
    bias = Alibi(2, two_sided=two_sided).bias(queries, keys)
    assert bias.shape == (2, 2, 2, 5)
    for b in range(2):
        for h, slope in enumerate([1 / 16, 1 / 256]):
            for t in range(2):
                for s in range(5):
                    behind = int(queries[b, t] - keys[b, s])
                    distance = abs(behind) if two_sided else max(behind, 0)
                    assert bias[b, h, t, s] == -slope * distance
