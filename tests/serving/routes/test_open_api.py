from collections.abc import Iterator
from typing import Any

from clearhead.serving.guards import Access
from clearhead.serving.limits import Limits
from clearhead.serving.routes.task_routes import ROUTES
from clearhead.serving.served_models import ModelShelf
from clearhead.serving.site import make_site


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
    site = make_site(ModelShelf([], None, Limits()), Access(), None)
    assert found["paths"].keys() == {route.path for route in site.routes}
    for operations in found["paths"].values():
        assert all(it["summary"].endswith(".") for it in operations.values())
    for reference in {*references(found)}:
        place = found
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_a_tasks_body_lists_its_fields_and_the_search_settings(translator) -> None:
    paths = translator.ask("GET", "/openapi.json").json()["paths"]
    for task in ROUTES:
        schema = paths[f"/api/{task}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert {"model", *schema["required"]} <= schema["properties"].keys()
        assert ("beam" in schema["properties"]) == (task in ("translate", "summarize", "generate", "explain"))
    assert "multipart/form-data" in paths["/api/classify"]["post"]["requestBody"]["content"]


def test_bodies_that_follow_the_document_are_accepted(translator) -> None:
    paths = translator.ask("GET", "/openapi.json").json()["paths"]
    schema = paths["/api/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    defaults = {
        "text": "She sings.",
        "model": "en-fr",
        "prefix": "",
        "beam": 4,
        "n_best": 1,
        "alpha": 0.6,
        "max_extra": 9,
    }
    assert defaults.keys() <= schema["properties"].keys()
    assert translator.post("/api/translate", defaults).status == 200
