import pytest
import torch
from torch import nn

from clearhead.config import Config, ModelConfig, TrainConfig
from clearhead.errors import ModelError
from clearhead.model.transformer import build
from clearhead.training.optimizers import load_optimizer, make_optimizer, optimizer_tensors

OPTIMIZERS = ["adam", "adamw", "muon"]


def small_model(**more: bool) -> nn.Module:
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
    sizes |= {"src_vocab_size": 9, "tgt_vocab_size": 9} | more
    torch.manual_seed(0)
    return build(Config().override({f"model.{name}": value for name, value in sizes.items()}).model)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, lr: float = 0.01) -> None:
    generator = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=generator)
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_the_state_read_back_goes_on_bit_for_bit(kind: str) -> None:
    config = TrainConfig(optimizer=kind, weight_decay=0.0 if kind == "adam" else 0.1)
    one, other = small_model(), small_model()
    optimizer = make_optimizer(one, config)
    for seed in range(3):
        step(one, optimizer, seed)
    again = make_optimizer(other, config)
    other.load_state_dict(one.state_dict())
    load_optimizer(again, other, optimizer_tensors(optimizer, one))
    for seed in range(3, 6):
        step(one, optimizer, seed)
        step(other, again, seed)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters()))
    before, after = optimizer_tensors(optimizer, one), optimizer_tensors(again, other)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_weight_has_a_state_of_its_own_after_a_step_and_none_before(kind: str) -> None:
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer=kind))
    assert optimizer_tensors(optimizer, model) == {}
    before = [p.clone() for p in model.parameters()]
    step(model, optimizer, 0)
    assert {name.rpartition(".")[0] for name in optimizer_tensors(optimizer, model)} == {
        name for name, _ in model.named_parameters()
    }
    assert not any(torch.equal(a, b) for a, b in zip(before, model.parameters()))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_weight_that_does_not_learn_has_no_state_and_needs_none(kind: str) -> None:
    model = small_model()
    norm = model.encoder.blocks[0].add_norm_1.norm
    norm.weight.requires_grad_(False)
    optimizer = make_optimizer(model, TrainConfig(optimizer=kind))
    for name, p in model.named_parameters():
        p.grad = torch.randn(p.shape) if p.requires_grad else None
        assert p.requires_grad or name == "encoder.blocks.0.add_norm_1.norm.weight"
    optimizer.step()
    tensors = optimizer_tensors(optimizer, model)
    load_optimizer(make_optimizer(model, TrainConfig(optimizer=kind)), model, tensors)
    assert not any(name.startswith("encoder.blocks.0.add_norm_1.norm.weight") for name in tensors)


def test_reading_copies() -> None:
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer="adam"))
    step(model, optimizer, 0)
    tensors = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizer, model).items()}
    load_optimizer(optimizer, model, tensors)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    step(model, optimizer, 1)
    assert all(torch.equal(tensors[name], kept[name]) for name in kept)


@pytest.mark.parametrize("missing", ["exp_avg", "exp_avg_sq", "step"])
def test_a_state_that_lacks_something_is_refused(missing: str) -> None:
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer="adam"))
    step(model, optimizer, 0)
    name, _ = list(model.named_parameters())[2]
    tensors = optimizer_tensors(optimizer, model)
    del tensors[f"{name}.{missing}"]
    with pytest.raises(ModelError) as caught:
        load_optimizer(optimizer, model, tensors)
    assert caught.value.name == f"{name}.{missing}"


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_of_what_adam_moves_nothing_decays_but_the_matrices_of_adamw(kind: str) -> None:
    model = small_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer=kind, weight_decay=0.0 if kind == "adam" else 0.5))
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert len(decays) == len(list(model.parameters()))
    for p in model.parameters():
        assert decays[id(p)] == (0.5 if kind == "adamw" and p.dim() == 2 else 0.0)


@pytest.mark.parametrize("head", ["class", "span", "token"])
def test_muon_moves_the_matrices_of_the_blocks_and_adam_the_head_and_every_embedding(head: str) -> None:
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "src_vocab_size": 9, "n_token_types": 2}
    sizes |= {"n_classes": 3 if head == "class" else 0, "tie": "none"}
    model = build(ModelConfig(topology="encoder-only", head=head, **sizes))
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon"))
    step(model, optimizer, 0)
    by_muon = {name for name, p in model.named_parameters() if "momentum" in optimizer.state[p]}
    names = ("attention.qkv", "attention.out", "feed_forward.inner", "feed_forward.outer")
    assert by_muon == {f"encoder.blocks.0.{name}.weight" for name in names}


def test_adam_moves_a_pointer() -> None:
    model = small_model(copy=True)
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon"))
    step(model, optimizer, 0)
    gate = model.decoder.pointer.gate
    assert all("exp_avg" in optimizer.state[p] and "momentum" not in optimizer.state[p] for p in gate.parameters())


def test_adam_is_the_formula_of_its_paper() -> None:
    config = TrainConfig(optimizer="adam", adam=(0.9, 0.98, 1e-9))
    layer = nn.Linear(3, 2)
    optimizer = make_optimizer(layer, config)
    weights = layer.weight.detach().double()
    mean, square = torch.zeros(2, 3).double(), torch.zeros(2, 3).double()
    for t in range(1, 5):
        gradient = torch.randn(2, 3, generator=torch.Generator().manual_seed(t))
        layer.weight.grad, layer.bias.grad = gradient, torch.zeros(2)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * t
        optimizer.step()
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.98 * square + 0.02 * gradient**2
        weights = weights - 0.1 * t * (mean / (1 - 0.9**t)) / ((square / (1 - 0.98**t)).sqrt() + 1e-9)
    torch.testing.assert_close(layer.weight.detach().double(), weights, rtol=1e-5, atol=1e-5)
