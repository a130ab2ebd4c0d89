"""Many clients at once, some of whom leave or read slowly, and requests that are none."""

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead import load
from clearhead.serving.limits import RequestLimits

from .small_models import make

WORDS = ["I", "am", "hungry", "You", "are", "late", "She", "sings", "We", "are", "here", "They", "sleep", "well"]
SHORT, LONG = (16, 12), (64, 100)  # clients, and requests of each


@pytest.fixture(scope="module")
def folders(model_folder: Path, tmp_path_factory) -> dict[str, Path]:
    kinds = {kind: make(tmp_path_factory.mktemp(kind), kind) for kind in ("generate", "classify")}
    return {"en-fr": model_folder, **kinds}


@pytest.fixture(scope="module")
def loaded(serve, folders):
    """A server of three models whose queue is small."""
    models = (f"{name}={folder}" for name, folder in folders.items())
    with serve(*models, limits=RequestLimits(queue=40, chars=500)) as served:
        yield served


def memory() -> int:
    """Resident memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def question(dice: random.Random) -> tuple[str, dict[str, Any]]:
    text = " ".join(dice.choices(WORDS, k=dice.randint(1, 8)))
    return dice.choice(
        [
            ("/translate", {"q": text, "source": "en", "target": "fr"}),
            ("/translate", {"q": [text, "She sings."], "source": "en", "target": "fr"}),
            ("/api/translate", {"text": text, "beam": dice.choice([1, 4])}),
            ("/api/generate", {"text": text, "max_len": 8, "beam": 1}),
            ("/api/classify", {"text": text}),
            ("/v1/completions", {"model": "generate", "prompt": text, "max_tokens": 6, "seed": 1}),
            ("/v1/completions", {"model": "generate", "prompt": text, "seed": 1, "stream": True}),
        ]
    )


class Alone:
    """The answers of models that nobody else uses."""

    def __init__(self, folders: dict[str, Path]) -> None:
        self.apps = {name: load(folder) for name, folder in folders.items()}

    def answer(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/translate":
            found = self.apps["en-fr"](body["q"])
            return {"translatedText": found}
        if path == "/api/translate":
            return self.apps["en-fr"](body["text"], beam=body["beam"])
        if path == "/api/classify":
            return self.apps["classify"](body["text"])
        if path == "/api/generate":
            return self.apps["generate"].continuations([body["text"]], beam=1, max_len=8, n_best=1)[0][0].text
        size = body.get("max_tokens", 16)
        options = {"sample": True, "seed": 1, "temperature": 1.0, "max_len": size, "n_best": 1}
        return self.apps["generate"].continuations([body["prompt"]], **options)[0][0].text


def content(path: str, body: dict[str, Any], reply: bytes) -> Any:
    """The answer in a reply."""
    if body.get("stream"):
        events = [json.loads(it[6:]) for it in reply.decode().split("\n\n") if it.startswith("data: {")]
        return "".join(choice["text"] for event in events for choice in event["choices"])
    found = json.loads(reply)
    if path == "/translate":
        return found
    if path == "/v1/completions":
        return found["choices"][0]["text"]
    return found["label"] if path == "/api/classify" else found["text"]


async def send(
    port: int, path: str, body: dict[str, Any], *, leave: float = 0.0, slow: bool = False
) -> tuple[int, bytes]:
    """Send a request; leave after some seconds, or read slowly. Return the status (0: left) and the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    try:
        if leave:
            await asyncio.sleep(leave)
            return 0, b""
        first = b""
        while slow and len(first) < 20:
            first += await reader.read(1)
            await asyncio.sleep(0.002)
        whole = first + await reader.read()
    finally:
        writer.close()
    top, _, rest = whole.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" in top.lower():
        rest = unchunked(rest)
    return int(top.split()[1]), rest


def unchunked(data: bytes) -> bytes:
    found = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        found, data = found + data[: int(size, 16)], data[int(size, 16) + 2 :]
    return found


async def client(port: int, requests: int, seed: int) -> list[tuple[str, dict[str, Any], int, bytes]]:
    dice, found = random.Random(seed), []
    for _ in range(requests):
        path, body = question(dice)
        kind = dice.random()
        leave = dice.random() * 0.03 if kind < 0.15 else 0.0
        found.append((path, body, *await send(port, path, body, leave=leave, slow=kind > 0.9)))
    return found


async def clients(port: int, count: int, requests: int) -> list[tuple[str, dict[str, Any], int, bytes]]:
    found = await asyncio.gather(*(client(port, requests, seed) for seed in range(count)))
    return [it for some in found for it in some]


@pytest.mark.parametrize("load", [SHORT, pytest.param(LONG, marks=pytest.mark.slow)])
def test_many_clients_get_the_answers_that_they_get_alone(loaded, folders, load) -> None:
    before = memory()
    found = asyncio.run(clients(loaded.port, *load))
    grown = memory() - before
    statuses = {status for _, _, status, _ in found}
    assert {200} <= statuses <= {0, 200, 429}
    alone, right, answered = Alone(folders), 0, 0
    for path, body, status, reply in found:
        if status == 200:
            answered += 1
            right += content(path, body, reply) == alone.answer(path, body)
    assert answered > 0.3 * len(found)
    assert right >= 0.999 * answered
    assert grown < 100e6
    for model in loaded.shelf.models.values():
        assert model.batcher.busy == model.batcher.waiting == 0


# --- requests that are none


def garbage(dice: random.Random) -> bytes:
    """Something that isn't a request, or that no route accepts."""
    path, body = question(dice)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    whole = head + b"Content-Length: %d\r\n\r\n" % len(data) + data

    def changed() -> bytes:
        found = bytearray(whole)
        for _ in range(dice.randint(1, 9)):
            found[dice.randrange(len(found))] = dice.randrange(256)
        return bytes(found)

    strange = json.dumps({dice.choice([*body, "x"]): dice.choice([None, -1, 1e300, [], {}, [[]], "\ud800", "a" * 600])})
    return dice.choice(
        [
            lambda: dice.randbytes(dice.randint(1, 300)),
            changed,
            lambda: whole[: dice.randrange(len(whole))],
            lambda: head + b"Content-Length: 9999999999\r\n\r\n" + data,
            lambda: head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            lambda: head + b"Content-Length: %d\r\n\r\n%s" % (len(strange), strange.encode()),
            lambda: head + b"Content-Length: 60\r\n\r\n" + b"[" * 60,
            lambda: b"GET /" + dice.randbytes(20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
            lambda: b"GET " + path.encode() + b" HTTP/9.9\r\n\r\n" * 3,
            lambda: b"X: y\r\n" * 3_000,
            lambda: head.replace(b"application/json", b"multipart/form-data; boundary=x")
            + b"Content-Length: 40\r\n\r\n" + dice.randbytes(40),
            lambda: head.replace(b"application/json", b"application/x-www-form-urlencoded")
            + b"Content-Length: 40\r\n\r\n" + dice.randbytes(40),
        ]
    )()  # fmt: skip


async def throw(port: int, data: bytes, patience: float) -> int:
    """Send bytes and return the status, or 0 if there's none."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        head = await asyncio.wait_for(reader.read(100), patience)
        return int(head.split()[1]) if head.startswith(b"HTTP/") else 0
    except (TimeoutError, OSError, ValueError):
        return 0
    finally:
        writer.close()


async def throw_all(port: int, count: int) -> set[int]:
    left, statuses = iter(range(count)), set()

    async def thrower() -> None:
        for seed in left:
            statuses.add(await throw(port, garbage(random.Random(seed)), 0.2))

    await asyncio.gather(*(thrower() for _ in range(32)))
    return statuses


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_garbage_is_never_an_error_of_the_server(loaded, count, capfd) -> None:
    statuses = asyncio.run(throw_all(loaded.port, count))
    assert {400} <= statuses and not any(it >= 500 for it in statuses), statuses
    assert loaded.ask("GET", "/livez").status == 200
    assert loaded.post("/translate", {"q": "She sings.", "source": "en", "target": "fr"}).status == 200
    assert "Traceback" not in capfd.readouterr().err
