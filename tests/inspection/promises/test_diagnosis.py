"""A part that somebody else wrote is named where it breaks a promise; it is known by the seam alone."""

import pytest
import torch
from torch import Tensor, nn

from clearhead.inspection.promises.diagnosis import find_faults
from clearhead.inspection.promises.subject import Case
from clearhead.inspection.promises.verification import verify
from clearhead.model.attention import Attend, scaled_dot_product_attention
from clearhead.model.positions import Positions

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


class Blind(Own):
    """Looks at every key there is."""

    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q, k, v, bias=bias)


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
    assert verify(subject(net, loss=None)).passed
    assert find_faults(Case(subject(net), torch.float64, torch.device("cpu"))) == []


@pytest.mark.parametrize(
    ("own", "promise", "kinds"),
    [
        (Leaky(), "no leak from the future", {"causality", "padding", "the cache"}),
        (ByTheLength(), "cached = full", {"the cache"}),
        (Mixing(), "batched = single", {"the independence of rows"}),
        (Heavy(), "weights' rows sum to 1", set()),
        (Raising(), "cached = full", {"the cache"}),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_a_part_is_named_with_the_promise_that_it_breaks(own: nn.Module, promise: str, kinds: set[str]) -> None:
    found, kind = verify(subject(with_own(own), loss=None)), type(own).__name__
    check = failed(found)[promise]
    assert f"{kind} (decoder.1.self)" in check.detail, check
    assert kinds <= set(found.broken_by.get(kind, ()))
    assert not isinstance(own, Raising) or "ValueError: one query is too few" in check.detail


def test_a_language_model_has_its_places_by_number() -> None:
    found = failed(verify(subject(with_own(Leaky(), topology="decoder-only"), loss=None)))
    for promise in ("no leak from the future", "no leak from padding"):
        assert "Leaky (decoder.1.self)" in found[promise].detail


def test_the_order_of_keys_is_tried_and_what_the_mask_bars() -> None:
    found = verify(subject(with_own(ByPlace()), loss=None))
    assert list(failed(found)) == ["keys in any order"] and found.broken_by == {"ByPlace": ("permutation",)}
    assert failed(found)["keys in any order"].detail.startswith("ByPlace (decoder.1.self) ")
    net = model()
    net.encoder.blocks[0].attention.attend = Leaky()
    found = verify(subject(net, loss=None))
    assert "Leaky (encoder.0.self)" in failed(found)["no leak from padding"].detail
    assert found.sentences() == ["Leaky breaks padding"] and found.sentences()[0] in found.render()


def test_what_is_said_of_several_places_is_said_once_and_of_both_precisions_in_the_first() -> None:
    net = model(n_decoder_layers=2)
    for block in net.decoder.blocks:
        block.attention.attend = Blind()
    found = verify(subject(net, loss=None))
    sharp, used = (check for check in found.checks if check.name == "no leak from the future")
    assert "; Blind (decoder.0.self, decoder.1.self) sees later tokens (by " in sharp.detail
    assert (sharp.status, used.status) == ("failed", "failed") and "Blind" not in used.detail
    assert found.to_dict()["broken_by"] == {"Blind": ["causality", "padding", "the cache"]}


class Lying(Own):
    def weights(self, q, k, *, mask=None, bias=None) -> Tensor:
        return scaled_dot_product_attention(1.1 * q, k, k, mask=mask, bias=bias)[1]


class Broken(Own):
    def weights(self, q, k, *, mask=None, bias=None) -> Tensor:
        raise ValueError("not today")


class Failing(Own):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        raise ValueError("not at all")


def test_weights_that_are_not_those_of_the_output_are_found_out() -> None:
    [check] = failed(verify(subject(with_own(Lying()), loss=None))).values()
    assert check.name == "reported weights = used"
    assert check.detail.startswith("Lying (decoder.1.self) ")


@pytest.mark.parametrize(
    ("own", "said"), [(Broken(), "not today"), (Failing(), "not at all")], ids=["weights", "output"]
)
def test_a_part_that_raises_ends_no_page(own: nn.Module, said: str) -> None:
    found = verify(subject(with_own(own), loss=None))
    assert said in failed(found)["reported weights = used"].detail
    assert failed(found)["reported weights = used"].difference is None
    assert ("cached = full" in failed(found)) is isinstance(own, Failing)


def test_what_is_no_more_than_rounding_in_the_precision_in_use_is_said_to_be_that() -> None:
    class InFloat32(Own):
        def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
            return super().forward(q.float(), k.float(), v.float(), mask=mask, bias=bias).to(q.dtype)

    found = failed(verify(subject(with_own(InFloat32()), loss=None)))
    said = "in float32, rounding alone can be this large"
    assert any(check.precision == "float64" and said in check.detail for check in found.values())
    assert not any(said in check.detail for check in failed(verify(subject(with_own(Blind()), loss=None))).values())


class Twice(Attend):
    """Another equation, with two paths of its own."""

    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(2 * q, k, v, mask=mask, bias=bias)


class Forked(Attend):
    def forward(self, q, k, v, *, mask=None, bias=None) -> Tensor:
        return super().forward(q if self.fused_from else 1.001 * q, k, v, mask=mask, bias=bias)


def test_another_equation_with_two_paths_has_to_agree_with_itself() -> None:
    assert "open = fused attention" not in failed(verify(subject(with_own(Twice()), loss=None)))
    check = failed(verify(subject(with_own(Forked()), loss=None)))["open = fused attention"]
    assert check.detail == "Forked (decoder.1.self) has a fused path that isn't its open path"


class ByTheNumber(Positions):
    """Every place as a share of the text, whose length a decoder does not know."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + (positions / positions.size(1))[..., None]


class FirstRow(Positions):
    """Every row as the first one."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions[:1, :, None] / 10


class Ahead(nn.Module):
    """A norm over the text, tokens to come among them."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("positions", "promise"),
    [(ByTheNumber(), "cached = full"), (FirstRow(), "padded = unpadded")],
    ids=["number", "row"],
)
def test_positions_that_depend_on_other_places_or_rows_are_named(positions: Positions, promise: str) -> None:
    net = model(topology="decoder-only", positions="none")
    net.positions = positions
    found = verify(subject(net, loss=None))
    kind = type(positions).__name__
    assert f"{kind} (decoder.positions) treats a position differently alone" in failed(found)[promise].detail
    assert found.broken_by == {kind: ("the independence of positions",)}


def test_a_norm_that_looks_ahead_is_named_where_the_future_leaks() -> None:
    net = model(topology="decoder-only")
    net.blocks[0].add_norm_1.norm = Ahead()
    found = verify(subject(net, loss=None))
    assert (
        "Ahead (decoder.0.add_norm_1.norm) mixes the tokens of a text"
        in failed(found)["no leak from the future"].detail
    )
    assert found.broken_by == {"Ahead": ("the independence of tokens",)}
