"""A server that's still loading."""

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from clearhead.serving.guards import Access
from clearhead.serving.limits import RequestLimits
from clearhead.serving.served_models import ModelName, ModelShelf
from clearhead.serving.server import Address, RunningServer, _Joining, _on_signals


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_server_that_compiles_is_alive_but_not_ready_and_can_be_stopped() -> None:
    began, end = threading.Event(), threading.Event()

    def load(_folder: str, adapter: str | None) -> None:
        began.set()
        end.wait(20)

    async def use() -> list[int]:
        running = RunningServer(ModelShelf([ModelName.read("en-fr=x")], load, RequestLimits()), Access())
        with Address(port=0).listen() as listening:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            serving = asyncio.create_task(running.run(listening))
            await asyncio.to_thread(began.wait, 20)
            found = [await asyncio.to_thread(status, url + path) for path in ("/livez", "/readyz", "/v1/models")]
            running.stop()
            await serving
        return found

    assert asyncio.run(asyncio.wait_for(use(), 15)) == [200, 503, 503]
    end.set()


class Sent:
    """A transport that only notes what is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def close(self) -> None:
        self.sent.append(b"closed")


def test_headers_and_body_are_sent_together_and_nothing_is_lost_at_the_end() -> None:
    async def use() -> list[bytes]:
        transport = Sent()
        joining = _Joining(cast(asyncio.Transport, transport))
        joining.write(b"head ")
        joining.write(b"body")
        assert not transport.sent
        await asyncio.sleep(0)
        joining.write(b"long" * 10_000)
        assert len(transport.sent) == 2
        joining.write(b"end")
        joining.close()
        await asyncio.sleep(0)
        return transport.sent

    assert asyncio.run(use()) == [b"head body", b"long" * 10_000, b"end", b"closed"]


def test_signals_stop_it_where_the_loop_handles_none_and_some_do_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows."""
    handlers: dict[int, Callable[..., None]] = {}
    windows = SimpleNamespace(SIGINT=2, SIGTERM=15, signal=handlers.__setitem__)
    monkeypatch.setattr("clearhead.serving.server.signal", windows)
    called: list[str] = []

    async def use() -> None:
        loop = asyncio.get_running_loop()

        def refuse(*_: object) -> None:
            raise NotImplementedError

        monkeypatch.setattr(loop, "add_signal_handler", refuse)
        _on_signals({it: partial(called.append, it) for it in ("SIGINT", "SIGTERM", "SIGHUP")})
        handlers[15](15, None)
        handlers[2](2, None)
        await asyncio.sleep(0)

    asyncio.run(use())
    assert called == ["SIGTERM", "SIGINT"] and handlers.keys() == {2, 15}
