"""Where a text ends that would go on: at a stop string, or after an exact number of characters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import ConfigError
from ..tokenization.detokenize import Spelling
from ..tokenization.tokenizer import Tokenizer
from .rules import IntArray

Why = Literal["end", "stop", "chars", "tokens", "nothing"]
"""Why a text ended: the model's end token, a stop string, so many characters, so many tokens, nothing may follow."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """A text ends before the first of the `stop` strings, and after `chars` characters (Unicode code points)."""

    stop: Sequence[str] = ()
    chars: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no text can end at."""
        if isinstance(self.stop, str):  # it would be taken for a list of letters
            raise ConfigError(f"stop is one text, {self.stop!r}; expected a list of texts: [{self.stop!r}]")
        if not isinstance(self.stop, Iterable):
            raise ConfigError(f"stop = {self.stop!r} cannot be used; expected a list of texts, which may be empty")
        object.__setattr__(self, "stop", tuple(self.stop))  # it is read again for every token
        for stop in self.stop:
            if not isinstance(stop, str):
                raise ConfigError(f"stop has {stop!r}, a {type(stop).__name__}; expected a list of texts, each a str")
        if "" in self.stop:
            raise ConfigError("stop has an empty text, which stands everywhere; expected at least one character")
        whole = isinstance(self.chars, int | np.integer) and not isinstance(self.chars, bool)
        if self.chars is not None and not whole:
            raise ConfigError(f"chars = {self.chars!r} cannot be used; expected a whole number, at least 1")
        if self.chars is not None and self.chars < 1:
            raise ConfigError(f"chars = {self.chars} cannot be used; expected at least 1")

    def cut(self, text: str) -> tuple[str, Why | None]:
        """What is left of a text, and why it ends there; None where it goes on.

        Of the stop strings in it the one counts that is complete first, as if the text had come letter by letter.
        """
        kept = text[: self.chars]
        found = [(start + len(stop), start) for stop in self.stop if (start := kept.find(stop)) >= 0]
        if found:
            return kept[: min(found)[1]], "stop"
        return kept, "chars" if len(kept) == self.chars else None

    def known(self, text: str) -> int:
        """How many characters of a text stay, whatever follows: not those with which a stop string may begin."""
        kept, why = self.cut(text)
        if why is not None:
            return len(kept)
        begun = (n for stop in self.stop for n in range(1, len(stop)) if kept.endswith(stop[:n]))
        return len(kept) - max(begun, default=0)


class Enough:
    """Whether tokens are enough: their text, or what is complete of it, has come to one of the ends."""

    def __init__(self, ends: Ends, tokenizer: Tokenizer) -> None:
        self.ends, self.tokenizer = ends, tokenizer
        self.stops = [stop.encode("utf-8", "surrogatepass") for stop in ends.stop]
        self.longest = max(map(len, self.stops), default=0)  # in bytes; in tokens it is that at most
        begun = [sum(byte & 0xC0 != 0x80 for byte in spelling) for spelling in tokenizer.spellings]
        self.characters = np.array(begun, np.int64)  # that begin in a token, by its id

    def after(self, prompt: Sequence[int]) -> Callable[[IntArray], bool]:
        """The question for tokens (T,) that follow a prompt."""
        start = Spelling(self.tokenizer, prompt)

        def enough(ids: IntArray) -> bool:
            return self._may_be(ids) and self.ends.cut(start.copy().add(ids.tolist()))[1] is not None

        return enough

    def _may_be(self, ids: IntArray) -> bool:
        """A look that costs little however long the text is: False where its last token does not end it.

        It counts no byte that is part of no character and shown as U+FFFD: a text of such may come to its end later.
        """
        if self.ends.chars is not None and self.characters[ids].sum() >= self.ends.chars:
            return True
        newest = ids[max(0, len(ids) - self.longest) :].tolist() if self.stops else []
        bytes_ = b"".join([self.tokenizer.spellings[i] for i in newest])
        return any(stop in bytes_ for stop in self.stops)
