"""Bodies of requests and responses: strict JSON, forms, and errors in the format of the API that a path belongs to."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..config.values import finite
from ..errors import ClearheadError, ModelError
from .limits import RequestError

T = TypeVar("T")
JSON = "application/json"
_SETTING = re.compile(r"`?\bdecode\.([a-z_]+(?:=[^`\s]*)?)`?")
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def from_json(body: bytes, kind: type[T]) -> T:
    """Decode a JSON body. Raise RequestError if it isn't strictly valid JSON, or not of this kind."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _unfit("body", error) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = f"the body isn't valid JSON: {error}"
        raise RequestError(400, what, expected="a JSON object in UTF-8, without lone surrogates") from error


def _unfit(what: str, error: msgspec.ValidationError) -> RequestError:
    field = str(error).partition("$.")[2].partition("`")[0].partition("[")[0]
    why = str(error).replace("`", "'").replace("$.", "")
    return RequestError(400, f"the {what} doesn't fit: {why}", name=field)


async def fields_of(request: Request, kind: type[T]) -> T:
    """Return the body of a request, which is JSON or a form. Raise RequestError if the body can't be read."""
    form = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if form in ("application/x-www-form-urlencoded", "multipart/form-data"):
        async with form_of(request, max_files=0, max_fields=1_000) as given:
            values: dict[str, Any] = {name: given.getlist(name) for name in given}
        fields = {name: it if len(it) > 1 else it[0] for name, it in values.items()}
        try:
            return msgspec.convert(fields, type=kind, strict=False)  # the numbers of a form are strings
        except msgspec.ValidationError as error:
            raise _unfit("form", error) from error
    expect_json(form)
    return from_json(await request.body(), kind)


@asynccontextmanager
async def form_of(request: Request, *, max_files: int, max_fields: int) -> AsyncIterator[FormData]:
    """Yield the form of a request. Its files exist inside the `with` block.

    Args:
        request: a request with a form, of either content type.
        max_files: maximum number of files.
        max_fields: maximum number of other fields.

    Raises:
        RequestError: the form is malformed, or has too many fields or files.
    """
    try:
        form = await request.form(max_files=max_files, max_fields=max_fields)
    except HTTPException as error:
        what, files = f"the form can't be read: {error.detail}", f"at most {max_files}" if max_files else "no"
        raise RequestError(400, what, expected=f"a complete form with {files} files", name="body") from error
    try:
        yield form
    finally:
        await form.close()


def expect_json(content_type: str) -> None:
    """Raise RequestError for a content type other than JSON. None at all counts as JSON."""
    if content_type not in ("", JSON) and not content_type.endswith("+json"):
        what = f"the content type {content_type!r} isn't supported here"
        raise RequestError(415, what, expected=JSON, name="content-type", value=content_type)


def json_bytes(value: Any) -> bytes:
    """Return strictly valid JSON. NaN and infinity become null."""
    return msgspec.json.encode(finite(value))


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response.

    Args:
        value: plain values. NaN and infinity become null.
        status: the HTTP status code.
        headers: more headers.
    """
    return Response(json_bytes(value), status, headers, JSON)


def error_response(path: str, error: ClearheadError) -> Response:
    """Return the response for an error."""
    headers = error.headers if isinstance(error, RequestError) else None
    return json_response(error_body(path, error), _status_of(error), headers)


def error_body(path: str, error: ClearheadError) -> dict[str, Any]:
    """Return an error in the shape for a path: OpenAI's for /v1, in parts for /api, and else LibreTranslate's."""
    parts = {name: _of_body(getattr(error, name)) for name in ("what", "expected", "fix", "name")}
    message = {"message": _of_body(str(error))}
    if path.startswith("/v1/"):
        status = _status_of(error)
        kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        code = {401: "invalid_api_key", 404: "not_found", 429: "queue_full"}.get(status)
        return {"error": message | {"type": kind, "param": parts["name"] or None, "code": code}}
    return {"error": message | parts if path.startswith("/api/") else message["message"]}


def _status_of(error: ClearheadError) -> int:
    if isinstance(error, RequestError):
        return error.status
    return 500 if isinstance(error, ModelError) else 400


def _of_body(text: str) -> str:
    """Write the settings of a search as the fields of a body: `decode.beam=2` becomes beam=2."""
    return _SETTING.sub(r"\1", text)
