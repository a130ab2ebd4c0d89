"""Compiled parts run uncompiled while they are inspected, and the difference is reported."""

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from clearhead.api import load
from clearhead.inspection.promises.verification import verify
from clearhead.inspection.record.recorder import record
from clearhead.inspection.record.switches import without
from clearhead.inspection.record.uncompiled import uncompiled
from clearhead.inspection.views.explanation import Explanation
from clearhead.inspection.views.flow import dimension_flow

from ..promises.conftest import SOURCE, TARGET, model, subject


@pytest.fixture(autouse=True)
def nothing_compiled_stays() -> None:
    torch._dynamo.reset()


def answer(net: nn.Module) -> Tensor:
    with torch.no_grad():
        return net(SOURCE, TARGET)


def off_by(part: nn.Module, gap: float) -> Callable[..., Tensor]:
    """What `part.compile()` leaves, of a compiler that is so far from what is written."""
    part._compiled_call_impl = lambda *given, **options: part.forward(*given, **options) + gap
    return part._compiled_call_impl


def by_method(net: nn.Module) -> None:
    net.encoder.compile(backend="eager")


def by_wrapping(net: nn.Module) -> None:
    net.encoder = torch.compile(net.encoder, backend="eager")


def inside_of_each_other(net: nn.Module) -> None:
    net.compile(backend="eager")
    net.encoder.blocks[0] = torch.compile(net.encoder.blocks[0], backend="eager")


COMPILED = pytest.mark.parametrize("compiled", [by_method, by_wrapping, inside_of_each_other])


@COMPILED
def test_a_compiled_model_has_the_record_of_its_twin_and_is_compiled_again_afterwards(compiled) -> None:
    net = model()
    with torch.no_grad(), record(net) as plain:
        net(SOURCE, TARGET)
    compiled(net)
    answer(net)
    state = {name: dict(vars(part)) for name, part in net.named_modules()}
    with torch.no_grad(), record(net) as trace:
        net(SOURCE, TARGET)
    assert list(trace) == list(plain) and trace.uncompiled and not plain.uncompiled
    assert all(torch.equal(trace[name].output, plain[name].output) for name in plain)
    assert (trace.compiled_difference, plain.compiled_difference) == (0.0, None)  # "eager" compiles to the same
    for name, part in net.named_modules():
        assert vars(part).keys() == state[name].keys() and not part._forward_hooks
        assert all(
            vars(part)[key] is state[name][key] for key in ("forward", "_compiled_call_impl") if key in vars(part)
        )


@COMPILED
def test_a_compiled_model_without_a_part_says_what_the_plain_one_says(compiled) -> None:
    net = model()
    plain = copy.deepcopy(net)
    names = ("encoder.0.self.head.1", "decoder.0.feed_forward")
    with without(plain, *names):
        expected = answer(plain)
    answer(net)
    compiled(net)
    whole = answer(net)
    with without(net, *names):
        assert torch.equal(answer(net), expected) and not torch.equal(expected, whole)
    assert torch.equal(answer(net), whole)


def test_the_largest_difference_is_that_of_the_outermost_parts_to_what_they_give_compiled() -> None:
    net = model()
    fast = off_by(net.encoder.blocks[0], 0.25)
    off_by(net.decoder.blocks[0], -0.5)
    off_by(net.decoder.blocks[0].feed_forward, 7.0)  # inside of one that is compiled as a whole
    with torch.no_grad(), record(net) as trace:
        net(SOURCE, TARGET)
    assert trace.uncompiled == ["encoder.blocks.0", "decoder.blocks.0", "decoder.blocks.0.feed_forward"]
    assert trace.compiled_difference == pytest.approx(0.5, rel=1e-5)
    assert net.encoder.blocks[0]._compiled_call_impl is fast
    assert json.loads(json.dumps(trace.to_dict()))["compiled_difference"] == trace.compiled_difference
    assert trace.note == (
        "Compiled parts ran uncompiled: encoder.blocks.0, decoder.blocks.0, decoder.blocks.0.feed_forward. "
        "On the same inputs, their compiled versions differ by at most 5.0e-01."
    )


def test_what_cannot_be_compared_is_not() -> None:
    net = model()
    off_by(net.decoder, 1.0)
    with torch.no_grad(), record(net) as trace:
        cache = net.decoder.new_cache(3, 6, net.encode(SOURCE))
        net.decoder(TARGET[:, :1], cache=cache)
    assert trace.compiled_difference is None and cache.length == 1  # asked again, it would have grown by one more
    assert trace.note.endswith("Their compiled versions couldn't be compared.")
    net.train()
    with torch.no_grad(), record(net) as trace:
        net(SOURCE, TARGET)
    assert trace.compiled_difference is None

    def raising(*_: object, **__: object) -> Tensor:
        raise RuntimeError("there is no compiler")

    net.eval().decoder._compiled_call_impl = raising
    with torch.no_grad(), record(net) as trace:
        net(SOURCE, TARGET)
    assert trace.compiled_difference is None


def test_an_error_leaves_everything_compiled_as_it_was() -> None:
    net = model()
    fast = off_by(net.encoder, 1.0)
    for looking in (uncompiled(net), record(net), without(net, "encoder.0.self")):
        with pytest.raises(ZeroDivisionError), looking:
            assert net.encoder._compiled_call_impl is None
            raise ZeroDivisionError
        assert net.encoder._compiled_call_impl is fast and not net.encoder._forward_hooks


def test_inside_of_one_another_each_leaves_what_it_found() -> None:
    net = model()
    by_wrapping(net)
    fast = vars(net.encoder)["forward"]
    with uncompiled(net) as outer, uncompiled(net) as inner:
        assert len(outer) == 1 and inner == [] and vars(net.encoder)["forward"] is not fast
    assert vars(net.encoder)["forward"] is fast


def test_the_flow_sees_compiled_parts() -> None:
    net = model()
    steps = dimension_flow(net)
    answer(net)
    by_method(net)
    answer(net)
    assert dimension_flow(net) == steps


def views(it: Explanation) -> list[str]:
    """All that are of text."""
    place = it.main_place
    of_place = [it.render_heads(place, None), it.render_attention(place, 0, 0), it.render_alignment()]
    return [it.render(), *of_place, it.lens.render(), it.why().render(), it.searched.render()]


def test_a_view_says_that_compiled_parts_were_not_looked_at(model_folder: Path) -> None:
    app = load(model_folder)
    plain = app.explain("I am hungry.", beam=2)
    off_by(app.model.encoder, 1e-3)
    off_by(app.model.decoder, 0.0)
    found = app.explain("I am hungry.", beam=2)
    assert found.answer == plain.answer and found.values == plain.values  # all of it is that of the plain twin
    assert found.search.cache_lengths == plain.search.cache_lengths
    place = found.main_place
    for view in views(found):
        assert found.trace.note in " ".join(view.split()) and max(map(len, view.splitlines())) <= 80
    assert not any("ompiled" in view for view in views(plain))
    assert found.why().to_dict()["note"] == found.trace.note and plain.why().to_dict()["note"] == ""
    assert "normal run" in plain.render() and "normal run" not in found.render()
    values = found.to_dict(place, 0, 0)["compiled"]
    assert values["parts"] == ["encoder", "decoder"] and math.isclose(values["largest_difference"], 1e-3, rel_tol=0.1)
    assert plain.to_dict(place, 0, 0)["compiled"] == {"parts": [], "largest_difference": None}


def test_a_compiled_model_keeps_the_promises_and_one_that_is_compiled_wrongly_does_not() -> None:
    net = model()
    off_by(net.encoder, 1e-7)
    found = verify(subject(net))
    assert found.passed, found.render()
    [check] = [check for check in found.checks if check.name == "recorded = unrecorded"]
    assert 0 < check.difference <= check.bound and check.reason.endswith("; compiled: encoder")
    off_by(net.encoder, 0.1)
    wrong = {check.name for check in verify(subject(net)).checks if check.status == "failed"}
    assert wrong == {"recorded = unrecorded"}
