from functools import partial

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import ConfigError, ModelError
from clearhead.inspection.record.forward_pass import Pass
from clearhead.inspection.record.recorder import record
from clearhead.inspection.record.switches import without
from clearhead.inspection.views.attribution import Attribution, Contribution, attribute
from clearhead.inspection.views.contrast import Labels, Words
from clearhead.inspection.views.lens import lens, lens_logits
from tests.builders import small_model

TOKENS = torch.tensor([[4, 5, 6, 7]])
NAMES = dict.fromkeys(("encoder", "decoder"), lambda ids: [str(i) for i in ids])
MORE = [
    {"embedding_norm": True, "d_head": 6},
    {"pre_norm": True, "attention_scale": 1.0},
    {"norm": "rms", "logit_scale": 0.5},
    {"tie": "none", "final_norm": True},
    {"n_kv_heads": 2, "embedding_scale": 1.0, "projection_bias": True},
]
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]


model = partial(small_model, vocab=10, moved_by=0.1)


def explained(net: nn.Module, said: Tensor) -> None:
    """The parts add up to each logit of each place."""
    with record(net) as trace:
        logits = (net(TOKENS, said) if hasattr(net, "decoder") else net(said)).detach()
    decoder = getattr(net, "decoder", net)
    for place in range(said.size(1)):
        for token in (3, 8):
            reading = nn.functional.one_hot(torch.tensor(place), said.size(1))
            direction = decoder.projection.weight[token].detach() * decoder.projection.scale
            found = attribute(decoder, trace, reading, direction)
            bias = 0.0 if decoder.projection.bias is None else float(decoder.projection.bias[token].detach())
            assert sum(it.value for it in found) + bias == pytest.approx(float(logits[0, place, token]), abs=1e-4)
    heads = [it.part for it in found if ".head." in it.part]
    kinds = ("self", "cross") if hasattr(net, "decoder") else ("self",)
    assert heads == [f"decoder.{n}.{kind}.head.{h}" for n in range(2) for kind in kinds for h in range(4)]


@pytest.mark.parametrize(
    ("positions", "more"),
    [
        *((positions, MORE[(n + shift) % 5]) for n, positions in enumerate(POSITIONS) for shift in range(2)),
        *(
            pytest.param(positions, MORE[(n + shift) % 5], marks=pytest.mark.slow)
            for n, positions in enumerate(POSITIONS)
            for shift in range(2, 5)
        ),
    ],
    ids=str,
)
def test_what_the_parts_added_adds_up_to_the_logit(positions: str, more: dict[str, object]) -> None:
    explained(model(positions=positions, **more), torch.tensor([[1, 5, 8]]))


@pytest.mark.parametrize("pre_norm", [False, True])
def test_of_a_language_model_too(pre_norm: bool) -> None:
    explained(model(topology="decoder-only", pre_norm=pre_norm, n_encoder_layers=0), torch.tensor([[1, 5, 8]]))


@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize(
    "off", ["decoder.1.self", "decoder.0.cross", "decoder.1.feed_forward", "decoder.0.self.head.2"]
)
def test_a_part_that_is_switched_off_spoke_for_nothing(pre_norm: bool, off: str) -> None:
    net = model(pre_norm=pre_norm)
    with without(net, off):
        explained(net, said := torch.tensor([[1, 5, 8]]))
        with record(net) as trace:
            net(TOKENS, said)
    found = attribute(net.decoder, trace, torch.tensor([0, 0, 1]), net.decoder.projection.weight[3].detach())
    silent = [it.value for it in found if it.part == off or it.part.startswith(f"{off}.")]
    assert silent and not any(silent)


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("n_token_types", [0, 2])
def test_of_a_label_it_is_its_score(pooling: str, pre_norm: bool, n_token_types: int) -> None:
    head = {"head": "class", "n_classes": 3, "pooling": pooling, "n_decoder_layers": 0}
    net = model(topology="encoder-only", pre_norm=pre_norm, n_token_types=n_token_types, **head)
    padded = torch.tensor([[4, 5, 6, 0]])
    with record(net) as trace:
        scores = net(padded)[0].detach()
    labels, forward = Labels(("bad", "fair", "good"), "fair"), Pass(model=net, inputs=(padded,), pieces=NAMES)
    for other in (None, "bad"):
        found = labels.why(forward, trace, "good", other)
        expected = float(scores[2] - (0 if other is None else scores[0]))
        assert found.difference == pytest.approx(expected) and found.error < 1e-4
    assert "it.part" not in found.render() and found.render().count("|") == len(found.contributions)
    with pytest.raises(ConfigError) as caught:
        labels.why(forward, trace, "god", None)
    assert (caught.value.name, caught.value.value, caught.value.fix) == ("why", "god", "did you mean 'good'?")
    assert caught.value.expected == "one of bad, fair, good"
    for wrong in ("bad", "worse"):
        with pytest.raises(ConfigError) as caught:
            labels.why(forward, trace, "bad", wrong)
        assert (caught.value.name, caught.value.value) == ("not", wrong)


def test_a_label_behind_a_hidden_layer_has_no_attribution() -> None:
    head = {"head": "class", "n_classes": 3, "head_layer": "tanh", "n_decoder_layers": 0}
    net = model(topology="encoder-only", **head)
    with record(net) as trace:
        net(padded := torch.tensor([[4, 5, 6, 0]]))
    labels, forward = Labels(("bad", "fair", "good"), "fair"), Pass(model=net, inputs=(padded,), pieces=NAMES)
    for label in (None, "good"):
        with pytest.raises(ConfigError) as caught:
            labels.why(forward, trace, label, None)
        assert (caught.value.name, caught.value.value) == ("why", label or "fair")


def test_a_word_is_asked_for_by_its_first_token() -> None:
    net, said = model(), torch.tensor([[1, 5, 8]])
    with record(net) as trace:
        logits = net(TOKENS, said)[0].detach()
    forward = Pass(model=net, inputs=(TOKENS, said), pieces=NAMES)
    words = Words(["ab", "c"], [0, 0, 1], [5, 8, 9], lambda ids: [f"t{i}" for i in ids], lambda _text, _place: 7)
    found = words.why(forward, trace, "c", "other")
    assert (found.said, found.other) == ("t9", "t7")
    assert found.difference == pytest.approx(float(logits[2, 9] - logits[2, 7]))
    assert words.why(forward, trace, None, None).difference == pytest.approx(float(logits[0, 5]))
    pieces = Words(["▁a", "▁b", "a"], range(3), [5, 8, 9], lambda ids: ["t" for _ in ids], lambda _text, _place: 7)
    for word, place in (("b", 1), ("▁b", 1), ("a", 2), ("▁a", 0)):  # the sign of a space may be left out
        chosen = pieces.why(forward, trace, word, None).difference
        assert chosen == pytest.approx(float(logits[place, pieces.said[place]]))
    marked = Words(
        ["J'ai", "faim…", "c."], range(3), [5, 8, 9], lambda ids: ["t" for _ in ids], lambda _text, _place: 7
    )
    for word, place in (("faim", 1), ("faim…", 1), ("c", 2)):  # and what stands behind it
        chosen = marked.why(forward, trace, word, None).difference
        assert chosen == pytest.approx(float(logits[place, marked.said[place]]))
    dots = Words(["..."], [0], [5], lambda ids: ["t" for _ in ids], lambda _text, _place: 7)
    with pytest.raises(ConfigError) as caught:
        dots.why(forward, trace, "", None)
    assert (caught.value.name, caught.value.value) == ("why", "")
    with pytest.raises(ConfigError) as caught:
        words.why(forward, trace, "d", None)
    assert (caught.value.value, caught.value.expected) == ("d", "one of ab, c")
    for token in (None, 9):  # the model can't say it; it begins as the word does
        again = Words(["c"], [0], [9], words.pieces, lambda _text, _place, token=token: token)
        with pytest.raises(ConfigError) as caught:
            again.why(forward, trace, "c", "other")
        assert (caught.value.name, caught.value.value) == ("not", "other")


def test_only_what_speaks_against_a_word_is_said_to() -> None:
    def said(*values: float) -> str:
        parts = tuple(Contribution(f"decoder.{n}.feed_forward", value) for n, value in enumerate(values))
        last = Attribution("a", "b", sum(values), parts).render().splitlines()[len(values) + 4 :]
        return " ".join(last)

    assert said(1.0, -2.0) == "Strongest for it: decoder.0.feed_forward; strongest against it: decoder.1.feed_forward."
    assert said(1.0, 2.0) == "Strongest for it: decoder.1.feed_forward; no part counted against it."
    assert said(-1.0, -2.0) == "No part counted for it; strongest against it: decoder.1.feed_forward."


def test_a_norm_of_ones_own_cannot_be_taken_apart() -> None:
    class Halved(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x / 2

    net = model()
    net.decoder.blocks[1].add_norm_2.norm = Halved()
    with record(net) as trace:
        net(TOKENS, TOKENS)
    with pytest.raises(ModelError) as caught:
        attribute(net.decoder, trace, torch.tensor([1, 0, 0, 0]), torch.ones(16))
    assert (caught.value.name, caught.value.value) == ("decoder.1.add_norm_2.norm", "Halved")


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("copy", [False, True])
def test_the_lens_of_the_last_layer_is_the_model(positions: str, pre_norm: bool, copy: bool) -> None:
    net = model(positions=positions, pre_norm=pre_norm, copy=copy)
    with record(net) as trace:
        out = net(TOKENS, torch.tensor([[1, 5, 8]]))
    logits = lens_logits(net.decoder, trace)
    assert [*logits] == ["embedded", "layer 0", "layer 1"]
    assert torch.equal(logits["layer 1"], trace["decoder.projection"].output)
    if not copy:
        assert torch.equal(logits["layer 1"], out)
    said = logits["layer 1"][0].argmax(-1).tolist()
    found = lens(net.decoder, trace, said, lambda ids: [f"t{i}" for i in ids])
    assert found.layers[-1].ranks == (0, 0, 0)
    assert [best[0] for best in found.layers[-1].tokens] == list(found.outputs) == [f"t{i}" for i in said]
    p = logits["layer 0"][0].softmax(-1)
    for t, i in enumerate(said):
        assert found.layers[1].ranks[t] == int((p[t] > p[t, i]).sum())
        assert found.layers[1].probabilities[t][0] == pytest.approx(float(p[t].max()))
    assert found.render().splitlines()[0].split() == ["said", *found.outputs]
