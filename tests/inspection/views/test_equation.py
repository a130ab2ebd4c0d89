import math

import pytest
import torch

from clearhead.errors import ConfigError, ModelError
from clearhead.inspection.record.recorder import record
from clearhead.inspection.views.equation import equation_steps, render_matrix, render_steps
from clearhead.model.attention import SelfAttention
from clearhead.model.masks import causal_mask


def recorded(**given: torch.Tensor):
    torch.manual_seed(0)
    attention = SelfAttention(8, 2, dropout=0.0).eval()
    with record(attention) as trace, torch.no_grad():
        attention(torch.randn(2, 4, 8), **given)
    return trace.calls["attend"][-1]


def test_the_steps_are_equation_1_written_out() -> None:
    found = recorded(mask=causal_mask(4))
    steps = {step.name: step for step in equation_steps(found, head=1, row=1)}
    assert list(steps) == ["queries", "keys", "values", "scores", "scaled", "masked", "weights", "output"]
    q, k, v = (steps[name].values for name in ("queries", "keys", "values"))
    for t in range(4):
        scores = [sum(float(a * b) for a, b in zip(q[t], k[s])) for s in range(4)]
        torch.testing.assert_close(steps["scores"].values[t], torch.tensor(scores))
        torch.testing.assert_close(steps["scaled"].values[t], torch.tensor(scores) / 2)
        powers = [math.exp(score / 2) if s <= t else 0.0 for s, score in enumerate(scores)]
        weights = torch.tensor(powers) / sum(powers)
        torch.testing.assert_close(steps["weights"].values[t], weights)
        torch.testing.assert_close(steps["output"].values[t], weights @ v)
        assert steps["masked"].values[t].isinf().tolist() == [s > t for s in range(4)]
    torch.testing.assert_close(steps["output"].values, found.output[1, 1])
    torch.testing.assert_close(steps["weights"].values, found.weights.values[1, 1])
    assert steps["scores"].shape == (2, 2, 4, 4) and steps["output"].shape == (2, 2, 4, 4)


def test_a_bias_is_a_step_between_scaled_and_masked() -> None:
    bias = torch.randn(1, 2, 4, 4)
    steps = {step.name: step.values for step in equation_steps(recorded(bias=bias), head=0)}
    assert list(steps)[4:7] == ["scaled", "biased", "masked"]
    torch.testing.assert_close(steps["biased"], steps["scaled"] + bias[0, 0])
    torch.testing.assert_close(steps["weights"], steps["biased"].softmax(-1))


@pytest.mark.parametrize("given", [{}, {"mask": torch.ones(4, 4, dtype=torch.bool)}], ids=["none", "all true"])
def test_the_masked_step_says_where_nothing_is_barred(given: dict[str, torch.Tensor]) -> None:
    steps = {step.name: step for step in equation_steps(recorded(**given), head=0)}
    assert steps["masked"].formula == "nothing is masked here"
    assert torch.equal(steps["masked"].values, steps["scaled"].values)
    torch.testing.assert_close(steps["weights"].values, steps["scaled"].values.softmax(-1))


@pytest.mark.parametrize("head", [-1, 2])
def test_a_head_that_is_not_there_is_refused(head: int) -> None:
    with pytest.raises(ConfigError) as caught:
        equation_steps(recorded(), head)
    assert (caught.value.name, caught.value.value, caught.value.expected) == ("head", head, "a head from 0 to 1")


def test_steps_are_shown_with_shapes_corners_and_the_sums_of_the_rows() -> None:
    text = render_steps(equation_steps(recorded(mask=causal_mask(4)), head=0), list("abcd"), list("abcd"))
    assert "scores    Q K^T                              (2, 2, 4, 4)" in text
    assert "divided by sqrt(4) = 2.00" in text
    assert text.count("row sum 1.0000") == 3
    assert "     -inf" in text and "nan" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_matrix_is_shown_with_a_token_for_each_row_and_column() -> None:
    text = render_matrix(torch.tensor([[0.25, 0.75], [1.0, 0.0]]), ["le", "chat"], ["the", "cat"])
    assert text.splitlines() == ["      the  cat", "le   0.25 0.75", "chat 1.00 0.00"]


def test_a_wide_matrix_is_shown_in_parts_and_long_tokens_are_cut() -> None:
    columns = [f"word{n}" for n in range(30)]
    text = render_matrix(torch.rand(2, 30), ["a", "extraordinarily-long"], columns)
    assert max(map(len, text.splitlines())) <= 80
    for column in columns:
        assert column in text.split()
    assert text.count("extraordinari…") == text.count("\n\n") + 1


def test_a_matrix_and_names_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        render_matrix(torch.zeros(2, 3), ["a", "b"], ["c", "d"])
    assert caught.value.value == (2, 3)
