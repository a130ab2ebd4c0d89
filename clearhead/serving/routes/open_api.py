"""The OpenAPI document at /openapi.json, made from the routes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.routing import Route

from ... import __version__
from ...config import settings
from ..bodies import JSON
from .completions import Completion
from .embeddings import Embeddings
from .fields import SEARCH
from .libretranslate import Detect, Translate
from .page_routes import Question
from .uploads import MULTIPART

_BODIES = {
    "/translate": Translate, "/detect": Detect, "/v1/completions": Completion, "/v1/embeddings": Embeddings,
    "/api/page": Question,
}  # fmt: skip
_TEXTS = {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_TEXT, _FLAG, _NUMBER, _WHOLE = ({"type": it} for it in ("string", "boolean", "number", "integer"))
_PAIRS = {"type": "array", "items": {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}}
_FILE = {"type": "string", "format": "binary"}
_TASKS: Mapping[str, dict[str, Any]] = {  # the fields of bodies, besides the model and the search settings
    "translate": {"text": _TEXTS, "prefix": _TEXT, "stream": _FLAG},
    "summarize": {"text": _TEXTS, "prefix": _TEXT, "stream": _FLAG},
    "generate": {"text": _TEXTS, "chars": _WHOLE, "stop": _TEXTS, "stream": _FLAG},
    "classify": {"text": _TEXTS},
    "fill": {"text": _TEXTS, "top": _WHOLE},
    "embed": {"text": _TEXTS, "pooling": _TEXT, "normalize": _FLAG},
    "answer": {"question": _TEXTS, "context": _TEXT},
    "score": {"source": _TEXT, "target": _TEXT, "pairs": _PAIRS},
    "explain": {"text": _TEXT, "context": _TEXT},
}
_UPLOADS = {
    "/api/classify": {"file": _FILE, "model": _TEXT},
    "/v1/audio/transcriptions": {"file": _FILE, "model": _TEXT},
}
_SEARCHED = ("translate", "summarize", "generate", "explain")
_NEEDED = {"generate": [], "score": [], "answer": ["question", "context"]}  # others need a text


def open_api(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    bodies, components = msgspec.json.schema_components(_BODIES.values(), ref_template="#/components/schemas/{name}")
    content = {path: {JSON: {"schema": schema}} for path, schema in zip(_BODIES, bodies)}
    content |= {f"/api/{task}": {JSON: {"schema": _task_schema(task)}} for task in _TASKS}
    for path, properties in _UPLOADS.items():
        schema = {"type": "object", "properties": properties, "required": ["file"]}
        content.setdefault(path, {})[MULTIPART] = {"schema": schema}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clearhead", "version": __version__},
        "paths": {route.path: _operations(route, content.get(route.path)) for route in routes},
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _operations(route: Route, content: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the operations of a path, described by the docstring of its function."""
    summary = (route.endpoint.__doc__ or "").partition("\n")[0]
    about: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "the answer"}}}
    about["responses"]["default"] = {"description": "an error"}
    if names := list(route.param_convertors):
        about["parameters"] = [{"name": it, "in": "path", "required": True, "schema": _TEXT} for it in names]
    if content is not None:
        about["requestBody"] = {"required": True, "content": content}
    return {method.lower(): about for method in sorted(route.methods or ()) if method != "HEAD"}


def _task_schema(task: str) -> dict[str, Any]:
    properties = {"model": _TEXT, **_TASKS[task]}
    search = {"answer": ("n_best",), "score": ("alpha",)}.get(task, SEARCH if task in _SEARCHED else ())
    for name in search:
        setting = settings()[f"decode.{name}"]
        properties[name] = {**msgspec.json.schema(setting.type), "description": setting.help}
    needed = _NEEDED.get(task, ["text"])
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}
