import pytest
import torch
from torch import nn

from clearhead.config import ModelConfig
from clearhead.inspection.recorder import record
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import build

SOURCE, TARGET = torch.tensor([[4, 5, 6, 7, 0], [8, 9, 4, 5, 6]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]


def model(**changes: object) -> nn.Module:
    torch.manual_seed(0)
    sizes = {"src_vocab_size": 10, "tgt_vocab_size": 10, "d_model": 16, "n_heads": 4, "d_ff": 32, "max_len": 20}
    return build(ModelConfig(**sizes | {"n_encoder_layers": 2, "n_decoder_layers": 2} | changes)).eval()


def answer(net: nn.Module) -> torch.Tensor:
    return net(SOURCE, TARGET, source_mask=padding_mask(SOURCE, 0))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("n_kv_heads", [None, 2])
def test_looking_changes_no_bit_of_the_answer_and_recomputes_it(positions: str, n_kv_heads: int | None) -> None:
    net = model(positions=positions, n_kv_heads=n_kv_heads)
    before = answer(net)
    with record(net) as trace:
        during = answer(net)
    assert torch.equal(before, during) and torch.equal(before, answer(net))
    places = [f"encoder.{n}.self" for n in range(2)]
    places += [f"decoder.{n}.{kind}" for n in range(2) for kind in ("self", "cross")]
    assert list(trace.calls) == places
    for place in places:
        found = trace[place]
        sums = found.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        assert found.largest_difference < 1e-6
        torch.testing.assert_close(found.weights @ found.v, found.output)
    assert not trace["encoder.0.self"].weights[0, :, :, 4].any()  # padding is attended by nobody
    assert not trace["decoder.1.self"].weights.triu(1).any()  # nor is the future


def test_the_weights_of_training_are_those_before_dropout() -> None:
    net = model(dropout=0.5).train()
    with record(net) as trace:
        answer(net)
    weights = trace["decoder.0.cross"].weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert trace["decoder.0.cross"].largest_difference > 0  # the model's own output had dropout


def test_every_call_of_a_place_is_kept_in_order_and_the_latest_is_shown() -> None:
    net = model()
    with record(net) as trace:
        answer(net)
        net(SOURCE[:1], TARGET[:1, :2])
    assert [call.weights.shape for call in trace.calls["decoder.0.cross"]] == [(2, 4, 4, 5), (1, 4, 2, 5)]
    assert trace["decoder.0.cross"].weights.shape == (1, 4, 2, 5)


def test_nothing_stays_behind_also_after_an_error() -> None:
    net = model()
    with pytest.raises(ZeroDivisionError), record(net):
        answer(net)
        raise ZeroDivisionError
    assert not any(part._forward_hooks for part in net.modules())


def test_a_place_that_was_not_recorded_is_answered_with_those_that_were() -> None:
    net = model()
    with record(net) as trace:
        pass
    with pytest.raises(KeyError, match="there are none"):
        trace["encoder.0.self"]
    with record(net) as trace:
        answer(net)
    with pytest.raises(KeyError, match=r"'encoder.7.self' was not recorded; there are encoder.0.self, encoder.1.self"):
        trace["encoder.7.self"]
