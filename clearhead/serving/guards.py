"""Guards that every request passes: identity, access, limits, the log and the metrics."""

import asyncio
import base64
import binascii
import hmac
import ipaddress
import re
import time
import traceback
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..config.messages import say
from ..errors import ClearheadError
from .bodies import error_response
from .limits import RequestError, RequestLimits

_ID = re.compile(r"[\w.:-]{1,64}")
_OPEN = ("/livez", "/readyz")  # without a key
_KEY_IN_BODY = ("/translate", "/detect", "/languages")  # LibreTranslate's clients send it as a field
_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Access:
    """Access rules: the accepted keys (none: everyone), host names of this server, and websites whose scripts may ask.

    Localhost and all IP addresses are always names of this server.
    """

    keys: Collection[str] = ()
    hosts: Collection[str] = ()
    origins: Collection[str] = ()

    def accepts_key(self, given: str) -> bool:
        """Return whether a key is one of the known ones. Takes the same time for all wrong keys."""
        known = [hmac.compare_digest(given.encode(), key.encode()) for key in self.keys]
        return any(known) or not known

    def accepts_host(self, host: str) -> bool:
        """Return whether a Host header names this server. A name that isn't known can be a DNS rebinding attack."""
        name = _host_name(host)
        return name == "localhost" or name in self.hosts or _is_address(name)

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Return whether scripts of a website may ask."""
        return origin in self.origins or "*" in self.origins or urlsplit(origin).netloc == host


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guards:
    """ASGI middleware around all routes. `count` is called with each request's route, status and seconds."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        limits: RequestLimits,
        count: Callable[[str, int, float], None],
        *,
        log_texts: bool = False,
    ) -> None:
        self.app, self.access, self.limits, self.count, self.log_texts = app, access, limits, count, log_texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = _Guarded(scope, receive, send, self.limits)
        try:
            self._check(request)
            await self.app(scope, request.receive, request.send)
        except ClearheadError as error:
            await request.fail(error)
        except ClientDisconnect:
            request.status = 499
        except Exception:
            say(f"internal error in request {request.id}\n{traceback.format_exc()}")
            await request.fail(RequestError(500, f"an internal error, logged as request {request.id}"))
        finally:
            self._log(request)

    def _check(self, request: "_Guarded") -> None:
        """Raise RequestError if the request may not be answered."""
        headers, path = request.headers, request.scope["path"]
        request.scope["state"] = {**request.scope.get("state", {}), "access": self.access, "texts": []}
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.access.accepts_host(host):
            fix = "start the server with --allow-host NAME to accept this name"
            raise RequestError(403, f"the host name {host!r} isn't this server's", fix=fix, name="host", value=host)
        if origin and request.scope["method"] not in _SAFE and not self.access.accepts_origin(origin, host):
            what = f"scripts of {origin!r} may not use this server"
            raise RequestError(403, what, fix="start it with --cors ORIGIN to allow them", name="origin", value=origin)
        if (coding := headers.get("content-encoding", "").strip().lower()) not in ("", "identity"):
            what, accepted = f"a body with content encoding {coding!r} can't be read", {"Accept-Encoding": "identity"}
            raise RequestError(415, what, expected="no compression", name="content-encoding", headers=accepted)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.limits.body:
            raise _too_large(self.limits.body)
        given = headers.get("authorization", "")
        is_open = path in _OPEN or (path in _KEY_IN_BODY and not given)
        if not is_open and not self.access.accepts_key(_key_in(given)):
            raise wrong_key("Basic" if path == "/" else "Bearer")
        if path not in _OPEN and request.scope["app"].state.stopping:
            raise RequestError(503, "the server is stopping", fix="try again", headers={"Retry-After": "1"})
        if path not in _OPEN and not request.scope["app"].state.shelf.models:
            raise RequestError(503, "the models are being loaded", fix="try again", headers={"Retry-After": "1"})

    def _log(self, request: "_Guarded") -> None:
        scope, seconds = request.scope, time.perf_counter() - request.started
        self.count(request.route, request.status, seconds)
        if request.route in _OPEN:
            return
        client = (scope.get("client") or ("-",))[0]
        path = scope["path"].encode("ascii", "backslashreplace").decode()
        line = f"{client} {scope['method']} {path!r} {request.status} {1000 * seconds:.0f} ms {request.id}"
        texts = scope.get("state", {}).get("texts", []) if self.log_texts else []
        say(" ".join([line, *(repr(getattr(it, "text", it)) for it in texts)]))


def _key_in(header: str) -> str:
    """Return the key in an Authorization header: a bearer token, or a password as browsers ask for."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    try:
        password = base64.b64decode(value, validate=True).decode("ascii").partition(":")[2]
    except (binascii.Error, ValueError):
        return ""
    return password if scheme.lower() == "basic" else ""


def wrong_key(scheme: str = "Bearer") -> RequestError:
    """Return the error for a missing or wrong key. Browsers ask for a password if the scheme is "Basic"."""
    what, expected = "the API key is missing or wrong", "the header Authorization: Bearer KEY"
    headers = {"WWW-Authenticate": f'{scheme} realm="Clearhead"'}
    return RequestError(401, what, expected=expected, name="api_key", headers=headers)


def _too_large(most: int) -> RequestError:
    what = "the request is too large"
    return RequestError(413, what, expected=f"at most {most:,} bytes", fix="send it in parts", name="body")


class _Guarded:
    """A request with its id, whose body is limited in size and time, and whose response is watched."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limits: RequestLimits) -> None:
        self.scope, self._receive, self._send, self._limits = scope, receive, send, limits
        self.headers, self.started = Headers(scope=scope), time.perf_counter()
        given = self.headers.get("x-request-id", "")
        self.id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        self.status, self._read, self._complete = 0, 0, False

    @property
    def route(self) -> str:
        """The path of the route, or "other"."""
        route = self.scope.get("route")
        return getattr(route, "path", "other")

    async def receive(self) -> Message:
        """Return the next part of the body. Raise RequestError if it's too large or too slow."""
        if self._complete:  # waits for the end of the connection
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            what = f"the request wasn't sent within {self._limits.seconds} seconds"
            raise RequestError(408, what, headers={"Connection": "close"}) from None
        self._read += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._read > self._limits.body:
            raise _too_large(self._limits.body)
        return message

    @property
    def _deadline(self) -> float:
        elapsed = time.perf_counter() - self.started
        return asyncio.get_running_loop().time() - elapsed + self._limits.seconds

    async def send(self, message: Message) -> None:
        """Send a part of the response, with the request's id."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.id
            headers.setdefault("X-Content-Type-Options", "nosniff")
            headers.setdefault("Cache-Control", "no-store")
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._send(message)
        except TimeoutError:  # the client doesn't read
            raise ClientDisconnect from None

    async def fail(self, error: ClearheadError) -> None:
        """Send an error, unless a response has begun."""
        if self.status:
            return
        await error_response(self.scope["path"], error)(self.scope, self._receive, self.send)
