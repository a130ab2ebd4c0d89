"""Activation checkpointing changes memory and time, and no number."""

import copy
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig, TrainConfig
from clearhead.model.transformer import build
from clearhead.training.activations import Activations, blocks_of, checkpoint_activations
from clearhead.training.update import Update, divided

SMALL = {"d_model": 16, "n_heads": 2, "d_ff": 32, "src_vocab_size": 20, "tgt_vocab_size": 20, "dropout": 0.3}
LAYERS = {"n_encoder_layers": 3, "n_decoder_layers": 2}
VARIANTS = {
    "paper": {},
    "relative": {"positions": "relative", "pre_norm": True},
    "rotary": {"positions": "rotary", "feed_forward": "swiglu", "n_kv_heads": 1},
    "pointer": {"copy": True},
    "encoder": {"topology": "encoder-only"},
    "decoder": {"topology": "decoder-only", "n_encoder_layers": 0, "window": 3},
}


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def model_of(**changes: object) -> nn.Module:
    torch.manual_seed(0)
    return build(ModelConfig(**{**SMALL, **LAYERS, **changes}))


def loss(model: nn.Module, rows: object = None) -> Tensor:
    """Some loss of eight texts, or of those with the numbers `rows`."""
    generator = torch.Generator().manual_seed(1)
    source, target = torch.randint(4, 20, (2, 8, 9), generator=generator)
    source, target = (source, target) if rows is None else (source[rows], target[rows])
    both = hasattr(model, "decoder")
    logits: Tensor = model(source, target) if both else model(source)
    return logits.square().sum()


def gradients(model: nn.Module) -> dict[str, Tensor]:
    torch.manual_seed(7)
    loss(model.train()).backward()
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", VARIANTS)
def test_losses_gradients_and_random_numbers_keep_their_bits(name: str) -> None:
    plain = model_of(**VARIANTS[name])
    other = copy.deepcopy(plain)
    checkpoint_activations(other)
    expected, drawn = gradients(plain), torch.rand(())
    found = gradients(other)
    assert torch.equal(torch.rand(()), drawn)
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[it], expected[it]) for it in expected)


def test_a_copy_of_a_checkpointed_model_computes_with_its_own_weights() -> None:
    model = model_of()
    checkpoint_activations(model)
    changed = copy.deepcopy(model)
    for p in changed.parameters():
        p.data.zero_()
    assert loss(changed.eval()) == 0 and loss(model.eval()) > 0


def test_a_checkpointed_block_stores_its_input_alone() -> None:
    plain = model_of(n_encoder_layers=8, n_decoder_layers=8, dropout=0.0)
    counted = Activations.count(plain, lambda: loss(plain.train()))
    stored: list[int] = []
    checkpoint_activations(plain)
    with torch.autograd.graph.saved_tensors_hooks(lambda it: (stored.append(it.nbytes), it)[1], lambda it: it):
        loss(plain.train())
    assert counted.largest <= counted.checkpointed < 0.4 * counted.total
    weights = 8 * sum(p.numel() for p in plain.parameters())
    assert sum(stored) < weights + counted.checkpointed


def test_activations_grow_with_the_examples() -> None:
    model = model_of(dropout=0.0).train()
    few, all_ = (Activations.count(model, lambda n=n: loss(model, range(n))) for n in (4, 8))
    assert all_.total == pytest.approx(2 * few.total, rel=0.1)
    assert all_.largest == 2 * few.largest
    assert len(list(blocks_of(model))) == 5


@pytest.mark.parametrize("parts", [2, 3, 8, 50])
def test_parts_of_a_batch_have_the_gradient_of_the_batch(parts: int) -> None:
    norms = []
    for count in (1, parts):
        model = model_of(dropout=0.0)
        settings = TrainConfig(optimizer="adam", micro_batches=count, clip=0.0)
        update = Update(model, loss, settings)
        rows = torch.arange(8).numpy()
        norms.append([update([rows, rows[:5]], 13, step=step, lr=1e-2) for step in (1, 2)])
    assert norms[1] == [pytest.approx(it, rel=1e-12) for it in norms[0]]


def test_every_example_is_in_one_part() -> None:
    rows = torch.arange(7).numpy()
    assert [it.tolist() for it in divided(rows, 3)] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [len(it) for it in divided(rows, 9)] == [1] * 7
