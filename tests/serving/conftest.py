"""A server in a thread of this process, and requests to it."""

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load
from clearhead.serving.guards import Access
from clearhead.serving.limits import RequestLimits
from clearhead.serving.served_models import ModelName, ModelShelf, with_adapters
from clearhead.serving.server import Address, RunningServer

JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A running server."""

    port: int
    shelf: ModelShelf
    running: RunningServer
    loop: asyncio.AbstractEventLoop
    url: str = field(init=False)
    stopped: bool = False

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send one request. Bytes are sent unchanged, anything else as JSON."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None and not isinstance(body, bytes):
            body, named = json.dumps(body).encode(), JSON | named
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, named)
        response = connection.getresponse()
        reply = Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return reply

    def stop(self) -> None:
        """Stop gracefully. A second call does nothing."""
        if self.stopped:
            return
        self.stopped = True
        self.loop.call_soon_threadsafe(self.running.stop)

    def refuses(self) -> bool:
        """Return whether new connections are refused."""
        try:
            return self.ask("GET", "/readyz").status == 503
        except OSError:
            return True

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        """Send a POST request."""
        return self.ask("POST", path, body, **headers)


@contextmanager
def serving(
    *names: str,
    access: Access | None = None,
    limits: RequestLimits | None = None,
    log_texts: bool = False,
    adapters: Sequence[str] = (),
) -> Iterator[Served]:
    """Serve model folders inside the `with` block. The server runs in a thread, and stops gracefully."""
    models, more = ([ModelName.read(name) for name in some] for some in (names, adapters))
    shelf = ModelShelf(with_adapters(models, more), load, limits or RequestLimits())
    running = RunningServer(shelf, access or Access(), log_texts=log_texts)
    listening = Address(port=0).listen()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=[running.run(listening)])
    thread.start()
    served = Served(listening.getsockname()[1], shelf, running, loop)
    try:
        while served.ask("GET", "/readyz").status != 200:
            assert thread.is_alive()
        yield served
    finally:
        served.stop()
        thread.join(60)
        listening.close()
        loop.close()
        assert not thread.is_alive()


Serve = Callable[..., Any]


@pytest.fixture(scope="session")
def serve() -> Serve:
    """`with serve("en-fr=folder") as served:`"""
    return serving


@pytest.fixture(scope="module")
def translator(model_folder: Path) -> Iterator[Served]:
    """A server with one translator. The tests of a module share it."""
    with serving(f"en-fr={model_folder}") as served:
        yield served
