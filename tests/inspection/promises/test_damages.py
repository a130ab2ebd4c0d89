"""A model that is damaged on purpose is caught, by the check that is there for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.decode.engines.torch_engine import TextEngine, TorchEngine, _TorchDecoding
from clearhead.decode.rules import Rules
from clearhead.inspection.promises import output_checks
from clearhead.inspection.promises.subject import Inputs
from clearhead.inspection.promises.verification import verify
from clearhead.model import attention, transformer
from clearhead.model.cache import Cache, LayerCache
from clearhead.model.pointer import Pointer
from clearhead.model.transformer import EncoderDecoder

from .conftest import SOURCE, TARGET, failed, model, reload, subject

PAD = 0  # the special tokens of a new vocabulary

TOPOLOGIES = ["encoder-decoder", "decoder-only"]


def test_a_fused_kernel_that_forgets_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    real = attention.fused_attention
    monkeypatch.setattr(attention, "fused_attention", lambda q, k, v, **more: real(q, k, v, **more | {"mask": None}))
    found = failed(verify(subject(model(), loss=None)))
    assert list(found) == ["open = fused attention"]
    assert "a fused path" in found["open = fused attention"].detail


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_cache_that_is_off_by_one(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LayerCache.append

    def append(self: LayerCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = real(self, k, v)
        if k.size(2) == 1 and keys.size(2) > 2:
            values = values.roll(1, 2)
        return keys, values

    monkeypatch.setattr(LayerCache, "append", append)
    found = failed(verify(subject(model(topology=topology), loss=None)))
    promises = {"cached = full", "engine = full", "beam's scores = rescoring"}
    assert set(found) == promises | ({"window = full"} if topology == "decoder-only" else set())
    assert "no attention, position scheme, norm" in found["cached = full"].detail


def test_a_text_that_depends_on_those_beside_it() -> None:
    class OverTheBatch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.mean(0, keepdim=True)

    net = model()
    net.encoder.blocks[0].add_norm_1.norm = OverTheBatch()
    found = failed(verify(subject(net, loss=None)))
    assert "OverTheBatch (encoder.0.add_norm_1.norm)" in found["batched = single"].detail


def test_an_encoder_that_forgets_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EncoderDecoder, "encode", lambda self, source, *, mask=None: self.encoder(source))
    found = failed(verify(subject(model(), loss=None)))
    assert {"batched = single", "padded = unpadded", "no leak from padding"} <= set(found)
    assert "no leak from the future" not in found and "gradients = finite differences" not in found


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_causal_mask_that_is_off_by_one(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = transformer.causal_mask

    def causal_mask(n_queries: int, n_keys: int, **more: object) -> Tensor:
        mask = real(n_queries, n_keys, **more)
        return mask | mask.roll(-1, -2)

    monkeypatch.setattr(transformer, "causal_mask", causal_mask)
    found = failed(verify(subject(model(topology=topology), loss=None)))
    assert "change earlier outputs" in found["no leak from the future"].detail


def test_recording_that_changes_an_output_or_leaves_a_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    net = model()

    class Changing:
        def __init__(self, net: nn.Module) -> None:
            self.handle = net.decoder.projection.register_forward_hook(lambda _, __, output: output * 1.0000001)

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None:
            self.handle.remove()

    class Leaving(Changing):
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(output_checks, "record", Changing)
    assert list(failed(verify(subject(net, loss=None)))) == ["recorded = unrecorded"]
    monkeypatch.setattr(output_checks, "record", Leaving)
    [check] = failed(verify(subject(net, loss=None))).values()
    assert check.name == "recorded = unrecorded" and "decoder.projection" in check.detail


def test_a_model_that_never_says_the_same_twice() -> None:
    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1e-6 * torch.rand(())

    net = model()
    net.encoder.norm = Noise()
    assert "recorded = unrecorded" in failed(verify(subject(net, loss=None)))


def test_weights_that_are_rounded_or_lost_when_they_are_saved() -> None:
    def rounded(net: nn.Module, folder: Path) -> nn.Module:
        return reload(net, folder).bfloat16().float()

    def lost(net: nn.Module, folder: Path) -> nn.Module:
        found = reload(net, folder)
        torch.nn.init.zeros_(found.encoder.blocks[0].attention.qkv.bias)
        return found

    def unreadable(net: nn.Module, folder: Path) -> nn.Module:
        raise OSError("no room is left")

    for damage in (rounded, lost, unreadable):
        [check] = failed(verify(subject(model(), reload=damage, loss=None))).values()
        assert check.name == "saved = loaded"
    assert check.detail == "OSError: no room is left" and check.difference is None


class Stuck(_TorchDecoding):
    """Doubles its hypotheses, but takes their order for granted."""

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        log_p, ids = super().step(tokens, k, also)
        return (log_p * 1.001 if tokens.shape[1] > 1 else log_p), ids


class StuckEngine(TorchEngine):
    def _encode(self, sources: Tensor, steps: int) -> Stuck:
        found = super()._encode(sources, steps)
        return Stuck(found.decoder, found.memory_mask, found.cache)


def test_a_pointer_whose_probabilities_do_not_sum_to_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def ungated(self: Pointer, x: Tensor, logits: Tensor, weights: Tensor, source: tuple[Tensor, Tensor]) -> Tensor:
        return real(self, x, logits, 1.01 * weights, source)

    def counted_twice(source: Tensor) -> tuple[Tensor, Tensor]:
        return source, torch.arange(source.size(1)).expand_as(source)  # a token that occurs twice is added twice

    real = Pointer.forward
    net = model(copy=True)
    net.decoder.pointer.gate.bias.data.fill_(-2.0)  # copies mostly
    healthy = verify(subject(net, loss=None))
    assert healthy.passed and {it.status for it in healthy.checks if it.name == "pointer sums to 1"} == {"passed"}
    monkeypatch.setattr(Pointer, "forward", ungated)
    assert list(failed(verify(subject(net, loss=None)))) == ["pointer sums to 1"]
    monkeypatch.setattr(Pointer, "forward", real)
    monkeypatch.setattr(Pointer, "read", staticmethod(counted_twice))
    repeated = Inputs(SOURCE.clone().masked_fill(SOURCE == 6, 5), TARGET)
    found = failed(verify(replace(subject(net, loss=None), inputs=repeated)))
    assert "pointer sums to 1" in found and found["pointer sums to 1"].precision == "float64"


def ages_off_by_one(self: Cache, new: int) -> Tensor:
    """As if a full ring had its oldest token one slot further."""
    found = AGES(self, new)
    keys = self.layers[0].keys.size(2)
    return (found + 1) % keys if self.length + new > keys else found


def forgetful_keep(self: TextEngine, lengths: Tensor) -> Tensor:
    return torch.where(lengths > self.max_len, self.max_len // 2 - 1, lengths)


AGES = Cache.ages


@pytest.mark.parametrize("positions", ["alibi", "relative"])
def test_a_ring_that_takes_its_keys_for_others(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cache, "ages", ages_off_by_one)
    found = failed(verify(subject(model(topology="decoder-only", positions=positions), loss=None)))
    assert list(found) == ["window = full"]


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_a_window_that_forgets_a_token(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextEngine, "keep", forgetful_keep)
    found = failed(verify(subject(model(topology="decoder-only", positions=positions), loss=None)))
    assert list(found) == ["window = full"]


def test_a_ring_that_overwrites_the_wrong_token(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LayerCache.append

    def append(self: LayerCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.ring and self.length >= self.keys.size(2):
            self.length += 1  # skips a slot
        return real(self, k, v)

    monkeypatch.setattr(LayerCache, "append", append)
    found = failed(verify(subject(model(topology="decoder-only", positions="rotary"), loss=None)))
    assert list(found) == ["window = full"]


def test_an_engine_that_says_something_else_than_the_model_and_than_the_others() -> None:
    made = {"readable": lambda net, _: TorchEngine(net, pad=PAD), "fast": lambda net, _: StuckEngine(net, pad=PAD)}
    found = failed(verify(subject(model(), engines=made, loss=None)))
    assert set(found) == {"engine = full", "engine = engine"}
    assert found["engine = engine"].detail.startswith("fast and readable differ at text")
    same = verify(subject(model(), engines={"one": made["readable"], "other": made["readable"]}, loss=None))
    assert "engine = engine" in {check.name for check in same.checks if check.status == "passed"}


def test_a_search_whose_scores_forget_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "penalty", lambda self, length: np.ones_like(length, np.float64))
    assert list(failed(verify(subject(model(), loss=None)))) == ["beam's scores = rescoring"]


def test_a_search_that_finds_nothing() -> None:
    healthy = subject(model())
    found = failed(verify(replace(healthy, search=replace(healthy.search, answers=lambda _: [[], [], []]))))
    assert list(found) == ["beam's scores = rescoring"]
    assert found["beam's scores = rescoring"].detail.startswith("ModelError: ")


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_gradient_that_is_cut_off(topology: str) -> None:
    net = model(topology=topology)
    block = (net.decoder if topology == "encoder-decoder" else net).blocks[0]

    class Detached(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x.detach())

    block.feed_forward = Detached(block.feed_forward)
    assert list(failed(verify(subject(net)))) == ["gradients = finite differences"]


@pytest.mark.parametrize("part", ["feed_forward.outer", "attention.qkv", "cross_attention.q"])
def test_a_gradient_that_is_wrong_by_a_thousandth(part: str) -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(_: object, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: object, upstream: Tensor) -> Tensor:
            return upstream * 1.001

    net = model()
    inner = net.decoder.blocks[0].get_submodule(part)
    real = type(inner)

    class Wrong(real):
        def forward(self, x: Tensor) -> Tensor:
            return Scaled.apply(super().forward(x))

    inner.__class__ = Wrong
    [check] = failed(verify(subject(net))).values()
    assert check.name == "gradients = finite differences" and part.split(".")[0] in check.detail


def test_weights_that_are_no_numbers_keep_no_promise_but_that_of_the_folder() -> None:
    net = model()
    with torch.no_grad():
        net.decoder.blocks[0].feed_forward.inner.bias[0] = float("nan")
    found = verify(subject(net))
    passed = {check.name for check in found.checks if check.status == "passed"}
    own = {"open = fused attention", "weights' rows sum to 1", "reported weights = used", "keys in any order"}
    assert passed <= own
