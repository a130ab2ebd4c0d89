"""Errors in the shape of the API that a path belongs to."""

import re
from typing import Any

from starlette.responses import Response

from ..errors import ClearheadError, ModelError
from .bodies import json_response
from .limits import RequestError

_SETTING = re.compile(r"`?\bdecode\.([a-z_]+(?:=[^`\s]*)?)`?")
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def status_of(error: ClearheadError) -> int:
    """Return the HTTP status code for an error."""
    if isinstance(error, RequestError):
        return error.status
    return 500 if isinstance(error, ModelError) else 400


def error_response(path: str, error: ClearheadError) -> Response:
    """Return the response for an error."""
    headers = error.headers if isinstance(error, RequestError) else None
    return json_response(error_body(path, error), status_of(error), headers)


def error_body(path: str, error: ClearheadError) -> dict[str, Any]:
    """Return an error in the shape for a path: OpenAI's for /v1, in parts for /api, and else LibreTranslate's."""
    if path.startswith("/v1/"):
        return _openai(status_of(error), error)
    if path.startswith("/api/"):
        parts = {name: _of_body(getattr(error, name)) for name in ("what", "expected", "fix", "name")}
        return {"error": {"message": _of_body(str(error)), **parts}}
    return {"error": _of_body(str(error))}


def _of_body(text: str) -> str:
    """Write the settings of a search as the fields of a body: `decode.beam=2` becomes beam=2."""
    return _SETTING.sub(r"\1", text)


def _openai(status: int, error: ClearheadError) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = {401: "invalid_api_key", 404: "not_found", 429: "queue_full"}.get(status)
    return {
        "error": {"message": _of_body(str(error)), "type": kind, "param": _of_body(error.name) or None, "code": code}
    }
