"""Texts with a label for each of several targets, from columns with a label each."""

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
from clearhead.errors import DataError
from clearhead.model.transformer import EncoderModel
from clearhead.readers.column_roles import LABELLED
from clearhead.readers.pairs import Pairs, Report
from clearhead.tasks.classify.examples import UNSEEN, label_settings
from clearhead.tasks.classify.multi_target import TargetClassification, TargetExamples
from clearhead.tasks.detect import find_task, with_modality

from .conftest import TINY, net, tiny_task

TEXTS = ["my invoice is odd", "a crash now", "hello there", "it crashes", "my invoice again"]
GIVEN = [("billing", "low"), ("bug", "high"), ("other", "low"), ("bug", "low"), ("billing", "high")]
LABELS = ("queue=billing", "queue=bug", "queue=other", "priority=high", "priority=low")
TARGETS = {"queue": LABELS[:3], "priority": LABELS[3:]}


def pairs(given: list[tuple[str, str]] = GIVEN, names: tuple[str, str] = ("queue", "priority")) -> Pairs:
    targets = [f"{names[0]}={first}\n{names[1]}={second}" for first, second in given]
    return Pairs(list(TEXTS), targets, array("q", range(1, 6)), Report(("texts.csv",)))


def task(**changed: Any) -> TargetClassification:
    return tiny_task(
        TargetClassification,
        TEXTS,
        {"model.n_classes": 5, "data.labels": LABELS, "data.label_kind": "targets"},
        changed,
    )


def examples(own: TargetClassification) -> TargetExamples:
    found = own.encoder(pairs())
    return own.examples((found.sources, found.targets))


def probabilities(own: TargetClassification, model: EncoderModel) -> list[dict[str, dict[str, float]]]:
    """Of each text alone, with the softmax of each target written out."""
    found = []
    for ids in examples(own).sources:
        with torch.no_grad():
            logits = dict(zip(LABELS, model(torch.tensor([ids]))[0].tolist()))
        total = {name: sum(math.exp(logits[it]) for it in labels) for name, labels in TARGETS.items()}
        found.append({name: {it.partition("=")[2]: math.exp(logits[it]) / total[name] for it in labels}
                      for name, labels in TARGETS.items()})  # fmt: skip
    return found


# --- loss, answers and scores


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_sum_of_the_targets_cross_entropies_whatever_the_batches(smoothing: float) -> None:
    own = task()
    model, found, expected = net(own), examples(own), 0.0
    for text, given in zip(probabilities(own, model), GIVEN):
        for p, right in zip(text.values(), given):
            q = {label: (label == right) * (1 - smoothing) + smoothing / len(p) for label in p}
            expected -= sum(q[label] * math.log(p[label]) for label in p)
    for plan in ([[0, 1, 2, 3, 4]], [[2], [4, 0], [3, 1]]):
        losses = [own.loss(model, found, np.array(rows), smoothing=smoothing).item() for rows in plan]
        assert sum(losses) == pytest.approx(expected, rel=1e-9)


def test_with_balance_all_labels_of_a_target_weigh_the_same() -> None:
    own = task(train__balance=True)
    model, expected = net(own), 0.0
    for text, given in zip(probabilities(own, model), GIVEN):
        for place, (p, right) in enumerate(zip(text.values(), given)):
            expected -= 5 / (len(p) * [it[place] for it in GIVEN].count(right)) * math.log(p[right])
    assert own.loss(model, examples(own), np.arange(5), smoothing=0.0).item() == pytest.approx(expected, rel=1e-6)


def test_two_readings_of_a_text_are_to_agree_target_by_target() -> None:
    own = task(model__dropout=0.5, train__r_drop=4.0)
    model, found, rows = net(own), examples(own), np.arange(5)
    model.train()
    torch.manual_seed(1)
    loss = own.loss(model, found, rows, smoothing=0.0).item()
    torch.manual_seed(1)
    texts = own.reader.tensor(found.sources, rows)
    both = model(torch.cat((texts, texts)))
    apart = 0.0
    for place in (slice(0, 3), slice(3, 5)):
        p, q = both[:, place].softmax(-1).chunk(2)
        apart += ((p - q) * (p.log() - q.log())).sum().item()
    right = own.criterion(both, found, np.tile(rows, 2), 0.0).item()
    assert loss == pytest.approx(right / 2 + apart)


def test_each_text_counts_once_however_many_targets_there_are() -> None:
    plan = examples(task()).batches(1000)
    assert plan.predictions(np.arange(5)) == 5
    assert sorted(np.concatenate(plan.epoch(0)).tolist()) == [0, 1, 2, 3, 4]


def test_an_answer_has_the_most_likely_label_of_each_target() -> None:
    own = task()
    model = net(own)
    expected = ["|".join(max(p, key=lambda it: p[it]) for p in it.values()) for it in probabilities(own, model)]
    assert own.answers(model, TEXTS, DecodeConfig()) == expected


def test_scores_are_those_of_each_target_and_their_means() -> None:
    own = task()
    model, given = net(own), [("billing", "low"), ("new", "high"), *GIVEN[2:]]
    held_out = own.hold_out(pairs(given))
    assert [(it.line, it.reason) for it in held_out.too_long] == [(2, UNSEEN)] and len(held_out.examples) == 4
    found = own.evaluate(model, held_out, DecodeConfig())
    p, scores = probabilities(own, model), found.scores.to_dict()
    loss = 0.0
    for place, (name, known) in enumerate({"queue": [0, 2, 3, 4], "priority": [0, 1, 2, 3, 4]}.items()):
        right = [given[i][place] == max(p[i][name], key=lambda it: p[i][name][it]) for i in range(5)]
        assert scores["targets"][name]["accuracy"] == pytest.approx(sum(right) / 5)
        loss -= sum(math.log(p[i][name][given[i][place]]) for i in known) / len(known)
    each = scores["targets"].values()
    assert scores["targets"]["queue"]["unseen_labels"] == 1
    for name in ("accuracy", "macro_f1"):
        assert scores[name] == pytest.approx(sum(it[name] for it in each) / 2) == own.numbers(found.scores)[name]
    assert scores["negative_log_likelihood"] == pytest.approx(loss) == own.numbers(found.scores)["loss"]
    assert found.references[0] == ["billing|low"] and found.answers == own.answers(model, TEXTS, DecodeConfig())
    joint = math.prod(p[0][name][given[0][place]] for place, name in enumerate(TARGETS))
    assert found.singly()["right_probability"][0] == pytest.approx(joint)
    assert found.singly()["right_probability"][1] == 0


def test_data_with_other_targets_than_the_model_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        task().hold_out(pairs(names=("queue", "urgency")))
    assert (caught.value.name, caught.value.value) == ("data.target_column", ("queue", "urgency"))


def test_the_order_of_the_columns_in_other_data_does_not_matter() -> None:
    own = task()
    swapped = own.hold_out(pairs([(second, first) for first, second in GIVEN], ("priority", "queue")))
    expected = own.hold_out(pairs())
    assert swapped.references == expected.references
    assert swapped.examples.targets.tokens.tolist() == expected.examples.targets.tokens.tolist()


# --- files


def read(path: Path, text: str, **settings: str) -> tuple[list[str], Report]:
    path.write_text(text, encoding="utf-8")
    found = PairForm(LABELLED).read([path], DataConfig(label_kind="targets", **settings))
    return found.targets, found.report


def test_a_column_for_each_target_has_its_label(tmp_path: Path) -> None:
    rows = 'queue,text,priority\nbilling,a b c,0\nbug,d e f,\n ,g h i,1\nbug,j k l," 1"\nb,m n o,"x\ny"\n'
    found, report = read(tmp_path / "a.csv", rows, target_column="queue,priority")
    assert found == ["queue=billing\npriority=0", "queue=bug\npriority= 1"]
    assert report.skipped == {"empty priority": 1, "empty queue": 1, "label with several lines": 1}
    objects = [{"text": "a b", "to": {"queue": "bug"}, "n": 1.50}, {"text": "d", "to": {"queue": "x"}, "n": None}]
    found, report = read(tmp_path / "a.jsonl", "\n".join(map(json.dumps, objects * 2)), target_column="n,to.queue")
    assert found == ["n=1.5\nqueue=bug"] * 2 and report.skipped == {"empty n": 2}


def test_columns_without_a_header_are_numbered(tmp_path: Path) -> None:
    found, _ = read(tmp_path / "a.tsv", "a b c\tx\tlow\nd e f\ty\thigh\n", target_column="2,3", source_column="1")
    assert found == ["column 2=x\ncolumn 3=low", "column 2=y\ncolumn 3=high"]


@pytest.mark.parametrize(("rows", "columns", "name", "value"), [
    ("text,queue\na b,x\n", "queue", "data.target_column", "queue"),
    ("text,label\na b,x\n", "", "data.target_column", ""),
    ("text,queue,to\na b,x,y\n", "queue,text", "data.target_column", "text"),
    ("text,a=b,c\na b,x,y\n", "2,3", "a.csv", "a=b"),
    ("text,a,a\na b,x,y\n", "2,3", "a.csv", "a"),
    ('text,"a\nb",c\na b,x,y\n', "2,3", "a.csv", "a\nb"),
    ("text,a,a_probability\na b,x,y\n", "2,3", "a.csv", "a_probability"),
])  # fmt: skip
def test_columns_that_do_not_fit_are_named(tmp_path: Path, rows: str, columns: str, name: str, value: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.csv", rows, target_column=columns)
    assert (str(caught.value.name).rpartition("/")[2], caught.value.value) == (name, value)


def test_json_keys_with_the_same_last_part_are_an_error(tmp_path: Path) -> None:
    rows = json.dumps({"text": "a b", "a": {"label": "x"}, "b": {"label": "y"}})
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.jsonl", rows, target_column="a.label,b.label")
    assert caught.value.value == "label"


def test_files_without_columns_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("a b\nc d\n")
    (tmp_path / "labels").write_text("x\ny\n")
    with pytest.raises(DataError) as caught:
        PairForm(LABELLED).read([tmp_path / "texts", tmp_path / "labels"], DataConfig(label_kind="targets"))
    assert caught.value.name == "data.target_column"


def detected(path: Path, text: str, **settings: Any) -> Config:
    path.write_text(text, encoding="utf-8")
    return with_modality(Config().override({"data.train": [str(path)], "data.target_column": "a,b", **settings}))


@pytest.mark.parametrize(("rows", "kind"), [
    ("1,0 0,0 ,1", "several"), ("x,0 y,1 x,1", "targets"), ("2,0 3,1 1,0", "targets"), ("x,low y,high", "targets"),
    ("0,0 1,1 2,0 3,1", "targets"), ("-1,low 0,high 1,low", "targets"),
])  # fmt: skip
def test_values_other_than_0_and_1_are_labels_of_targets(tmp_path: Path, rows: str, kind: str) -> None:
    lines = "".join(f"some text {i},{row}\n" for i, row in enumerate(rows.split(" ")))
    config = detected(tmp_path / "a.csv", f"text,a,b\n{lines}")
    assert config.data.label_kind == kind
    found = find_task(config.data.train, config.data)
    assert found.verb == "classify" and found.columns == "text: text (column 1); label: a (column 2), b (column 3)"
    objects = [{"text": f"some text {i}", **dict(zip("ab", row.split(",")))} for i, row in enumerate(rows.split(" "))]
    assert detected(tmp_path / "a.jsonl", "\n".join(map(json.dumps, objects))).data.label_kind == kind


def test_a_few_other_values_than_0_and_1_could_be_a_mistake(tmp_path: Path) -> None:
    rows = "text,a,b\n" + "some text,1,0\n" * 20 + "some text,0,2\n"
    with pytest.raises(DataError) as caught:
        detected(tmp_path / "a.csv", rows)
    assert caught.value.value == "2" and "data.label_kind=several" in caught.value.fix
    assert detected(tmp_path / "a.csv", rows, **{"data.label_kind": "targets"}).data.label_kind == "targets"


@pytest.mark.parametrize(("rows", "value"), [
    ("1,0 0,0 0,1 -1,-1", "-1"), ("-1,-1 -1,-1", "-1"), ("0,-1 0,-1 -1,-1", "-1"), ("0,1 0,NA 0,? 1,0", "NA"),
    ("1,0 0,1 2,0", "2"),
])  # fmt: skip
def test_marks_of_unknown_labels_or_another_value_could_be_labels_or_not(tmp_path: Path, rows: str, value: str) -> None:
    lines = "".join(f"some text {i},{row}\n" for i, row in enumerate(rows.split(" ")))
    with pytest.raises(DataError) as caught:
        detected(tmp_path / "a.csv", f"text,a,b\n{lines}")
    assert caught.value.value == value and "data.label_kind=targets" in caught.value.fix


def test_a_column_that_is_not_there_is_named_alone(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        detected(tmp_path / "a.csv", "text,a,c\nx y,p,q\n")
    assert caught.value.value == "b"


# --- a run


def made(path: Path, n: int, seed: int) -> Path:
    dice = random.Random(seed)
    words = {"billing": "invoice", "bug": "crash", "login": "password"}
    with path.open("w") as file:
        file.write("text,queue,priority\n")
        for _ in range(n):
            queue, priority = dice.choice([*words]), dice.choice(["low", "high"])
            text = [words[queue], *dice.choices(["now", "today", "soon"], k=2), *["urgent"] * (priority == "high")]
            file.write(f"{' '.join(text)},{queue},{priority}\n")
    return path


def test_a_trained_model_gives_a_label_and_a_probability_for_each_target(tmp_path: Path) -> None:
    train, valid = made(tmp_path / "train.csv", 300, 1), made(tmp_path / "valid.csv", 60, 2)
    given = {**TINY, "data.valid": [str(valid)], "train.steps": 80, "model.dropout": 0.0, "train.best": "accuracy"}
    config, said = Config().override({**given, "data.target_column": "queue,priority"}), list[str]()
    out = clearhead.train(config, tmp_path / "model", data=train, say=said.append)
    app = clearhead.load(out, device="cpu")
    assert app.labels == ("queue=billing", "queue=bug", "queue=login", "priority=high", "priority=low")
    texts = ["invoice urgent today now", "password soon soon"]
    expected = [{"queue": "billing", "priority": "high"}, {"queue": "login", "priority": "low"}]
    assert app(texts) == expected and app(texts[1]) == expected[1]
    found = app.results(texts)[0].to_dict()
    assert (found["label"], found["labels"]) == ("billing|high", expected[0])
    for name, p in found["probabilities"].items():
        assert sum(p.values()) == pytest.approx(1) and [*p.values()] == sorted(p.values(), reverse=True)
        assert found["probability"][name] == p[expected[0][name]]
    scores = app.evaluate(valid).scores.to_dict()
    assert scores["accuracy"] > 0.95 and {*scores["targets"]} == {"queue", "priority"}
    assert [it for it in said if it.startswith("  priority: accuracy")]
    assert "priority\ncorrect label" in app.evaluate(valid).report()
    cells = {name: column.value(app.results(texts)[0]) for name, column in app.columns.items()}
    of_labels = {
        "queue_probability": found["probability"]["queue"],
        "priority_probability": found["probability"]["priority"],
    }
    assert cells == expected[0] | of_labels
    assert app.verify().passed


def test_a_model_that_continues_needs_all_its_targets(tmp_path: Path) -> None:
    (path := tmp_path / "a.csv").write_text("text,queue,priority\na,bug,low\nb,bug,high\n")
    form, data = PairForm(LABELLED), DataConfig(label_kind="targets", target_column="queue,priority")
    corpus = form.divide(form.open([path], data), 0.0, 0)
    config = Config().override({"train.init_from": "model", "data.label_kind": "targets"})
    assert label_settings(corpus, config.assign({"data.labels": LABELS}, "model")) == {}
    with pytest.raises(DataError) as caught:
        label_settings(corpus, config.assign({"data.labels": (*LABELS, "team=a", "team=b")}, "model"))
    assert (caught.value.name, caught.value.value) == ("data.target_column", ("queue", "priority"))


def test_each_target_needs_two_labels(tmp_path: Path) -> None:
    (data := tmp_path / "train.csv").write_text("text,a,b\n" + "".join(f"text {i},x,{i % 2}\n" for i in range(30)))
    config = Config().override({**TINY, "data.target_column": "a,b"})
    with pytest.raises(DataError) as caught:
        clearhead.train(config, tmp_path / "model", data=data, say=lambda _: None)
    assert caught.value.name == "data.labels" and "in a" in caught.value.what
