"""Run the server: sockets, signals, and loading in the background."""

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..config.messages import say
from ..errors import ConfigError
from .batching import call_in
from .guards import Access
from .routes_table import make_application
from .served_models import ModelShelf

_KEEP_ALIVE = 75  # seconds until an idle connection is closed
_LONG = 16_384  # bytes that are sent at once, so that a client that reads slowly keeps a response waiting


@dataclass(frozen=True, kw_only=True)
class Address:
    """Host and port to listen on. Port 0 means any free one."""

    host: str = "127.0.0.1"
    port: int = 8765

    def listen(self) -> socket.socket:
        """Return a listening socket. Raise ConfigError if the address doesn't exist, or is in use."""
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            listening = socket.create_server((self.host, self.port), family=family, backlog=1024)
        except OSError as error:
            reason = error.strerror or error
            what = f"can't listen on {self.host}, port {self.port}: {reason}"
            raise ConfigError(what, fix="choose another --port or --host", name="port", value=self.port) from error
        # Connections inherit this. Otherwise, a body waits 40 ms until the client has acknowledged the headers.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening


def serve(shelf: ModelShelf, address: Address, access: Access, *, log_texts: bool = False) -> None:
    """Serve models until SIGINT or SIGTERM, then finish the requests in flight. SIGHUP reads the models again.

    Args:
        shelf: the models to load and serve.
        address: where to listen.
        access: who may ask.
        log_texts: True to write the texts of requests to the log.

    Raises:
        ConfigError: the address can't be used.
        ClearheadError: a model can't be read.
    """

    async def run(listening: socket.socket) -> None:
        running = RunningServer(shelf, access, log_texts=log_texts)
        _on_signals({"SIGINT": running.stop, "SIGTERM": running.stop, "SIGHUP": running.reload})
        await running.run(listening)
        if running.is_loading:  # a compiler in a thread would crash the interpreter if that ended the usual way
            sys.stderr.flush()
            os._exit(0)

    with address.listen() as listening:
        asyncio.run(run(listening))


def _on_signals(actions: Mapping[str, Callable[[], None]]) -> None:
    """Call an action in the running loop when a signal arrives. Windows lacks SIGHUP, and its loop handles none."""
    loop = asyncio.get_running_loop()
    for name, action in actions.items():
        if (number := getattr(signal, name, None)) is None:
            continue
        try:
            loop.add_signal_handler(number, action)
        except NotImplementedError:
            signal.signal(number, lambda *_, action=action: loop.call_soon_threadsafe(action))


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Joining:
    """A transport that sends what is written in one turn of the event loop together: headers with a short body.

    Each send costs a system call, and wakes the client.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._loop, self._parts = transport, asyncio.get_running_loop(), list[bytes]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data together with everything else written before the next turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        if sum(map(len, self._parts)) > _LONG:
            self._flush()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class _Protocol(H11Protocol):
    """HTTP/1.1. A body that turns out to be broken ends its request, however much of that is answered by then."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Joining(transport)))

    def send_400_response(self, msg: str) -> None:
        if self.cycle is not None:
            self.cycle.disconnected = True  # nobody reads the rest of its answer
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun, or may have no body
            self.transport.close()


class RunningServer:
    """A server from start to stop. The arguments are those of `serve`."""

    def __init__(self, shelf: ModelShelf, access: Access, *, log_texts: bool = False) -> None:
        self._shelf = shelf
        self._application = make_application(shelf, access, self._lifespan, log_texts=log_texts)
        self._failure: Exception | None = None
        self.is_loading = False
        self._server = _Server(
            uvicorn.Config(
                self._application,
                http=_Protocol,
                log_config=None,
                access_log=False,
                ws="none",
                lifespan="on",
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=shelf.limits.seconds,
            )
        )

    async def run(self, listening: socket.socket) -> None:
        """Serve on this socket until `stop` is called. Raise ClearheadError if a model can't be read."""
        self._url = _url(listening)
        await self._server.serve(sockets=[listening])
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Finish the requests in flight, and end them if called again."""
        self._server.force_exit = self._server.should_exit
        self._server.should_exit = self._application.state.stopping = True
        say(
            "stopping at once"
            if self._server.force_exit
            else "finishing the requests in flight; repeat to stop at once"
        )

    def reload(self) -> None:
        """Read all models again in the background."""
        self._reloading = asyncio.create_task(asyncio.to_thread(self._shelf.reload))

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        loading = asyncio.create_task(self._load())
        yield
        loading.cancel()
        self._shelf.close()

    async def _load(self) -> None:
        say(f"loading; {self._url}/readyz answers 200 once that's done")
        self.is_loading = True
        try:
            await _in_background(self._shelf.load)
            models = ", ".join(f"{it.name} ({it.verb})" for it in self._shelf.models.values())
            self.is_loading = False
            say(f"serving {models} at {self._url}\n  press Ctrl-C to stop")
        except Exception as error:
            self._failure, self.is_loading = error, False
            self._server.should_exit = True


def _in_background(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Run a function in a thread that doesn't keep a stopping server waiting: it may compile for some seconds."""
    loop, done = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

    def settle(error: Exception | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def run() -> None:
        try:
            function()
        except Exception as error:
            call_in(loop, settle, error)
        else:
            call_in(loop, settle, None)

    threading.Thread(target=run, name="loading", daemon=True).start()
    return done


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
