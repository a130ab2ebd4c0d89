import errno
import json
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from clearhead.config import DecodeConfig, SpecialTokens
from clearhead.decode.engines.torch_engine import TextEngine, TorchEngine
from clearhead.decode.session import Session
from clearhead.errors import ConfigError, ModelError, TrainingError
from clearhead.inspection.record.labels import LabelledArray
from clearhead.inspection.record.recorder import record
from clearhead.inspection.record.trace import Trace
from clearhead.model.attention import SelfAttention
from clearhead.model.fronts.front import Front
from clearhead.model.masks import padding_mask
from tests.builders import small_model

SOURCE, TARGET = torch.tensor([[4, 5, 6, 7, 0], [8, 9, 4, 5, 6]]), torch.tensor([[1, 4, 5, 6], [1, 7, 8, 9]])
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]
HOWS: list[dict[str, object]] = [{"beam": 1}, {"beam": 3}, {"sample": True, "seed": 3, "n_best": 2}]
TOPOLOGIES = ["encoder-decoder", "decoder-only", "encoder-only"]


model = partial(small_model, vocab=10)


def of(topology: str, **changes: object) -> nn.Module:
    only = {"n_encoder_layers": 0} if topology == "decoder-only" else {"n_decoder_layers": 0}
    head = {"head": "class", "n_classes": 3} if topology == "encoder-only" else {}
    return model(topology=topology, **(only if topology != "encoder-decoder" else {}), **head, **changes)


def answer(net: nn.Module) -> Tensor:
    return net(SOURCE, TARGET, source_mask=padding_mask(SOURCE, 0))


def run(net: nn.Module) -> Tensor:
    return answer(net) if hasattr(net, "decoder") else net(SOURCE if hasattr(net, "head") else TARGET)


@pytest.mark.parametrize(
    ("topology", "positions", "pre_norm"),
    [
        (topology, positions, (i + j) % 2 == 0)
        for i, topology in enumerate(TOPOLOGIES)
        for j, positions in enumerate(POSITIONS)
    ],
)
def test_looking_changes_no_bit_of_what_comes_out(topology: str, positions: str, pre_norm: bool) -> None:
    net = of(topology, positions=positions, pre_norm=pre_norm)
    before = run(net)
    with record(net) as trace:
        during = run(net)
    assert torch.equal(before, during) and torch.equal(before, run(net))
    assert trace.calls and trace.largest_difference < 1e-6
    for calls in trace.calls.values():
        sums = calls[-1].weights.values.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums), atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("topology", "positions", "how"),
    [
        (topology, positions, HOWS[(i + j) % 3])
        for i, topology in enumerate(TOPOLOGIES[:2])
        for j, positions in enumerate(POSITIONS)
    ],
    ids=str,
)
def test_looking_changes_no_answer(topology: str, positions: str, how: dict[str, object]) -> None:
    net = of(topology, positions=positions)
    prompts = [[4, 5, 6], [7, 8]]
    engine = TextEngine(net, pad=0, max_len=20) if topology == "decoder-only" else TorchEngine(net, pad=0)
    session = Session(engine, DecodeConfig(max_extra=6, min_len=3, **how), SpecialTokens(), max_len=20)
    before = session.answers(prompts)
    with record(net) as trace:
        during = session.answers(prompts)
    assert before == during == session.answers(prompts)
    lengths = trace.cache_lengths
    one_by_one = lengths == [*range(lengths[0], lengths[0] + len(lengths))]
    assert len(lengths) > 3 and (one_by_one or topology == "decoder-only")


@pytest.mark.parametrize("n_kv_heads", [None, 2])
def test_each_attention_is_there_with_its_weights(n_kv_heads: int | None) -> None:
    net = model(n_kv_heads=n_kv_heads)
    with record(net) as trace:
        answer(net)
    places = [f"encoder.{n}.self" for n in range(2)]
    places += [f"decoder.{n}.{kind}" for n in range(2) for kind in ("self", "cross")]
    assert list(trace.calls) == places
    for place in places:
        found = trace[place]
        torch.testing.assert_close(found.weights.values @ found.v, found.output)
        torch.testing.assert_close(found.masked_scores.softmax(-1), found.weights.values)
    assert not trace["encoder.0.self"].weights.values[0, :, :, 4].any()  # padding is attended by nobody
    assert not trace["decoder.1.self"].weights.values.triu(1).any()  # nor is the future


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_each_part_is_there_and_gives_what_the_next_receives(topology: str) -> None:
    net = of(topology, pre_norm=True)
    with record(net) as trace:
        out = run(net)
    last = {"encoder-only": "head", "decoder-only": "decoder", "encoder-decoder": "decoder"}[topology]
    assert torch.equal(trace[last].output, out)
    stack = "encoder" if topology == "encoder-only" else "decoder"
    assert torch.equal(trace[f"{stack}.embedded"].output, trace[f"{stack}.0"].inputs[0])
    assert torch.equal(trace[f"{stack}.0"].output, trace[f"{stack}.1"].inputs[0])
    for name, before, after in trace.residuals():
        assert name.split(".")[-1].startswith("add_norm") and before > 0 and after > 0
        call = trace[name]
        assert after == pytest.approx(float(call.output.norm(dim=-1).mean()), rel=1e-5)
        assert torch.equal(trace[f"{name}.norm"].inputs[0], call.inputs[0])
    first = trace[f"{stack}.0.add_norm_1"]
    torch.testing.assert_close(first.output, first.inputs[0] + trace[f"{stack}.0.self.out"].output)


def test_the_two_stacks_have_one_embedding_and_each_its_own_record() -> None:
    net = model(tie="all")
    with record(net) as trace:
        answer(net)
    assert trace["encoder.embedding"].output.shape == (2, 5, 16)
    assert trace["decoder.embedding"].output.shape == (2, 4, 16)


def test_weights_know_their_tokens() -> None:
    net = model()
    pieces = {"encoder": lambda ids: [f"s{i}" for i in ids], "decoder": lambda ids: [f"t{i}" for i in ids]}
    with record(net, pieces=pieces) as trace:
        answer(net)
    cross = trace["decoder.0.cross"].weights
    assert cross.axes == ("row", "head", "query", "key") and cross.shape == (2, 4, 4, 5)
    one = cross.select(row=1, head=2)
    assert (one.axes, one.tokens) == (
        ("query", "key"),
        {"query": ["t1", "t7", "t8", "t9"], "key": ["s8", "s9", "s4", "s5", "s6"]},
    )
    assert torch.equal(one.values, cross.values[1, 2])
    assert np.array_equal(np.asarray(one), one.values.numpy())
    assert torch.equal(cross.mean("head").select(row=0).values, cross.values[0].mean(0))
    assert trace["decoder.0.self"].weights.select(row=0).tokens["key"] == ["t1", "t4", "t5", "t6"]
    html = one._repr_html_()
    long = LabelledArray(torch.ones(41, 2), ("query", "key"), {})
    assert "query: the first 40 of 41" in long._repr_html_() and "the first" not in html
    assert "<th>s8</th>" in html and "t9</th>" in html and html.count("<td") == 20
    assert "select" in cross._repr_html_() and repr(one) == "LabelledArray(query 4, key 5)"
    assert json.loads(json.dumps(one.to_dict()))["axes"] == ["query", "key"]


@pytest.mark.parametrize(
    ("ask", "fields", "expected", "fix"),
    [
        (lambda it: it.select(key="t1"), ("key", "t1"), "a whole number from 0 to 4", ""),
        (lambda it: it.select(row=2), ("row", 2), "a whole number from 0 to 1", ""),
        (lambda it: it.select(haed=0), ("axis", "haed"), "one of row, head, query, key", "did you mean 'head'?"),
        (lambda it: it.mean("query"), ("axis", "query"), "one of head", ""),
        (lambda it: it.select(row=0, head=0).mean("head"), ("axis", "head"), "an array with an axis", ""),
    ],
)
def test_an_axis_or_index_that_an_array_lacks_is_an_error(
    ask: Callable[..., object], fields: tuple[str, object], expected: str, fix: str
) -> None:
    net = model()
    with record(net) as trace:
        answer(net)
    with pytest.raises(ModelError) as caught:
        ask(trace["decoder.0.cross"].weights)
    assert (caught.value.name, caught.value.value) == fields and caught.value.fix == fix
    assert caught.value.expected.startswith(expected)


def test_while_it_searches_every_step_and_beam_is_recorded_with_its_tokens() -> None:
    net = model(d_model=32)
    session = Session(
        TorchEngine(net, pad=0), DecodeConfig(beam=3, max_extra=5, min_len=4), SpecialTokens(), max_len=20
    )
    with record(net) as trace:
        [[best, *_]] = session.answers([[4, 5, 6]])
    steps = trace.calls["decoder.1.self"]
    assert len(steps) == len(trace.cache_lengths) >= len(best.ids)
    assert [call.step for call in steps] == [*range(len(steps))]
    for number, call in enumerate(steps):
        tokens = call.weights.tokens
        assert call.weights.shape[2:] == (1, number + 1)
        for row, keys in enumerate(tokens["key"]):
            assert keys[0] == "1" and [keys[-1]] == tokens["query"][row]
    said = [str(i) for i in best.ids]
    assert any(keys[1:] == said[: len(keys) - 1] for keys in steps[-1].weights.tokens["key"])
    cross = trace.calls["decoder.0.cross"][-1].weights
    assert cross.shape == (1, 4, 3, 4) and cross.tokens["key"] == [["4", "5", "6", "2"]]
    # what a row attends to is what a full pass over its tokens attends to
    rows = torch.tensor([[int(i) for i in keys] for keys in steps[-1].weights.tokens["key"]])
    with record(net) as again:
        net(torch.tensor([[4, 5, 6, 2]]).expand(len(rows), -1), rows)
    full = again["decoder.1.self"].weights.values[:, :, -1:]
    torch.testing.assert_close(full, steps[-1].weights.values)


def test_a_ring_of_keys_has_the_tokens_of_its_slots() -> None:
    net = of("decoder-only", positions="rotary", max_len=4)
    session = Session(
        TextEngine(net, pad=0, max_len=4), DecodeConfig(beam=1, max_extra=5, min_len=7, max_len=7), SpecialTokens()
    )
    with record(net) as trace:
        [[best, *_]] = session.answers([[4, 5]])
    last = trace.calls["decoder.0.self"][-1].weights
    assert last.shape[3] == 4
    said = [1, *best.ids] if len(trace.cache_lengths) > len(best.ids) else [*best.ids]
    assert {*last.tokens["key"][0]} <= {str(i) for i in [4, 5, 2, *said]}
    assert last.tokens["query"][0][0] in last.tokens["key"][0]


def test_the_weights_of_training_are_those_before_dropout() -> None:
    net = model(dropout=0.5).train()
    torch.manual_seed(1)
    before = answer(net)
    torch.manual_seed(1)
    with record(net) as trace:
        assert torch.equal(answer(net), before)  # not even the random numbers are others
    weights = trace["decoder.0.cross"].weights.values
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert trace["decoder.0.cross"].largest_difference > 0  # the model's own output had dropout
    assert net.training


def test_every_call_of_a_place_is_kept_in_order_and_the_latest_is_shown() -> None:
    net = model()
    with record(net) as trace:
        answer(net)
        net(SOURCE[:1], TARGET[:1, :2])
    assert [call.weights.shape for call in trace.calls["decoder.0.cross"]] == [(2, 4, 4, 5), (1, 4, 2, 5)]
    assert trace["decoder.0.cross"].weights.shape == (1, 4, 2, 5)
    assert [call.step for call in trace.parts["decoder.0"]] == [0, 1]


def test_nothing_stays_behind_also_after_an_error() -> None:
    net = model()
    decoder = net.decoder
    with pytest.raises(ZeroDivisionError), record(net):
        answer(net)
        cache = decoder.new_cache(2, 4, net.encode(SOURCE))
        decoder(TARGET[:, :1], cache=cache)
        assert "select" in vars(cache)
        raise ZeroDivisionError
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in net.modules())
    assert not {"select", "select_memory"} & vars(cache).keys()


def test_a_record_has_a_limit_and_says_what_it_summarised() -> None:
    net = model()
    with record(net) as whole:
        out = answer(net)
    with record(net, limit=whole.nbytes // 2) as trace:
        assert torch.equal(answer(net), out)
    with pytest.raises(ConfigError) as caught, record(net, limit=-1):
        pass
    assert (caught.value.name, caught.value.value) == ("limit", -1)
    assert trace.nbytes <= whole.nbytes // 2 and trace.summaries
    kept = sum(map(len, trace.calls.values())) + sum(map(len, trace.parts.values()))
    assert kept + len(trace.summaries) == sum(map(len, whole.calls.values())) + sum(map(len, whole.parts.values()))
    for it in trace.summaries:
        output = whole[it.name].output
        assert it.shape == tuple(output.shape)
        found = (it.lowest, it.highest, it.mean, it.norm)
        expected = (float(output.min()), float(output.max()), float(output.mean()), float(output.norm()))
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    name = next(it.name for it in trace.summaries if it.name not in trace.parts and it.name not in trace.calls)
    with pytest.raises(KeyError, match=name):
        trace[name]
    assert "calls summarised" in repr(trace)


def test_a_record_is_a_file(tmp_path: Path) -> None:
    net = model(positions="alibi")
    with record(net) as trace:
        answer(net)
    trace.save(tmp_path / "trace.json")
    read = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    assert (read["format_version"], read["kind"]) == (2, "trace")
    cross = next(it for it in read["attention"] if it["name"] == "decoder.1.cross")
    assert cross["weights"]["values"] == trace["decoder.1.cross"].weights.values.tolist()
    assert cross["weights"]["tokens"] == {"query": [["1", "4", "5", "6"], ["1", "7", "8", "9"]]} | {
        "key": [["4", "5", "6", "7", "0"], ["8", "9", "4", "5", "6"]]
    }
    assert {it["name"] for it in read["parts"]} == {*trace.parts}
    trace.save(tmp_path / "new" / "trace.npz")
    with np.load(tmp_path / "new" / "trace.npz") as file:
        assert np.array_equal(file["decoder.1.cross/0/weights"], trace["decoder.1.cross"].weights.values.numpy())
        assert np.array_equal(file["encoder.0/0/output"], trace["encoder.0"].output.detach().numpy())
        assert json.loads(str(file["about"]))["format_version"] == 2
    with pytest.raises(ConfigError) as caught:
        trace.save(tmp_path / "other" / "trace.pt")
    assert caught.value.value == str(tmp_path / "other" / "trace.pt") and caught.value.expected == ".json or .npz"
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("name", ["trace.json", "trace.npz"])
def test_a_record_that_cannot_be_saved_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    trace, full = Trace(), OSError(errno.ENOSPC, "No space left on device")
    trace.save(tmp_path / name)
    before, trace.off = (tmp_path / name).read_bytes(), ["decoder.0.self"]
    monkeypatch.setattr("os.fsync", Mock(side_effect=full))
    with pytest.raises(TrainingError) as caught:
        trace.save(tmp_path / name)
    assert caught.value.value == tmp_path and [*tmp_path.iterdir()] == [tmp_path / name]
    assert (tmp_path / name).read_bytes() == before


def test_a_record_shows_itself_in_a_notebook() -> None:
    net = model()
    with record(net) as trace:
        answer(net)
    html = trace._repr_html_()
    assert "decoder.1.cross Attend 2 x 4 x 4 x 4 " in " ".join(re.findall(r">([^<>]+)</td>", html))
    assert html.count("<tr>") == len(trace) + 1 == len([*trace]) + 1


def test_a_place_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    net = model()
    with record(net) as trace:
        answer(net)
    figure = trace.plot("decoder.0.cross", tmp_path / "cross.svg", row=1)
    assert len(figure.axes) == 4 + 1 and (tmp_path / "cross.svg").read_text().startswith("<?xml")
    assert len(trace.plot("decoder.0.cross", head=2).axes) == 1 + 1
    with pytest.raises(KeyError, match=r"'decoder\.0' .* encoder\.0\.self"):
        trace.plot("decoder.0")


def test_a_part_that_was_compiled_runs_as_it_is_written_while_it_is_watched() -> None:
    net = model()
    before, block = answer(net), net.encoder.blocks[0]
    block._compiled_call_impl = fast = lambda x, **_: x + math.pi  # stands for what `compile` makes
    assert not torch.equal(answer(net), before)
    with record(net) as trace:
        assert torch.equal(answer(net), before)
    assert trace.uncompiled == ["encoder.blocks.0"] and block._compiled_call_impl is fast


def test_an_attention_of_ones_own_that_tells_no_weights_is_recorded_without() -> None:
    class Mean(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: None = None) -> Tensor:
            return v.mean(2, keepdim=True).expand_as(q)

    part = SelfAttention(8, 2).eval()
    part.attend = Mean()
    with record(part) as trace:
        part(torch.randn(2, 4, 8))
    assert trace["attend"].output.shape == (2, 2, 4, 4)
    with pytest.raises(ModelError) as caught:
        _ = trace["attend"].weights
    assert (caught.value.name, caught.value.value) == ("attend", "Mean") and "weights(" in caught.value.expected
    assert "weights" not in trace["attend"].to_dict()


@pytest.mark.parametrize(
    ("wrong", "value"),
    [
        (lambda self, q, k: q, None),
        (lambda self, q, k, **_: (q @ k.mT)[None], (1, 2, 2, 4, 4)),
        (lambda self, q, k, **_: None, "NoneType"),
    ],
    ids=["arguments", "shape", "nothing"],
)
def test_weights_of_ones_own_that_cannot_be_had_are_named_and_no_hook_stays(wrong: Any, value: object) -> None:
    part = SelfAttention(8, 2).eval()
    part.attend = type("Own", (nn.Module,), {"forward": lambda self, q, k, v, **_: v, "weights": wrong})()
    with pytest.raises(ModelError) as caught, record(part):
        part(torch.randn(2, 4, 8))
    assert (caught.value.name, caught.value.value) == ("Own.weights", value)
    assert not any(it._forward_hooks or it._forward_pre_hooks for it in part.modules())


def test_a_place_that_was_not_recorded_is_answered_with_those_that_were() -> None:
    net = model()
    with record(net) as trace:
        pass
    with pytest.raises(KeyError, match=r"encoder\.0\.self"):
        trace["encoder.0.self"]
    with record(net) as trace:
        answer(net)
    with pytest.raises(KeyError, match=r"'encoder.7.self' .* encoder.0.self, encoder.1.self"):
        trace["encoder.7.self"]


def test_two_may_look_at_once() -> None:
    net = model()
    session = Session(TorchEngine(net, pad=0), DecodeConfig(beam=3, max_extra=4), SpecialTokens(), max_len=20)
    with record(net) as outer, record(net) as inner:
        session.answers([[4, 5, 6]])
    assert {*outer.calls} == {*inner.calls} and not any(part._forward_hooks for part in net.modules())


class Vectors(Front):
    """Reads feature vectors in place of token ids."""

    def forward(self, inputs: Tensor) -> Tensor:  # (B, S, D) -> (B, S, D)
        return 2 * inputs


def test_an_encoder_that_reads_no_tokens_is_recorded_with_indices_for_keys() -> None:
    net = model()
    net.encoder.embedding = Vectors()
    with record(net, pieces={"encoder": lambda ids: ["x" for _ in ids]}) as trace, torch.no_grad():
        net(torch.randn(2, 5, 16), TARGET)
        net.encoder(inputs=torch.randn(2, 3, 16))
    cross = trace.calls["decoder.0.cross"][0].weights.tokens
    assert cross == {"query": [["1", "4", "5", "6"], ["1", "7", "8", "9"]], "key": [["0", "1", "2", "3", "4"]] * 2}
    assert trace["encoder.0.self"].weights.tokens["query"] == [["0", "1", "2"]] * 2
    assert trace["encoder.embedding"].output.shape == (2, 3, 16)
