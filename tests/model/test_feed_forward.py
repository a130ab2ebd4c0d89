import math

import pytest
import torch

from clearhead.errors import ModelError
from clearhead.model.feed_forward import FeedForward, SwiGLU

D, F = 3, 5

ACTIVATIONS = {
    "relu": lambda z: max(0.0, z),
    "gelu": lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2,
    "silu": lambda z: z / (1 + math.exp(-z)),
}


def affine(vector: list[float], weight: torch.Tensor, bias: torch.Tensor) -> list[float]:
    return [sum(x * w for x, w in zip(vector, row)) + b for row, b in zip(weight.tolist(), bias.tolist())]


def randomised(part: torch.nn.Module) -> torch.nn.Module:
    for parameter in part.parameters():
        torch.nn.init.normal_(parameter)
    return part.eval()


@pytest.mark.parametrize("name", ["relu", "gelu"])
def test_the_feed_forward_network_is_equation_2_at_every_position(name) -> None:
    x, part = torch.randn(2, 4, D), randomised(FeedForward(D, F, activation=name))
    for vector, result in zip(x.flatten(0, 1), part(x).flatten(0, 1)):
        inner = [ACTIVATIONS[name](z) for z in affine(vector.tolist(), part.inner.weight, part.inner.bias)]
        expected = affine(inner, part.outer.weight, part.outer.bias)
        torch.testing.assert_close(result, torch.tensor(expected), rtol=0, atol=1e-12)


def test_swiglu_gates_one_product_by_another_at_every_position() -> None:
    x, part = torch.randn(2, 4, D), randomised(SwiGLU(D, F))
    for vector, result in zip(x.flatten(0, 1), part(x).flatten(0, 1)):
        both = affine(vector.tolist(), part.inner.weight, part.inner.bias)
        inner = [ACTIVATIONS["silu"](gate) * value for gate, value in zip(both[:F], both[F:])]
        expected = affine(inner, part.outer.weight, part.outer.bias)
        torch.testing.assert_close(result, torch.tensor(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [FeedForward, SwiGLU])
def test_dropout_falls_on_the_inner_layer(make) -> None:
    part, x = make(D, 200, 0.5), torch.randn(1, 1, D)
    seen: list[torch.Tensor] = []
    part.outer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    part.eval()(x)
    part.train()(x)
    whole, thinned = seen
    kept = thinned != 0
    torch.testing.assert_close(thinned[kept], 2 * whole[kept])
    barred = (whole != 0) & ~kept
    assert 0.3 < barred.sum() / (whole != 0).sum() < 0.7


def test_relu_is_the_papers_and_the_one_taken_unless_told() -> None:
    torch.manual_seed(0)
    plain = FeedForward(D, F).eval()
    torch.manual_seed(0)
    relu, x = FeedForward(D, F, activation="relu").eval(), torch.randn(2, 4, D)
    assert plain(x).equal(relu(x))


@pytest.mark.parametrize("name", ["gelo", "swiglu"])
def test_an_unknown_activation_is_an_error(name) -> None:
    with pytest.raises(ModelError) as caught:
        FeedForward(D, F, activation=name)
    assert (caught.value.name, caught.value.value) == ("activation", name)
    assert caught.value.expected == "one of relu, gelu, gelu_tanh, silu"


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_dropout_comes_after_the_activation_or_has_the_same_effect(activation: str) -> None:
    layer, x = FeedForward(8, 32, dropout=0.4, activation=activation).train(), torch.randn(3, 8)
    torch.manual_seed(0)
    found = layer(x)
    torch.manual_seed(0)
    assert found.equal(layer.outer(layer.dropout(layer.activation(layer.inner(x)))))
