"""Stopping criteria for generated text: stop strings and an exact number of characters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import ConfigError
from ..tokenization.tokenizer import StreamingDetokenizer, Tokenizer
from .rules import IntArray

StopReason = Literal["end", "stop", "chars", "tokens", "nothing"]
"""Why a text ended: the model's end token, a stop string, the character limit, the token limit, or no token allowed."""


@dataclass(frozen=True, kw_only=True)
class StoppingCriteria:
    """Ends a text before the first `stop` string, or after `chars` characters (Unicode code points).

    Raises:
        ConfigError: `stop` isn't a list of non-empty strings, or `chars` isn't a whole number of at least 1.
    """

    stop: Sequence[str] = ()
    chars: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):  # it would be read as a list of characters
            raise _stop_error("is a single string", self.stop, f"write [{self.stop!r}]")
        if not isinstance(self.stop, Iterable):
            raise _stop_error("can't be used", self.stop)
        object.__setattr__(self, "stop", tuple(self.stop))  # it's read again for every token
        for stop in self.stop:
            if not isinstance(stop, str):
                raise _stop_error(f"contains {stop!r}, a {type(stop).__name__}", self.stop)
        if "" in self.stop:
            raise _stop_error("contains an empty string, which matches everywhere", self.stop)
        whole = isinstance(self.chars, int | np.integer) and not isinstance(self.chars, bool)
        if self.chars is not None and (not whole or self.chars < 1):
            what = f"chars={self.chars!r} isn't a valid number of characters"
            raise ConfigError(what, expected="a whole number, at least 1", name="chars", value=self.chars)

    def cut(self, text: str) -> tuple[str, StopReason | None]:
        """Return the text up to its end, and the reason why it ends there, or None if it can continue.

        Of several stop strings, the one that's completed first counts, as if the text arrived one character at a time.
        """
        kept = text[: self.chars]
        found = [(start + len(stop), start) for stop in self.stop if (start := kept.find(stop)) >= 0]
        if found:
            return kept[: min(found)[1]], "stop"
        return kept, "chars" if len(kept) == self.chars else None

    def settled(self, text: str) -> int:
        """Return how many characters are final. Those after them may be the start of a stop string."""
        kept, reason = self.cut(text)
        if reason is not None:
            return len(kept)
        begun = (n for stop in self.stop for n in range(1, len(stop)) if kept.endswith(stop[:n]))
        return len(kept) - max(begun, default=0)


class StopChecker:
    """Checks tokens against stopping criteria, without detokenizing everything at each step."""

    def __init__(self, criteria: StoppingCriteria, tokenizer: Tokenizer) -> None:
        self.criteria, self.tokenizer = criteria, tokenizer
        self.stops = [stop.encode("utf-8", "surrogatepass") for stop in criteria.stop]
        self.longest = max(map(len, self.stops), default=0)  # in bytes, so at most this many tokens
        begun = [sum(byte & 0xC0 != 0x80 for byte in spelling) for spelling in tokenizer.token_bytes]
        self.characters = np.array(begun, np.int64)  # number of characters that begin in each token

    def after(self, prompt: Sequence[int]) -> Callable[[IntArray], bool]:
        """Return a function that takes tokens (T,) after this prompt, and returns True if they meet a criterion."""
        start = StreamingDetokenizer(self.tokenizer, prompt)

        def should_stop(ids: IntArray) -> bool:
            return self._may_stop(ids) and self.criteria.cut(start.copy().add(ids.tolist()))[1] is not None

        return should_stop

    def _may_stop(self, ids: IntArray) -> bool:
        """Return False if the last token can't end the text. Cheap, since nothing is detokenized.

        Stray bytes, which appear as U+FFFD, don't count as characters here, so such a text may end a little later.
        """
        if self.criteria.chars is not None and self.characters[ids].sum() >= self.criteria.chars:
            return True
        newest = ids[max(0, len(ids) - self.longest) :].tolist() if self.stops else []
        newest_bytes = b"".join([self.tokenizer.token_bytes[i] for i in newest])
        return any(stop in newest_bytes for stop in self.stops)


def _stop_error(problem: str, stop: Any, fix: str = "") -> ConfigError:
    expected = "a list of strings of at least one character each, or an empty list"
    return ConfigError(f"stop={stop!r} {problem}", expected=expected, fix=fix, name="stop", value=stop)
