"""An encoder may read anything that a front turns into embeddings."""

import math

import pytest
import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.errors import ConfigError
from clearhead.model.assembly import FRONTS
from clearhead.model.fronts.front import Front
from clearhead.model.fronts.tokens import Embedding
from clearhead.model.transformer import Encoder, EncoderDecoder, EncoderModel, build

B, S, N, D, V = 3, 6, 4, 16, 9


class Vectors(Front):
    """Vectors of N numbers through a linear layer; a vector of zeros is padding."""

    def __init__(self, d_model: int, n_numbers: int = N) -> None:
        super().__init__()
        self.linear = nn.Linear(n_numbers, d_model)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs)

    def mask(self, inputs: Tensor) -> Tensor:
        return inputs.any(-1)[:, None, None]


class Squares(Front):
    """Images (B, C, H, W) in patches of 2 x 2; none of them is padding."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, d_model, 2, stride=2)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.convolution(inputs).flatten(2).transpose(1, 2)


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FRONTS, "vectors", Vectors)
    monkeypatch.setitem(FRONTS, "squares", Squares)


def model(front: str, **changed) -> Encoder | EncoderModel | EncoderDecoder:
    sizes = {"d_model": D, "n_heads": 2, "d_ff": 24, "n_encoder_layers": 2, "n_decoder_layers": 1, "dropout": 0.0}
    return build(ModelConfig(front=front, **sizes | {"topology": "encoder-only", "positions": "learned"} | changed))


def test_the_embedding_of_tokens_is_the_default_and_its_weights_keep_their_names() -> None:
    net = model(ModelConfig().front, src_vocab_size=V, n_token_types=2)
    assert type(net.embedding) is Embedding
    assert {"embedding.weight", "types.weight"} <= net.state_dict().keys()


def test_the_blocks_see_what_the_front_gives_and_its_mask() -> None:
    net, inputs = model("vectors", head="class", n_classes=2).eval(), torch.randn(B, S, N)
    inputs[0, 4:] = 0.0
    mask = net.encoder.embedding.mask(inputs)
    assert mask.sum() == B * S - 2
    assert net(inputs).equal(net.head(net.encoder(inputs, mask=mask), mask[:, 0, 0]))
    torch.testing.assert_close(net(inputs[:1, :4]), net(inputs)[:1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
def test_the_stack_adds_the_positions_whatever_the_inputs_are(positions) -> None:
    net, inputs, order = model("vectors", positions=positions).eval(), torch.randn(B, S, N), torch.randperm(S)
    for parameter in net.positions.parameters():  # relative biases start at zero
        nn.init.normal_(parameter)
    assert not torch.allclose(net(inputs[:, order]), net(inputs)[:, order])


def test_types_are_added_to_any_front() -> None:
    net, inputs, types = model("vectors", n_token_types=3).eval(), torch.randn(B, S, N), torch.randint(3, (B, S))
    assert net(inputs, types).isfinite().all() and not torch.allclose(net(inputs, types), net(inputs))


def test_images_become_a_sequence_of_patches_without_padding() -> None:
    net, images = model("squares", head="class", n_classes=5), torch.randn(B, 3, 4, 6)
    assert net.encoder(images).shape == (B, 6, D)
    assert net(images).shape == (B, 5)


@pytest.mark.parametrize("tie", ["all", "target", "none"])
def test_a_decoder_reads_a_memory_of_anything_and_keeps_its_own_vocabulary(tie) -> None:
    net = model("squares", topology="encoder-decoder", tgt_vocab_size=V, tie=tie)
    logits = net(torch.randn(B, 3, 4, 6), torch.randint(V, (B, 5)))
    assert logits.shape == (B, 5, V)
    assert (net.decoder.projection.weight is net.decoder.embedding.weight) == (tie != "none")


def test_a_classifier_learns_from_vectors_of_numbers_through_the_blocks() -> None:
    """The class is the sign of one number of the third vector, so that positions matter, too."""

    def batch() -> tuple[Tensor, Tensor]:
        inputs = torch.randn(32, S, N)
        return inputs, (inputs[:, 2, 0] > 0).long()

    net = model("vectors", head="class", n_classes=2, n_encoder_layers=1, pre_norm=True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(100):
        inputs, labels = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    inputs, labels = (torch.cat(it) for it in zip(*(batch() for _ in range(8))))
    assert all(parameter.grad is not None for parameter in net.parameters())
    assert (net.eval()(inputs).argmax(1) == labels).double().mean() > 0.85


def test_copying_needs_tokens() -> None:
    with pytest.raises(ConfigError):
        model("vectors", topology="encoder-decoder", tgt_vocab_size=V, copy=True)


def test_a_front_without_a_forward_says_whose_it_is() -> None:
    with pytest.raises(NotImplementedError, match="Front"):
        Front()(torch.zeros(1))
    assert Front().mask(torch.zeros(1)) is None and math.isclose(Embedding(V, 4).scale, 2)
