"""Routes at /api/TASK. They answer with the records that `clearhead TASK --json` prints."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...config import TASKS, TaskSpec
from ...config.task_spec import SEARCH, Kind
from ...errors import suggestion
from ..bodies import fields_of, json_response
from ..limits import RequestError
from ..served_models import ServedModel
from ..work import Work
from .asking import Events, answered, event_stream, shelf_of
from .uploads import check_pixels, expect_modality, expect_text, is_upload, uploaded_files


class Fields:
    """The fields of a body that haven't been read yet."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left, self._known = dict(values), list[str]()

    def take(self, name: str, kind: Any, default: Any = None) -> Any:
        """Return a field's value. Raise RequestError if it isn't of this kind.

        Args:
            name: name of the field.
            kind: the type that msgspec converts the value to.
            default: the value if the field is missing.
        """
        self._known.append(name)
        if name not in self._left:
            return default
        try:
            return msgspec.convert(self._left.pop(name), kind)
        except msgspec.ValidationError as error:
            what = str(error).replace("`", "'").replace("$", name)
            raise RequestError(400, f"{name} doesn't fit: {what}", name=name) from error

    def need(self, name: str, kind: Any) -> Any:
        """Return a field's value. Raise RequestError if it's missing."""
        if name not in self._left:
            raise RequestError(400, f"{name} is missing", expected=f"the field {name}", name=name)
        return self.take(name, kind)

    def search(self, model: ServedModel) -> dict[str, Any]:
        """Return all other fields, which are search settings that fit the model and the limits.

        Raises:
            RequestError: a field is unknown, or exceeds a limit.
            ConfigError: a setting is invalid, or has no effect.
        """
        self.finish(SEARCH)
        given = {name: tuple(it) if isinstance(it, list) else it for name, it in self._left.items()}
        if given:
            model.limits.check_search(model.app.decode_config(**given), given)
        return given

    def finish(self, others: Collection[str] = ()) -> None:
        """Raise RequestError if a field is left that isn't one of `others`."""
        for name in self._left:
            if name not in others:
                fix = suggestion(name, [*self._known, *others])
                raise RequestError(400, f"there's no field {name!r}", fix=fix, name=name)


Texts = str | list[str]
Handler = Callable[[Request], Awaitable[Response]]
_TYPES: Mapping[Kind, Any] = {
    "texts": Texts, "stops": Texts, "text": str, "words": str, "pooling": str, "flag": bool, "number": int,
    "limit": int | None,
}  # fmt: skip


async def _fields(request: Request) -> Fields:
    return Fields(await fields_of(request, dict[str, Any]))


def _task_route(name: str, spec: TaskSpec) -> Handler:
    """Return the handler of a task that answers texts."""
    source, *others = spec.fields

    async def handle(request: Request) -> Response:
        given = await _fields(request)
        model = _model(request, given, name)
        texts = _texts(model, given, source, None if source in spec.needed else "")
        asked = {it: _option(model, given, it, spec) for it in others}
        options = {it: value for it, value in asked.items() if value is not None}
        if options.pop("stream", False):
            work = Work.of(spec.method, {**options, **_streamable(model, given.search(model))})
            return await event_stream(request, _events(request, model, work, _list(texts)))
        work = Work.of(spec.method, {**options, **given.search(model)})
        return _records(texts, await answered(request, model, work, _list(texts)))

    handle.__name__, handle.__qualname__, handle.__doc__ = name, f"task_routes.{name}", spec.summary
    return handle


def _option(model: ServedModel, given: Fields, name: str, spec: TaskSpec) -> Any:
    """Return a field besides the inputs, within the limits, or None if it's absent."""
    kind = spec.fields[name]
    value = (given.need if name in spec.needed else given.take)(name, _TYPES[kind])
    if value is None:
        return None
    if kind in ("number", "limit"):
        model.limits.check(name, value, model.limits.tokens)
    elif kind == "words":  # of any length that a body can have
        model.limits.check(f"the length of {name}", len(value), model.limits.body)
    elif kind in ("text", "texts", "stops"):
        model.limits.check_texts(_list(value), name)
    return tuple(_list(value)) if kind == "stops" else value


async def classify(request: Request) -> Response:
    """Label texts, or uploaded images or recordings."""
    return await (_classify_files if is_upload(request) else _classify_texts)(request)


async def _classify_files(request: Request) -> Response:
    async with uploaded_files(request) as (values, files):
        given = Fields(values)
        model = shelf_of(request).find(given.take("model", str | None), "classify")
        model.limits.check_count(len(files), "file")
        expect_modality(model)
        for file in files:
            await check_pixels(model, file)
        work = Work.of("results", given.search(model))
        found = await answered(request, model, work, [str(it.path) for it in files])
        records = [it.to_dict() | {"text": file.name} for file, it in zip(files, found)]
    return json_response(records[0] if len(records) == 1 else records)


async def embed(request: Request) -> Response:
    """Embed texts, as vectors."""
    given = await _fields(request)
    model = _model(request, given)
    texts = _texts(model, given, "text")
    how = {name: given.take(name, kind | None) for name, kind in (("pooling", str), ("normalize", bool))}
    given.finish()
    return _records(texts, await answered(request, model, Work.of("embeddings", how), _list(texts)))


async def score(request: Request) -> Response:
    """Score existing translations or summaries."""
    given = await _fields(request)
    model = _model(request, given, "translate", "summarize")
    alone = given.take("source", str | None), given.take("target", str | None)
    pairs = given.take("pairs", list[tuple[str, str]]) if None in alone else [alone]
    if pairs is None:
        raise RequestError(400, "there's nothing to score", expected="source and target, or pairs", name="pairs")
    model.limits.check_texts([source for source, _ in pairs], "pairs")
    model.limits.check_texts([target for _, target in pairs], "pairs")
    alpha = given.take("alpha", float | None)
    given.finish()
    found = await answered(request, model, Work.of("scores", {"alpha": alpha}), pairs)
    records = [it.to_dict() | {"line": number} for number, it in enumerate(found, 1)]
    return json_response(records if None in alone else records[0])


async def explain(request: Request) -> Response:
    """Follow one text through the model."""
    given = await _fields(request)
    model = _model(request, given)
    text, context = given.need("text", str), given.take("context", str | None)
    model.limits.check_texts([text], "text")
    if (context is not None) != (model.verb == "answer"):
        what = "context is missing" if context is None else f"the model {model.name!r} reads no context"
        raise RequestError(400, what, name="context")
    about = {} if context is None else {"context": context}
    work = Work.of("explanations", about | given.search(model))
    return json_response((await answered(request, model, work, [text]))[0])


def _streamable(model: ServedModel, search: dict[str, Any]) -> dict[str, Any]:
    """Return greedy search unless beams are requested, because the best beam is known only at the end."""
    samples = model.app.decode_config(**search).sample
    return {"n_best": 1, **({} if samples else {"beam": 1}), **search}


async def _events(request: Request, model: ServedModel, work: Work, texts: list[str]) -> Events:
    """Yield the pieces of answers as they come, and each whole record."""
    request.state.texts.extend(texts)
    async with aclosing(model.stream(work, texts)) as stream:
        async for number, piece, answer in stream:
            if piece is None:
                yield {"index": number, "record": _records_of(texts[number], answer)[0]}
            else:
                yield {"index": number, "piece": piece}


def _model(request: Request, given: Fields, *verbs: str) -> ServedModel:
    """Return the model that a request names, which reads text."""
    model = shelf_of(request).find(given.take("model", str | None), *verbs)
    expect_text(model, takes_files="classify" in verbs)
    return model


def _texts(model: ServedModel, given: Fields, name: str, default: str | None = None) -> Texts:
    texts: Texts = given.need(name, Texts) if default is None else given.take(name, Texts, default)
    model.limits.check_texts(_list(texts), name)
    return texts


def _list(texts: Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _records(texts: Texts, found: list[Any]) -> Response:
    """Return one record for one text with one answer, or else a list."""
    records = [record for text, answer in zip(_list(texts), found) for record in _records_of(text, answer)]
    return json_response(records[0] if isinstance(texts, str) and len(records) == 1 else records)


def _records_of(text: str, answer: Any) -> list[dict[str, Any]]:
    """Return the record of an answer, or those of all continuations of a text."""
    return [it.to_dict(text) for it in answer] if isinstance(answer, list) else [answer.to_dict()]


_classify_texts = _task_route("classify", TASKS["classify"])
_ROUTES: dict[str, Handler] = {  # of tasks with more than that, and of all models
    "classify": classify,
    "embed": embed,
    "score": score,
    "explain": explain,
}


def task_routes() -> dict[str, Handler]:
    """Return the handlers of all routes by their names."""
    return {name: _task_route(name, spec) for name, spec in TASKS.items() if spec.fields} | _ROUTES
