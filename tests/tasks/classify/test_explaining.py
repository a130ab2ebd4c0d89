"""Every kind of classifier is explained: each label by its own score, and numbers in the unit of the data."""

import math
from typing import Any

import pytest
import torch

from clearhead.config import DecodeConfig
from clearhead.errors import ConfigError
from clearhead.inspection.page.page_data import page_data
from clearhead.inspection.record.switches import without
from clearhead.inspection.views.explanation import Explanation
from clearhead.tasks.classify.multi_target import TargetClassification
from clearhead.tasks.classify.regression import Regression
from clearhead.tasks.classify.several import MultiLabelClassification
from clearhead.tasks.classify.task import Classification

from .conftest import net, tiny_task

TEXTS = ["my invoice is odd", "a crash now", "hello there", "it crashes", "my invoice again"]
TEXT = "my invoice crashes again"
TARGETS = ("queue=billing", "queue=bug", "queue=other", "urgent=yes", "urgent=other")
KINDS: dict[str, tuple[type[Classification], dict[str, Any]]] = {
    "": (Classification, {"data.labels": ("bug", "fee", "other")}),
    "several": (MultiLabelClassification, {"data.labels": ("bug", "fee", "other")}),
    "targets": (TargetClassification, {"data.labels": TARGETS}),
    "number": (Regression, {"data.labels": ("price",), "data.number_scale": (250_000.0, 40.0), "train.r_drop": 0.0}),
}


@pytest.fixture(scope="module", params=KINDS)
def own(request: pytest.FixtureRequest) -> Classification:
    kind, values = KINDS[request.param]
    more = {"data.label_kind": request.param, "model.n_classes": len(values["data.labels"])}
    return tiny_task(kind, TEXTS, values | more, {})


def ids_of(own: Classification) -> list[int]:
    return own.reader.encode([TEXT])[0][0]


def scores(own: Classification, logits: list[float]) -> list[float]:
    """The log-probability of each label, or the number, with its formula written out."""
    kind, labels = own.config.data.label_kind, own.labels
    if kind == "number":
        return [250_000 + 40 * logits[0]]
    if kind == "several":
        return [-math.log(1 + math.exp(-it)) for it in logits]
    rivals = [[it for it, name in zip(logits, labels) if name.split("=")[0] == label.split("=")[0]] for label in labels]
    rivals = rivals if kind == "targets" else [logits] * len(labels)
    return [it - math.log(sum(map(math.exp, some))) for it, some in zip(logits, rivals)]


def explained(own: Classification) -> tuple[Explanation, Any]:
    model = net(own)
    return own.explain(model, TEXT, DecodeConfig()), model


def test_the_answer_is_the_same_and_the_most_likely_label_is_explained(own: Classification) -> None:
    found, model = explained(own)
    assert [found.answer] == own.answers(model, [TEXT], DecodeConfig())
    logits = model(torch.tensor([ids_of(own)]))[0].tolist()
    expected = scores(own, logits)
    best = own.labels[expected.index(max(expected))]
    assert found.why().said == best == found.words.said[0]
    assert (found.shown_answer in found.render()) and found.shown_answer
    number = own.config.data.label_kind == "number"
    shown = [it for value in found.values.values() for it in (value.values() if isinstance(value, dict) else [value])]
    for it in shown:
        assert any(it == pytest.approx(score if number else math.exp(score), rel=1e-6) for score in expected)


def test_contributions_sum_to_the_logit_of_each_label_or_to_the_number(own: Classification) -> None:
    found, model = explained(own)
    logits = model(torch.tensor([ids_of(own)]))[0].tolist()
    expected = scores(own, logits) if own.config.data.label_kind == "number" else logits
    for label, logit in zip(own.labels, expected):
        why = found.why(label)
        assert why.difference == pytest.approx(logit, rel=1e-12)
        assert sum(it.value for it in why.contributions) == pytest.approx(logit, rel=1e-9)
        assert f'why "{label}": its {"number" if len(logits) == 1 else "logit"} is ' in why.render()


def test_words_are_hidden_and_integrated_for_any_label(own: Classification) -> None:
    found, model = explained(own)
    ids = ids_of(own)
    hidden = [[own.special.unk if i == place else it for i, it in enumerate(ids)] for place in range(len(ids))]
    unknown = [own.special.unk] * len(ids)
    whole, nothing, *each = (scores(own, it) for it in model(torch.tensor([ids, unknown, *hidden])).tolist())
    for number, label in enumerate(own.labels):
        words = found.about(label).words
        assert words.said == (label,)
        expected = [whole[number] - it[number] for it in each]
        assert words.falls[:, 0].tolist() == pytest.approx(expected, abs=1e-8)
        moved = whole[number] - nothing[number]
        assert float(words.gradients.sum()) == pytest.approx(moved, abs=0.01 * abs(moved) + 1e-9)
        assert f'which tokens support "{label}" ({words.measure} ' in words.render()


def test_a_page_has_every_label_and_the_answers_without_each_part(own: Classification) -> None:
    found, model = explained(own)
    data = page_data(found, own.config, name="a")
    logits = model(torch.tensor([ids_of(own)]))[0].tolist()
    expected = sorted(zip(scores(own, logits), own.labels), reverse=True)
    assert [it[0] for it in data["labels"]] == [label for _, label in expected]
    assert [it[1] for it in data["labels"]] == pytest.approx([it for it, _ in expected])
    said = {label for label, *_, is_said in data["labels"] if is_said}
    answer = found.answer.split("|") if found.answer else []
    assert {it.rpartition("=")[2] for it in said} == {*answer} - ({found.answer} if len(logits) == 1 else set())
    assert data["words"]["falls"]["shape"] == data["words"]["gradients"]["shape"] == [len(ids_of(own)), len(logits)]
    assert data["why"]["error"] < 1e-9 * max(map(abs, logits)) * 250_000
    for name, it in data["without"].items():
        with without(model, name):
            new = own.answers(model, [TEXT], DecodeConfig())[0]
            now = dict(zip(own.labels, scores(own, model(torch.tensor([ids_of(own)]))[0].tolist())))
        assert it["text"] == ("" if new == found.answer else new or "no label")
        assert it["logprobs"] == pytest.approx([now[label] for _, label in expected], abs=1e-4)


def test_only_the_most_likely_of_many_labels_are_on_a_page() -> None:
    labels = tuple(f"label {n}" for n in range(130))
    own = tiny_task(Classification, TEXTS, {"data.labels": labels, "model.n_classes": 130}, {})
    found, _ = explained(own)
    data = page_data(found, own.config, name="a")
    assert len(data["labels"]) == len(next(iter(data["without"].values()))["logprobs"]) == 100
    assert {"what": "30 labels", "why": "they're less likely than the others"} in data["left_out"]


# --- names of labels


def targets() -> Explanation:
    return explained(
        tiny_task(
            *((it := KINDS["targets"])[0], TEXTS, it[1] | {"data.label_kind": "targets", "model.n_classes": 5}, {})
        )
    )[0]


def test_a_label_of_a_target_may_lack_its_name_if_it_is_unique() -> None:
    found = targets()
    for name, label in (("bug", "queue=bug"), ("queue=bug", "queue=bug"), ("urgent=other", "urgent=other")):
        assert found.why(name).said == label == found.about(name).words.said[0]
    said = next(label for label in found.choice.said if label.startswith("urgent="))
    assert found.why("urgent").said == said
    assert found.why("bug", "billing").other == "queue=billing"
    for name, other, option in (
        ("other", None, "why"),
        ("bogus", None, "why"),
        ("bug", "yes", "not"),
        ("bug", "bug", "not"),
    ):
        with pytest.raises(ConfigError) as caught:
            found.why(name, other)
        assert (caught.value.name, caught.value.value) == (option, other or name)


def test_names_of_targets_mean_nothing_to_other_models() -> None:
    values = {"data.labels": TARGETS, "model.n_classes": 5}
    found, _ = explained(tiny_task(Classification, TEXTS, values, {}))
    for name in ("bug", "queue"):
        with pytest.raises(ConfigError) as caught:
            found.about(name)
        assert (caught.value.name, caught.value.value) == ("why", name)
