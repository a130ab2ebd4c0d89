"""torch.compile of the blocks."""

import copy
import shutil
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from clearhead.api import train
from clearhead.config import ModelConfig
from clearhead.errors import ConfigError
from clearhead.model.transformer import build
from clearhead.training import activations
from clearhead.training.activations import check_compiler, compile_blocks


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_machine_without_a_compiler_says_so_before_it_reads_data(device: str, toy, monkeypatch) -> None:
    monkeypatch.setattr(activations.shutil, "which", lambda _: None)
    monkeypatch.setattr(activations, "find_spec", lambda _: None)
    with pytest.raises(ConfigError) as caught:
        check_compiler(device)
    assert caught.value.name == "train.compile"
    with pytest.raises(ConfigError) as caught:
        train(toy.config({"train.compile": True, "data.train": ("missing.tsv",)}), toy.folder / "run")
    assert caught.value.name == "train.compile"


def test_blocks_are_compiled_for_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bool] = []

    def watched(forward: Callable[..., Tensor], *, dynamic: bool) -> Callable[..., Tensor]:
        return lambda *inputs, **named: (calls.append(dynamic), forward(*inputs, **named))[1]

    monkeypatch.setattr(activations.torch, "compile", watched)
    activations._changed.cache_clear()
    model = build(
        ModelConfig(
            src_vocab_size=9, tgt_vocab_size=9, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=2
        )
    )
    compile_blocks(model)
    tokens = torch.randint(4, 9, (2, 5))
    model.train()(tokens, tokens)
    assert calls == [True] * 3
    model.eval()(tokens, tokens)
    with torch.no_grad():
        model.train()(tokens, tokens)
    assert len(calls) == 3
    activations._changed.cache_clear()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(shutil.which("c++") is None, reason="this machine has no C++ compiler")
def test_a_compiled_model_has_the_gradients_of_the_model(toy, said) -> None:
    torch.manual_seed(0)
    model = build(
        ModelConfig(
            src_vocab_size=9,
            tgt_vocab_size=9,
            d_model=16,
            n_heads=2,
            d_ff=16,
            n_encoder_layers=1,
            n_decoder_layers=1,
            dropout=0.0,
        )
    )
    other = copy.deepcopy(model)
    compile_blocks(other)
    for length in (5, 7):
        tokens = torch.randint(4, 9, (2, length))
        for it in (model, other):
            it.train()(tokens, tokens).square().sum().backward()
    for one, two in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-4, atol=1e-4)
    train(toy.config({"train.compile": True, "train.steps": 2}), toy.folder / "run", say=said.append)
