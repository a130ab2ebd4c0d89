"""A GPU computes what the CPU computes. Run with --device cuda; skipped without it."""

from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.folder.checkpoint import RunFolder
from clearhead.model.transformer import build
from clearhead.training.open_run import RunOptions
from clearhead.training.prepare import prepare
from clearhead.training.report.metrics import read_metrics
from clearhead.training.run import train
from tests.training.distributed.test_processes import config_for


@pytest.mark.parametrize("task", ["translate", "generate", "classify", "answer", "summarize"])
def test_losses_and_gradients_are_those_of_the_cpu(toy, device: str, task: str) -> None:
    with RunFolder.create(toy.folder / "run") as folder:
        found = prepare(folder, config_for(toy, task), lambda _: None)
    torch.manual_seed(0)
    model = build(found.config.model)
    (rows, *_) = found.examples.batches(64).epoch(0)
    results = []
    for place in ("cpu", device):
        here = type(found.task)(found.task.tokenizers, found.config.assign({"train.device": place}, "machine"))
        model = model.to(place)
        model.zero_grad()
        loss = here.loss(model, found.examples, rows, smoothing=0.1)
        loss.backward()
        results.append([loss.detach().cpu(), *(p.grad.cpu() for p in model.parameters())])
    torch.testing.assert_close(results[1], results[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_run_trains_resumes_and_answers(toy, device: str, precision: str) -> None:
    out, changes = toy.folder / "run", {"train.device": device, "train.precision": precision, "train.steps": 40}
    train(toy.config(changes), out, RunOptions(say=lambda _: None))
    losses = [it["loss"] for it in read_metrics(out / "metrics.jsonl") if "loss" in it]
    assert losses[-1] < losses[0]
    answers = [clearhead.load(out, device=place)("one two") for place in ("cpu", device)]
    assert answers[0] == answers[1]


def test_activations_are_recomputed_bit_for_bit(toy, device: str) -> None:
    folders: list[Path] = []
    for checkpointed in (False, True):
        folders.append(toy.folder / str(checkpointed))
        changes = {"train.device": device, "train.activation_checkpointing": checkpointed, "train.steps": 3}
        train(toy.config(changes), folders[-1], RunOptions(say=lambda _: None))
    one, two = ([it["loss"] for it in read_metrics(it / "metrics.jsonl") if "loss" in it] for it in folders)
    assert one == pytest.approx(two, rel=1e-5)
