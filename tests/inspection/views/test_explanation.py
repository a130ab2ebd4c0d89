from dataclasses import replace

import pytest
import torch
from torch import nn

from clearhead.config import Config
from clearhead.errors import ConfigError
from clearhead.inspection.record.calls import WEIGHT_AXES, AttentionCall
from clearhead.inspection.record.forward_pass import Pass
from clearhead.inspection.record.labels import LabelledArray
from clearhead.inspection.record.trace import Trace
from clearhead.inspection.views.contrast import Words
from clearhead.inspection.views.explanation import Explanation

WORDS = ("a", "b", "c", "d", "e")


def looking(n_layers: int) -> Explanation:
    """Two words that look at five: those of layer n at word n, and at nothing else."""
    calls = {}
    for layer in range(n_layers):
        weights = torch.zeros(1, 2, 3, len(WORDS) + 1)
        weights[..., layer] = 1
        none = torch.empty(0)
        known, name = LabelledArray(weights, WEIGHT_AXES, {}), f"decoder.{layer}.cross"
        calls[name] = [AttentionCall(name, "Attend", 0, 0.0, none, none, none, None, None, none, known, 0.0)]
    return Explanation(
        text="a b c d e",
        answer="x y",
        values={},
        tokens={"encoder": (*WORDS, "</s>"), "decoder": ("<s>", "x", "y")},
        outputs=("x", "y", "</s>"),
        source_words=tuple(range(len(WORDS))),
        choice=Words(["x", "y"], (0, 1), (4, 5, 2), str, lambda _text, _place: None),
        trace=Trace(calls=calls),
        forward=Pass(model=nn.Identity(), inputs=(), pieces={}),
        config=Config(),
    )


@pytest.mark.parametrize(("n_layers", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)])
def test_the_alignment_is_that_of_the_last_layer_but_one_and_of_fewer_than_three_of_the_last(
    n_layers: int, expected: int
) -> None:
    explanation = looking(n_layers)
    assert explanation.alignment_layer == expected
    assert explanation.alignment() == [(expected, 0), (expected, 1)]


def test_the_alignment_is_that_of_a_layer_that_is_asked_for() -> None:
    explanation = looking(3)
    for layer in range(3):
        assert explanation.alignment(layer) == [(layer, 0), (layer, 1)]
    for layer in (1.5, 3):
        with pytest.raises(ConfigError) as caught:
            explanation.alignment(layer)  # type: ignore[arg-type]
        assert (caught.value.name, caught.value.value) == ("layer", layer)
        assert caught.value.expected == "a layer from 0 to 2"


def test_what_an_answer_lacks_is_an_error_that_names_the_view() -> None:
    explanation = replace(looking(1), choice=None)
    views = {"why": explanation.why, "search": lambda: explanation.searched, "words": lambda: explanation.words}
    for name, view in views.items():
        with pytest.raises(ConfigError) as caught:
            view()
        assert caught.value.name == name and caught.value.expected
    with pytest.raises(ConfigError) as caught:
        explanation.weights("encoder.cross", 0)
    assert (caught.value.name, caught.value.value) == ("attention", "encoder.cross")
    assert (caught.value.expected, caught.value.fix) == ("decoder.cross", "did you mean 'decoder.cross'?")
