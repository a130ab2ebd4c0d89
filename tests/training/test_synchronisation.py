"""A training step waits for the device only once, to read its loss and the norm of its gradient."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from clearhead.config import TrainConfig
from clearhead.folder.checkpoint import RunFolder
from clearhead.model.transformer import build
from clearhead.training.prepare import prepare
from clearhead.training.update import Update
from tests.training.distributed.test_processes import config_for


@pytest.mark.parametrize("task", ["translate", "generate", "classify", "answer", "fill", "summarize"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_no_value_is_needed_to_compute_a_loss_and_its_gradient(toy, task: str, precision: str) -> None:
    """The meta device holds no numbers, so whatever asks for one there fails."""
    changes = {"model.dropout": 0.1, "train.label_smoothing": 0.1, "train.precision": precision}
    with RunFolder.create(toy.folder / "run") as folder:
        found = prepare(folder, config_for(toy, task, **changes), lambda _: None)
    config = found.config.assign({"train.device": "meta"}, "machine")
    task_there = type(found.task)(found.task.tokenizers, config)
    model = build(config.model).to("meta").train()
    (rows, *_) = found.examples.batches(64).epoch(0)
    loss = task_there.loss(model, found.examples, rows, smoothing=0.1)
    loss.backward()
    assert loss.is_meta and all(p.grad is not None for p in model.parameters())


class Reads(TorchDispatchMode):
    """Counts how often a value is read from a tensor."""

    count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default):
            self.count += 1
        assert "nonzero" not in str(function) and "masked_select" not in str(function), function
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "muon"])
def test_an_update_reads_values_once(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.config import ModelConfig

    shape = {"d_model": 16, "n_heads": 2, "d_ff": 16, "n_encoder_layers": 1, "src_vocab_size": 9}
    model = build(ModelConfig(topology="encoder-only", **shape))
    settings = TrainConfig(optimizer=optimizer, accumulate=2)
    update = Update(model, lambda model, rows: model(torch.from_numpy(rows)[None]).square().sum(), settings)
    lists, to_list = [], Tensor.tolist
    monkeypatch.setattr(Tensor, "tolist", lambda it: (lists.append(it.shape), to_list(it))[1])
    for step in (1, 2):
        lists.clear()
        with Reads() as reads:
            update([np.array([3, 4]), np.array([5])], 3, step=step, lr=1e-3)
        assert (reads.count, lists) == (0, [(3,)])  # two losses and the norm, in one read
