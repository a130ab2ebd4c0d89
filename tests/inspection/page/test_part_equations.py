"""The equations beside the parts are those of the model's modules, whatever its settings."""

from typing import Any

import pytest
import torch
from torch import nn

from clearhead.inspection.page.part_data import part_equation
from clearhead.model.attention import Attend
from clearhead.model.feed_forward import FeedForward
from clearhead.model.transformer import build
from tests.builders import model_config


def of(path: str, name: str, **settings: Any) -> str:
    """The equation of the part at a path of a small model with these settings."""
    model = build(model_config(**settings))
    return part_equation(model, name, model.get_submodule(path))


SELF, FEED_FORWARD, EMBEDDED = "encoder.blocks.0.attention", "encoder.blocks.0.feed_forward", "encoder.dropout"


@pytest.mark.parametrize(
    ("settings", "equation"),
    [
        ({}, "softmax(QKᵀ/√4)V"),
        ({"positions": "rotary"}, "softmax(R(Q)R(K)ᵀ/√4)V"),
        ({"positions": "alibi"}, "softmax(QKᵀ/√4 − m·|i − j|)V"),
        ({"positions": "relative", "attention_scale": 1.0}, "softmax(QKᵀ + b(j − i))V"),
        ({"attention_scale": 0.1}, "softmax(0.1·QKᵀ)V"),
        ({"d_head": 8}, "softmax(QKᵀ/√8)V"),
    ],
)
def test_attention(settings: dict[str, Any], equation: str) -> None:
    assert of(SELF, "encoder.0.self", **settings) == equation
    cross = of("decoder.blocks.0.cross_attention", "decoder.0.cross", **settings)
    assert cross == equation.replace("R(Q)R(K)ᵀ", "QKᵀ").replace(" − m·|i − j|", "").replace(" + b(j − i)", "")


@pytest.mark.parametrize(
    ("settings", "equation"),
    [
        ({}, "max(0, xW₁ + b₁)W₂ + b₂"),
        ({"feed_forward": "gelu_tanh"}, "gelu(xW₁ + b₁)W₂ + b₂"),
        ({"feed_forward": "swiglu"}, "(silu(xW₁ + b₁) ⊙ (xW₃ + b₃))W₂ + b₂"),
        ({"feed_forward": "geglu", "bias": False}, "(gelu(xW₁) ⊙ (xW₃))W₂"),
    ],
)
def test_the_feed_forward_network(settings: dict[str, Any], equation: str) -> None:
    assert of(FEED_FORWARD, "encoder.0.feed_forward", **settings) == equation


@pytest.mark.parametrize(
    ("settings", "equation"),
    [
        ({}, "x + PE(position)"),
        ({"positions": "learned", "embedding_norm": True}, "norm(x + P[position])"),
        ({"positions": "rotary"}, "x"),
    ],
)
def test_the_input_of_the_first_block(settings: dict[str, Any], equation: str) -> None:
    assert of(EMBEDDED, "encoder.embedded", **settings) == equation


def test_token_types_are_added() -> None:
    assert of("encoder.dropout", "encoder.embedded", topology="encoder-only", head="span", n_token_types=2) == (
        "x + T[type] + PE(position)"
    )


@pytest.mark.parametrize(
    ("settings", "equation", "projected"),
    [
        ({}, "E[token]·√16", "xEᵀ"),
        ({"embedding_scale": 1.0, "tie": "none"}, "E[token]", "xW + b"),
        ({"embedding_scale": 0.5, "tie": "all", "logit_scale": 0.25}, "E[token]·0.5", "0.25·xEᵀ"),
    ],
)
def test_embedding_and_projection(settings: dict[str, Any], equation: str, projected: str) -> None:
    assert of("decoder.embedding", "decoder.embedding", **settings) == equation
    assert of("decoder.projection", "decoder.projection", **settings) == projected


@pytest.mark.parametrize(
    ("settings", "equation"),
    [
        ({"head": "class", "n_classes": 3}, "mean(x)W + b"),
        ({"head": "class", "n_classes": 3, "pooling": "first", "head_layer": "tanh"}, "tanh(x₁W₁ + b₁)W₂ + b₂"),
        ({"head": "span"}, "xW + b"),
        ({"head": "token"}, "xEᵀ"),
        (
            {"head": "token", "head_layer": "norm", "feed_forward": "gelu", "projection_bias": True},
            "norm(gelu(xW₁ + b₁))Eᵀ + b",
        ),
    ],
)
def test_heads(settings: dict[str, Any], equation: str) -> None:
    assert of("head", "head", topology="encoder-only", **settings) == equation


@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_norms(norm: str, pre_norm: bool) -> None:
    around = of("encoder.blocks.0.add_norm_1", "encoder.0.add_norm_1", norm=norm, pre_norm=pre_norm)
    assert around == ("x + Sublayer(norm(x))" if pre_norm else "norm(x + Sublayer(x))")
    own = of("encoder.blocks.0.add_norm_1.norm", "encoder.0.add_norm_1.norm", norm=norm)
    assert own == {"layer": "(x − mean)/√(variance + ε)·γ + β", "rms": "x/√(mean(x²) + ε)·γ"}[norm]


class Custom(FeedForward):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class CustomAttend(Attend):
    pass


def test_custom_parts_have_no_equation() -> None:
    model = build(model_config())
    model.encoder.blocks[0].attention.attend = CustomAttend()
    assert part_equation(model, "encoder.0.self", model.encoder.blocks[0].attention) == ""
    assert part_equation(model, "encoder.0.feed_forward", Custom(16, 32)) == ""
    assert part_equation(model, "encoder.0.other", nn.Linear(2, 2)) == part_equation(model, "encoder", None) == ""
