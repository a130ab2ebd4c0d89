"""The OpenAPI document at /openapi.json, made from the routes, the limits and the models."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from starlette.routing import Route

from ...apps.answerer import FoundAnswer
from ...apps.answers import PlainAnswer, Result, Scored
from ...config import TASKS
from ...decode.continuation import Continuation
from ...tasks.classify.records import Labelled, LabelSet, Numbered, TargetLabels
from ...tasks.fill.fillings import Filled
from ...version import __version__
from ..bodies import JSON
from ..served_models import ModelShelf
from .request_schemas import TEXT, TEXTS, Schema, body_schemas
from .uploads import MULTIPART

_REF = "#/components/schemas/{name}"
_RECORDS = {
    "translate": Result, "summarize": Result, "classify": Labelled, "fill": Filled, "answer": FoundAnswer,
    "score": Scored, "generate": Continuation,
}  # fmt: skip
_UPLOADS = ("/api/classify", "/v1/audio/transcriptions")
_NUMBER, _WHOLE, _OBJECT = {"type": "number"}, {"type": "integer"}, {"type": "object"}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _object(optional: Sequence[str] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": [it for it in properties if it not in optional]}


def _some(item: Schema) -> Schema:
    return {"anyOf": [item, _list(item)]}


_FOUND = _object(confidence=_NUMBER, language=TEXT)
_MODEL = _object(id=TEXT, object={"const": "model"}, created=_WHOLE, owned_by=TEXT, task=TEXT)
_SCORES = _object(
    tokens=_list(TEXT), token_logprobs=_list({"type": ["number", "null"]}), text_offset=_list(_WHOLE),
    top_logprobs={"type": ["array", "null"], "items": {"type": ["object", "null"], "additionalProperties": _NUMBER}},
)  # fmt: skip
_CHOICE = _object(
    index=_WHOLE, text=TEXT, finish_reason={"enum": ["stop", "length", None]},
    logprobs={"anyOf": [_SCORES, {"type": "null"}]},
)  # fmt: skip
_ANSWER = _object(
    index=_WHOLE, message=_object(role={"const": "assistant"}, content=TEXT), logprobs={"type": "null"},
    finish_reason={"enum": ["stop", "length"]},
)  # fmt: skip
_USAGE = _object(["completion_tokens"], prompt_tokens=_WHOLE, completion_tokens=_WHOLE, total_tokens=_WHOLE)
_VECTOR = _object(object={"const": "embedding"}, index=_WHOLE, embedding={"anyOf": [TEXT, _list(_NUMBER)]})
_REPLIES: Mapping[str, Schema] = {
    "/translate": _object(
        ["alternatives", "detectedLanguage"], translatedText=TEXTS,
        alternatives=_list(TEXTS), detectedLanguage=_some(_FOUND),
    ),
    "/detect": _list(_FOUND),
    "/languages": _list(_object(code=TEXT, name=TEXT, targets=_list(TEXT))),
    "/v1/completions": _object(
        ["usage"], id=TEXT, object={"const": "text_completion"}, created=_WHOLE, model=TEXT, choices=_list(_CHOICE),
        usage=_USAGE,
    ),
    "/v1/chat/completions": _object(
        ["usage"], id=TEXT, object={"const": "chat.completion"}, created=_WHOLE, model=TEXT, choices=_list(_ANSWER),
        usage=_USAGE,
    ),
    "/v1/embeddings": _object(object={"const": "list"}, data=_list(_VECTOR), model=TEXT, usage=_USAGE),
    "/v1/models": _object(object={"const": "list"}, data=_list(_MODEL)),
    "/v1/models/{name}": _MODEL,
    "/v1/audio/transcriptions": _object(text=TEXT),
    "/api/embed": _some(_object(format_version=_WHOLE, text=TEXT, embedding=_list(_NUMBER))),
}  # fmt: skip
_FORMS = {"/": "text/html", "/livez": "text/plain", "/readyz": "text/plain", "/metrics": "text/plain",
          "/v1/audio/speech": "audio/wav"}  # fmt: skip


def open_api(routes: Sequence[Route], shelf: ModelShelf) -> dict[str, Any]:
    """Return the OpenAPI document of these routes."""
    plain = {name: PlainAnswer for name, spec in TASKS.items() if spec.fields and f"/api/{name}" not in _REPLIES}
    classes = plain | _RECORDS
    every = [*classes.values(), LabelSet, TargetLabels, Numbered]
    (*records, several, targets, number), components = msgspec.json.schema_components(every, ref_template=_REF)
    written = components["Continuation"]  # see its `to_dict`
    del written["properties"]["ids"]
    written["properties"]["prompt"], written["required"] = TEXT, [*written["properties"]]
    of_task = dict(zip(classes, records))
    of_task["classify"] = {"anyOf": [of_task["classify"], several, targets, number]}  # the model decides
    replies = {**_REPLIES, **{f"/api/{task}": _some(record) for task, record in of_task.items()}}
    content = {path: {JSON: {"schema": schema}} for path, schema in body_schemas(shelf).items()}
    form = _object(["model"], file={"type": "string", "format": "binary"}, model=TEXT)
    for path in _UPLOADS:
        content.setdefault(path, {})[MULTIPART] = {"schema": form}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clearhead", "version": __version__},
        "paths": {it.path: _operations(it, content.get(it.path), replies.get(it.path, _OBJECT)) for it in routes},
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _operations(route: Route, content: Mapping[str, Any] | None, reply: Schema) -> dict[str, Any]:
    """Return the operations of a path, described by the docstring of its function."""
    summary, form = (route.endpoint.__doc__ or "").partition("\n")[0], _FORMS.get(route.path, JSON)
    replies = {form: {"schema": reply if form == JSON else TEXT}}
    if content is not None and "stream" in content.get(JSON, {}).get("schema", {}).get("properties", {}):
        replies["text/event-stream"] = {"schema": TEXT}
    about: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": replies}},
    }
    about["responses"]["default"] = {"description": "an error", "content": {JSON: {"schema": _OBJECT}}}
    if names := list(route.param_convertors):
        about["parameters"] = [{"name": it, "in": "path", "required": True, "schema": TEXT} for it in names]
    if content is not None:
        about["requestBody"] = {"required": True, "content": content}
    return {method.lower(): about for method in sorted(route.methods or ()) if method != "HEAD"}
