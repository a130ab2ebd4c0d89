"""Raw and malformed HTTP requests to `clearhead serve`, over loopback."""

import contextlib
import json
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .inputs import trained
from .trials import ODD_VALUES, PATIENCE, Outcome, WrongError, dice, mutated

_ANSWER = 30.0  # seconds
_NAME = "model-translate"
_PATHS = (
    "/", "/api/translate", "/api/page", "/translate", "/detect", "/languages", "/v1/completions", "/v1/models",
    "/v1/embeddings", "/v1/audio/transcriptions", "/api/classify", "/api/embed", "/metrics", "/livez", "/readyz",
    "/openapi.json", "/api/nothing",
)  # fmt: skip
_BODIES: tuple[dict[str, Any], ...] = (
    {"text": "one two"}, {"text": ["one", "two"]}, {"q": "one", "source": "en", "target": "fr", "format": "text"},
    {"model": _NAME, "prompt": "one", "max_tokens": 3, "echo": True, "logprobs": 2}, {"text": "one", "stream": True},
    {"model": _NAME, "text": "one", "off": [], "prefix": []}, {"input": ["one"], "model": _NAME},
    {"text": "one", "settings": {"beam": 2}}, {"text": "one", "n_best": 2, "beam": 3},
)  # fmt: skip


class Requests:
    """One request each, to a server that goes on running."""

    name, counts, weight = "http", "hostile inputs", 3.0

    def prepare(self, folder: Path) -> str:
        self.model = trained("translate", folder)
        self.log = folder / "server.log"
        return ""

    def trials(self, numbers: Iterable[int], seed: int) -> Iterator[Outcome]:
        with self._server() as port:
            for number in numbers:
                begun, verdict, detail = time.monotonic(), "right", ""
                try:
                    self._trial(dice(self.name, number, seed), port)
                except WrongError as error:
                    verdict, detail = "wrong", str(error)
                except TimeoutError as error:
                    verdict, detail = "hang", str(error)
                yield Outcome(self.name, number, verdict, detail, time.monotonic() - begun)

    @contextlib.contextmanager
    def _server(self) -> Iterator[int]:
        command = [sys.executable, "-m", "clearhead", "serve", str(self.model), "--port", "0", "--engine", "torch"]
        with self.log.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", self.log.read_text("utf-8", "replace"))):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server didn't start: {self.log.read_text()}")
            time.sleep(0.05)
        try:
            yield int(found.group(1))
        finally:
            process.terminate()
            process.wait(PATIENCE)

    def _trial(self, rng: random.Random, port: int) -> None:
        before = self.log.stat().st_size
        request = _request(rng)
        status, answer = _sent(port, request)
        with self.log.open("rb") as log:
            log.seek(before)
            written = log.read().decode("utf-8", "replace")
        if "Traceback" in written or "internal" in written:
            raise WrongError(f"{request[:300]!r}: {written[-900:]}")
        if status is not None and not (status < 500 or status in (501, 503)):
            raise WrongError(f"status {status} for {request[:300]!r}: {answer[:600]!r}")
        if _sent(port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")[0] != 200:
            raise WrongError(f"the server doesn't answer any more after {request[:300]!r}")


def _request(rng: random.Random) -> bytes:
    path, body = rng.choice(_PATHS), dict(rng.choice(_BODIES))
    if rng.random() < 0.6:
        body[rng.choice([*body, "text", "stream", "beam", "temperature", "max_tokens", "prefix", "off", "model"])] = (
            _value(rng)
        )
    content = json.dumps(body).encode()
    if rng.random() < 0.3:
        content = mutated(content, rng)
    kinds = ("application/json",) * 6 + (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    )
    headers = [f"Host: {rng.choice(['localhost'] * 8 + ['127.0.0.1', 'evil.example', ''])}"]
    headers += [f"Content-Type: {rng.choice(kinds)}", f"Content-Length: {len(content)}", "Connection: close"]
    if rng.random() < 0.1:
        headers.append(
            rng.choice(("Transfer-Encoding: chunked", "Content-Encoding: gzip", "Expect: 100-continue", "Origin: x"))
        )
    method = rng.choice(["POST"] * 8 + ["GET", "PUT", "OPTIONS", "HEAD", "DELETE", "X"])
    head = f"{method} {path} HTTP/1.1\r\n" + "\r\n".join(headers) + "\r\n\r\n"
    raw = head.encode() + content
    return mutated(raw, rng) if rng.random() < 0.3 else raw


def _value(rng: random.Random) -> Any:
    value = rng.choice(ODD_VALUES)
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return [value] if isinstance(value, int | str) else {}
    return value


def _sent(port: int, request: bytes) -> tuple[int | None, bytes]:
    """Send bytes and nothing more. Return the status and the answer; no status if the connection was just closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=_ANSWER) as connection:
        answer = b""
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            while block := connection.recv(1 << 16):
                answer += block
        except (ConnectionResetError, BrokenPipeError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer in {_ANSWER:.0f} s to {request[:300]!r}") from error
    found = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return (int(found.group(1)) if found else None), answer
