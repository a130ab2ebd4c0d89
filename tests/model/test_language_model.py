"""A decoder alone is a language model: what it predicts, and that training and cached decoding are the same."""

from functools import partial

import pytest
import torch

from tests.builders import small_model

V = 9
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]


small = partial(small_model, "decoder-only", vocab=V, n_heads=2, d_ff=24, max_len=40, dropout=0.0)


def counting(rows: int, length: int) -> torch.Tensor:
    """Texts that count from anywhere, 3 to 8 and round again."""
    return 3 + (torch.randint(6, (rows, 1)) + torch.arange(length)) % 6


@pytest.mark.parametrize("positions", POSITIONS)
@torch.no_grad()
def test_tokens_one_by_one_have_the_probability_of_the_whole_text(positions) -> None:
    """p(x_1 .. x_n) is the product of what each step says of the next token, however the text was cut."""
    net, text = small(positions=positions).eval(), counting(3, 12)
    whole = net(text[:, :-1]).log_softmax(-1).gather(-1, text[:, 1:, None]).sum((1, 2))
    cache = net.new_cache(3, 11)
    steps = torch.cat([net(text[:, t : t + 1], cache=cache) for t in range(11)], 1)
    one_by_one = steps.log_softmax(-1).gather(-1, text[:, 1:, None]).sum((1, 2))
    torch.testing.assert_close(one_by_one, whole, rtol=0, atol=1e-11)


@torch.no_grad()
def test_of_a_long_text_the_newest_token_alone_is_projected_to_the_vocabulary() -> None:
    net, text, projected = small().eval(), counting(3, 12), []
    net.projection.register_forward_hook(lambda _, inputs, output: projected.append(output.shape))
    torch.testing.assert_close(net(text, newest=True), net(text)[:, -1:])
    assert projected == [(3, 1, V), (3, 12, V)]


@pytest.mark.parametrize("tie", ["all", "none"])
def test_it_learns_to_count_and_goes_on_counting(tie) -> None:
    net = small(tie=tie)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(120):
        text = counting(16, 9)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten()).backward()
        optimizer.step()
    text, cache = counting(6, 12), net.eval().new_cache(6, 12)
    with torch.no_grad():
        token = net(text[:, :3], cache=cache)[:, -1:].argmax(-1)
        for t in range(3, 11):
            assert token[:, 0].equal(text[:, t])
            token = net(token, cache=cache)[:, -1:].argmax(-1)
