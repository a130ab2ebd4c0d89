"""Limits on what one request may ask for, and the errors for requests that can't be answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import DecodeConfig
from ..errors import ClearheadError


class RequestError(ClearheadError):
    """A request can't be answered. `status` is the HTTP status code, and `headers` are those of the response."""

    def __init__(
        self,
        status: int,
        what: str,
        *,
        expected: str = "",
        fix: str = "",
        name: str = "",
        value: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(what, expected=expected, fix=fix, name=name, value=value)
        self.status, self.headers = status, dict(headers or {})


def _limit(default: int, help: str) -> int:
    limit: int = field(default=default, metadata={"help": help})
    return limit


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """Limits on a request, and on the work that the server accepts."""

    body: int = _limit(10_000_000, "maximum size of a request in bytes")
    pixels: int = _limit(16_000_000, "maximum number of pixels in an image, since a small file can have many")
    chars: int = _limit(5_000, "maximum length of a text in characters")
    texts: int = _limit(100, "maximum number of texts per request")
    beam: int = _limit(16, "maximum beam size")
    n: int = _limit(8, "maximum number of answers per text")
    tokens: int = _limit(1_000, "maximum number of tokens that a request can ask to add to a text")
    queue: int = _limit(1_000, "maximum number of texts that wait for a model; later ones are rejected")
    explanations: int = _limit(20, "maximum number of explanations that wait for a model; later ones are rejected")
    seconds: int = _limit(60, "maximum time for a request in seconds")

    def check_texts(self, texts: list[str], name: str) -> None:
        """Raise RequestError if there are too many texts, or one of them is too long."""
        self.check_count(len(texts), name)
        self.check_lengths(texts, name)

    def check_lengths(self, texts: list[str], name: str) -> None:
        """Raise RequestError if one of the texts is too long."""
        longest = max(map(len, texts), default=0)
        if longest > self.chars:
            what, expected = f"a text of {name} has {longest:,} characters", f"at most {self.chars:,}"
            raise RequestError(400, what, expected=expected, fix="split it", name=name, value=longest)

    def check_count(self, count: int, name: str) -> None:
        """Raise RequestError if there are too many inputs in a request."""
        if count > self.texts:
            what, expected = f"{name} has {count:,} inputs", f"at most {self.texts:,} per request"
            raise RequestError(400, what, expected=expected, fix="send several requests", name=name, value=count)

    def check_search(self, search: DecodeConfig, asked: Mapping[str, Any]) -> None:
        """Raise RequestError if the settings that a request asked for exceed a limit."""
        most = {"beam": self.beam, "n_best": self.n, "max_len": self.tokens, "max_extra": self.tokens}
        for name in most.keys() & asked.keys():
            self.check(name, getattr(search, name) or 0, most[name])
        self.check("min_len", search.min_len if "min_len" in asked else 0, self.tokens)

    def check(self, name: str, value: int, most: int) -> None:
        """Raise RequestError if a value exceeds its limit.

        Args:
            name: name of the value, for the message.
            value: what the request asks for.
            most: the limit.
        """
        if value > most:
            what = f"{name}={value:,} is too large"
            raise RequestError(400, what, expected=f"at most {most:,}", name=name, value=value)
