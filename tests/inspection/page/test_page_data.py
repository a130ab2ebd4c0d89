"""What the page shows is what the trace recorded."""

import json
from base64 import b64decode

import numpy as np
import pytest
import torch

import clearhead
from clearhead.inspection.page.document import page_document
from clearhead.inspection.page.page_data import LARGEST, _fit, page_data
from clearhead.inspection.record.switches import switches, without

from .test_hostile_texts import recorded

TEXT = "She sings."


@pytest.fixture(scope="module")
def shown(model_folder):
    app = clearhead.load(model_folder, device="cpu")
    explanation = app.explain(TEXT)
    return app, explanation, page_data(explanation, app.config, name="models/a", command="clearhead explain ...")


def numbers(array, dtype) -> np.ndarray:
    return np.frombuffer(b64decode(array["b64"]), dtype).reshape(array["shape"])


def test_weights_are_those_of_the_trace(shown) -> None:
    _, explanation, data = shown
    assert data["attention"].keys() == explanation.trace.calls.keys()
    for name, it in data["attention"].items():
        weights = explanation.trace[name].weights.values[0].numpy()
        np.testing.assert_allclose(numbers(it["weights"], "<u2") / 65535, weights, atol=1e-5)


def test_a_weight_is_the_softmax_of_its_score(shown) -> None:
    _, explanation, data = shown
    for name, it in data["attention"].items():
        call = explanation.trace[name]
        lse = torch.from_numpy(numbers(it["lse"], "<f4").copy())
        torch.testing.assert_close(
            (call.masked_scores[0] - lse[..., None]).exp(), call.weights.values[0], atol=1e-5, rtol=0
        )


def test_the_tokens_have_kinds_and_probabilities(shown) -> None:
    _, explanation, data = shown
    assert [it["text"] for it in data["tokens"]["encoder"]] == list(explanation.tokens["encoder"])
    assert data["tokens"]["encoder"][-1]["kind"] == "end" and data["tokens"]["decoder"][0]["kind"] == "start"
    assert sum(data["logprobs"]) == pytest.approx(explanation.values["log_probability"], abs=1e-4)
    for p, others in zip(data["logprobs"], data["alternatives"]):
        assert len(others) == 8 and p <= others[0][1] + 1e-6
        assert [it[1] for it in others] == sorted((it[1] for it in others), reverse=True)


def test_every_part_is_switched_off_alone(shown) -> None:
    app, explanation, data = shown
    assert data["without"].keys() == switches(app.model).keys()
    name = "decoder.0.feed_forward"
    with without(app.model, name), torch.inference_mode():
        expected = explanation.forward.log_probabilities()[0]
    np.testing.assert_allclose(data["without"][name]["logprobs"], expected, atol=1e-4)
    with app.without(name):
        answer = app(TEXT)
    assert data["without"][name]["text"] in (answer, "")


def test_reasons_and_words_are_those_of_the_other_views(shown) -> None:
    _, explanation, data = shown
    np.testing.assert_array_equal(numbers(data["words"]["falls"], "<f4"), explanation.words.falls.float().numpy())
    why, word = data["why"], explanation.answer.split()[0]
    parts, logits = numbers(why["parts"], "<f4"), numbers(why["logits"], "<f4")
    np.testing.assert_allclose(parts.sum(0), logits, atol=1e-3)
    expected, place = explanation.why(word), explanation.target_words.index(0)
    said = [i for *_, i in data["alternatives"][place]].index(explanation.said[place])
    assert why["names"] == [it.part for it in expected.contributions]
    np.testing.assert_allclose(parts[:, place, said], [it.value for it in expected.contributions], atol=1e-4)


def test_the_flow_has_code_and_values(shown) -> None:
    _, explanation, data = shown
    parts = {it["name"]: it for it in data["parts"]}
    assert "def forward" in parts["decoder.0.cross"]["code"] and parts["decoder.0.cross"]["class"] == "CrossAttention"
    first = explanation.trace["decoder.0.feed_forward"].output[0, 0, :8].tolist()
    assert parts["decoder.0.feed_forward"]["values"][0] == pytest.approx(first, rel=1e-3)


def test_a_file_has_at_most_two_megabytes() -> None:
    assert LARGEST + len(page_document({"source": ""}).encode()) <= 2_000_000


@pytest.mark.parametrize(
    ("tokens", "expected"), [(30, []), (60, [f"queries and keys of the {it}" for it in ("encoder", "decoder")])]
)
def test_the_attention_of_base_fits_or_is_named_as_left_out(tokens: int, expected: list[str]) -> None:
    values, left_out = {"attention": recorded(tokens, tokens, layers=6, heads=8, width=64)}, []
    _fit(values, lambda what, _why: left_out.append(what))
    assert len(json.dumps(values)) <= LARGEST
    assert left_out == expected
