"""Learning from the texts alone before the task: what is taken over, what is said of it, and going on in the middle."""

import random
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.api import load
from clearhead.cli.describe import describe_folder, render_folder
from clearhead.config import Config
from clearhead.errors import ConfigError, DataError, TrainingError
from clearhead.folder.checkpoint import read_checkpoint
from clearhead.folder.model_folder import load_model_folder, read_config
from clearhead.training.report.metrics import read_metrics
from clearhead.training.run import train as train_alone
from clearhead.training.signals import StoppedError
from clearhead.training.warm_start import warm_start
from clearhead.training.warm_start.warm_start import ALSO, PRETRAINED, WITHOUT, _Clock, train

LABELS = {"good": "one two", "bad": "five six"}
PARTS = [WITHOUT, PRETRAINED, f"{ALSO}2", ""]
ALONE = {"train.warm_start": "", "train.soup": None, "train.warm_steps": None}


def quiet(_message: str) -> None: ...


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def labelled(toy, n: int = 40) -> Path:
    """Texts whose label is that of their words."""
    dice, path = random.Random(0), toy.folder / "labelled.tsv"
    rows = [(label, [*dice.choices(words.split(), k=4), str(i)]) for i in range(n) for label, words in LABELS.items()]
    path.write_text("text\tlabel\n" + "".join(f"{' '.join(words)}\t{label}\n" for label, words in rows))
    return path


def settings(toy, changes: Mapping[str, Any] | None = None) -> Config:
    """A classifier with a warm start, of 12, 6 and twice 12 steps."""
    values = {"data.train": (str(labelled(toy)),), "train.task": "classify", "train.warm_start": "denoise"}
    return toy.config(values | {"train.warm_steps": 6, "train.soup": 2, "train.eval_sentences": 500, **(changes or {})})


@contextmanager
def cut_off_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C behind the fourth step of the run in a folder."""
    save = warm_start.RunFolder.save_checkpoint

    def cut(self, step: int, *args: Any) -> Path:
        path = save(self, step, *args)
        if self.path == folder and step == 4:
            raise KeyboardInterrupt
        return path

    with monkeypatch.context() as patch:
        patch.setattr(warm_start.RunFolder, "save_checkpoint", cut)
        with pytest.raises(KeyboardInterrupt):
            yield


def chains(toy, n: int = 50) -> Path:
    """Texts of a language in which each word is followed by one other word always, each beside itself with two gaps."""
    dice, path = random.Random(0), toy.folder / "chains.tsv"
    words = [f"w{i}" for i in range(n)]
    dice.shuffle(words)
    rows = []
    for start in dice.sample(range(n), n):
        chain, gaps = [words[(start + k) % n] for k in range(8)], dice.sample(range(8), 2)
        rows.append(f"{' '.join('_' if k in gaps else w for k, w in enumerate(chain))}\t{' '.join(chain)}\n")
    path.write_text("".join(rows))
    return path


def test_where_pairs_are_few_the_texts_teach_what_they_have_in_common(toy, said: list[str]) -> None:
    values = {"data.train": (str(chains(toy)),), "data.split": 0.4, "data.batch_tokens": 400, "model.dropout": 0.0}
    steps = {"train.steps": 50, "train.eval_every": 50, "train.save_every": 50, "train.warm_steps": 200}
    asked = {"train.task": "translate", "train.warm_start": "denoise", "train.lr": 5e-3, "data.max_len": 20}
    out = train(toy.config(values | steps | asked), toy.folder / "out", say=said.append)
    with_it, without = (read_metrics(path / "metrics.jsonl")[-1]["valid_bleu"] for path in (out, out / WITHOUT))
    assert with_it > without + 30
    [verdict] = [it for it in said if it.startswith("learning from the texts alone")]
    assert "learning from the texts alone helped: BLEU" in verdict and f"is {out / WITHOUT}" in verdict
    card = (out / "README.md").read_text("utf-8")
    assert "## With and without learning from the texts alone" in card and "It helped: BLEU" in card
    assert "First it learnt for 200 steps" in card


def test_what_is_said_in_the_end_is_said_of_the_score_that_tells_most(toy, said: list[str]) -> None:
    lines = [f'{{"context": "w{i} is at x{i}", "question": "w{i}", "answer": "x{i}"}}\n' for i in range(40)]
    (path := toy.folder / "questions.jsonl").write_text("".join(lines))
    few = {"train.steps": 2, "train.warm_steps": 2, "train.eval_every": 2, "train.save_every": 2, "data.max_len": 16}
    asked = {"data.train": (str(path),), "train.task": "answer", "train.warm_start": "denoise", "data.split": 0.3}
    train(toy.config(asked | few), toy.folder / "out", say=said.append)
    [verdict] = [it for it in said if it.startswith("learning from the texts alone")]
    assert " F1 " in verdict and "exact match" not in verdict


def test_the_three_runs_have_the_same_tokenizer_shape_and_validation(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    out = train(settings(toy), toy.folder / "out", say=quiet)
    first, second, third = (load_model_folder(path) for path in (out / WITHOUT, out / PRETRAINED, out))
    assert first.tokenizer == second.tokenizer == third.tokenizer
    assert first.config.model == third.config.model and second.config.model.head == "token"
    assert (first.config.train.steps, second.config.train.steps, third.config.train.steps) == (12, 6, 12)
    for name in ("d_model", "n_encoder_layers", "max_len", "src_vocab_size"):
        assert getattr(second.config.model, name) == getattr(first.config.model, name)


@pytest.mark.parametrize("asked", [{}, {"model.dropout": 0.2, "train.label_smoothing": 0.05}])
def test_hidden_words_need_less_against_learning_by_heart_than_the_task(
    toy, asked: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    config = settings(toy, asked)
    if not asked:
        config = config.assign({"model.dropout": 0.1}, "default")
    out = train(config, toy.folder / "out", say=quiet)
    found = [read_config(path) for path in (out / WITHOUT, out / PRETRAINED, out)]
    told = [(it.model.dropout, it.train.label_smoothing) for it in found]
    assert told == ([(0.2, 0.05)] * 3 if asked else [(0.3, 0.1), (0.1, 0.0), (0.3, 0.1)])


def test_the_first_run_is_what_training_without_a_warm_start_gives(toy) -> None:
    out = train(settings(toy), toy.folder / "out", say=quiet)
    alone = train_alone(settings(toy, ALONE), toy.folder / "alone", say=quiet)
    weights, own = load_model_folder(alone).weights, load_model_folder(out / WITHOUT).weights
    assert all((weights[name] == own[name]).all() for name in weights) and weights.keys() == own.keys()


def test_it_begins_with_the_weights_of_the_second_run_and_says_what_is_new(
    toy, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    still = {"train.steps": 1, "train.warmup": 0, "train.eval_every": 1, "train.lr": 1e-9}
    out = train(settings(toy, still), toy.folder / "out", say=said.append)
    before, after = load_model_folder(out / PRETRAINED).weights, load_model_folder(out).weights
    taken = [name for name in after if name.startswith("encoder.")]
    assert taken and all((before[name] - after[name]).abs().max() < 1e-6 for name in taken)
    assert "the head is new: 66 parameters" in said  # (32 + 1) * 2


def test_afterwards_the_way_is_gone_and_the_model_without_can_be_used(toy, said: list[str]) -> None:
    out = train(settings(toy), toy.folder / "out", say=said.append)
    assert not (out / PRETRAINED).exists() and not (out / WITHOUT / "checkpoints").exists()
    assert load(out / WITHOUT).config.train.warm_start == ""
    assert load(out).config.train.warm_start == "denoise"
    assert read_metrics(out / WITHOUT / "metrics.jsonl")
    assert [it for it in said if it.startswith("use it: ")] == [f'use it: clearhead classify {out} "a text"']
    card = (out / "README.md").read_text("utf-8")
    assert "| without | " in card and "| with | " in card and PRETRAINED not in card
    assert "--train.soup=2" in card


def test_the_card_gives_the_command_that_was_given(toy) -> None:
    out = train(settings(toy, {"train.soup": None}), toy.folder / "out", say=quiet)
    card = (out / "README.md").read_text("utf-8")
    assert "The task was learnt 4 times from there" in card and "train.soup" not in card


@pytest.mark.parametrize("part", PARTS)
def test_a_run_that_was_cut_off_goes_on_with_the_part_that_it_was_in(
    toy, part: str, outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = outcome(train(settings(toy), toy.folder / "whole", say=quiet))
    out = toy.folder / "cut"
    with cut_off_in(out / part, monkeypatch):
        train(settings(toy), out, say=quiet)
    said: list[str] = []
    train(settings(toy), out, resume=True, say=said.append)
    assert f"resuming {out / part} at step 4 of {6 if part == PRETRAINED else 12}" in said
    assert outcome(out) == whole


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("before", ["", "denoise"])
def test_what_was_to_be_replaced_is_not_taken_for_the_result(
    toy, part: str, before: str, outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = outcome(train(settings(toy), toy.folder / "whole", say=quiet))
    earlier = {} if before else ALONE
    out = train(settings(toy, {**earlier, "train.seed": 7}), toy.folder / "cut", say=quiet)
    with cut_off_in(out / part, monkeypatch):
        train(settings(toy), out, replace=True, say=quiet)
    said: list[str] = []
    train(settings(toy), out, resume=True, say=said.append)
    assert f"resuming {out / part} at step 4 of {6 if part == PRETRAINED else 12}" in said
    assert outcome(out) == whole
    train(settings(toy), out, resume=True, say=said.append)
    assert said[-1] == f"{out} is complete: it was trained to step 12"


@pytest.mark.parametrize("part", PARTS)
def test_a_run_goes_on_without_being_told_again_how(
    toy, part: str, said: list[str], outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"train.seed": 7, "data.split": 0.2, "train.label_smoothing": 0.0}
    whole = outcome(train(settings(toy, asked), toy.folder / "whole", say=quiet))
    out, data = toy.folder / "out", {"data.train": (str(labelled(toy)),)}
    with cut_off_in(out / part, monkeypatch):
        train(settings(toy, asked), out, say=quiet)
    again = Config().override(data)
    with pytest.raises(ConfigError) as caught:
        train(again.override({"train.soup": 3}), out, resume=True, say=quiet)
    assert (caught.value.name, caught.value.value) == ("train.soup", 3)
    train(again, out, resume=True, say=said.append)
    assert outcome(out) == whole
    train(again, out, resume=True, say=said.append)
    assert said[-1] == f"{out} is complete: it was trained to step 12"
    assert {it.name for it in out.iterdir() if it.name.startswith(".")} == {WITHOUT}


def test_what_is_refused_leaves_what_goes_on_as_it_was(toy, outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = outcome(train(settings(toy), toy.folder / "whole", say=quiet))
    out = toy.folder / "out"
    with cut_off_in(out / PRETRAINED, monkeypatch):
        train(settings(toy), out, say=quiet)
    with pytest.raises(TrainingError, match=r"already holds|is occupied"):
        train(settings(toy, {"train.seed": 7}), out, say=quiet)
    again = Config().override({"data.train": (str(labelled(toy)),)})
    assert outcome(train(again, out, resume=True, say=quiet)) == whole


def test_of_runs_that_began_the_same_the_mean_is_kept(toy, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    out = train(settings(toy, {"train.soup": 3, "train.watch": "one two"}), toy.folder / "out", say=said.append)
    others = [out / f"{ALSO}{turn}" for turn in (2, 3)]
    own = read_checkpoint(out / "checkpoints" / "step-00000012").tensors["model"]
    each = [own, *(load_model_folder(path).weights for path in others)]
    assert [path.name for path in (out, *out.iterdir()) if (path / "checkpoints").exists()] == ["out"]
    for name, weight in load_model_folder(out).weights.items():
        torch.testing.assert_close(weight, torch.stack([it[name] for it in each]).mean(0))
        assert "norm" in name or not torch.equal(each[0][name], each[1][name])
    assert [it for it in said if " of 5: " in it][2:] == [
        *(f"{turn} of 5: classify, from the weights of that, to {path}" for turn, path in enumerate(others, 3)),
        f"5 of 5: classify, from the weights of that, to {out}, and the mean of all 3",
    ]
    assert any(it.startswith("validation: ") and it.endswith("mean of 3 runs)") for it in said)
    assert any("alone, and the mean of 3 runs, " in it for it in said)
    card = (out / "README.md").read_text("utf-8")
    assert "The task was learnt 3 times from there" in card and "\n\nBoth together " in card
    assert [(path / "film.jsonl").exists() for path in (out, *others)] == [True, False, False]
    assert "(mean of 3 weights, step 12)" in render_folder(*describe_folder(out))


def test_runs_that_have_a_mean_begin_with_the_same_head(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    still = {"train.steps": 1, "train.warmup": 0, "train.eval_every": 1, "train.lr": 1e-9}
    out = train(settings(toy, still), toy.folder / "out", say=quiet)
    own, other = (load_model_folder(path).weights for path in (out, out / f"{ALSO}2"))
    assert all((own[name] - other[name]).abs().max() < 1e-6 for name in own)


@pytest.mark.parametrize(
    "asked", [{}, {"train.ema": 0.9}, {"train.average": 2}, {"train.best": "loss", "train.lr": 1.0}]
)
def test_each_run_gives_the_mean_the_weights_that_it_kept(
    toy, asked: dict[str, Any], outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, kept = warm_start.RunFolder.keep, {}

    def note(self, weights: Mapping[str, torch.Tensor], about: Mapping[str, Any]) -> None:
        keep(self, weights, about)
        if about["averaged_of"] == "runs":
            raise KeyboardInterrupt
        kept[self.path.name] = {name: weight.clone() for name, weight in weights.items()}

    out, config = (
        toy.folder / "out",
        settings(toy, {"train.lr": 0.1, "train.eval_every": 2, "train.schedule": "constant", **asked}),
    )
    whole = outcome(train(config, toy.folder / "whole", say=quiet))
    with monkeypatch.context() as patch:
        patch.setattr(warm_start.RunFolder, "keep", note)
        with pytest.raises(KeyboardInterrupt):
            train(config, out, say=quiet)
    for name, weight in load_model_folder(out).weights.items():
        torch.testing.assert_close(weight, torch.stack([kept[it][name] for it in (f"{ALSO}2", "out")]).mean(0))
    train(config, out, resume=True, say=quiet)
    assert outcome(out) == whole


@pytest.mark.parametrize(("verb", "budget", "runs"), [("classify", "", 4), ("classify", "5m", 1), ("answer", "", 1)])
def test_labels_are_learnt_several_times(toy, verb: str, budget: str, runs: int) -> None:
    asked = {"train.task": verb, "train.budget": budget, "train.warm_start": "denoise", "train.soup": None}
    asked |= {"train.steps": None}
    assert warm_start._WarmStart(toy.config(asked), toy.folder, quiet).soup == runs
    assert warm_start._WarmStart(toy.config(asked | {"train.soup": 2}), toy.folder, quiet).soup == 2


def test_without_a_warm_start_its_own_settings_are_refused(toy) -> None:
    for name, value in (("train.soup", 2), ("train.warm_steps", 6), ("train.hidden_span", 2.0)):
        others = dict.fromkeys(["train.soup", "train.warm_steps", "train.hidden_span"]) | {name: value}
        message = rf"{name} = {value} is of a warm start; expected train\.warm_start = denoise beside it"
        with pytest.raises(ConfigError, match=message):
            train(settings(toy, {"train.warm_start": "", **others}), toy.folder / "out", say=quiet)
        assert not (toy.folder / "out").exists()


@pytest.mark.parametrize(("asked", "span"), [(None, 1.0), (2.5, 2.5)])
def test_so_many_tokens_are_hidden_together_as_the_task_needs_or_as_is_asked(
    toy, asked: float | None, span: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    out = train(settings(toy, {"train.hidden_span": asked}), toy.folder / "out", say=quiet)
    found = [read_config(path).train.hidden_span for path in (out / WITHOUT, out / PRETRAINED, out)]
    assert found == [None, span, asked]


def test_what_a_replaced_run_left_on_its_way_is_not_taken_for_that_of_the_new_one(
    toy, outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = outcome(train(settings(toy), toy.folder / "whole", say=quiet))
    out = toy.folder / "out"
    with cut_off_in(out, monkeypatch):
        train(settings(toy, {"train.seed": 7}), out, say=quiet)
    with cut_off_in(out / WITHOUT, monkeypatch):
        train(settings(toy), out, replace=True, say=quiet)
    assert outcome(train(settings(toy), out, resume=True, say=quiet)) == whole


def test_a_model_without_that_was_to_be_replaced_is_not_taken_for_that_of_the_new_run(
    toy, outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(settings(toy), toy.folder / "whole", say=quiet)
    out = train(settings(toy, {"train.label_smoothing": 0.3}), toy.folder / "out", say=quiet)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("clearhead.training.run.prepare", interrupt)
        train(settings(toy), out, replace=True, say=quiet)
    assert load(out).config.train.label_smoothing == 0.3  # until there is something better
    assert outcome(train(settings(toy), out, resume=True, say=quiet)) == outcome(whole)
    first, other = (load_model_folder(path / WITHOUT).weights for path in (whole, out))
    assert all(torch.equal(first[name], other[name]) for name in first)


def test_another_run_in_the_folder_is_known_before_the_first_step(toy) -> None:
    out = train_alone(settings(toy, ALONE), toy.folder / "out", say=quiet)
    with pytest.raises(Exception, match="already holds a run whose newest checkpoint is of step 12"):
        train(settings(toy), out, say=quiet)
    with pytest.raises(ConfigError, match=r"train\.warm_start='denoise' contradicts"):
        train(settings(toy), out, resume=True, say=quiet)
    assert not (out / WITHOUT).exists()


def test_a_warm_start_on_its_way_is_not_trained_over(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    out = toy.folder / "out"
    with cut_off_in(out / PRETRAINED, monkeypatch):
        train(settings(toy), out, say=quiet)
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(TrainingError, match="out is occupied: it holds a warm start on its way; go on with --resume"):
        train(settings(toy, ALONE | {"train.warm_steps": None}), out, say=quiet)
    assert sorted(path.name for path in out.iterdir()) == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train.init_from": "m"}, r"train\.warm_start='denoise' and train\.init_from='m' contradict each other"),
        ({"train.budget": "5m"}, r"train\.steps=12 and train\.budget='5m' contradict each other"),
        ({"data.train": ("-",)}, "reads the data several times, and standard input, -, can be read once; expected the"),
        (
            {"data.split": 0.0},
            r"with data\.split = 0 would leave nothing to measure its use on; expected a share above 0",
        ),
        (
            {"train.task": "summarize", "data.joint": False, "model.tie": "target"},
            r"reads and writes the same texts, and with data\.joint = false each side has a vocabulary of its own",
        ),
        (
            {"train.task": "generate"},
            "train.warm_start=denoise does nothing for 'generate'",
        ),
    ],
)
def test_what_makes_no_sense_beside_it_is_refused(toy, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        train(settings(toy, changes), toy.folder / "out", say=quiet)
    assert not (toy.folder / "out").exists()


def test_spans_for_a_model_that_hides_nothing_are_refused_before_the_first_run(toy) -> None:
    spans = {"train.task": "generate", "data.texts": (str(beside(toy, "one two")),), "train.hidden_span": 2.0}
    message = r"train\.hidden_span=2\.0"
    with pytest.raises(ConfigError, match=message):
        train(settings(toy, {**spans, "train.soup": None}), toy.folder / "out", say=quiet)
    assert not (toy.folder / "out").exists()


def test_the_time_of_a_budget_is_shared_and_what_is_left_over_goes_to_those_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(warm_start.time, "monotonic", lambda: now)
    clock = _Clock("400s", 100.0, [])
    assert clock.end(0) == 200.0
    now = 140.0  # sooner than it might have been
    assert clock.end(1) == 140.0 + (500 - 140) * 2 / 3
    now = 400.0
    assert clock.end(2) == 500.0
    assert _Clock("400s", 400.0, [0]).end(2) == 700.0  # what is resumed does not pay for the first again
    assert _Clock("", 100.0, []).end(1) is None
    now = 100.0
    several = _Clock("600s", 100.0, [], soup=3)
    assert [several.end(place) for place in (0, 1, 4)] == [200.0, 100.0 + 600 * 2 / 5, 700.0]


def test_texts_to_score_on_in_which_nothing_can_be_hidden_are_refused(toy) -> None:
    path = toy.folder / "unknown.tsv"
    path.write_text("text\tlabel\n" + "".join(f"{word} never met\t{label}\n" for word, label in zip("xy", LABELS)))
    message = "all 2 validation pieces of text are without a token of the vocabulary"
    with pytest.raises(DataError, match=message):
        train(settings(toy, {"data.valid": (str(path),)}), toy.folder / "out", say=quiet)


def beside(toy, content: str, name: str = "more.txt") -> Path:
    """A file of texts without labels."""
    (path := toy.folder / name).write_text(content, "utf-8")
    return path


def test_texts_beside_the_data_are_learnt_from_in_the_second_run_alone(toy, said: list[str], monkeypatch) -> None:
    monkeypatch.setattr(warm_start._WarmStart, "_tidy", lambda _: None)
    plain = train(settings(toy), toy.folder / "plain", say=quiet)
    more = beside(toy, "one two three\n \nfour five six seven\n")
    objects = beside(toy, '{"text": "one\\nfour"}\n', "more.jsonl")
    out = train(settings(toy, {"data.texts": (str(more), str(objects))}), toy.folder / "out", say=said.append)
    [report] = [it for it in said if "  with the texts of " in it]
    assert f"{more} + {objects} (2 files): JSON lines with text and text, " in report
    runs = [[load_model_folder(path / part) for path in (plain, out)] for part in (WITHOUT, PRETRAINED, "")]
    same = [all((a.weights[name] == b.weights[name]).all() for name in a.weights) for a, b in runs]
    assert same == [True, False, False]
    tokens = [sum(1 for line in said if line.startswith("tokens: ") and f" {count} " in line) for count in (72, 75)]
    assert tokens == [3, 1]  # three texts more, the blank one being none
    assert all(a.tokenizer == b.tokenizer for a, b in runs)
    card = (out / "README.md").read_text("utf-8")
    assert "--data.texts more.txt more.jsonl" in card


def test_what_texts_beside_the_data_cannot_be_is_said_before_anything_is_learnt(toy, said: list[str]) -> None:
    text, table, blank = beside(toy, "one\n"), beside(toy, "one\ttwo\n", "more.TSV"), beside(toy, "\n", "blank")

    def refusal(*paths: Path | str, **other: object) -> str:
        texts = {"data.texts": tuple(map(str, paths))}
        with pytest.raises((ConfigError, DataError)) as caught:
            train(
                settings(toy, texts | {name.replace("__", "."): it for name, it in other.items()}), toy.folder / "out"
            )
        assert not (toy.folder / "out" / WITHOUT / "config.json").exists()
        return str(caught.value)

    assert refusal(text, train__warm_start="", train__soup=None) == (
        f"data.texts = {text} is learnt from by a warm start alone; expected train.warm_start = denoise beside it"
    )
    assert refusal(table).startswith(f"data.texts: {table} is a table by its name")
    (toy.folder / "folder").mkdir()
    packed = beside(toy, "one,two\n", "folder/more.csv.gz")
    assert refusal(text, toy.folder / "folder").startswith(f"data.texts: {packed} is a table by its name")
    (latin := toy.folder / "latin").write_bytes(b"\xe9\n")
    assert refusal(text, latin).startswith(f"{latin} isn't UTF-8 text: 1 of its 1 lines")
    assert refusal(toy.folder / "gone").startswith(f"{toy.folder}/gone doesn't exist")
    assert refusal(blank).startswith(f"no text in {blank}\n")
    assert refusal("-").startswith("train.warm_start = denoise reads the data several times, and standard input, -,")


def test_texts_that_changed_in_the_middle_of_a_run_are_not_gone_on_with(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    more, out = beside(toy, "one two three\n"), toy.folder / "out"
    config = settings(toy, {"data.texts": (str(more),)})
    with cut_off_in(out / PRETRAINED, monkeypatch):
        train(config, out, say=quiet)
    more.write_text("one two six\n")
    with pytest.raises(TrainingError, match="the training data are not those that the run was begun with"):
        train(config, out, resume=True, say=quiet)
    more.write_text("one two three\n")
    train(config, out, resume=True, say=quiet)


def test_a_language_model_of_little_text_learns_from_more_of_its_kind_first(toy, said: list[str]) -> None:
    """Each word of an alphabet is followed by the next; a text that shows but a few of them, and one with all."""
    words = [f"w{i}" for i in range(40)]
    starts = random.Random(0).choices(range(40), k=300)
    lines = [" ".join(words[(start + k) % 40] for k in range(8)) + "\n" for start in starts]
    mine = beside(toy, "".join(lines[:24]), "mine.txt")
    more = beside(toy, "".join(lines[24:]), "more.csv")  # a table is text to it
    values = {"data.train": (str(mine),), "train.task": "generate", "data.tokenizer": "word", "data.max_len": 16}
    steps = {"train.steps": 20, "train.warm_steps": 60, "train.eval_every": 20, "train.save_every": 20}
    asked = {"data.texts": (str(more),), "train.warm_start": "denoise", "data.split": 0.3, "train.lr": 5e-3}
    with_it = train(toy.config(values | steps | asked), toy.folder / "out", say=said.append)
    scores = [read_metrics(path / "metrics.jsonl")[-1]["valid_bits_per_byte"] for path in (with_it, with_it / WITHOUT)]
    assert scores[0] < scores[1] - 0.3
    first, second, third = (int(it.split()[1]) for it in said if it.startswith("tokens: "))
    assert first == third and second > 5 * first
    [verdict] = [it for it in said if it.startswith("learning from the texts alone")]
    assert "learning from the texts alone helped: bits per byte" in verdict
    card = (with_it / "README.md").read_text("utf-8")
    learnt = (
        r"First it learnt for 60 steps from the texts alone; in the end it predicted \d+\.\d% of the tokens that were "
    )
    assert re.search(learnt + "held out", card)


@pytest.mark.parametrize("verb", ["translate", "summarize", "answer"])
def test_texts_beside_the_data_are_for_every_task_with_a_warm_start(toy, said: list[str], verb: str) -> None:
    lines = [f'{{"context": "w{i} is at x{i}", "question": "w{i}", "answer": "x{i}"}}\n' for i in range(40)]
    path = beside(toy, "".join(lines), "questions.jsonl") if verb == "answer" else chains(toy)
    texts = {"data.texts": (str(beside(toy, "w1 is where w2 is\nw3 is not\n")),), "train.warm_start": "denoise"}
    few = {"train.steps": 2, "train.warm_steps": 2, "train.eval_every": 2, "train.save_every": 2, "data.max_len": 16}
    asked = {"data.train": (str(path),), "train.task": verb, "data.split": 0.3}
    train(toy.config(asked | few | texts), toy.folder / "out", say=said.append)
    first, second, third = (int(it.split()[1]) for it in said if it.startswith("tokens: "))
    alone = toy.config(asked | few | {"train.warm_start": "denoise"})
    train(alone, toy.folder / "alone", say=said.append)
    assert [int(it.split()[1]) for it in said if it.startswith("tokens: ")][3:] == [first, second - 2, third]


def test_a_signal_between_two_runs_says_how_to_go_on(toy, monkeypatch: pytest.MonkeyPatch) -> None:
    out, remove = toy.folder / "out", warm_start.remove_folder

    def stopped(path: Path) -> None:
        remove(path)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(warm_start, "remove_folder", stopped)
        with pytest.raises(StoppedError, match=r"stopped by Ctrl-C: .*; go on with the same command and --resume"):
            train(settings(toy), out, say=quiet)
    whole = train(settings(toy), toy.folder / "whole", say=quiet)
    weights = load_model_folder(train(settings(toy), out, resume=True, say=quiet)).weights
    assert all((weights[name] == it).all() for name, it in load_model_folder(whole).weights.items())
