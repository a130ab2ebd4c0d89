import pytest
import torch
import torch.nn.functional as F

from clearhead.errors import ModelError
from clearhead.model.dropout import Dropout, _scales, dropout

N = 200_000


def kept_by(p: float) -> float:
    """The probability of keeping a value, p rounded to a multiple of 1/256 that is neither 0 nor 1."""
    return 1 - min(max(round(256 * p), 1), 255) / 256


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_a_value_is_dropped_or_divided_by_the_probability_of_keeping_it(p) -> None:
    x = torch.rand(1000) + 1
    result = dropout(x, p)
    kept = result != 0
    assert kept.any() and not kept.all()
    torch.testing.assert_close(result[kept], x[kept] / kept_by(p), rtol=1e-15, atol=0)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_the_share_that_is_kept_is_one_minus_p_rounded_to_256ths_and_the_mean_stays(p) -> None:
    keep = kept_by(p)
    result = dropout(torch.ones(N), p)
    deviation = (keep * (1 - keep) / N) ** 0.5
    assert abs((result != 0).double().mean() - keep) < 5 * deviation
    assert abs(result.mean() - 1) < 5 * deviation / keep


def test_neighbours_are_dropped_independently() -> None:
    dropped = (dropout(torch.ones(N), 0.5) == 0).double() - 0.5
    for apart in (1, 2, 4, 7, 8, 64):  # bytes of one draw, and of different ones
        correlation = (dropped[:-apart] * dropped[apart:]).mean() * 4
        assert abs(correlation) < 5 / N**0.5


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (9,), (3, 5), (0,), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_shape_and_precision_stay(shape, dtype) -> None:
    result = dropout(torch.ones(shape, dtype=dtype), 0.3)
    assert result.shape == shape and result.dtype == dtype and result.isfinite().all()


def test_the_seed_alone_decides_what_is_dropped() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([dropout(torch.ones(101), 0.5), dropout(torch.ones(1000), 0.5)])

    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))


def test_every_call_drops_others() -> None:
    part = Dropout(0.5)
    assert not part(torch.ones(1000)).equal(part(torch.ones(1000)))


def test_evaluation_drops_nothing_and_draws_nothing() -> None:
    x, state = torch.randn(5), torch.get_rng_state()
    assert Dropout(0.9).eval()(x) is x
    assert dropout(x, 0.0) is x
    assert torch.get_rng_state().equal(state)


def test_the_gradient_passes_where_the_value_passed() -> None:
    x = torch.randn(1000, requires_grad=True)
    result = dropout(x, 0.4)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, result.detach() / x.detach())


def test_other_devices_use_torchs_own() -> None:
    x = torch.empty(3, 5, device="meta")
    assert dropout(x, 0.5).shape == F.dropout(x, 0.5).shape == (3, 5)


@pytest.mark.parametrize("p", [0.05, 0.1, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_mean_stays_in_16_bits_although_the_scale_is_rounded(p, dtype) -> None:
    """Every value of a byte occurs equally often, so that nothing is left to chance."""
    dropped = round(256 * p)
    scales = _scales(torch.arange(256, dtype=torch.uint8), dropped, dtype).double()
    assert scales.sum() == 256 and (scales == 0).sum() == dropped
    exact = 256 / (256 - dropped)
    assert ((scales[dropped:] / exact - 1).abs() < torch.finfo(dtype).eps).all()


def test_the_bits_of_float32_depend_on_the_seed_alone() -> None:
    torch.manual_seed(0)
    draws = torch.empty(2, dtype=torch.int64).random_(-(2**63), None).view(torch.uint8)[:12]
    torch.manual_seed(0)
    x = torch.linspace(1, 2, 12, dtype=torch.float32)
    expected = [
        float(value * torch.tensor(256 / 230, dtype=torch.float32)) if b >= 26 else 0.0 for value, b in zip(x, draws)
    ]
    assert dropout(x, 0.1).tolist() == expected


@pytest.mark.parametrize("p", [-0.1, 1.0, 1.5, float("nan")])
def test_a_probability_out_of_range_is_an_error(p) -> None:
    for drop in (lambda x: dropout(x, p), Dropout(p)):
        with pytest.raises(ModelError) as caught:
            drop(torch.ones(3))
        assert caught.value.name == "dropout" and caught.value.value is p
