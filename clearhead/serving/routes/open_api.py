"""The OpenAPI document at /openapi.json, made from the routes, the limits and the models.

JSON Schema can't compare two fields. Where that's needed, the schema of a body allows less than the server does.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from starlette.routing import Route

from ...apps.answerer import FoundAnswer
from ...apps.answers import PlainAnswer, Result, Scored
from ...config import TASKS, settings
from ...decode.continuation import Continuation
from ...tasks.classify.records import Labelled, LabelSet, Numbered, TargetLabels
from ...tasks.fill.fillings import Filled
from ...version import __version__
from ..bodies import JSON
from ..limits import RequestLimits
from ..served_models import Languages, ModelShelf, ServedModel
from .completions import UNUSED, ChatCompletion, Completion, has_template
from .libretranslate import AUTO, Detect, Translate
from .openai_routes import Embeddings, Speech
from .uploads import MULTIPART

_REF = "#/components/schemas/{name}"
_RECORDS = {
    "translate": Result, "summarize": Result, "classify": Labelled, "fill": Filled, "answer": FoundAnswer,
    "score": Scored, "generate": Continuation,
}  # fmt: skip
_UPLOADS = ("/api/classify", "/v1/audio/transcriptions")
_Schema: TypeAlias = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_TEXTS: _Schema = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_NUMBER, _WHOLE, _OBJECT = {"type": "number"}, {"type": "integer"}, {"type": "object"}
_FLAG, _WORDS = {"type": "boolean"}, {"type": "string", "pattern": r"\S"}
_PAIRS = {"type": "array", "items": {"type": "array", "items": _WORDS, "minItems": 2, "maxItems": 2}}
_STOPS = {"anyOf": [it | {"minLength": 1} for it in (_TEXT, {"type": "array", "items": _TEXT | {"minLength": 1}})]}
_KINDS: Mapping[str, _Schema] = {
    "texts": _TEXTS, "text": _TEXT, "words": _WORDS, "flag": _FLAG, "number": _WHOLE, "limit": _WHOLE,
    "stops": _STOPS, "pooling": {"enum": ["mean", "first"]},
}  # fmt: skip
_OTHERS: Mapping[str, _Schema] = {  # the fields of bodies that no task has for itself
    "score": {"source": _WORDS, "target": _WORDS, "pairs": _PAIRS},
    "explain": {"text": _WORDS, "context": _WORDS},
    "page": {"text": _WORDS, "context": _WORDS},
}
_NEEDED: Mapping[str, list[str]] = {"score": [], "explain": ["text"], "page": ["text"]}
_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")
_SEARCHING = tuple(name for name, spec in TASKS.items() if "sample" in spec.search)
_SEQUENCES = tuple(name for name in _SEARCHING if TASKS[name].needs["model.topology"] == "encoder-decoder")
_MODELS = {"score": _SEQUENCES, "embed": (), "explain": (), "page": ()}  # verbs of the models; others are the task's
_PLAIN = {
    "/translate": Translate, "/detect": Detect, "/v1/completions": Completion, "/v1/chat/completions": ChatCompletion,
    "/v1/embeddings": Embeddings, "/v1/audio/speech": Speech,
}  # fmt: skip
_MOST = 2**31  # of numbers without a limit


def _list(item: _Schema) -> _Schema:
    return {"type": "array", "items": item}


def _object(optional: Sequence[str] = (), **properties: _Schema) -> _Schema:
    return {"type": "object", "properties": properties, "required": [it for it in properties if it not in optional]}


def _some(item: _Schema) -> _Schema:
    return {"anyOf": [item, _list(item)]}


_FOUND = _object(confidence=_NUMBER, language=_TEXT)
_MODEL = _object(id=_TEXT, object={"const": "model"}, created=_WHOLE, owned_by=_TEXT, task=_TEXT)
_SCORES = _object(
    tokens=_list(_TEXT), token_logprobs=_list({"type": ["number", "null"]}), text_offset=_list(_WHOLE),
    top_logprobs={"type": ["array", "null"], "items": {"type": ["object", "null"], "additionalProperties": _NUMBER}},
)  # fmt: skip
_CHOICE = _object(
    index=_WHOLE, text=_TEXT, finish_reason={"enum": ["stop", "length", None]},
    logprobs={"anyOf": [_SCORES, {"type": "null"}]},
)  # fmt: skip
_ANSWER = _object(
    index=_WHOLE, message=_object(role={"const": "assistant"}, content=_TEXT), logprobs={"type": "null"},
    finish_reason={"enum": ["stop", "length"]},
)  # fmt: skip
_USAGE = _object(["completion_tokens"], prompt_tokens=_WHOLE, completion_tokens=_WHOLE, total_tokens=_WHOLE)
_VECTOR = _object(object={"const": "embedding"}, index=_WHOLE, embedding={"anyOf": [_TEXT, _list(_NUMBER)]})
_REPLIES: Mapping[str, _Schema] = {
    "/translate": _object(
        ["alternatives", "detectedLanguage"], translatedText=_TEXTS,
        alternatives=_list(_TEXTS), detectedLanguage=_some(_FOUND),
    ),
    "/detect": _list(_FOUND),
    "/languages": _list(_object(code=_TEXT, name=_TEXT, targets=_list(_TEXT))),
    "/v1/completions": _object(
        ["usage"], id=_TEXT, object={"const": "text_completion"}, created=_WHOLE, model=_TEXT, choices=_list(_CHOICE),
        usage=_USAGE,
    ),
    "/v1/chat/completions": _object(
        ["usage"], id=_TEXT, object={"const": "chat.completion"}, created=_WHOLE, model=_TEXT, choices=_list(_ANSWER),
        usage=_USAGE,
    ),
    "/v1/embeddings": _object(object={"const": "list"}, data=_list(_VECTOR), model=_TEXT, usage=_USAGE),
    "/v1/models": _object(object={"const": "list"}, data=_list(_MODEL)),
    "/v1/models/{name}": _MODEL,
    "/v1/audio/transcriptions": _object(text=_TEXT),
    "/api/embed": _some(_object(format_version=_WHOLE, text=_TEXT, embedding=_list(_NUMBER))),
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
    written["properties"]["prompt"], written["required"] = _TEXT, [*written["properties"]]
    of_task = dict(zip(classes, records))
    of_task["classify"] = {"anyOf": [of_task["classify"], several, targets, number]}  # the model decides
    replies = {**_REPLIES, **{f"/api/{task}": _some(record) for task, record in of_task.items()}}
    content = {path: {JSON: {"schema": schema}} for path, schema in _body_schemas(shelf).items()}
    form = _object(["model"], file={"type": "string", "format": "binary"}, model=_TEXT)
    for path in _UPLOADS:
        content.setdefault(path, {})[MULTIPART] = {"schema": form}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Clearhead", "version": __version__},
        "paths": {it.path: _operations(it, content.get(it.path), replies.get(it.path, _OBJECT)) for it in routes},
        "components": {"schemas": components, "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"key": []}],
    }


def _operations(route: Route, content: Mapping[str, Any] | None, reply: _Schema) -> dict[str, Any]:
    """Return the operations of a path, described by the docstring of its function."""
    summary, form = (route.endpoint.__doc__ or "").partition("\n")[0], _FORMS.get(route.path, JSON)
    replies = {form: {"schema": reply if form == JSON else _TEXT}}
    if content is not None and "stream" in content.get(JSON, {}).get("schema", {}).get("properties", {}):
        replies["text/event-stream"] = {"schema": _TEXT}
    about: dict[str, Any] = {
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": replies}},
    }
    about["responses"]["default"] = {"description": "an error", "content": {JSON: {"schema": _OBJECT}}}
    if names := list(route.param_convertors):
        about["parameters"] = [{"name": it, "in": "path", "required": True, "schema": _TEXT} for it in names]
    if content is not None:
        about["requestBody"] = {"required": True, "content": content}
    return {method.lower(): about for method in sorted(route.methods or ()) if method != "HEAD"}


# --- schemas of request bodies


def _body_schemas(shelf: ModelShelf) -> dict[str, _Schema]:
    """Return the schema of each JSON body by its path."""
    schemas, components = msgspec.json.schema_components(_PLAIN.values(), ref_template="{name}")
    found = {path: components[schema["$ref"]] for path, schema in zip(_PLAIN, schemas)}
    for schema in found.values():
        schema["properties"] = {name: _bounded(name, it, shelf.limits) for name, it in schema["properties"].items()}
    for path in ("/v1/completions", "/v1/chat/completions"):
        options = found[path]["properties"]
        unused = {it: {"type": "null"} for it in (*UNUSED, "best_of") if it in options}
        options |= {"stream_options": components["StreamOptions"], **unused}
    options["messages"] = options["messages"] | {"items": components["Message"]}
    answers = {"/v1/completions": "generate", "/v1/chat/completions": "generate", "/v1/embeddings": "embed",
               "/v1/audio/speech": "speak"}  # fmt: skip
    for path, task in answers.items():
        models = [it for it in _models(task, shelf) if _can(task, it)]
        names = [it.name for it in models if path != "/v1/chat/completions" or has_template(it)]
        found[path]["properties"]["model"] = {"enum": names} if names else False
    found["/v1/audio/speech"]["properties"]["input"] |= _WORDS
    found["/translate"]["properties"]["format"] = {"enum": ["text"]}
    translators = (it.languages for it in shelf.translators())
    found["/translate"] |= _any([_speaks(it) for it in translators])
    tasks = (*(name for name, spec in TASKS.items() if spec.fields), *_OTHERS)
    return found | {f"/api/{name}": _task(name, shelf) for name in tasks}


def _bounded(name: str, schema: _Schema, limits: RequestLimits) -> _Schema:
    """Return the schema of a field with the limits of the server."""
    if "anyOf" in schema:
        return schema | {"anyOf": [_bounded(name, it, limits) for it in schema["anyOf"]]}
    match schema.get("type"):
        case "string":
            return {"maxLength": limits.chars, **schema}
        case "array":
            most = limits.texts // limits.n if name == "prompt" else limits.texts
            return {"maxItems": most, **schema, "items": _bounded(name, schema["items"], limits)}
        case "integer" | "number":
            lowest, highest = _bounds(limits).get(name, (0, _MOST))
            return {"minimum": lowest, "maximum": highest, **schema}
    return schema


def _bounds(limits: RequestLimits) -> dict[str, tuple[float, float]]:
    """Return the bounds of numbers by their fields."""
    tokens, n = (1, limits.tokens), (1, limits.n)
    return {
        "beam": (1, limits.beam), "n_best": n, "n": n, "alternatives": (0, limits.n - 1), "min_len": (0, limits.tokens),
        "max_tokens": (0, limits.tokens), "max_extra": tokens, "max_len": tokens, "chars": tokens, "top": tokens,
        "top_p": (0.01, 1), "min_p": (0, 1), "temperature": (0.01, 100), "max_ratio": (0.01, _MOST), "alpha": (0, 100),
        "repetition_penalty": (1, 1000),
    }  # fmt: skip


def _any(schemas: list[_Schema]) -> _Schema:
    """Return the schema of values that follow one of these; none do if there are none."""
    return {"anyOf": schemas or [False]}


def _speaks(pair: Languages | None) -> _Schema:
    """Return the languages that a translator can be asked for."""
    if pair is None:
        return {}
    return _given(["target"], source={"enum": [AUTO, pair.source]}, target={"const": pair.target})


def _given(required: list[str] | None = None, **properties: Any) -> _Schema:
    return {"properties": properties, "required": required or []}


def _models(task: str, shelf: ModelShelf) -> list[ServedModel]:
    """Return the models among which a request chooses by name, whether or not they can do the task."""
    return shelf.of_task(*verbs) if (verbs := _MODELS.get(task, (task,))) else [*shelf.models.values()]


def _can(task: str, model: ServedModel) -> bool:
    return model.modality == "text" and (task != "embed" or model.app.config.model.topology != "decoder-only")


def _searched(task: str) -> list[str]:
    """Return the search settings that a body can have."""
    spec = TASKS.get("translate" if task == "explain" else task)
    if spec is None:
        return ["alpha"] if task == "score" else []
    return [*spec.search]


def _task(task: str, shelf: ModelShelf) -> _Schema:
    named = {name: settings()[f"decode.{name}"] for name in _searched(task)}
    spec = TASKS.get(task)
    own = {name: _KINDS[kind] for name, kind in spec.fields.items()} if spec else _OTHERS[task]
    fields = own | {name: msgspec.json.schema(it.type) for name, it in named.items()}
    about = {name: {"description": it.help} for name, it in named.items()}
    models = _models(task, shelf)
    return {
        "type": "object",
        "properties": {"model": _TEXT}
        | {name: _bounded(name, it, shelf.limits) | about.get(name, {}) for name, it in fields.items()},
        "required": [*spec.needed] if spec else _NEEDED[task],
        "additionalProperties": False,
    } | _any([_of_model(task, it, len(models) > 1) for it in models if _can(task, it)])


def _of_model(task: str, model: ServedModel, needs_name: bool) -> _Schema:
    """Return what a model adds to the schema of a task: the values that fit it, and each other."""
    own, needed, rules = model.app.config.decode, ["model"] if needs_name else [], list[_Schema]()
    found: _Schema = {"model": {"const": model.name}}
    if task in ("explain", "page"):
        asked = model.verb == "answer"
        needed, found = needed + ["context"] * asked, found | ({} if asked else {"context": False})
    if task == "score":
        rules = [_any([_given(["source", "target"], pairs=False), _given(["pairs"], source=False, target=False)])]
    if model.verb == "fill" and task != "embed":
        mask = {"pattern": re.escape(model.app.task.tokenizers.source.mask_name)}
        found["text"] = mask | {"items": mask}
    if task == "answer":
        found["n_best"] = {"maximum": own.beam}
    if "sample" in _searched(task) and model.verb not in _SEARCHING:
        found |= dict.fromkeys(_searched(task), False)
    elif "sample" in _searched(task):
        found |= {it: False for it in _searched(task) if it not in _searched(model.verb)}
        found |= {"max_len": {"minimum": own.min_len}, "min_len": {"maximum": own.max_len or _MOST}}
        if model.verb in _SEQUENCES:  # no answer is longer than the model's positions
            longest = model.app.config.model.max_len - 1
            found["min_len"]["maximum"] = min(longest, found["min_len"]["maximum"])
            found["min_ratio"] = {"maximum": longest}
        rules = _search_rules(model)
        if (task, model.verb) == ("explain", "generate"):  # the text has to fit into the context window with its answer
            found |= dict.fromkeys(("max_len", "min_len", "max_extra"), False)
    return {"properties": found, "required": needed, "allOf": rules}


def _search_rules(model: ServedModel) -> list[_Schema]:
    """Return which search settings fit each other."""
    own, one = model.app.config.decode, {"maximum": 1}
    several = [
        _given(["beam"] * (own.beam < n) + ["n_best"] * (own.n_best > n), beam={"minimum": n}, n_best={"maximum": n})
        for n in range(1, model.limits.n + 1)
    ]
    searches = _given(["sample"] * own.sample, sample={"const": False}, **dict.fromkeys(_SAMPLING, False))
    samples = _given(["sample"] * (not own.sample), sample={"const": True}, beam=False, diverse={"const": False})
    pairs = (
        (searches | _any(several), samples),
        (_given(diverse={"const": False}), _given(["n_best"], n_best={"minimum": 2})),
        (_given(stream={"const": False}), _given(beam=one, n_best=one)),
        (_given(min_len=False), _given(max_len=False)),
        (_given(min_ratio=False), _given(max_ratio=False)),
    )
    return [_any([*pair]) for pair in pairs]
