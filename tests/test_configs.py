"""Every recipe is one that can be trained: it loads, and takes a step on made-up data of its task."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from clearhead.api import train
from clearhead.config import Config
from clearhead.config.values import RECIPES
from clearhead.errors import ConfigError
from clearhead.folder.model_folder import read_config
from clearhead.tasks.registry import task_of
from clearhead.training.report.metrics import read_metrics
from tests.builders import write_wave

CONFIGS = sorted(RECIPES.glob("*.toml"))
NUMBERS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]
# The step is made small; what decides whether a recipe can be trained at all stays: its stacks, norm, positions,
# tokenizer, optimiser and schedule.
SMALL = {"model.d_ff": 16, "train.steps": 1, "train.warmup": 0, "train.threads": 1, "train.precision": "fp32"}


def made_up(verb: str, modality: str, folder: Path) -> Path:
    """Files that this task can learn from."""
    if modality == "image":
        np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, (60, 28, 28), np.uint8))
        lines = [json.dumps({"path": f"images.npy#{i}", "label": "ab"[i % 2]}) for i in range(60)]
    elif modality == "audio":
        for i in range(30):
            write_wave(folder / f"{i}.wav", np.random.default_rng(i).uniform(-0.3, 0.3, 2000))
        lines = [json.dumps({"path": f"{i}.wav", "text": "12", "label": "ab"[i % 2]}) for i in range(30)]
    if modality != "text":
        (folder / "data.jsonl").write_text("\n".join(lines))
        return folder / "data.jsonl"
    sentences = [f"{a} and {b} and {c}" for a in NUMBERS for b in NUMBERS for c in NUMBERS][::4]
    path = folder / "data"
    if verb == "generate":
        path.write_text("\n".join(sentences) * 2)
    elif verb == "classify":
        path.write_text("".join(f"{text}\t{text.split()[0]}\n" for text in sentences))
    elif verb == "summarize":
        rows = ({"document": f"{text}. {text}.", "summary": text} for text in sentences)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    elif verb == "answer":
        rows = ({"context": text, "question": "Which is first?", "answer": text.split()[0]} for text in sentences)
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    else:
        path.write_text("".join(f"{text}\t{text.upper()}\n" for text in sentences))
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_takes_a_step(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("keep_freed_memory", "loss_curve"):
        monkeypatch.setattr(f"clearhead.training.run.{name}", lambda *_: True)
    recipe = Config.from_toml(path)
    small = SMALL | {"model.d_model": 4 * recipe.model.n_heads, "train.eval_sentences": 2}
    small |= {"decode.max_extra": 2, "decode.max_len": 4} if task_of(recipe).searches else {}
    small |= (
        {"data.vocab_size": 300}
        if recipe.data.tokenizer in ("bpe", "unigram") and recipe.data.modality == "text"
        else {}
    )
    small |= {"train.epochs": 0.001, "train.steps": None} if recipe.train.epochs else {}
    small |= {
        "data.train": [
            str(
                made_up(
                    task_of(recipe).verb, "audio" if recipe.train.task == "speak" else recipe.data.modality, tmp_path
                )
            )
        ]
    }
    said: list[str] = []
    out = train(recipe.override(small), tmp_path / "out", say=said.append)
    [first, *_] = [record for record in read_metrics(out / "metrics.jsonl") if "loss" in record]
    assert 0 < first["loss"] < 10
    trained = read_config(out)
    for name in recipe.by_origin()["user"].keys() - small.keys():
        assert trained.value(name) == recipe.value(name), name


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_recipes_of_others_do_not_change_with_what_is_usual(path: Path) -> None:
    recipe = Config.from_toml(path)
    if recipe.train.task == "generate" and recipe.train.optimizer != "muon":  # ours is
        assert all(recipe.is_users(f"model.{name}") for name in ("positions", "pre_norm", "feed_forward", "tie"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_recipe_begins_with_the_command_that_trains_it(path: Path) -> None:
    comment = "".join(line for line in path.read_text(encoding="utf-8").splitlines(True) if line.startswith("#"))
    assert re.search(rf"^#   clearhead train .*--config {path.stem} .*--out runs/", comment, flags=re.MULTILINE)
    assert all(len(line) <= 140 for line in comment.splitlines())


def test_a_recipe_has_a_name_unless_there_is_such_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = Config.from_toml(Path("tatoeba-15m"))
    assert found == Config.from_toml(RECIPES / "tatoeba-15m.toml")
    with pytest.raises(ConfigError) as caught:
        Config.from_toml(Path("tatoeba-15"))
    assert "tatoeba-15m" in caught.value.expected
    with pytest.raises(ConfigError):
        Config.from_toml(tmp_path / "tatoeba-15m")
    Path("tatoeba-15m").write_text("[train]\nsteps = 7\n", encoding="utf-8")
    assert Config.from_toml(Path("tatoeba-15m")).train.steps == 7
