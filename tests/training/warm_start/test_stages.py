"""A warm start from its first stage to its last: what is taken over, and what is said of it."""

import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load, train
from clearhead.cli.folder_summary import render_folder, summarize_folder
from clearhead.errors import DataError
from clearhead.folder.checkpoint import RunFolder, read_checkpoint
from clearhead.folder.model_folder import load_model_folder, read_config
from clearhead.training.report.metrics import read_metrics
from clearhead.training.warm_start import ALSO, PRETRAINED, WITHOUT
from tests.builders import quiet

FEW = {"train.steps": 2, "train.warm_steps": 2, "train.eval_every": 2, "train.save_every": 2, "data.max_len": 16}


def chains(folder: Path, n: int = 50) -> Path:
    """Texts in which each word is always followed by the same other word, each with a copy that has two gaps."""
    dice, path = random.Random(0), folder / "chains.tsv"
    words = [f"w{i}" for i in range(n)]
    dice.shuffle(words)
    rows = []
    for start in dice.sample(range(n), n):
        chain, gaps = [words[(start + k) % n] for k in range(8)], dice.sample(range(8), 2)
        rows.append(f"{' '.join('_' if k in gaps else w for k, w in enumerate(chain))}\t{' '.join(chain)}\n")
    path.write_text("".join(rows))
    return path


def verdicts(said: list[str]) -> list[str]:
    return [it for it in said if it.startswith("pretraining on the texts")]


def test_where_pairs_are_few_the_texts_teach_what_they_have_in_common(toy, said: list[str]) -> None:
    values = {"data.train": (str(chains(toy.folder)),), "data.split": 0.4, "data.batch_tokens": 400}
    steps = {"train.steps": 50, "train.eval_every": 50, "train.save_every": 50, "train.warm_steps": 200}
    asked = {"train.task": "translate", "train.warm_start": "denoise", "train.lr": 5e-3, "data.max_len": 20}
    out = train(toy.config(values | steps | asked | {"model.dropout": 0.0}), toy.folder / "out", say=said.append)
    with_it, without = (read_metrics(path / "metrics.jsonl")[-1]["valid_bleu"] for path in (out, out / WITHOUT))
    assert with_it > without + 30
    [verdict] = verdicts(said)
    assert "helped: BLEU" in verdict and verdict.endswith(f"; the model without it is {out / WITHOUT}")
    card = (out / "README.md").read_text("utf-8")
    assert "## With and without pretraining on the texts" in card and "Pretraining on the texts helped: BLEU" in card
    assert "pretrained for 200 steps" in card


def test_the_verdict_is_about_the_score_that_tells_most(toy, said: list[str]) -> None:
    lines = [f'{{"context": "w{i} is at x{i}", "question": "w{i}", "answer": "x{i}"}}\n' for i in range(40)]
    (path := toy.folder / "questions.jsonl").write_text("".join(lines))
    asked = {"data.train": (str(path),), "train.task": "answer", "train.warm_start": "denoise", "data.split": 0.3}
    train(toy.config(asked | FEW), toy.folder / "out", say=said.append)
    [verdict] = verdicts(said)
    assert " F1 " in verdict and "exact match" not in verdict


# --- a run of four stages


def test_the_stages_have_the_same_tokenizer_shape_and_validation(warm) -> None:
    first, second, third = (load_model_folder(path) for path in (warm.out / WITHOUT, warm.out / PRETRAINED, warm.out))
    assert first.tokenizer == second.tokenizer == third.tokenizer
    assert first.config.model == third.config.model and second.config.model.head == "token"
    assert (first.config.train.steps, second.config.train.steps, third.config.train.steps) == (12, 6, 12)
    for name in ("d_model", "n_encoder_layers", "max_len", "src_vocab_size"):
        assert getattr(second.config.model, name) == getattr(first.config.model, name)
    assert [it.config.train.hidden_span for it in (first, second, third)] == [None, 1.0, None]


def test_the_first_stage_is_training_without_a_warm_start(warm, toy) -> None:
    alone = train(
        warm.settings({"train.warm_start": "", "train.soup": None, "train.warm_steps": None}),
        toy.folder / "alone",
        say=quiet,
    )
    weights, own = load_model_folder(alone).weights, load_model_folder(warm.out / WITHOUT).weights
    assert all(torch.equal(weights[name], own[name]) for name in weights) and weights.keys() == own.keys()


@pytest.mark.usefixtures("keep_stages")
def test_every_run_begins_with_the_pretrained_weights_and_the_same_new_head(warm, toy, said: list[str]) -> None:
    still = {"train.steps": 1, "train.warmup": 0, "train.eval_every": 1, "train.lr": 1e-9}
    out = train(warm.settings(still), toy.folder / "out", say=said.append)
    before, own, other = (load_model_folder(path).weights for path in (out / PRETRAINED, out, out / f"{ALSO}2"))
    taken = [name for name in own if name.startswith("encoder.")]
    assert taken and all((before[name] - own[name]).abs().max() < 1e-6 for name in taken)
    assert all((own[name] - other[name]).abs().max() < 1e-6 for name in own)
    assert "the head is new: 66 parameters" in said  # (32 + 1) * 2


def test_the_mean_of_all_runs_is_kept(warm) -> None:
    other = warm.out / f"{ALSO}2"
    own = read_checkpoint(warm.out / "checkpoints" / "step-00000012").tensors["model"]
    each = [own, load_model_folder(other).weights]
    for name, weight in load_model_folder(warm.out).weights.items():
        torch.testing.assert_close(weight, torch.stack([it[name] for it in each]).mean(0))
        assert "norm" in name or not torch.equal(each[0][name], each[1][name])
    assert [it for it in warm.said if it.startswith("stage ")][2:] == [
        f"stage 3 of 4: classify, from the pretrained weights, in {other}",
        f"stage 4 of 4: classify, from the pretrained weights, in {warm.out}; then the mean of all 2 runs is tried",
    ]
    assert any(it.startswith("validation: ") and it.endswith("mean of 2 runs)") for it in warm.said)
    assert verdicts(warm.said)[0].startswith("pretraining on the texts and averaging 2 runs ")
    assert "(mean of 2 checkpoints, step 12)" in render_folder(*summarize_folder(warm.out))


def test_checkpoints_and_the_film_are_those_of_the_last_stage(warm) -> None:
    stages = [warm.out / part for part in (WITHOUT, PRETRAINED, f"{ALSO}2", "")]
    assert [(path / "checkpoints").exists() for path in stages] == [False, False, False, True]
    assert [(path / "film.jsonl").exists() for path in stages] == [False, False, False, True]


def test_afterwards_the_way_is_gone_and_the_baseline_can_be_used(earlier) -> None:
    assert {it.name for it in earlier.iterdir() if it.name.startswith(".")} == {WITHOUT}
    assert load(earlier / WITHOUT).config.train.warm_start == "" and load(earlier).config.train.warm_start == "denoise"
    assert read_metrics(earlier / WITHOUT / "metrics.jsonl")
    card = (earlier / "README.md").read_text("utf-8")
    assert "| without | " in card and "| with | " in card and PRETRAINED not in card and "--train.soup=2" in card
    assert "then trained 2 times from there" in card


def test_one_command_to_use_the_model_is_given(warm) -> None:
    assert [it for it in warm.said if it.startswith("use it: ")] == [f'use it: clearhead classify {warm.out} "a text"']


@pytest.mark.parametrize(
    "asked",
    [
        {"train.average": 2},
        pytest.param({"train.average": 0.9}, marks=pytest.mark.slow),
        pytest.param({}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_a_run_that_died_when_it_had_kept_the_mean_ends_with_that_mean(
    warm, toy, asked: dict[str, Any], outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, kept = RunFolder.keep, {}

    def note(self: RunFolder, weights: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
        keep(self, weights, about)
        if about["mean"] == "2 runs":
            raise KeyboardInterrupt
        kept[self.path.name] = {name: weight.clone() for name, weight in weights.items()}

    changes = {"train.lr": 0.1, "train.eval_every": 2, "train.schedule": "constant", "train.watch": "", **asked}
    out, config = toy.folder / "out", warm.settings(changes)
    whole = outcome(train(config, toy.folder / "whole", say=quiet))
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "keep", note)
        with pytest.raises(KeyboardInterrupt):
            train(config, out, say=quiet)
    for name, weight in load_model_folder(out).weights.items():
        torch.testing.assert_close(weight, torch.stack([kept[it][name] for it in (f"{ALSO}2", "out")]).mean(0))
    train(config, out, resume=True, say=quiet)
    assert outcome(out) == whole


def test_validation_texts_without_a_known_word_are_rejected(warm, toy) -> None:
    path = toy.folder / "unknown.tsv"
    path.write_text("text\tlabel\nx never met\tgood\ny never met\tbad\n")
    with pytest.raises(DataError, match="all 2 validation pieces of text"):
        train(warm.settings({"data.valid": (str(path),), "train.soup": 1}), toy.folder / "out", say=quiet)


# --- more texts


def more_texts(folder: Path, content: str, name: str = "more.txt") -> Path:
    """A file of texts without labels."""
    (path := folder / name).write_text(content, "utf-8")
    return path


@pytest.mark.usefixtures("keep_stages")
def test_extra_texts_are_learnt_from_in_the_second_stage_alone(warm, toy, said: list[str]) -> None:
    more = more_texts(toy.folder, "one two three\n \nfour five six seven\n")
    objects = more_texts(toy.folder, '{"text": "one\\nfour"}\n', "more.jsonl")
    out = train(warm.settings({"data.texts": (str(more), str(objects))}), toy.folder / "out", say=said.append)
    assert any(f"{more} + {objects} (2 files)" in it for it in said)
    runs = [[load_model_folder(path / part) for path in (warm.out, out)] for part in (WITHOUT, PRETRAINED, "")]
    same = [all(torch.equal(a.weights[name], b.weights[name]) for name in a.weights) for a, b in runs]
    assert same == [True, False, False]
    counts = [int(it.split()[1]) for it in said if it.startswith("tokens: ")]
    assert counts == [counts[0], counts[0] + 3, counts[0], counts[0]]  # three texts more, the blank one being none
    assert all(a.tokenizer == b.tokenizer for a, b in runs)
    assert "--data.texts more.txt more.jsonl" in (out / "README.md").read_text("utf-8")


def test_a_language_model_of_little_text_learns_from_more_of_its_kind_first(toy, said: list[str]) -> None:
    """Each word of an alphabet is followed by the next; a text that shows but a few of them, and one with all."""
    words = [f"w{i}" for i in range(40)]
    starts = random.Random(0).choices(range(40), k=300)
    lines = [" ".join(words[(start + k) % 40] for k in range(8)) + "\n" for start in starts]
    mine = more_texts(toy.folder, "".join(lines[:24]), "mine.txt")
    more = more_texts(toy.folder, "".join(lines[24:]), "more.csv")  # a table is text to it
    values = {"data.train": (str(mine),), "train.task": "generate", "data.tokenizer": "word", "data.max_len": 16}
    steps = {"train.steps": 20, "train.warm_steps": 60, "train.eval_every": 20, "train.save_every": 20}
    asked = {"data.texts": (str(more),), "train.warm_start": "denoise", "data.split": 0.3, "train.lr": 5e-3}
    out = train(toy.config(values | steps | asked), toy.folder / "out", say=said.append)
    scores = [read_metrics(path / "metrics.jsonl")[-1]["valid_bits_per_byte"] for path in (out, out / WITHOUT)]
    assert scores[0] < scores[1] - 0.3
    first, second, third = (int(it.split()[1]) for it in said if it.startswith("tokens: "))
    assert first == third and second > 5 * first
    assert "helped: bits per byte" in verdicts(said)[0]
    card = (out / "README.md").read_text("utf-8")
    assert re.search(r"pretrained for 60 steps .* predicted \d+\.\d% of the held-out tokens", card)


@pytest.mark.parametrize("verb", ["translate", pytest.param("summarize", marks=pytest.mark.slow), "answer"])
def test_extra_texts_are_for_every_task_with_a_warm_start(toy, said: list[str], verb: str) -> None:
    lines = [f'{{"context": "w{i} is at x{i}", "question": "w{i}", "answer": "x{i}"}}\n' for i in range(40)]
    path = more_texts(toy.folder, "".join(lines), "questions.jsonl") if verb == "answer" else chains(toy.folder)
    texts = {"data.texts": (str(more_texts(toy.folder, "w1 is where w2 is\nw3 is not\n")),)}
    asked = {"data.train": (str(path),), "train.task": verb, "data.split": 0.3, "train.warm_start": "denoise"}
    train(toy.config(asked | FEW | texts), toy.folder / "out", say=said.append)
    train(toy.config(asked | FEW), toy.folder / "alone", say=said.append)
    with_texts, alone = (
        [int(it.split()[1]) for it in said if it.startswith("tokens: ")][part] for part in (slice(3), slice(3, None))
    )
    assert with_texts == [alone[0], alone[1] + 2, alone[2]]


def test_the_settings_of_each_stage_are_in_its_folder(warm) -> None:
    assert [read_config(warm.out / part).train.watch for part in (WITHOUT, PRETRAINED, "")] == ["", "", "one two"]
