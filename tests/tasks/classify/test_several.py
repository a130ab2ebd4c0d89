"""Texts with any number of labels: from lists, from cells with a separator, and from columns of 0 and 1."""

import json
import math
import random
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.config import Config, DataConfig, DecodeConfig
from clearhead.data.forms import PairForm
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import EncoderModel
from clearhead.readers.column_roles import LABELLED
from clearhead.readers.pairs import Pairs, Report
from clearhead.tasks.classify.examples import UNSEEN
from clearhead.tasks.classify.several import MultiLabelClassification, SeveralLabels
from clearhead.tasks.classify.task import Classification
from clearhead.tasks.detect import find_task, with_modality
from clearhead.tasks.registry import task_of

from .conftest import TINY, net, tiny_task

TEXTS = ["my invoice is odd", "a crash and my invoice", "hello there", "it crashes", "my invoice again"]
SETS = ["billing", "bug\nbilling", "", "bug", "billing"]
LABELS = ("billing", "bug")


def pairs(texts: list[str] = TEXTS, sets: list[str] = SETS) -> Pairs:
    return Pairs(list(texts), list(sets), array("q", range(1, len(texts) + 1)), Report(("texts.tsv",)))


def task(**changed: Any) -> MultiLabelClassification:
    return tiny_task(
        MultiLabelClassification,
        TEXTS,
        {"model.n_classes": 2, "data.labels": LABELS, "data.label_kind": "several"},
        changed,
    )


def examples(own: MultiLabelClassification) -> SeveralLabels:
    found = own.encoder(pairs())
    return own.examples((found.sources, found.targets))


def probabilities(own: MultiLabelClassification, model: EncoderModel) -> list[list[float]]:
    """Of each text alone, without batch and padding."""
    with torch.no_grad():
        return [model(torch.tensor([it]))[0].sigmoid().tolist() for it in examples(own).sources]


# --- loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_binary_cross_entropy_of_each_label_whatever_the_batches(smoothing: float) -> None:
    own = task()
    model, found, expected = net(own), examples(own), 0.0
    for text, given in zip(probabilities(own, model), SETS):
        for p, label in zip(text, LABELS):
            q = (label in given.split("\n")) * (1 - smoothing) + smoothing / 2
            expected -= q * math.log(p) + (1 - q) * math.log(1 - p)
    for plan in ([[0, 1, 2, 3, 4]], [[2], [4, 0], [3, 1]]):
        losses = [own.loss(model, found, np.array(rows), smoothing=smoothing).item() for rows in plan]
        assert sum(losses) == pytest.approx(expected, rel=1e-9)


def test_two_readings_of_a_text_are_to_agree_label_by_label() -> None:
    own = task(model__dropout=0.5, train__r_drop=4.0)
    model, found, rows = net(own), examples(own), np.arange(5)
    model.train()
    torch.manual_seed(1)
    loss = own.loss(model, found, rows, smoothing=0.0).item()
    torch.manual_seed(1)
    texts = own.reader.tensor(found.sources, rows)
    both = model(torch.cat((texts, texts)))
    p, q = both.sigmoid().chunk(2)
    apart = (p - q) * ((p / (1 - p)).log() - (q / (1 - q)).log())
    right = own.criterion(both, found, np.tile(rows, 2), 0.0)
    assert loss == pytest.approx((right / 2 + apart.sum()).item())


def test_each_text_counts_once_however_many_labels_it_has() -> None:
    plan = examples(task()).batches(1000)
    assert plan.predictions(np.arange(5)) == 5
    assert sorted(np.concatenate(plan.epoch(0)).tolist()) == [0, 1, 2, 3, 4]


def test_labels_have_no_common_weight() -> None:
    with pytest.raises(ConfigError) as caught:
        MultiLabelClassification.settle(task(train__balance=True).config)
    assert caught.value.name == "train.balance"


# --- answers and scores


def test_a_text_has_each_label_whose_probability_reaches_its_threshold() -> None:
    own = task()
    model = net(own)
    p = probabilities(own, model)
    for thresholds in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (p[0][0], p[0][1] + 1e-9)):
        tuned = task(data__thresholds=thresholds)
        for found, of_text in zip(tuned.answers(model, TEXTS, DecodeConfig()), p):
            expected = sorted(
                (-it, label) for it, label, least in zip(of_text, LABELS, thresholds) if it >= least - 1e-12
            )
            assert found == "|".join(label for _, label in expected)


def test_an_unknown_label_counts_as_missed_and_its_text_has_no_loss() -> None:
    own = task(data__thresholds=(0.0, 1.0))
    model, data = net(own), pairs(sets=["billing", "billing\nnew", "", "bug", "billing"])
    held_out = own.hold_out(data)
    assert [(it.line, it.reason) for it in held_out.too_long] == [(2, UNSEEN)] and len(held_out.examples) == 4
    found = own.evaluate(model, held_out, DecodeConfig())
    scores = found.scores.to_dict()
    assert scores["unseen_labels"] == 1 and scores["exact_match"] == 0.4
    assert scores["micro_f1"] == pytest.approx(2 * 3 / (5 + 5))  # billing is always said: 3 of 5 right, 5 are true
    known = [own.loss(model, held_out.examples, np.arange(4), smoothing=0.0).item() / 4]
    assert [scores["negative_log_likelihood"]] == pytest.approx(known)
    assert found.references == [["billing"], ["billing|new"], [""], ["bug"], ["billing"]]


# --- files


def read(path: Path, text: str, **settings: str) -> tuple[list[str], Report]:
    path.write_text(text, encoding="utf-8")
    found = PairForm(LABELLED).read([path], DataConfig(label_kind="several", **settings))
    return found.targets, found.report


def test_a_cell_has_any_number_of_labels(tmp_path: Path) -> None:
    rows = "text,labels\na b c,billing | bug\nd e f,\ng h i,bug|bug|\nj k l,billing\n,bug\n"
    found, report = read(tmp_path / "a.csv", rows)
    assert found == ["billing\nbug", "", "bug", "billing"] and report.skipped == {"empty text": 1}


def test_a_list_in_json_has_strings_numbers_or_nothing(tmp_path: Path) -> None:
    objects = [["billing", "b|c"], [], [3, True], "bug|billing", [{"a": 1}], None]
    lines = [json.dumps({"text": f"text {i}", "labels": it}) for i, it in enumerate(objects)]
    found, report = read(tmp_path / "a.jsonl", "\n".join(lines))
    assert found == ["billing\nb|c", "", "3\ntrue", "bug\nbilling"]
    assert report.skipped == {"no label in labels": 2} and [it.line for it in report.examples] == [5, 6]


def test_columns_of_0_and_1_are_labels_and_other_values_are_reported(tmp_path: Path) -> None:
    rows = "text,bug,login,refund\na b c,1,0,true\nd e f,0,0,0\ng h i,2,0,0\nj k l,1,,0\n"
    found, report = read(tmp_path / "a.csv", rows, target_column="bug,login,refund")
    assert found == ["bug\nrefund", ""]
    assert report.skipped == {"neither 0 nor 1 in bug": 1, "neither 0 nor 1 in login": 1}
    assert "3 labels" in report.form
    objects = [{"text": "a b c", "bug": 1, "login": 0}, {"text": "d", "bug": False, "login": True}, {"text": "e"}]
    found, report = read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, objects)), target_column="bug,login")
    assert found == ["bug", "login"] and report.skipped == {"neither 0 nor 1 in bug": 1}


def test_columns_of_the_same_name_are_an_error(tmp_path: Path) -> None:
    for name, text, columns, value in (
        ("a.csv", "text,bug,bug\na,1,0\n", "2,3", "bug"),
        ("a.jsonl", json.dumps({"text": "a", "a": {"x": 1}, "b": {"x": 0}}), "a.x,b.x", "x"),
    ):
        with pytest.raises(DataError) as caught:
            read(tmp_path / name, text, target_column=columns)
        assert caught.value.value == value


def detected(path: Path, text: str, **settings: Any) -> Config:
    path.write_text(text, encoding="utf-8")
    return with_modality(Config().override({"data.train": [str(path)], **settings}))


LISTS = "".join(json.dumps({"text": f"text {i}", "labels": ["a", "b"][: i % 3]}) + "\n" for i in range(9))


def test_lists_and_columns_of_0_and_1_are_detected(tmp_path: Path) -> None:
    config = detected(tmp_path / "a.jsonl", LISTS)
    assert config.data.label_separator == "|"
    found = find_task(config.data.train, config.data)
    assert found.verb == "classify" and found.columns == "text: text; label: labels"
    flags = "text,a,b\nx y,1,0\nz y,0,0\n"
    assert detected(tmp_path / "a.csv", flags, **{"data.target_column": "a,b"}).data.label_separator == "|"
    tags = LISTS.replace("labels", "tags")
    assert not detected(tmp_path / "b.jsonl", tags).data.label_separator
    assert detected(tmp_path / "b.jsonl", tags, **{"train.task": "classify"}).data.label_separator == "|"


def test_one_label_stays_one_label(tmp_path: Path) -> None:
    rows = [{"text": f"text {i}", "label": "ab"[i % 2], "tags": ["x"]} for i in range(9)]
    for given in ({}, {"train.task": "classify"}):
        config = detected(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)), **given)
        assert not config.data.label_separator
        assert task_of(config.override({"train.task": "classify"})) is Classification
    assert not detected(tmp_path / "a.csv", "text,label\na b,x|y\n").data.label_separator


@pytest.mark.parametrize("given", [{"train.task": "translate"}, {"train.task": "classify", "data.modality": "image"}])
def test_only_texts_with_labels_have_a_separator_of_labels(given: dict[str, str]) -> None:
    config = Config().override({**given, "data.label_kind": "several"})
    with pytest.raises(ConfigError) as caught:
        task_of(config).settle(config)
    assert caught.value.name == "data.label_kind"


@pytest.mark.parametrize(("name", "value"), [
    *(("data.label_kind", it) for it in ("|", "several:", "several: ", "several:\n", ":|")),
    ("data.thresholds", (0.5,)), ("data.thresholds", (0.5, 2.0)),
])  # fmt: skip
def test_settings_that_do_not_fit_are_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Config().override({"data.labels": LABELS, name: value})
    assert caught.value.name == name


# --- a run


def made(path: Path, n: int, seed: int) -> Path:
    dice = random.Random(seed)
    words = {"billing": "invoice", "bug": "crash", "login": "password"}
    with path.open("w") as file:
        for _ in range(n):
            given = [label for label in words if dice.random() < 0.4]
            text = " ".join([*(words[it] for it in given), "please", *dice.choices(["now", "today", "soon"], k=2)])
            file.write(json.dumps({"text": text, "labels": given}) + "\n")
    return path


def test_a_trained_model_gives_lists_of_labels_with_the_thresholds_of_its_validation_data(tmp_path: Path) -> None:
    train, valid = made(tmp_path / "train.jsonl", 300, 1), made(tmp_path / "valid.jsonl", 60, 2)
    given = {**TINY, "data.valid": [str(valid)], "train.steps": 80, "model.dropout": 0.0, "train.best": "micro_f1"}
    out = clearhead.train(Config().override(given), tmp_path / "model", data=train, say=lambda _: None)
    app = clearhead.load(out, device="cpu")
    thresholds = app.config.data.thresholds
    assert app.config.data.label_separator == "|" and len(thresholds) == len(app.labels) == 3
    texts = ["invoice crash please now today", "password please soon soon", "please today soon"]
    assert [sorted(it) for it in app(texts)] == [["billing", "bug"], ["login"], []]
    assert sorted(app(texts[0])) == ["billing", "bug"]
    for it in app.results(texts):
        reached = {label for label, least in zip(app.labels, thresholds) if it.probabilities[label] >= least}
        assert {*it.labels} == reached and it.label == "|".join(it.labels)
        assert it.to_dict()["labels"] == it.labels
    assert app.evaluate(valid).scores.to_dict()["micro_f1"] > 0.95
    assert "micro F1" in (out / "README.md").read_text()
    table = tmp_path / "table.csv"
    table.write_text("text,labels\ninvoice please now now,billing\ncrash now please now,bug|other\n")
    scores = app.evaluate(table).scores.to_dict()
    assert scores["unseen_labels"] == 1


def test_too_few_labels_are_an_error(tmp_path: Path) -> None:
    data = tmp_path / "train.jsonl"
    data.write_text("".join(json.dumps({"text": f"text {i}", "labels": ["a"]}) + "\n" for i in range(30)))
    with pytest.raises(DataError) as caught:
        clearhead.train(Config().override(TINY), tmp_path / "model", data=data, say=lambda _: None)
    assert caught.value.name == "data.labels"
