"""Warnings during training: once each, for the plain cases alone, and without a trace in the weights."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from clearhead.api import train
from clearhead.config import Config
from clearhead.folder.model_folder import read_config, read_tokenizer
from clearhead.tasks.examples import Examples
from clearhead.tasks.registry import task_named
from clearhead.tokenization.ragged import Ragged
from clearhead.tokenization.source_and_target import Tokenizers
from clearhead.training.report import observers
from clearhead.training.report.floors import Floors
from clearhead.training.report.observers import EarlyWarnings
from tests.builders import small_model
from tests.training.conftest import Toy


def watched(monkeypatch: pytest.MonkeyPatch, said: list[str], **settings: object) -> EarlyWarnings:
    """Warnings of a run of 100 steps on tokens whose frequencies give a loss of 5."""
    monkeypatch.setattr(observers.Floors, "of", lambda *_: Floors(5.0, 4.0))
    train = SimpleNamespace(**{"steps": 100, "warmup": 4, "best": "loss", "label_smoothing": 0.0} | settings)
    config: Any = SimpleNamespace(train=train, model=SimpleNamespace(tgt_vocab_size=300, n_classes=0))
    examples: Any = SimpleNamespace(examples=None)
    return EarlyWarnings(torch.nn.Linear(1, 1), examples, examples, examples, config, said.append, "runs/a b")


def test_a_loss_of_frequencies_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    warnings = watched(monkeypatch, said)
    for step, loss in ((5, 6.0), (10, 5.2), (20, 5.1)):
        warnings.on_eval({"step": step, "loss": loss})
    [text] = said
    assert "5.2" in text and "frequencies of tokens" in text and "clearhead diagnose 'runs/a b'" in text


def test_a_run_that_learns_gets_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    warnings = watched(monkeypatch, said)
    for step, loss in ((5, 6.0), (10, 4.9), (50, 3.0), (100, 3.3)):
        warnings.on_eval({"step": step, "loss": loss})
    warnings.on_eval({"step": 100, "accuracy": 0.5})  # a task without a loss
    warnings.on_eval({"step": 100, "loss": 9.0, "averaged": 3})
    assert not said


@pytest.mark.parametrize(("best", "advice"), [("loss", "train.patience"), ("newest", "train.best=loss")])
def test_overfitting_is_reported_with_what_helps(monkeypatch: pytest.MonkeyPatch, best: str, advice: str) -> None:
    said: list[str] = []
    warnings = watched(monkeypatch, said, best=best)
    for step, loss in ((10, 3.0), (20, 2.0), (30, 2.3), (40, 2.5), (50, 2.6)):
        warnings.on_eval({"step": step, "loss": loss})
    [text] = said
    assert "2 at step 20, 2.5 now" in text and advice in text


@pytest.mark.parametrize(("trained", "smoothing", "warns"), [(1.9, 0.0, True), (2.1, 0.0, False), (2.1, 0.1, True)])
def test_a_validation_loss_that_rises_with_the_training_loss_is_not_overfitting(
    monkeypatch: pytest.MonkeyPatch, trained: float, smoothing: float, warns: bool
) -> None:
    """A loss with label smoothing can't be lower than the entropy of its targets, here 0.89."""
    said: list[str] = []
    warnings = watched(monkeypatch, said, label_smoothing=smoothing)
    for step, loss in ((20, 2.0), (40, 2.5)):
        for _ in range(3):
            warnings.on_step({"loss": trained})
        warnings.on_eval({"step": step, "loss": loss})
    assert bool(said) == warns


@pytest.mark.parametrize("reads", [True, False])
def test_a_model_that_ignores_its_sources_is_reported(
    monkeypatch: pytest.MonkeyPatch, model_folder: Path, reads: bool
) -> None:
    model = small_model(times=3.0, vocab=300)
    for block in model.decoder.blocks if not reads else ():
        torch.nn.init.zeros_(block.cross_attention.out.weight)
    sizes = {"model.src_vocab_size": 300, "model.tgt_vocab_size": 300, "train.device": "cpu"}
    config = Config().assign(sizes, "data")
    tokenizers = Tokenizers.for_model(read_tokenizer(model_folder), read_config(model_folder).model, origin="")
    sources = torch.arange(4, 64).view(20, 3)
    with torch.no_grad():  # targets are what the model says itself
        said_by_model = model(sources, torch.ones(20, 1, dtype=torch.long)).argmax(-1)[:, 0].tolist()
    sides = sources.tolist(), [[1, token, 2] for token in said_by_model]
    warnings = watched(monkeypatch, said := list[str]())
    warnings.model, warnings.task = model, task_named("translate")(tokenizers, config)
    warnings.valid = SimpleNamespace(examples=Examples(*map(Ragged, sides)))  # type: ignore[assignment]
    state = torch.random.get_rng_state()
    warnings.on_eval({"step": 50, "loss": 4.0})
    assert ["sources" in it for it in said] == ([] if reads else [True])
    assert torch.equal(state, torch.random.get_rng_state())


def test_warnings_leave_no_trace_in_the_weights(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    config, found = toy.config({"train.warmup": 1}), []
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.setattr(EarlyWarnings, "on_eval", lambda *_: None)
        run = train(config, toy.folder / name, say=lambda _: None)
        found.append((run / "model.safetensors").read_bytes())
    assert found[0] == found[1]
