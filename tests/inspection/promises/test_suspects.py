"""A part that somebody else wrote is named where it breaks a promise; it is known by the seam alone."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.inspection.promises.subject import Case
from clearhead.inspection.promises.suspects import suspects
from clearhead.inspection.promises.verify import verify
from clearhead.model.attention import scaled_dot_product_attention

from .conftest import failed, model, subject


class Own(nn.Module):
    """An attention of one's own, which keeps every promise."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None
    ) -> Tensor:
        groups = q.size(1) // k.size(1)
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        return scaled_dot_product_attention(q, k, v, mask=mask, bias=bias)[0]


class Leaky(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q, k, v, mask=mask, bias=bias) + 1e-6 * v.mean(2, keepdim=True)


class ByPlace(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q, k * (1 + torch.arange(k.size(2), device=k.device)[:, None]), v, mask=mask, bias=bias)


class ByTheLength(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q * q.size(2), k, v, mask=mask, bias=bias)


class Mixing(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q, k, v - 0.1 * v.mean(0, keepdim=True), mask=mask, bias=bias)


class Heavy(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q, k, 1.1 * v, mask=mask, bias=bias)


class Raising(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        if q.size(2) == 1:
            raise ValueError("one query is too few")
        return super().forward(q, k, v, mask=mask, bias=bias)


def with_own(own: nn.Module, **settings: object) -> nn.Module:
    net = model(n_decoder_layers=2, **settings)
    decoder = getattr(net, "decoder", net)
    decoder.blocks[1].attention.attend = own
    return net


@pytest.mark.parametrize("positions", ["sinusoidal", "alibi"])
@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
def test_an_own_attention_that_is_sound_is_no_suspect(topology: str, positions: str) -> None:
    net = with_own(Own(), topology=topology, positions=positions, n_kv_heads=2)
    assert verify(subject(net)).passed
    assert suspects(Case(subject(net), torch.float64, torch.device("cpu"))) == {}


@pytest.mark.parametrize(
    ("own", "promise", "said"),
    [
        (Leaky(), "no leak from the future", "decoder.1.self (Leaky) sees tokens that come later"),
        (
            ByTheLength(),
            "cached = full",
            "(ByTheLength) answers a query alone otherwise than among others",
        ),
        (Mixing(), "batched = single", "decoder.1.self (Mixing) mixes the rows of a batch"),
        (Heavy(), "weights' rows sum to 1", "decoder.1.self (Heavy) has weights that do not add up to 1"),
        (Raising(), "cached = full", "or cannot be tried alone: ValueError: one query is too few"),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_a_part_is_named_with_the_promise_that_it_breaks(own: nn.Module, promise: str, said: str) -> None:
    found = failed(verify(subject(with_own(own))))
    assert said in found[promise].detail, found[promise]


def test_a_language_model_has_its_places_by_number() -> None:
    found = failed(verify(subject(with_own(Leaky(), topology="decoder-only"))))
    assert "1.self (Leaky) sees tokens that come later" in found["no leak from the future"].detail
    assert "1.self (Leaky) sees what the mask bars" in found["no leak from padding"].detail


def test_the_order_of_keys_is_tried_and_what_the_mask_bars() -> None:
    by_place = suspects(Case(subject(with_own(ByPlace())), torch.float64, torch.device("cpu")))
    assert (
        list(by_place) == ["order"]
        and "decoder.1.self (ByPlace) depends on the order of the keys" in by_place["order"][0]
    )
    net = model()
    net.encoder.blocks[0].attention.attend = Leaky()
    found = failed(verify(subject(net)))
    assert "encoder.0.self (Leaky) sees what the mask bars" in found["no leak from padding"].detail
