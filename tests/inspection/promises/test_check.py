import math
from collections.abc import Iterator

import pytest
import torch

from clearhead.inspection.promises.check import Check, Promise
from clearhead.inspection.promises.rounding import (
    FACTOR,
    MOST,
    Bound,
    Difference,
    apart,
    bound_of,
    furthest,
    nudged,
    nudged_model,
)
from clearhead.inspection.promises.subject import Case

from .conftest import model, subject


def checked(*measured: tuple[Bound, Difference]) -> Check:
    return Promise("one = one", "one is one", lambda _: measured).check(case())


def case() -> Case:
    return Case(subject(model()), torch.float32, torch.device("cpu"))


@pytest.mark.parametrize(
    ("difference", "bound", "status"),
    [(0.0, 0.0, "passed"), (1.0, 1.0, "passed"), (1.1, 1.0, "failed"), (5e-324, 0.0, "failed"),
     (math.inf, 1e9, "failed"), (math.nan, 1.0, "failed"), (0.0, math.nan, "failed")],
)  # fmt: skip
def test_what_is_within_its_bound_passes_and_what_is_no_number_fails(
    difference: float, bound: float, status: str
) -> None:
    check = checked((Bound(bound, ""), Difference(difference, "here")))
    assert check.status == status and check.detail == ("" if status == "passed" else "here")


def test_of_several_that_is_shown_which_takes_most_of_its_bound_and_all_that_fail_are_named() -> None:
    wide, narrow = Bound(1.0, "wide"), Bound(1e-6, "narrow")
    check = checked((wide, Difference(0.5, "a")), (narrow, Difference(1e-7, "b")))
    assert (check.status, check.difference, check.reason) == ("passed", 0.5, "wide")
    check = checked((wide, Difference(0.5, "a")), (narrow, Difference(1e-5, "b")))
    assert (check.status, check.difference, check.reason, check.detail) == ("failed", 1e-5, "narrow", "b")
    check = checked(*((Bound(0.5, ""), Difference(1.0 + place, f"part {place}")) for place in range(9)))
    assert check.detail.startswith("part 8; part 7; ") and check.detail.endswith("; part 3; and 3 more")


def test_what_cannot_be_tried_is_a_failure_that_says_why() -> None:
    def raising(_: Case, *engine: str) -> Iterator[tuple[Bound, Difference]]:
        yield Bound(1.0, ""), Difference(0.0)
        raise ZeroDivisionError("by\nzero")

    promise = Promise("one = one", "one is one", raising)
    check = promise.check(case())
    assert (check.status, check.detail, check.difference) == ("failed", "ZeroDivisionError: by zero", None)
    assert "FAILED  one = one" in check.render() and "ZeroDivisionError: by zero" in check.render()
    assert promise.check(case(), "fast").detail == "fast: ZeroDivisionError: by zero"


def test_equal_infinities_are_no_difference_and_others_are_infinite() -> None:
    inf, nan = torch.tensor([math.inf, 1.0]), torch.tensor([math.nan, 1.0])
    assert apart(inf, inf.clone()) == 0 and apart(-inf, inf) == math.inf
    assert apart(nan, nan) == math.inf and apart(inf, torch.zeros(2)) == math.inf
    assert apart(torch.zeros(2), torch.zeros(3)) == math.inf and apart(torch.zeros(0), torch.zeros(0)) == 0
    assert furthest([torch.zeros(1), torch.ones(1)], [torch.zeros(1)] * 2, ["a", "b"]) == Difference(1.0, "b")
    assert furthest([], [torch.zeros(1)]).value == math.inf


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_nudged_is_changed_in_the_last_digit_and_nowhere_else(dtype: torch.dtype) -> None:
    values = torch.randn(1000).to(dtype)
    found = nudged(values, torch.Generator().manual_seed(0))
    eps = torch.finfo(dtype).eps
    share = (found.double() / values.double() - 1).abs()
    assert (share > 0).float().mean() > 0.9 and share.max() <= 2 * eps
    assert (found > values).any() and (found < values).any()


def test_tied_matrices_stay_tied_when_they_are_nudged_and_the_model_stays_as_it_is() -> None:
    net = model()
    before = net.decoder.projection.weight.clone()
    copy = nudged_model(net)
    assert copy.decoder.projection.weight is copy.encoder.embedding.weight
    assert torch.equal(net.decoder.projection.weight, before) and not torch.equal(
        copy.decoder.projection.weight, before
    )


def test_a_bound_follows_what_one_eps_does_but_never_lets_damage_through() -> None:
    before = torch.tensor([4.0], dtype=torch.float64)
    small = bound_of([before], [[before + 1e-14], [before]], "x")
    assert small.value == pytest.approx(FACTOR * (1e-14 + torch.finfo(torch.float64).eps * 4), rel=0.1)
    assert bound_of([before], [[before + 1.0]], "x").value == MOST * 4
    assert bound_of([before], [[before * math.nan]], "x").value == MOST * 4
