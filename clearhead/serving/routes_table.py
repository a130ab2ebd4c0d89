"""All routes of the server, with its metrics for Prometheus."""

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .bodies import error_response, json_response
from .guards import Access, Guards
from .limits import RequestError
from .routes import completions, libretranslate, openai_routes, page_routes, task_routes
from .routes.open_api import open_api
from .served_models import ModelShelf

_COMPRESSED = 1_000  # bytes of a response from which compression is worth its time

Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


def make_application(shelf: ModelShelf, access: Access, lifespan: Lifespan, *, log_texts: bool = False) -> Starlette:
    """Return the ASGI application.

    Args:
        shelf: the served models.
        access: who may ask.
        lifespan: a context manager that surrounds the time of serving.
        log_texts: True to write the texts of requests to the log.
    """
    metrics = _Metrics(shelf)
    middleware = [
        Middleware(GZipMiddleware, minimum_size=_COMPRESSED, compresslevel=6),  # not the events of a stream
        Middleware(Guards, access, shelf.limits, metrics.count, log_texts=log_texts),
    ]
    if access.origins:  # outermost, because a preflight has no key, and scripts may read errors, too
        origins, shown = list(access.origins), ["X-Request-ID", "Retry-After"]
        cors = Middleware(
            CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=["*"], expose_headers=shown
        )
        middleware.insert(0, cors)
    app = Starlette(
        routes=_routes(metrics),
        middleware=middleware,
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.shelf, app.state.stopping = shelf, False
    return app


def _routes(metrics: "_Metrics") -> list[Route]:
    async def render_metrics(_: Request) -> Response:
        """Return metrics for Prometheus."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def describe(request: Request) -> Response:
        """Return this document."""
        return json_response(open_api(routes, request.app.state.shelf))

    routes = [
        Route("/", page_routes.home),
        Route("/api/page", page_routes.page, methods=["POST"]),
        Route("/livez", _alive),
        Route("/readyz", _ready),
        Route("/metrics", render_metrics),
        Route("/openapi.json", describe),
        Route("/translate", libretranslate.translate, methods=["POST"]),
        Route("/detect", libretranslate.detect, methods=["POST"]),
        Route("/languages", libretranslate.languages, methods=["GET", "POST"]),
        Route("/v1/completions", completions.completions, methods=["POST"]),
        Route("/v1/embeddings", openai_routes.embeddings, methods=["POST"]),
        Route("/v1/chat/completions", completions.chat_completions, methods=["POST"]),
        Route("/v1/models", openai_routes.list_models),
        Route("/v1/models/{name}", openai_routes.show_model),
        Route("/v1/audio/transcriptions", openai_routes.transcriptions, methods=["POST"]),
        Route("/v1/audio/speech", openai_routes.speech, methods=["POST"]),
        *(Route(f"/api/{name}", answer, methods=["POST"]) for name, answer in task_routes.task_routes().items()),
    ]
    return routes


async def _alive(_: Request) -> Response:
    """Answer 200 as long as the process runs."""
    return PlainTextResponse("alive\n")


async def _ready(request: Request) -> Response:
    """Answer 200 once all models are loaded, until the server stops."""
    state = request.app.state
    if state.stopping or not state.shelf.models:
        return PlainTextResponse("stopping\n" if state.stopping else "loading\n", 503, {"Retry-After": "1"})
    return PlainTextResponse("ready\n")


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer for paths and methods that have no route."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    what = {404: f"there's nothing at {path}", 405: f"{path} doesn't answer {request.method}"}
    message = what.get(error.status_code, error.detail)
    methods = (error.headers or {}).get("Allow", "")
    return error_response(path, RequestError(error.status_code, message, expected=methods, headers=error.headers))


class _Metrics:
    """Counts requests by route and status, and shows what waits for each model."""

    def __init__(self, shelf: ModelShelf) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("clearhead_requests", "answered requests", ["route", "status"], registry=self.registry)
        self._seconds = Histogram(
            "clearhead_request_seconds", "time from request to response", ["route"], registry=self.registry
        )
        self.registry.register(_Queues(shelf))

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class _Queues(Collector):
    def __init__(self, shelf: ModelShelf) -> None:
        self._shelf = shelf

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Return the length of each queue."""
        texts, explanations = (
            GaugeMetricFamily(f"clearhead_waiting_{it}", f"{it} that wait for a model", labels=["model"])
            for it in ("texts", "explanations")
        )
        for name, model in self._shelf.models.items():
            texts.add_metric([name], model.batcher.waiting)
            explanations.add_metric([name], model.explanations.waiting)
        yield from (texts, explanations)
