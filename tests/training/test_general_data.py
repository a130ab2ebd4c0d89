"""General data of a run that starts from a trained model: replayed in training, and scored before and after."""

import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import train
from clearhead.config import Config
from clearhead.data.batches import Alternating, Batches
from clearhead.errors import ClearheadError, DataError
from clearhead.folder.model_folder import load_model_folder
from clearhead.training.signals import StoppedError
from tests.builders import make_encoder_folder, quiet
from tests.training.conftest import Toy, quick


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A toy model that has learnt its words. Not to be written to."""
    with quick():
        toy = Toy(tmp_path_factory.mktemp("base"))
        return train(
            toy.config({"train.steps": 300, "train.eval_every": 300, "train.save_every": 300, "model.dropout": 0.0}),
            toy.folder / "base",
            say=quiet,
        )


def trained(toy: Toy, base: Path, changes: dict[str, Any] | None = None, name: str = "second", **options: Any) -> Path:
    """The model trained further, so that it answers anything with the word "six"."""
    narrow = toy.folder / "narrow.tsv"
    narrow.write_text("".join(f"{word} {other}\tsix\n" for word in WORDS for other in WORDS))
    values = {"data.train": (str(narrow),), "train.task": "translate", "train.init_from": str(base)}
    values |= {"train.lr": 1e-2, "train.warmup": 0}
    values |= {"train.steps": 20, "train.threads": 1, "train.precision": "fp32", "data.batch_tokens": 300}
    values |= {"train.eval_every": 10, "train.save_every": 5, **(changes or {})}
    return train(Config().override(values), toy.folder / name, **{"say": quiet, **options})


WORDS = ["one", "two", "three", "four", "five", "six"]


def test_batches_alternate_and_every_example_of_both_is_used() -> None:
    lengths = np.arange(1, 13), np.arange(5, 30)
    own, others = (Batches(it, it, 40) for it in lengths)
    plan, seen = Alternating(own, others), set[int]()
    for epoch in range(12):
        batches = plan.epoch(epoch)
        assert [plan.is_other(rows) for rows in batches] == [False, True] * len(own.epoch(epoch))
        assert sorted(np.concatenate(batches[::2])) == list(range(12))
        for rows in batches[1::2]:
            seen |= {*plan.within(rows).tolist()}
            assert plan.predictions(rows) == others.predictions(plan.within(rows)) == plan.tokens(rows)
    assert seen == set(range(25))
    assert all((one == other).all() for one, other in zip(plan.epoch(3), plan.epoch(3)))


def test_the_card_has_gain_and_loss_and_replay_keeps_what_the_model_can_do(toy: Toy, base: Path, said) -> None:
    check = str(toy.pairs(40, name="check.tsv"))
    cards = {}
    for name, more in {"without": {}, "with": {"data.replay": (str(toy.pairs(60)),)}}.items():
        changes = {"data.check": (check,), "train.steps": 60, "train.eval_every": 60, **more}
        cards[name] = (trained(toy, base, changes, name, say=said.append) / "README.md").read_text()
    assert all("## Before and after training" in card and "- validation: gain, chrF" in card for card in cards.values())
    assert "- check: loss, chrF" in cards["without"] and "- check: no significant change, chrF" in cards["with"]
    assert any(line.startswith("check: loss, chrF") for line in said)


def test_a_run_with_general_data_resumes_bit_for_bit(toy: Toy, base: Path) -> None:
    changes = {"data.replay": (str(toy.pairs(60)),), "data.check": (str(toy.pairs(20, name="check.tsv")),)}
    own = Path(shutil.copytree(base, toy.folder / "own"))
    expected = trained(toy, own, changes, "whole")

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 7:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        trained(toy, own, changes, "parts", on_step=stop)
    shutil.rmtree(own)
    found = trained(toy, own, changes, "parts", resume=True)
    weights = [load_model_folder(folder).weights for folder in (expected, found)]
    assert all(weight.equal(weights[1][name]) for name, weight in weights[0].items())
    assert "can't be read" in (found / "README.md").read_text()


def test_data_to_replay_that_has_changed_does_not_resume(toy: Toy, base: Path) -> None:
    changes = {"data.replay": (str(toy.pairs(60)),)}

    def stop(record: dict[str, Any]) -> None:
        if record["step"] == 7:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedError):
        trained(toy, base, changes, on_step=stop)
    toy.pairs(50)
    with pytest.raises(ClearheadError) as caught:
        trained(toy, base, changes, resume=True)
    assert caught.value.name == "the data to replay"


def test_general_data_needs_a_model_and_has_to_be_usable(toy: Toy, base: Path) -> None:
    for name in ("data.replay", "data.check"):
        with pytest.raises(ClearheadError) as caught:
            toy.config({name: (str(toy.pairs()),)})
        assert caught.value.name == name
        single = toy.folder / "single.tsv"
        single.write_text("one\ntwo\n")
        with pytest.raises(DataError):
            trained(toy, base, {name: (str(single),)})
    assert not (toy.folder / "second").exists()


def test_a_model_of_another_task_has_no_scores_to_compare(toy: Toy, said) -> None:
    encoder = make_encoder_folder(toy.folder / "encoder", task="fill")
    data = toy.folder / "topics.tsv"
    data.write_text("".join(f"{text}\t{'ab'[i % 2]}\n" for i, text in enumerate(["I am", "You are", "She is"] * 8)))
    changes = {"data.train": (str(data),), "data.check": (str(data),), "train.task": "classify"}
    card = (trained(toy, encoder, {**changes, "train.adapter": ("lora",)}, say=said.append) / "README.md").read_text()
    assert "encoder has another task or other labels" in card and any("another task" in line for line in said)
