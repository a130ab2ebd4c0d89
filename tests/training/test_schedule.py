"""The learning rate follows section 5.3, and the other shapes their equations."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.training.schedule import Schedule, paper_peak

KINDS = ("paper", "cosine", "linear", "constant")


@given(step=st.integers(1, 300_000), d_model=st.integers(1, 2048), warmup=st.integers(1, 20_000))
def test_the_paper_s_schedule_is_the_formula_of_section_5_3(step: int, d_model: int, warmup: int) -> None:
    rate = Schedule("paper", paper_peak(d_model, warmup), warmup, steps=300_000)(step)
    assert rate == pytest.approx(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


@given(kind=st.sampled_from(KINDS), warmup=st.integers(1, 500), more=st.integers(1, 500), peak=st.floats(1e-6, 1.0))
def test_every_schedule_rises_in_a_line_to_its_peak_and_nowhere_beyond(
    kind: str, warmup: int, more: int, peak: float
) -> None:
    schedule = Schedule(kind, peak, warmup, steps=warmup + more)
    rates = [schedule(step) for step in range(1, schedule.steps + 1)]
    assert rates[:warmup] == pytest.approx([peak * step / warmup for step in range(1, warmup + 1)])
    assert rates[warmup - 1] == peak == max(rates)
    assert all(later <= rate for rate, later in zip(rates[warmup - 1 :], rates[warmup:]))
    assert min(rates) >= 0


@given(kind=st.sampled_from(KINDS), warmup=st.integers(100, 500))
def test_no_step_around_the_peak_jumps(kind: str, warmup: int) -> None:
    schedule = Schedule(kind, 1.0, warmup, steps=3 * warmup)
    assert abs(schedule(warmup + 1) - schedule(warmup)) <= 1 / warmup + 1e-12


@given(kind=st.sampled_from(("cosine", "linear")), warmup=st.integers(0, 50), more=st.integers(1, 500))
def test_cosine_and_linear_are_zero_at_the_last_step_and_not_before(kind: str, warmup: int, more: int) -> None:
    schedule = Schedule(kind, 1.0, warmup, steps=warmup + more)
    assert schedule(schedule.steps) == 0 == schedule(schedule.steps + 1)
    assert more == 1 or schedule(schedule.steps - 1) > 0


@given(kind=st.sampled_from(("cosine", "linear")), warmup=st.integers(0, 50), more=st.integers(1, 500))
def test_above_an_end_cosine_and_linear_are_the_same_curves_in_what_is_left(kind: str, warmup: int, more: int) -> None:
    schedule, to_zero = (Schedule(kind, 1.0, warmup, warmup + more, end) for end in (0.1, 0.0))
    assert schedule(schedule.steps) == 0.1 == schedule(schedule.steps + 1)
    for step in range(warmup or 1, schedule.steps + 1):
        assert schedule(step) == pytest.approx(0.1 + 0.9 * to_zero(step))
    assert [schedule(step) for step in range(1, warmup)] == [to_zero(step) for step in range(1, warmup)]


def test_half_way_down_linear_and_cosine_are_at_half_and_linear_at_a_quarter_where_cosine_is_lower() -> None:
    linear, cosine = (Schedule(kind, 1.0, 100, steps=500) for kind in ("linear", "cosine"))
    assert linear(300) == pytest.approx(0.5) == cosine(300)
    assert linear(400) == pytest.approx(0.25) and cosine(400) == pytest.approx((1 - math.cos(math.pi / 4)) / 2)


def test_constant_stays() -> None:
    schedule = Schedule("constant", 0.3, 10, steps=50)
    assert {schedule(step) for step in range(10, 51)} == {0.3}


@pytest.mark.parametrize("kind", KINDS)
def test_without_warm_up_the_first_step_has_the_peak_or_is_on_its_way_down(kind: str) -> None:
    schedule = Schedule(kind, 1.0, warmup=0, steps=1000)
    assert schedule(1) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ends_in_its_warm_up_only_rises(kind: str) -> None:
    schedule = Schedule(kind, 1.0, warmup=100, steps=50)
    assert [schedule(step) for step in range(1, 51)] == pytest.approx([step / 100 for step in range(1, 51)])


def test_the_paper_s_peak_is_that_of_its_base_model() -> None:
    assert paper_peak(512, 4000) == pytest.approx(1 / math.sqrt(512 * 4000))
    assert paper_peak(512, 0) == pytest.approx(1 / math.sqrt(512))


# --- another last step


def test_a_schedule_that_ends_as_planned_is_the_schedule_itself() -> None:
    schedule = Schedule("cosine", 0.7, 100, 1003)
    stretched = schedule.ending_at(1003, after=0)
    assert [stretched(step) for step in range(1, 1004)] == [schedule(step) for step in range(1, 1004)]


@pytest.mark.parametrize("last", [500, 2000])
def test_a_stretched_schedule_continues_from_where_it_stood_and_ends_at_zero(last: int) -> None:
    schedule = Schedule("linear", 1.0, 100, 1000)
    stretched = schedule.ending_at(last, after=400)
    rates = [stretched(step) for step in range(400, last + 1)]
    assert rates[0] == schedule(400) and rates[-1] == 0.0
    assert all(a > b for a, b in itertools.pairwise(rates))
    again = stretched.ending_at(900, after=450)
    assert again(450) == pytest.approx(stretched(450)) and again(900) == 0.0


def test_a_stretched_schedule_is_the_same_when_it_is_read_from_a_checkpoint() -> None:
    schedule = Schedule("linear", 1.0, 100, 1000)
    stretched = schedule.ending_at(700, after=300)
    assert schedule.restored(stretched.to_dict()) == stretched
    assert schedule.restored({"last_step": 0, "since": 0, "stood": 0.0}) == schedule
