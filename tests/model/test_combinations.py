"""The same equations whatever the topology, positions, place and kind of the norm, and activation.

Every two settings meet in some combination; all 180 combinations are tested with the slow tests.
"""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.model.masks import padding_mask
from clearhead.model.transformer import Decoder, Encoder, EncoderDecoder
from tests.builders import all_combinations, pairwise, small_model

PAD, V, D = 0, 13, 16
TOPOLOGIES = ("encoder-decoder", "decoder-only", "encoder-only")
CHOICES = (
    ("sinusoidal", "learned", "rotary", "relative", "alibi"),
    ("post", "pre"),
    ("layer", "rms"),
    ("relu", "gelu", "swiglu"),
)
SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10], [11, 4, 5, 1, 2, 3], [12, 12, 3, 3, 4, 4]])
TARGET = torch.tensor([[1, 9, 8, 7, 6], [2, 4, 4, 5, 3], [3, 12, 11, 10, 1]])

Net = Encoder | Decoder | EncoderDecoder


def every(*topologies: str) -> pytest.MarkDecorator:
    """Run a test with models of these topologies: with the slow tests, all combinations, otherwise pairwise ones."""
    return pytest.mark.parametrize("net", [*map(joined, all_combinations(topologies, *CHOICES))], indirect=True)


def joined(combination: Any) -> Any:
    """The same parameters as one."""
    return pytest.param(combination.values, id=combination.id, marks=combination.marks)


@pytest.fixture
def net(request: pytest.FixtureRequest) -> Net:
    """A small model in evaluation mode; every weight is moved, since some start at zero, where they change nothing."""
    topology, positions, place, norm, activation = request.param
    return small_model(
        topology,
        positions=positions,
        pre_norm=place == "pre",
        norm=norm,
        feed_forward=activation,
        n_kv_heads={"relu": None, "gelu": 2, "swiglu": 1}[activation],
        d_ff=24,
        moved_by=0.2,
    )


def answer(net: Net, source: Tensor, target: Tensor) -> Tensor:
    """Hidden states or logits, whichever the topology gives; padding in the source is masked."""
    if isinstance(net, EncoderDecoder):
        return net(source, target, source_mask=padding_mask(source, PAD))
    return net(target) if isinstance(net, Decoder) else net(source, mask=padding_mask(source, PAD))


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-12)


def assert_far(actual: Tensor, expected: Tensor) -> None:
    assert (actual - expected).abs().amax() > 1e-3


def padded(tokens: Tensor, *, left: int = 0, right: int = 0) -> Tensor:
    return torch.nn.functional.pad(tokens, (left, right), value=PAD)


def test_there_are_180_and_few_of_them_have_all_pairs() -> None:
    every_two = {(a, b) for one, other in itertools.combinations((TOPOLOGIES, *CHOICES), 2) for a in one for b in other}
    few = pairwise(TOPOLOGIES, *CHOICES)
    assert every_two == {pair for row in few for pair in itertools.combinations(row, 2)} and len(few) < 30
    assert len(all_combinations(TOPOLOGIES, *CHOICES)) == 180


@every(*TOPOLOGIES)
def test_outputs_and_the_gradient_of_every_parameter_are_finite_and_none_is_without_one(net) -> None:
    output = answer(net.train(), SOURCE, TARGET)
    assert output.shape == ((3, 6, D) if isinstance(net, Encoder) else (3, 5, V))
    assert output.isfinite().all()
    (output * torch.randn(output.shape)).sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name


@every("encoder-decoder", "decoder-only")
def test_a_later_token_never_changes_an_earlier_logit(net) -> None:
    before = answer(net, SOURCE, TARGET)
    for t in range(TARGET.size(1)):
        changed = TARGET.clone()
        changed[:, t] = (changed[:, t] + 1) % V
        after = answer(net, SOURCE, changed)
        assert_same(after[:, :t], before[:, :t])
        assert_far(after[:, t], before[:, t])


@every(*TOPOLOGIES)
def test_padding_changes_nothing(net) -> None:
    expected = answer(net, SOURCE, TARGET)
    longer = answer(net, padded(SOURCE, right=3), padded(TARGET, right=2))
    assert_same(longer[:, : expected.size(1)], expected)


@every(*TOPOLOGIES)
def test_batch_mates_and_the_order_of_rows_change_nothing(net) -> None:
    source, target = SOURCE.clone(), TARGET.clone()
    source[0, 4:], source[2, 1:], target[1, 2:] = PAD, PAD, PAD
    together = answer(net, source, target)
    order = torch.tensor([2, 0, 1])
    assert_same(answer(net, source[order], target[order]), together[order])
    for row in range(3):
        words, answered = source[row : row + 1], target[row : row + 1]
        alone = answer(net, words[words != PAD][None], answered[answered != PAD][None])
        assert_same(alone[0], together[row, : alone.size(1)])


@every(*TOPOLOGIES)
def test_the_order_of_tokens_changes_the_output(net) -> None:
    order = torch.tensor([0, 2, 1, 3, 4, 5])
    plain = answer(net, SOURCE, TARGET)
    if isinstance(net, Encoder):
        assert_far(answer(net, SOURCE[:, order], TARGET)[:, order], plain)
    if isinstance(net, EncoderDecoder):
        assert_far(answer(net, SOURCE[:, order], TARGET), plain)
    if isinstance(net, Decoder | EncoderDecoder):  # the last token is the same and sees the same ones before it
        assert_far(answer(net, SOURCE, TARGET[:, order[:5]])[:, -1], plain[:, -1])


@every("encoder-decoder", "decoder-only")
@torch.no_grad()
def test_cached_decoding_is_the_full_forward(net) -> None:
    decoder, memory, mask = prepared(net, padded(SOURCE, right=1))
    cache, steps = decoder.new_cache(3, 5, memory), []
    for start, end in [(0, 2), (2, 3), (3, 4), (4, 5)]:
        steps.append(decoder(TARGET[:, start:end], memory_mask=mask, cache=cache))
    assert_same(torch.cat(steps, 1), answer(net, padded(SOURCE, right=1), TARGET))
    assert cache.length == 5


@every("encoder-decoder", "decoder-only")
@torch.no_grad()
def test_cached_decoding_of_ragged_prompts_is_the_full_forward_of_each(net) -> None:
    lengths = torch.tensor([1, 3, 2])
    decoder, memory, memory_mask = prepared(net, SOURCE)
    prompts = torch.stack([padded(row[:n], left=3 - n) for row, n in zip(TARGET, lengths.tolist())])
    mask, cache = padding_mask(prompts, PAD), decoder.new_cache(3, 5, memory)
    positions = (torch.arange(3) - (3 - lengths)[:, None]).clamp(min=0)
    more = {"memory_mask": memory_mask, "cache": cache}
    logits = [decoder(prompts, mask=mask, positions=positions, **more)[:, -1]]
    for step in range(2):
        mask = torch.cat([mask, torch.ones(3, 1, 1, 1, dtype=torch.bool)], dim=-1)
        at = lengths[:, None] + step
        logits.append(decoder(TARGET.gather(1, at), mask=mask, positions=at, **more)[:, -1])
    for row, n in enumerate(lengths.tolist()):
        alone = answer(net, SOURCE[row : row + 1], TARGET[row : row + 1, : n + 2])[0]
        assert_same(torch.stack(logits, 1)[row], alone[n - 1 :])


def prepared(net: Decoder | EncoderDecoder, source: Tensor) -> tuple[Decoder, Tensor | None, Tensor | None]:
    """The decoder, and the memory and its mask where there is one."""
    if isinstance(net, Decoder):
        return net, None, None
    mask = padding_mask(source, PAD)
    return net.decoder, net.encode(source, mask=mask), mask
