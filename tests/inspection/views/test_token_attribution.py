"""Hidden tokens and integrated gradients do what their formulas say."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.inspection.record.forward_pass import Pass
from clearhead.inspection.views.token_attribution import TokenAttribution, attribute_tokens
from tests.builders import small_model

UNK, S = 3, 5
SOURCE = torch.tensor([[5, 6, 7, 8, 9]])
TARGET = torch.tensor([[1, 4, 5]])
SAID = torch.tensor([4, 5, 2])


def model(**changes: object) -> nn.Module:
    return small_model(vocab=12, **changes).double()


def log_p(logits: Tensor) -> Tensor:
    return logits.log_softmax(-1).take_along_dim(SAID[None, :, None], -1)[..., 0]


def read(net: nn.Module, hidden: int | None = UNK) -> Pass:
    names = {"encoder": lambda _ids: list("abcde"), "decoder": lambda _ids: list("xyz")}
    given = {"inputs": (SOURCE, TARGET), "pieces": names, "targets": SAID.tolist(), "said": list("xyz")}
    return Pass(model=net, hidden=hidden, **given)


def test_hiding_a_token_is_the_same_as_reading_an_unknown_one_in_its_place() -> None:
    net = model()
    found = attribute_tokens(read(net))
    whole = log_p(net(SOURCE, TARGET))[0]
    for place in range(S):
        changed = SOURCE.clone()
        changed[0, place] = UNK
        torch.testing.assert_close(found.falls[place], whole - log_p(net(changed, TARGET))[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(found.whole, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(found.nothing, log_p(net(torch.full_like(SOURCE, UNK), TARGET))[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("hidden", [UNK, None])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_gradients_sum_to_the_difference_of_the_scores(hidden, tie) -> None:
    found = attribute_tokens(read(model(tie=tie, feed_forward="gelu", pre_norm=True), hidden))
    difference = found.whole - found.nothing
    assert difference.abs().max() > 0.1
    torch.testing.assert_close(found.gradients.sum(0), difference, rtol=0.01, atol=0.01 * difference.abs().max())
    assert found.error == pytest.approx(float((found.gradients.sum(0) - difference).abs().max()))


def test_of_a_linear_score_both_methods_give_the_exact_shares() -> None:
    class Sum(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = nn.Embedding(12, 4).double()
            self.weight = torch.randn(S, 4, dtype=torch.float64)

    net = Sum()

    class Whole(Pass):
        front, read = net.front, list("abcde")

        def run(self, n: int = 1) -> Tensor:
            return self.log_probabilities(n)

        def log_probabilities(self, n: int = 1) -> Tensor:
            return (net.front(SOURCE.expand(n, -1)) * net.weight).sum((1, 2))[:, None]

    found = attribute_tokens(Whole(model=net, inputs=(SOURCE,), pieces={}, said=["x"], hidden=UNK))
    shares = ((net.front(SOURCE)[0] - net.front(torch.tensor(UNK))) * net.weight).sum(1).detach()
    torch.testing.assert_close(found.falls[:, 0], shares)
    torch.testing.assert_close(found.gradients[:, 0], shares)


def test_the_model_is_left_as_it_was() -> None:
    net = model(dropout=0.5).train()
    before = {name: weight.clone() for name, weight in net.state_dict().items()}
    attribute_tokens(read(net))
    assert net.training and not net.encoder.embedding._forward_hooks
    assert all(weight.grad is None for weight in net.parameters())
    assert all(before[name].equal(weight) for name, weight in net.state_dict().items())


def test_the_tokens_that_mattered_most_come_first() -> None:
    falls = torch.tensor([[0.1, 3.0], [-2.0, 0.0], [0.5, 0.25]], dtype=torch.float64)
    whole, nothing = torch.tensor([-0.1, -0.2]), torch.tensor([-3.0, -4.0])
    view = TokenAttribution(["the", "black", "cat"], ["le", "chat"], whole, nothing, falls, falls, 0.0).render()
    row = next(line for line in view.splitlines() if line.strip().startswith("le"))
    assert row.split()[1:] == ["black", "-2.00", "cat", "+0.50", "the", "+0.10"] * 2
    row = next(line for line in view.splitlines() if line.strip().startswith("chat"))
    assert row.split()[1:] == ["the", "+3.00", "cat", "+0.25"] * 2  # what didn't matter isn't named
    assert max(map(len, view.splitlines())) <= 80


def test_a_label_has_a_bar_for_each_token() -> None:
    falls = torch.tensor([[0.1], [-2.0]], dtype=torch.float64)
    view = TokenAttribution(
        ["good", "film"], ["pos"], torch.tensor([-0.1]), torch.tensor([-1.0]), falls, falls, 0.0
    ).render()
    assert '"pos" (log-probability -0.1000)' in view and f"{'<' * 16}|" in view and "|>" in view


def test_gradients_of_the_whole_answer_are_those_of_its_tokens_together() -> None:
    net = model()
    found, together = attribute_tokens(read(net)), attribute_tokens(read(net), most=0)
    torch.testing.assert_close(together.gradients, found.gradients.sum(1, keepdim=True), rtol=0.02, atol=0.1)
    torch.testing.assert_close(together.falls, found.falls)
    assert together.error == pytest.approx(
        float((together.gradients.sum() - (found.whole - found.nothing).sum()).abs())
    )
