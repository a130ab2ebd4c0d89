from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck

from clearhead.serving.guards import Access
from clearhead.serving.limits import RequestLimits
from clearhead.serving.routes.task_routes import task_routes
from clearhead.serving.routes_table import make_application
from clearhead.serving.served_models import ModelShelf
from tests.builders import make_encoder_folder

from ..schemas import follows, values
from ..small_models import make


def references(value: Any) -> Iterator[str]:
    """All references in a document."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        value = list(value.values())
    for it in value if isinstance(value, list) else ():
        yield from references(it)


def test_every_route_is_described_and_every_reference_leads_somewhere(translator) -> None:
    found = translator.ask("GET", "/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    application = make_application(ModelShelf([], None, RequestLimits()), Access(), None)
    assert found["paths"].keys() == {route.path for route in application.routes}
    for operations in found["paths"].values():
        assert all(it["summary"].endswith(".") for it in operations.values())
    for reference in {*references(found)}:
        place = found
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_a_tasks_body_lists_its_fields_and_the_search_settings(translator) -> None:
    paths = translator.ask("GET", "/openapi.json").json()["paths"]
    for task in task_routes():
        schema = paths[f"/api/{task}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"model", *schema["required"]} <= schema["properties"].keys()
        assert ("beam" in schema["properties"]) == (task in ("translate", "summarize", "generate", "explain"))
    assert "multipart/form-data" in paths["/api/classify"]["post"]["requestBody"]["content"]


@pytest.fixture(scope="module")
def everything(serve, tmp_path_factory, answer_folder, model_folder):
    """A server with models for all tasks, small limits, and two models that search in different ways."""
    folders = {it: make(tmp_path_factory.mktemp(it), it) for it in ("bytes", "sample", "classify")}
    for verb in ("fill", "embed"):
        folders[verb] = make_encoder_folder(tmp_path_factory.mktemp(verb), task=verb)
    folders |= {"en-fr": model_folder, "answers": answer_folder}
    small = RequestLimits(chars=8, texts=10, tokens=4, beam=3, n=2)
    with serve(*(f"{name}={folder}" for name, folder in folders.items()), limits=small) as served:
        yield served, served.ask("GET", "/openapi.json").json()


PATHS = ["/translate", "/detect", "/v1/completions", "/v1/embeddings", "/api/page"]
PATHS += [f"/api/{task}" for task in task_routes() if task != "summarize"]


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_follows_the_document_is_accepted_and_the_answer_follows_it_too(everything, path) -> None:
    served, document = everything
    operation, components = document["paths"][path]["post"], document["components"]["schemas"]
    reply = operation["responses"]["200"]["content"]["application/json"]["schema"]

    @hypothesis.settings(max_examples=25, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @hypothesis.given(values(operation["requestBody"]["content"]["application/json"]["schema"]))
    def check(body: Any) -> None:
        found = served.post(path, body)
        assert found.status == 200, (body, found.body)
        if not body.get("stream"):
            assert follows(found.json(), reply, components), (body, found.body)

    check()


def test_a_body_beyond_the_document_is_rejected(everything) -> None:
    served, document = everything
    bounds = document["paths"]["/api/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    for name in ("beam", "n_best", "max_extra", "alpha"):
        found = served.post("/api/translate", {"text": "a", name: bounds["properties"][name]["maximum"] + 1})
        assert found.status == 400 and name in found.json()["error"]["name"]


def test_a_task_without_a_model_accepts_nothing(translator) -> None:
    paths = translator.ask("GET", "/openapi.json").json()["paths"]
    assert paths["/api/fill"]["post"]["requestBody"]["content"]["application/json"]["schema"]["anyOf"] == [False]
