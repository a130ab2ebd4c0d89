import json
from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from clearhead.decode.engines.torch_engine import TorchEngine
from clearhead.inspection.promises.subject import Inputs
from clearhead.inspection.promises.verification import verify
from clearhead.model.dropout import Dropout

from .conftest import SOURCE, TARGET, model, subject

POSITIONS = ("sinusoidal", "learned", "rotary", "relative", "alibi", "none")
SKIPPED = {
    "encoder-decoder": ["pointer sums to 1", "engine = engine", "window = full"],
    "decoder-only": ["pointer sums to 1", "engine = engine"],
    "encoder-only": [
        "pointer sums to 1",
        "cached = full",
        "no leak from the future",
        "engine = engine",
        "window = full",
        "beam's scores = rescoring",
    ],
}
EXACT = ("recorded = unrecorded", "saved = loaded")


@pytest.mark.parametrize(
    ("topology", "positions", "pre_norm"),
    [
        pytest.param(topology, positions, pre_norm, marks=() if pre_norm == (i + j) % 2 else pytest.mark.slow)
        for i, topology in enumerate(SKIPPED)
        for j, positions in enumerate(POSITIONS)
        for pre_norm in (False, True)
    ],
    ids=str,
)
def test_a_healthy_model_keeps_every_promise(topology: str, positions: str, pre_norm: bool) -> None:
    found = verify(subject(model(topology=topology, positions=positions, pre_norm=pre_norm)))
    assert found.passed and found.counts["failed"] == 0, found.render()
    assert [check.name for check in found.checks if check.status == "skipped"] == SKIPPED[topology]
    for check in found.checks:
        if check.status == "passed":
            assert check.difference <= check.bound and check.reason
            assert check.bound == 0 if check.name in EXACT else 0 < check.bound < 1e-2
            assert check.name in EXACT or check.precision != "float64" or check.bound < 1e-4
        if check.precision == "float64" and not check.name.startswith("gradients"):
            assert check.bound < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"copy": True},
        {"copy": True, "positions": "alibi", "n_kv_heads": 2, "n_decoder_layers": 2},
        {"n_kv_heads": 1, "norm": "rms", "feed_forward": "swiglu", "bias": False, "tie": "none"},
        {"topology": "decoder-only", "n_kv_heads": 2, "norm": "rms", "feed_forward": "gelu", "positions": "rotary"},
        {"topology": "encoder-only", "head": "class", "n_classes": 3},
        {"topology": "encoder-only", "head": "class", "n_classes": 3, "pooling": "first"},
        {"topology": "encoder-only", "head": "span", "n_token_types": 2, "positions": "relative"},
    ],
    ids=str,
)
def test_so_do_pointers_heads_and_other_parts(settings: dict) -> None:
    found = verify(subject(model(**settings)))
    assert found.passed, found.render()


def test_a_model_in_training_is_in_training_afterwards_and_has_no_gradients_and_the_weights_that_it_had() -> None:
    net = model(dropout=0.5).train()
    before, state = {name: it.clone() for name, it in net.state_dict().items()}, torch.random.get_rng_state()
    assert verify(subject(net)).passed
    assert all(part.training for part in net.modules() if isinstance(part, Dropout))
    assert all(parameter.grad is None and parameter.requires_grad for parameter in net.parameters())
    assert all(torch.equal(it, before[name]) for name, it in net.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_model_in_float64_is_tried_once_and_one_in_bfloat16_in_its_own_precision_too() -> None:
    precisions = {check.precision for check in verify(subject(model().double(), loss=None)).checks if check.precision}
    assert precisions == {"float64"}
    found = verify(subject(model(copy=True).bfloat16(), loss=None))
    assert found.passed and "bfloat16" in {check.precision for check in found.checks}, found.render()


def test_what_a_subject_lacks_is_skipped_with_the_reason_and_never_passed() -> None:
    found = verify(subject(model(), loss=None, reload=None, engines={}, search=None))
    skipped = {check.name: check.reason for check in found.checks if check.status == "skipped"}
    assert skipped == {
        "pointer sums to 1": "the model has no pointer",
        "engine = engine": "no engine is given",
        "window = full": "only a language model has a context window",
        "beam's scores = rescoring": "the task has no search",
        "gradients = finite differences": "no loss is given",
        "saved = loaded": "no way to save the model is given",
    }
    assert found.passed and found.counts["skipped"] == 6
    assert all(check.difference is None and check.bound is None for check in found.checks if check.status == "skipped")


def test_the_engine_that_fails_is_named() -> None:
    class Wrong(TorchEngine):
        def prefill(self, sources, steps):
            return super().prefill([[4, *source] for source in sources], steps)

    class Failing(TorchEngine):
        def prefill(self, sources, steps):
            raise ValueError("no memory")

    for broken in (Wrong, Failing):
        engines = {"good": lambda net, _: TorchEngine(net, pad=0), "bad": lambda net, _: broken(net, pad=0)}  # noqa: B023
        found = verify(subject(model(), loss=None, engines=engines, search=None))
        failing = [check for check in found.checks if check.name == "engine = full" and check.status == "failed"]
        assert len(failing) == 2 and all(check.detail.startswith("bad: ") for check in failing)


def test_an_engine_that_computes_in_float32_is_checked_in_that_precision_only() -> None:
    class Single(TorchEngine):
        def __init__(self, net, pad) -> None:
            super().__init__(deepcopy(net).float(), pad=pad)

    engines = {"good": lambda net, _: TorchEngine(net, pad=0), "single": lambda net, _: Single(net, pad=0)}
    one = subject(model(), loss=None, engines=engines, search=None)
    assert not verify(one).passed
    found = verify(replace(one, float32_engines=["single"]))
    compared = {check.status: check for check in found.checks if check.name == "engine = engine"}
    assert found.passed and compared["passed"].precision == "float32"
    assert compared["skipped"].reason == "there's only one engine in float64, good"


def test_texts_that_fill_the_model_leave_no_room_for_padding() -> None:
    net = model(positions="learned", max_len=7)
    even = Inputs(SOURCE[:1], TARGET[1:2, :6])
    found = verify(replace(subject(net, search=None, engines={}), inputs=even, max_len=7, loss=None))
    skipped = {check.name: check.reason for check in found.checks if check.status == "skipped"}
    assert found.passed
    for name in ("padded = unpadded", "no leak from padding"):
        assert "model.max_len=7" in skipped[name]


def test_the_page_is_for_80_columns_and_the_dictionary_for_json() -> None:
    found = verify(subject(model()))
    lines = found.render().splitlines()
    assert max(map(len, lines)) <= 80
    for check in found.checks:
        assert any(line.startswith(f"{check.status:<8}{check.name}") for line in lines)
    assert lines[-1].startswith(f"{found.counts['passed']} passed, 0 failed, 3 skipped; ")
    again = json.loads(json.dumps(found.to_dict()))
    assert (again["passed"], again["format_version"]) == (True, 1) and len(again["checks"]) == len(found.checks)
