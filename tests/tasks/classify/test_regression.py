"""Texts with numbers: standardised squared error, and answers and scores in the unit of the data."""

import json
import math
import random
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.config import Config, DataConfig, DecodeConfig
from clearhead.data.forms import PairForm
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import EncoderModel, build
from clearhead.readers.column_roles import LABELLED
from clearhead.readers.pairs import Pairs, Report
from clearhead.tasks.classify.regression import HEAD, NumberedExamples, Regression
from clearhead.tasks.detect import find_task
from clearhead.tasks.preview import preview
from clearhead.training.init_from import InitFrom

from .conftest import TINY, net, tiny_task

TEXTS = ["my invoice is odd", "a crash now", "hello there", "it crashes", "my invoice again"]
NUMBERS = ["3", "-1.5", " 20 ", "4e1", "7"]
SCALE = (10.0, 4.0)


def pairs(numbers: list[str] = NUMBERS) -> Pairs:
    return Pairs(list(TEXTS), list(numbers), array("q", range(2, 7)), Report(("texts.csv",)))


def task(**changed: Any) -> Regression:
    values = {"model.n_classes": 1, "data.labels": ("stars",), "data.label_kind": "number", "data.number_scale": SCALE}
    return tiny_task(Regression, TEXTS, values | {"train.r_drop": 0.0}, changed)


def examples(own: Regression) -> NumberedExamples:
    found = own.encoder(pairs())
    return own.examples((found.sources, found.targets))


def outputs(own: Regression, model: EncoderModel) -> list[float]:
    """Of each text alone, without batch and padding."""
    with torch.no_grad():
        return [model(torch.tensor([ids]))[0, 0].item() for ids in examples(own).sources]


def test_the_loss_is_the_squared_error_of_standardised_numbers_whatever_the_batches() -> None:
    own = task()
    model, found = net(own), examples(own)
    expected = sum((y - (float(it) - 10) / 4) ** 2 for y, it in zip(outputs(own, model), NUMBERS))
    for plan in ([[0, 1, 2, 3, 4]], [[2], [4, 0], [3, 1]]):
        losses = [own.loss(model, found, np.array(rows), smoothing=0.0).item() for rows in plan]
        assert sum(losses) == pytest.approx(expected, rel=1e-6)


def test_targets_survive_a_store_of_integers() -> None:
    own = task()
    found = own.encoder(pairs())
    dtype = own.stored_as[1]
    assert np.array_equal(found.targets.tokens.astype(dtype), found.targets.tokens)
    assert examples(own).values.tolist() == pytest.approx([(float(it) - 10) / 4 for it in NUMBERS])


def test_answers_and_scores_have_the_unit_of_the_data() -> None:
    own = task()
    model = net(own)
    held_out = own.hold_out(pairs())
    found = own.evaluate(model, held_out, DecodeConfig())
    expected = [10 + 4 * it for it in outputs(own, model)]
    assert [float(it) for it in own.answers(model, TEXTS, DecodeConfig())] == pytest.approx(expected, rel=1e-5)
    errors = [(y - float(it)) ** 2 for y, it in zip(expected, NUMBERS)]
    scores = found.scores.to_dict()
    assert scores["rmse"] == pytest.approx(math.sqrt(sum(errors) / 5)) and scores["texts"] == 5
    assert found.singly()["mse"].tolist() == pytest.approx(errors)
    assert own.numbers(found.scores)["loss"] == pytest.approx(sum(errors) / 5 / 16)
    assert own.loss(model, held_out.examples, np.arange(5), smoothing=0.0).item() / 5 == pytest.approx(
        sum(errors) / 5 / 16
    )
    assert found.references == [["3"], ["-1.5"], ["20"], ["40"], ["7"]]
    assert own.compare([("a", found), ("b", found)]).by_score["mse"][1].p_value == 1


@pytest.mark.parametrize("cell", ["three", "3,5", "nan", "inf", "1/2"])
def test_a_cell_that_is_not_a_number_is_an_error_with_its_line(cell: str) -> None:
    own, wrong = task(), pairs(["3", "4", cell, "5", "6"])
    for read in (own.encoder, own.hold_out):
        with pytest.raises(DataError) as caught:
            read(wrong)
        assert (caught.value.line, caught.value.value, caught.value.name) == (4, cell, "data.label_kind")


@pytest.mark.parametrize(("name", "value"), [
    ("train.r_drop", 1.0), ("train.balance", True), ("train.label_smoothing", 0.1),
])  # fmt: skip
def test_what_labels_need_does_not_work_with_numbers(name: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Regression.settle(Config().override({**TINY, "data.label_kind": "number", name: value}))
    assert caught.value.name == name
    assert Regression.settle(Config().override({**TINY, "data.label_kind": "number"})).train.label_smoothing == 0


@pytest.mark.parametrize("scale", [(1.0,), (1.0, 0.0), (1.0, 2.0, 3.0)])
def test_a_scale_is_a_mean_and_a_deviation(scale: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError) as caught:
        task(data__number_scale=scale)
    assert caught.value.name == "data.number_scale"


# --- a run


def made(path: Path, n: int, seed: int) -> Path:
    dice = random.Random(seed)
    with path.open("w") as file:
        for _ in range(n):
            text = dice.choices(["good", "bad"], k=4)
            file.write(json.dumps({"text": " ".join(text), "price": 100 + 10.5 * text.count("good"), "id": n}) + "\n")
    return path


def config(**more: Any) -> Config:
    return Config().override({**TINY, "data.label_kind": "number", "data.target_column": "price", **more})


def test_a_trained_model_predicts_numbers(tmp_path: Path) -> None:
    train, valid = made(tmp_path / "train.jsonl", 300, 1), made(tmp_path / "valid.jsonl", 40, 2)
    more = {"data.valid": [str(valid)], "train.steps": 100, "model.dropout": 0.0, "train.best": "pearson"}
    said = list[str]()
    out = clearhead.train(config(**more), tmp_path / "model", data=train, say=said.append)
    app = clearhead.load(out, device="cpu")
    mean, deviation = app.config.data.number_scale
    values = [json.loads(line)["price"] for line in train.read_text().splitlines()]
    assert (mean, deviation) == pytest.approx((np.mean(values), np.std(values)))
    texts = ["good good good good", "bad bad bad bad", "good bad bad good"]
    assert app(texts) == pytest.approx([142, 100, 121], abs=4) and app(texts[0]) == app(texts)[0]
    record = app.results(texts)[0]
    assert record.to_dict()["number"] == record.number == app(texts[0]) and float(record.label) == pytest.approx(
        record.number, rel=1e-5
    )
    assert app.columns["number"].value(record) == record.number
    scores = app.evaluate(valid).scores.to_dict()
    assert scores["pearson"] > 0.97 and scores["rmse"] < 5
    assert [it for it in said if it.startswith("validation: RMSE")]
    assert "squared error" in app.evaluate(valid).report() and app.verify().passed
    again = clearhead.train(
        config(**{"train.init_from": str(out), "train.steps": 1, "train.best": "newest"}),
        tmp_path / "again",
        data=valid,
        say=lambda _: None,
    )
    assert clearhead.load(again).config.data.number_scale == (mean, deviation)


def test_a_file_with_another_value_is_an_error_before_training(tmp_path: Path) -> None:
    data = made(tmp_path / "train.jsonl", 30, 1)
    data.write_text(data.read_text().replace("100.0", '"n/a"', 1))
    with pytest.raises(DataError) as caught:
        clearhead.train(config(), tmp_path / "model", data=data, say=lambda _: None)
    line = next(n for n, it in enumerate(data.read_text().splitlines(), 1) if "n/a" in it)
    assert (caught.value.value, caught.value.line) == ("n/a", line) and f"line {line}" in caught.value.what


def test_a_model_with_another_scale_keeps_what_it_says_until_it_is_trained(tmp_path: Path) -> None:
    data = made(tmp_path / "train.jsonl", 60, 1)
    given = {"train.steps": 1, "train.best": "newest", "data.split": 0.0}
    first = clearhead.train(config(**given), tmp_path / "first", data=data, say=lambda _: None)
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    data.write_text("".join(json.dumps({**row, "price": 1000 * row["price"]}) + "\n" for row in rows))
    start, said = InitFrom.load(first, allow_custom_code=False), list[str]()
    more = {**given, "train.init_from": str(first), "train.adapter": "lora"}
    second = clearhead.train(config(**more), tmp_path / "second", data=data, say=said.append)
    app = clearhead.load(second)
    mean, deviation = app.config.data.number_scale
    assert (mean, deviation) == pytest.approx([1000 * it for it in start.config.data.number_scale])
    assert app.labels == ("price",) and [it for it in said if "its head is rescaled" in it]
    assert not [it for it in said if "is new" in it]
    assert app("good bad") != pytest.approx(clearhead.load(first)("good bad"))  # the head was trained, and is saved
    model = build(app.config.model)
    assert start.give(model, app.config) == list(HEAD)
    before, after = (Regression(start.tokenizers, it) for it in (start.config, app.config))
    original = build(start.config.model)
    original.load_state_dict(dict(start.weights))
    expected = [float(it) for it in before.answers(original.eval(), TEXTS[:1], DecodeConfig())]
    assert [float(it) for it in after.answers(model.eval(), TEXTS[:1], DecodeConfig())] == pytest.approx(
        expected, abs=0.05
    )


@pytest.mark.parametrize(("numbers", "value"), [
    ([5.0] * 30, 1), ([0.1] * 61, 1), ([1e200, -1e200] * 15, 1e200),
])  # fmt: skip
def test_equal_and_huge_numbers_are_an_error(tmp_path: Path, numbers: list[float], value: float) -> None:
    rows = "".join(f"text {i},{it}\n" for i, it in enumerate(numbers))
    (data := tmp_path / "train.csv").write_text(f"text,price\n{rows}")
    with pytest.raises(DataError) as caught:
        clearhead.train(config(), tmp_path / "model", data=data, say=lambda _: None)
    assert (caught.value.name, caught.value.value) == ("data.labels", value)


# --- the column of the numbers

WORDS = ["a good film", "not my kind of thing at all", "well made and funny", "I left after an hour", "a bore"]
PRICES = ["0.143", "12", "-3.5", "7", "12"]


def read(path: Path, rows: list[tuple[str, ...]]) -> Pairs:
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return PairForm(LABELLED).read([path], DataConfig(label_kind="number"))


@pytest.mark.parametrize(("header", "others"), [
    ((), ()), (("text", "price"), ()), (("text", "category", "price"), ("ab"[n % 2] for n in range(5))),
    (("text", "id", "label"), map(str, range(1, 6))), (("review", "year", "value"), ["2020"] * 5),
])  # fmt: skip
def test_the_only_column_of_numbers_has_them(tmp_path: Path, header: tuple[str, ...], others: Iterable[str]) -> None:
    rest = list(others)
    rows = [(text, *rest[n : n + 1], price) for n, (text, price) in enumerate(zip(WORDS, PRICES))]
    found = read(tmp_path / "a.tsv", [*([header] if header else []), *rows])
    assert (found.sources, found.targets) == (WORDS, PRICES) and found.report.notes == []
    data = DataConfig(label_kind="number")
    assert find_task([tmp_path / "a.tsv"], data).columns.startswith("text: ")
    if header:
        lines = [json.dumps(dict(zip(header, row))) for row in rows]
        (tmp_path / "a.jsonl").write_text("\n".join(lines))
        assert PairForm(LABELLED).read([tmp_path / "a.jsonl"], data).targets == PRICES


def test_numbers_in_a_file_of_their_own_belong_to_the_lines_of_the_other(tmp_path: Path) -> None:
    for name, lines in (("numbers", PRICES), ("texts", WORDS)):
        (tmp_path / name).write_text("".join(f"{it}\n" for it in lines))
    found = PairForm(LABELLED).read([tmp_path / "numbers", tmp_path / "texts"], DataConfig(label_kind="number"))
    assert (found.sources, found.targets) == (WORDS, PRICES)


def test_several_columns_of_numbers_or_none_are_an_error(tmp_path: Path) -> None:
    rows = [(text, str(n % 3), price) for n, (text, price) in enumerate(zip(WORDS, PRICES))]
    with pytest.raises(DataError, match="several of them could be the number") as caught:
        read(tmp_path / "a.tsv", [("text", "stars", "score"), *rows])
    assert caught.value.value == ("text", "stars", "score")
    with pytest.raises(DataError, match="which of its 2 columns has the numbers") as caught:
        read(tmp_path / "a.tsv", [(text, "ab"[n % 2]) for n, text in enumerate(WORDS)])
    assert caught.value.expected == "a column of texts, and one of numbers"
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": it, "label": "a"}) + "\n" for it in WORDS))
    with pytest.raises(DataError) as caught:
        PairForm(LABELLED).read([tmp_path / "a.jsonl"], DataConfig(label_kind="number"))
    assert (caught.value.value, caught.value.expected) == (("text", "label"), "a key with texts, and one with numbers")


def test_distinct_numbers_as_labels_suggest_numbers(tmp_path: Path) -> None:
    (data := tmp_path / "train.csv").write_text("text,price\n" + "".join(f"text {i},{i / 7}\n" for i in range(30)))
    with pytest.raises(DataError) as caught:
        clearhead.train(
            config(**{"data.label_kind": "", "train.task": "classify"}), tmp_path / "m", data=data, say=lambda _: None
        )
    assert "data.label_kind=number" in caught.value.fix


def test_a_preview_has_mean_and_deviation(tmp_path: Path) -> None:
    data = made(tmp_path / "train.jsonl", 30, 1)
    given = config(**{"data.train": [str(data)]})
    assert find_task([data], given.data).verb == "classify"
    found = "\n".join(preview(given))
    assert "numbers to train on: mean 1" in found and "labels to train on" not in found
