"""A model that is damaged on purpose is caught, by the check that is there for it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.decode.engines.torch_engine import TorchDecoding, TorchEngine
from clearhead.decode.rules import Rules
from clearhead.inspection.promises import recording
from clearhead.inspection.promises.verification import verify
from clearhead.model import attention, transformer
from clearhead.model.cache import LayerCache
from clearhead.model.transformer import EncoderDecoder
from clearhead.tokenization.tokenizer import PAD

from .conftest import failed, model, reload, subject

TOPOLOGIES = ["encoder-decoder", "decoder-only"]


def test_a_fused_kernel_that_forgets_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    real = attention.fused_attention
    monkeypatch.setattr(attention, "fused_attention", lambda q, k, v, **more: real(q, k, v, **more | {"mask": None}))
    found = failed(verify(subject(model())))
    assert list(found) == ["open = fused attention"]
    assert "a fused path that is not Equation 1" in found["open = fused attention"].detail


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_cache_that_is_off_by_one(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = LayerCache.append

    def append(self: LayerCache, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = real(self, k, v)
        if k.size(2) == 1 and keys.size(2) > 2:
            values = values.roll(1, 2)
        return keys, values

    monkeypatch.setattr(LayerCache, "append", append)
    found = failed(verify(subject(model(topology=topology))))
    assert {"cached = full", "engine = full", "beam's scores = rescoring"} == set(found)
    assert "but what joins them" in found["cached = full"].detail


def test_a_text_that_depends_on_those_beside_it() -> None:
    class OverTheBatch(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x - x.mean(0, keepdim=True)

    net = model()
    net.encoder.blocks[0].add_norm_1.norm = OverTheBatch()
    found = failed(verify(subject(net)))
    assert "OverTheBatch (encoder.0.add_norm_1.norm) mixes the rows" in found["batched = single"].detail


def test_an_encoder_that_forgets_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EncoderDecoder, "encode", lambda self, source, *, mask=None: self.encoder(source))
    found = failed(verify(subject(model())))
    assert {"batched = single", "padded = unpadded", "no leak from padding"} <= set(found)
    assert "no leak from the future" not in found and "gradients = finite differences" not in found


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_causal_mask_that_is_off_by_one(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = transformer.causal_mask

    def causal_mask(n_queries: int, n_keys: int, **more: object) -> Tensor:
        mask = real(n_queries, n_keys, **more)
        return mask | mask.roll(-1, -2)

    monkeypatch.setattr(transformer, "causal_mask", causal_mask)
    found = failed(verify(subject(model(topology=topology))))
    assert "change what the model says before them" in found["no leak from the future"].detail


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

    monkeypatch.setattr(recording, "record", Changing)
    assert list(failed(verify(subject(net)))) == ["recorded = unrecorded"]
    monkeypatch.setattr(recording, "record", Leaving)
    [check] = failed(verify(subject(net))).values()
    assert check.name == "recorded = unrecorded" and "hooks stayed behind: decoder.projection" in check.detail


def test_a_model_that_never_says_the_same_twice() -> None:
    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1e-6 * torch.rand(())

    net = model()
    net.encoder.norm = Noise()
    assert "recorded = unrecorded" in failed(verify(subject(net)))


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
        [check] = failed(verify(subject(model(), reload=damage))).values()
        assert check.name == "saved = loaded"
    assert check.detail == "OSError: no room is left" and check.difference is None


class Stuck(TorchDecoding):
    """Doubles its hypotheses, but takes their order for granted."""

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        log_p, ids = super().step(tokens, k, also)
        return (log_p * 1.001 if tokens.shape[1] > 1 else log_p), ids


class StuckEngine(TorchEngine):
    def _encode(self, sources: Tensor, steps: int) -> Stuck:
        found = super()._encode(sources, steps)
        return Stuck(found.decoder, found.memory_mask, found.cache)


def test_an_engine_that_says_something_else_than_the_model_and_than_the_others() -> None:
    made = {"readable": lambda net: TorchEngine(net, pad=PAD), "fast": lambda net: StuckEngine(net, pad=PAD)}
    found = failed(verify(subject(model(), engines=made)))
    assert set(found) == {"engine = full", "engine = engine"}
    assert found["engine = engine"].detail.startswith("fast and readable differ at text")
    assert verify(subject(model(), engines={"one": made["readable"], "other": made["readable"]})).counts["skipped"] == 0


def test_a_search_whose_scores_forget_the_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rules, "penalty", lambda self, length: np.ones_like(length, np.float64))
    assert list(failed(verify(subject(model())))) == ["beam's scores = rescoring"]


def test_a_search_that_finds_nothing() -> None:
    healthy = subject(model())
    found = failed(verify(replace(healthy, search=replace(healthy.search, answers=lambda _: [[], [], []]))))
    assert list(found) == ["beam's scores = rescoring"]
    assert "ModelError: the search gave no answer to any of 3 prompts" in found["beam's scores = rescoring"].detail


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
    assert passed <= {"open = fused attention", "weights' rows sum to 1", "weights told = used", "keys in any order"}
