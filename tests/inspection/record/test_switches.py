"""A part that is off gives zeros: the same as if the weights behind it were zero."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import ConfigError
from clearhead.inspection.record.recorder import record
from clearhead.inspection.record.switches import KINDS, run_without_each, switches, without
from clearhead.model.masks import padding_mask
from tests.builders import small_model

SOURCE, TARGET = torch.tensor([[4, 5, 6, 7, 0], [8, 9, 4, 5, 6]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
MODELS: dict[str, dict[str, object]] = {
    "paper": {},
    "no biases": {"bias": False, "pre_norm": True, "feed_forward": "swiglu", "norm": "rms"},
    "shared keys": {"n_kv_heads": 2, "positions": "rotary"},
    "relative": {"positions": "relative"},
    "pointer": {"copy": True, "tie": "all"},
    "language model": {"topology": "decoder-only", "positions": "alibi"},
    "hidden states": {"topology": "encoder-only"},
    "classifier": {"topology": "encoder-only", "head": "class", "n_classes": 3, "positions": "learned"},
    "spans": {"topology": "encoder-only", "head": "span"},
}


@pytest.fixture(autouse=True)
def in_float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


model = partial(small_model, vocab=10, moved_by=0.2)


def answer(net: nn.Module, copies: int | None = None) -> Tensor:
    """The model's output: of both texts, or of copies of the first."""
    source, target = (it if copies is None else it[:1].expand(copies, -1) for it in (SOURCE, TARGET))
    if hasattr(net, "encode"):
        return net(source, target, source_mask=padding_mask(source, 0))
    return net(target if hasattr(net, "projection") else source)


def with_zeros(net: nn.Module, name: str) -> nn.Module:
    """A copy of the model whose weights behind a part are zero, so that nothing comes from it."""
    net = copy.deepcopy(net)
    stack, layer, kind, *head = name.split(".")
    block = getattr(net, stack, net).blocks[int(layer)]
    part = getattr(block, {"self": "attention", "cross": "cross_attention"}.get(kind, kind))
    last = part.outer if kind == "feed_forward" else part.out
    with torch.no_grad():
        if head:  # its columns of W_O; the bias is that of all heads
            width = last.weight.size(1) // part.n_heads
            last.weight[:, int(head[1]) * width : (int(head[1]) + 1) * width] = 0
        else:
            last.weight.zero_()
            if last.bias is not None:
                last.bias.zero_()
    return net


@pytest.mark.parametrize("kind", MODELS)
def test_each_part_off_equals_zeros_in_the_weights_behind_it(kind: str) -> None:
    net = model(**MODELS[kind])
    before = answer(net)
    for name in switches(net):
        with without(net, name):
            found = answer(net)
        torch.testing.assert_close(found, answer(with_zeros(net, name)))
        assert not torch.allclose(found, before), name
    assert torch.equal(answer(net), before)


@pytest.mark.parametrize("kind", MODELS)
def test_without_nothing_no_bit_changes(kind: str) -> None:
    net = model(**MODELS[kind])
    before = answer(net)
    with without(net):
        assert torch.equal(answer(net), before)
    assert torch.equal(answer(net), before)


def test_the_parts_are_those_of_the_blocks_in_their_order() -> None:
    def attention(name: str) -> list[str]:
        return [name, *(f"{name}.head.{head}" for head in range(4))]

    encoder = [*attention("encoder.0.self"), "encoder.0.feed_forward"]
    decoder = [*attention("decoder.0.self"), *attention("decoder.0.cross"), "decoder.0.feed_forward"]
    one = {"n_encoder_layers": 1, "n_decoder_layers": 1}
    assert list(switches(model(**one))) == encoder + decoder
    assert list(switches(model(**one | MODELS["classifier"]))) == encoder
    assert list(switches(model(**one | MODELS["language model"]))) == [*attention("decoder.0.self"), decoder[-1]]
    found = switches(model())
    head, feed_forward = found["decoder.1.cross.head.3"], found["encoder.1.feed_forward"]
    assert (head.place, head.layer, head.head, head.kind) == ("decoder.cross", 1, 3, "heads")
    assert (feed_forward.place, feed_forward.head, feed_forward.kind) == ("encoder.feed_forward", None, "feed-forwards")
    assert [sum(it.kind == kind for it in found.values()) for kind in KINDS] == [24, 6, 4]


def test_several_parts_are_off_at_once_and_blocks_may_stand_in_each_other() -> None:
    net = model()
    names = ("encoder.0.self.head.1", "decoder.1.cross", "decoder.1.cross.head.0", "decoder.0.feed_forward")
    expected = net
    for name in names:
        expected = with_zeros(expected, name)
    with without(net, *names):
        together = answer(net)
    torch.testing.assert_close(together, answer(expected))
    with without(net, *names[:2]), without(net, *names[2:]):
        assert torch.equal(answer(net), together)
    with without(net, *names[:1]), without(net, *names[:1]):
        twice = answer(net)
    with without(net, names[0]):
        assert torch.equal(answer(net), twice)


def test_all_heads_off_leave_the_bias_and_the_whole_attention_off_nothing() -> None:
    net = model()
    heads = [f"decoder.0.self.head.{head}" for head in range(4)]
    outputs = []
    handle = net.decoder.blocks[0].attention.register_forward_hook(lambda *seen: outputs.append(seen[2]))
    with without(net, *heads):
        answer(net)
    bias = net.decoder.blocks[0].attention.out.bias
    torch.testing.assert_close(outputs[0], bias.expand_as(outputs[0]))
    handle.remove()
    with without(net, "decoder.0.self"):
        net.decoder.blocks[0].attention.register_forward_hook(lambda *seen: outputs.append(seen[2]))
        answer(net)
    assert not outputs[1].any()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_nothing_stays_behind_also_after_an_error(error: type[BaseException]) -> None:
    net = model()
    before = answer(net)
    with pytest.raises(error), without(net, "decoder.0.self", "encoder.1.self.head.0", "decoder.1.feed_forward"):
        answer(net)
        raise error
    assert not any(part._forward_hooks for part in net.modules())
    assert torch.equal(answer(net), before)


@pytest.mark.parametrize(
    ("names", "wrong", "fix"),
    [
        (["decoder.1.crss"], "decoder.1.crss", "did you mean 'decoder.1.cross'?"),
        (["decoder.1.self", "encoder.0.self.head.4"], "encoder.0.self.head.4", "did you mean 'encoder.1.self.head.3'?"),
        ([["decoder.1.self"]], ["decoder.1.self"], "did you mean 'decoder.1.self'?"),
    ],
)
def test_a_name_that_is_none_is_answered_with_what_there_is(names: list[str], wrong: object, fix: str) -> None:
    net = model()
    with pytest.raises(ConfigError) as caught, without(net, *names):
        pass
    assert caught.value.value == wrong and caught.value.fix[:13] == fix[:13]
    assert caught.value.expected.startswith(
        "one of encoder.{0-1}.self, encoder.{0-1}.self.head.{0-3}, encoder.{0-1}.feed"
    )
    assert not any(part._forward_hooks for part in net.modules())


def test_of_a_single_layer_and_head_no_range_is_named() -> None:
    net = model(topology="decoder-only", n_decoder_layers=1, n_heads=1)
    with pytest.raises(ConfigError) as caught, without(net, "encoder.0.self"):
        pass
    assert caught.value.expected == "one of decoder.0.self, decoder.0.self.head.0, decoder.0.feed_forward"


class Mean(nn.Module):
    """An attention of one's own, no Attend: every query has the mean of all values."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        return v.mean(2, keepdim=True).expand_as(q)


def test_the_heads_of_an_attention_of_one_s_own_can_be_off_even_if_it_is_one_object_for_all() -> None:
    net, mean = model(), Mean()
    for block in net.decoder.blocks:
        block.attention.attend = block.cross_attention.attend = mean
    for name in ("decoder.0.self.head.2", "decoder.1.cross.head.0"):
        with without(net, name):
            found = answer(net)
        torch.testing.assert_close(found, answer(with_zeros(net, name)))


class Still(nn.Module):
    """In place of a whole attention, without heads."""

    def forward(self, x: Tensor, **_: object) -> Tensor:
        return 2 * x


def test_what_stands_for_an_attention_and_has_no_heads_can_be_off_as_a_whole() -> None:
    net = model(topology="encoder-only")
    net.blocks[0].attention = Still()
    assert [name for name in switches(net) if name.startswith("encoder.0.")] == [
        "encoder.0.self",
        "encoder.0.feed_forward",
    ]
    before = answer(net)
    with without(net, "encoder.0.self"):
        assert not torch.allclose(answer(net), before)


# --- while it decodes


@contextmanager
def stepwise(net: nn.Module, memory: Tensor | None, mask: Tensor | None) -> Iterator[Callable[[int], Tensor]]:
    decoder = getattr(net, "decoder", net)
    cache = decoder.new_cache(len(TARGET), TARGET.size(1), memory, SOURCE if memory is not None else None)
    yield lambda t: decoder(TARGET[:, t : t + 1], memory_mask=mask, cache=cache)


@pytest.mark.parametrize("kind", ["paper", "shared keys", "relative", "pointer", "language model"])
def test_decoding_with_a_cache_equals_the_pass_without_one_whatever_is_off(kind: str) -> None:
    net = model(**MODELS[kind])
    for name in switches(net):
        with torch.no_grad(), without(net, name):
            whole = answer(net)
            mask = padding_mask(SOURCE, 0) if hasattr(net, "encode") else None
            memory = net.encode(SOURCE, mask=mask) if hasattr(net, "encode") else None
            with stepwise(net, memory, mask) as step:
                steps = torch.cat([step(t) for t in range(TARGET.size(1))], 1)
        torch.testing.assert_close(steps, whole)


def test_the_hypotheses_of_a_source_are_queries_of_the_same_memory_and_lose_the_same_head() -> None:
    net, beams = model(), 3
    with torch.no_grad(), without(net, "decoder.0.cross.head.1", "decoder.1.cross.head.2"):
        mask = padding_mask(SOURCE, 0)
        memory = net.encode(SOURCE, mask=mask)
        alone = net.decoder(TARGET, memory, memory_mask=mask)
        several = net.decoder(TARGET.repeat_interleave(beams, 0), memory, memory_mask=mask)
    torch.testing.assert_close(several, alone.repeat_interleave(beams, 0))


def test_a_pointer_goes_on_reading_the_weights_of_a_cross_attention_that_is_off() -> None:
    net = model(**MODELS["pointer"])
    read: list[Tensor] = []
    net.decoder.pointer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[2]))
    answer(net)
    with without(net, "decoder.1.cross"):  # the last block's
        answer(net)
    with without(net, "decoder.0.feed_forward"):
        answer(net)
    torch.testing.assert_close(read[1], read[0])
    assert not torch.allclose(read[2], read[0])


def test_gradients_pass_by_what_is_off() -> None:
    net = model().train()
    names = ("encoder.0.self.head.1", "decoder.1.feed_forward")
    with without(net, *names):
        answer(net).sum().backward()
    assert not net.decoder.blocks[1].feed_forward.outer.weight.grad
    columns = net.encoder.blocks[0].attention.out.weight.grad.unflatten(1, (4, -1)).abs().sum((0, 2))
    assert (columns == 0).tolist() == [False, True, False, False]


def test_the_recorder_sees_what_the_model_was_given() -> None:
    net = model()
    with without(net, "decoder.0.self.head.1"), record(net) as trace:
        answer(net)
    output = trace["decoder.0.self"].output
    assert not output[:, 1].any() and output[:, 0].any()


@pytest.mark.parametrize("kind", MODELS)
def test_each_part_is_off_in_a_row_of_its_own(kind) -> None:
    net = model(**MODELS[kind])
    names = list(switches(net))
    found = run_without_each(net, names, lambda n: answer(net, n))
    torch.testing.assert_close(found[0], answer(net, 1)[0])
    for row, name in enumerate(names, 1):
        with without(net, name):
            torch.testing.assert_close(found[row], answer(net, 1)[0])
