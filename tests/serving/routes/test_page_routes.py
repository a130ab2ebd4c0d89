import base64
import json
from pathlib import Path

import pytest

from clearhead import load
from clearhead.inspection.page.page_data import page_data

from ..small_models import make
from .test_task_routes import png


@pytest.fixture(scope="module")
def served(serve, model_folder: Path, answer_folder: Path, tmp_path_factory):
    """A translator, a model that answers questions, and one that labels images."""
    images = make(tmp_path_factory.mktemp("see"), "see")
    with serve(f"en-fr={model_folder}", f"answers={answer_folder}", f"see={images}") as served:
        yield served


def test_the_page_names_all_models_and_may_ask_this_server_alone(served) -> None:
    found = served.ask("GET", "/")
    text = found.body.decode()
    assert found.status == 200 and found.headers["content-type"].startswith("text/html")
    assert "connect-src 'self'" in text and "frame-ancestors 'none'" in found.headers["content-security-policy"]
    for model in ('"name":"en-fr","task":"translate","reads":"text"', '"name":"see","task":"classify","reads":"image"'):
        assert model in text


def test_an_answer_is_what_the_page_shows(served, model_folder) -> None:
    app = load(model_folder)
    expected = json.loads(json.dumps(page_data(app.explain("She sings."), app.config, name="en-fr", live=True)))
    found = served.post("/api/page", {"model": "en-fr", "text": "She sings."}).json()
    assert found.keys() == expected.keys()
    assert (found["text"], found["tokens"]) == (expected["text"], expected["tokens"])


def test_parts_are_off_for_one_answer_only_and_a_prefix_begins_it(served, model_folder) -> None:
    app, ask = load(model_folder), {"model": "en-fr", "text": "She sings."}
    before = served.post("/api/page", ask).json()
    with app.without("decoder.0.cross"):
        expected = app.explain("She sings.", prefix=[20])
    found = served.post("/api/page", {**ask, "off": ["decoder.0.cross"], "prefix": [20]}).json()
    assert found["text"] == expected.answer and found["off"] == ["decoder.0.cross"]
    assert found["prefix"] == [20] and found["tokens"]["outputs"][0]["id"] == 20
    assert served.post("/api/page", ask).json()["logprobs"] == before["logprobs"]


def test_a_question_has_a_context_and_an_image_is_uploaded_in_the_question(served) -> None:
    asked = served.post("/api/page", {"model": "answers", "text": "Who was there?", "context": "Ann was there."})
    assert asked.status == 200
    file = {"name": "a.png", "b64": base64.b64encode(png(0)).decode()}
    found = served.post("/api/page", {"model": "see", "file": file})
    assert found.status == 200 and {it[0] for it in found.json()["labels"]} == {"lies", "stands"}


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"text": "a"}, 400, "model"),
        ({"model": "en-fr", "text": " "}, 400, "text"),
        ({"model": "en-fr", "text": "a", "off": ["decoder.9"]}, 400, None),
        ({"model": "en-fr", "text": "a", "prefix": [100_000]}, 400, "prefix"),
        ({"model": "en-fr", "text": "a", "prefix": [1] * 1001}, 400, None),
        ({"model": "answers", "text": "a"}, 400, None),
        ({"model": "see", "text": "/etc/passwd"}, 400, "file"),
        ({"model": "see", "file": {"name": "a.png", "b64": "?"}}, 400, "file"),
        ({"model": "see", "file": {"name": "../a.png", "b64": "YQ=="}}, 400, "file"),
        ({"model": "en-fr", "file": {"name": "a.png", "b64": "YQ=="}}, 400, "model"),
        ({"model": "en-fr", "text": "a", "surprise": 1}, 400, ""),
    ],
)
def test_what_cannot_be_shown_is_an_error_with_a_message(served, body, status, name) -> None:
    found = served.post("/api/page", body)
    assert found.status == status and found.json()["error"]["message"]
    assert name is None or found.json()["error"]["name"] == name
    assert "/tmp" not in found.json()["error"]["message"]
