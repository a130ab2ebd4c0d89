"""Errors in the shape of the API that a path belongs to."""

from typing import Any

from starlette.responses import Response

from ..errors import ClearheadError, ModelError
from .bodies import json_response
from .limits import RequestError

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


def status_of(error: ClearheadError) -> int:
    """Return the HTTP status code for an error."""
    if isinstance(error, RequestError):
        return error.status
    return 500 if isinstance(error, ModelError) else 400


def error_response(path: str, error: ClearheadError) -> Response:
    """Return the response for an error: as OpenAI's for /v1, in parts for /api, and else as LibreTranslate's."""
    status = status_of(error)
    if path.startswith("/v1/"):
        body = _openai(status, error)
    elif path.startswith("/api/"):
        parts = {name: getattr(error, name) for name in ("what", "expected", "fix", "name")}
        body = {"error": {"message": str(error), **parts}}
    else:
        body = {"error": str(error)}
    return json_response(body, status, error.headers if isinstance(error, RequestError) else None)


def _openai(status: int, error: ClearheadError) -> dict[str, Any]:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    code = {401: "invalid_api_key", 404: "not_found", 429: "queue_full"}.get(status)
    return {"error": {"message": str(error), "type": kind, "param": error.name or None, "code": code}}
