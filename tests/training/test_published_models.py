"""A published model, made small, is trained on a user's own data: its parts stay, and the data decide the rest."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead import Config
from clearhead.api import load, train
from clearhead.config import FAMILIES
from clearhead.errors import ConfigError

from .conftest import quick

SMALL = {
    "model.d_model": 16, "model.n_heads": 2, "model.d_ff": 16, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1,
    "train.steps": 2, "train.warmup": 1, "data.vocab_size": 300, "data.max_len": 40, "data.batch_tokens": 256,
    "train.threads": int(os.environ.get("OMP_NUM_THREADS", "1")), "train.seed": 1,
}  # fmt: skip
PAIRS = [(f"The number is {n}.", f"Le nombre est {n}.") for n in range(60)]
LABELLED = [{"text": f"a {word} day, number {n}", "label": word} for n in range(40) for word in ("good", "bad")]


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with quick():
        yield


def book(folder: Path) -> str:
    path = folder / "book.txt"
    path.write_text("".join(f"Day {n}: the sun rose over the hill.\n" for n in range(200)), encoding="utf-8")
    return str(path)


def data(name: str, folder: Path) -> Any:
    """Data that a family's model is for."""
    dice = np.random.default_rng(0)
    pictures = [(dice.integers(0, 255, (8, 8, 3)).astype(np.uint8), ("a", "b")[n % 2]) for n in range(40)]
    return {"t5-small": PAIRS, "bert-base": LABELLED, "vit-tiny": pictures}.get(name) or book(folder)


def settings(name: str, **more: Any) -> Config:
    image = {"model.image_size": 8, "model.patch_size": 4} if name == "vit-tiny" else {}
    text = {it: value for it, value in SMALL.items() if not image or it not in ("data.vocab_size", "data.max_len")}
    return Config().override({**text, **image, "train.preset": name, **more})


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_trained_by_its_name(name: str, tmp_path: Path) -> None:
    out = train(settings(name), tmp_path / "model", data=data(name, tmp_path), say=lambda _: None)
    app = load(out)
    parts = FAMILIES[name].settings(app.config.model.head)
    changed = {it for it, value in parts.items() if app.config.value(it) != value}
    assert changed <= {*SMALL, "model.image_size", "model.patch_size"}
    assert app.config.train.preset == name and not {*FAMILIES[name].data} & changed
    sizes = app.config.model.vocabulary_sizes.values()
    assert all(size <= 300 for size in sizes), "the vocabulary is the user's"
    assert name == "vit-tiny" or app("A good day.") is not None


def test_data_for_another_task_are_rejected_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        train(settings("gpt2"), tmp_path / "model", data=PAIRS, say=lambda _: None)
    assert caught.value.name == "train.preset" and caught.value.expected.startswith("t5-small")
    assert not (tmp_path / "model").exists()


def test_an_encoder_that_is_pretrained_gets_its_own_head_in_each_stage(
    tmp_path: Path,
) -> None:
    more = {"train.warm_start": "denoise", "train.soup": 1, "data.split": 0.2}
    out = train(settings("bert-base", **more), tmp_path / "model", data=LABELLED, say=lambda _: None)
    model = load(out).config.model
    assert (model.head, model.head_layer, model.projection_bias) == ("class", "tanh", None)
