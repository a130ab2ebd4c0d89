"""Text generation with a language model, streamed in pieces or for many prompts at once, and when it stops.

generator = TextGenerator(open_engine(model), tokenizer, DecodeConfig(beam=1))
[read] = generator.read(["Once upon a time"])
for piece in generator.pieces(read):
    print(piece, end="")
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..config import DecodeConfig
from ..errors import ConfigError, DataError, shortened
from ..tokenization.chat_template import ChatEncoder, Messages
from ..tokenization.tokenizer import StreamingDetokenizer, Tokenizer
from .beams import Hypothesis, Request
from .engine import WindowedEngine
from .rules import IntArray, Sources
from .session import MAX_TOKENS, Session
from .writer import Grow, Read, Writer

_SHOWN = 10  # unknown characters or words of a prompt that a message lists

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


@dataclass(frozen=True)
class Continuation:
    """The text that follows a prompt.

    `text` keeps its whitespace. It excludes a stop string and an incomplete last character. `tokens` and `ids` are
    everything that was generated, so they may cover more than the text. `logprobs` has one value per token, and one
    more for the end token if the model generated it. `unread` is the number of tokens at the start of the prompt that
    didn't fit into the context window.
    """

    text: str
    why: StopReason
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    log_probability: float
    score: float
    unread: int

    def to_dict(self, prompt: str) -> dict[str, Any]:
        """Return plain values for JSON, with the prompt that was continued."""
        return {
            "format_version": 1,
            "prompt": prompt,
            "text": self.text,
            "why": self.why,
            "score": self.score,
            "log_probability": self.log_probability,
            "tokens": list(self.tokens),
            "logprobs": list(self.logprobs),
            "unread": self.unread,
        }


class PromptSession(Session):
    """A session that continues prompts. Its answers don't include the prompt.

    An empty prompt is read as BOS, the start of any text.
    """

    def __init__(
        self, engine: WindowedEngine, config: DecodeConfig, tokenizer: Tokenizer, *, stopping: StoppingCriteria
    ) -> None:
        # With `chars`, the model must not end before that many characters.
        ends = () if stopping.chars is None else (tokenizer.special.eos, *tokenizer.special.more_eos)
        suppress = [*tokenizer.suppressed(config), *ends]
        super().__init__(engine, config, tokenizer.special, suppress=suppress, detokenize=self._text)
        self.window, self.tokenizer, self.stopping = engine.max_len, tokenizer, stopping
        self.checker = StopChecker(stopping, tokenizer) if stopping != StoppingCriteria() else None
        self.limit = config.max_len or max(config.max_extra, config.min_len)
        if stopping.chars is not None and config.max_len is None:
            self.limit = 4 * (stopping.chars + 1)  # a character has at most 4 bytes, and a token at least 1
        self.limit = min(self.limit, MAX_TOKENS)

    def _text(self, ids: Sequence[int]) -> str:
        """Return the text of generated tokens, for comparing answers."""
        text = b"".join([self.tokenizer.token_bytes[i] for i in ids]).decode("utf-8", "replace")
        return self.stopping.cut(text.removesuffix("\ufffd"))[0]

    def _inputs(self, sources: Sources) -> list[list[int]]:
        return [list(source[:-1]) for source in sources]

    def _start(self, sources: Sources) -> IntArray:  # B sources -> (B,)
        return np.array([source[-1] if source else self.special.bos for source in sources], np.int64)

    def _request(self, source: Sequence[int], prefix: Sequence[int]) -> Request:
        min_len = min(self.config.min_len, self.limit)
        should_stop = None if self.checker is None else self.checker.after(source)
        return Request(max(self.limit, len(prefix)), min_len, tuple(prefix), should_stop=should_stop)

    def length(self, source: Sequence[int]) -> int:
        return min(len(source) + self.limit, self.window)


class TextGenerator(Writer[list[Continuation]]):
    """A language model with its tokenizer, ready to continue texts. A record is a list of continuations, best first.

    Args:
        engine: an engine for decoder-only models.
        tokenizer: the model's tokenizer.
        config: decoding settings. At most `max_len` tokens are generated; if that's None, `max_extra`, or enough for
            `stopping.chars` characters.
        begins: True if every prompt begins with BOS.
        chat: encodes conversations, which can be given in place of texts; the continuation is the next answer.
        stopping: stopping criteria. With `stopping.chars`, the model can't end the text earlier.

    Raises:
        ConfigError: the engine doesn't support one of the settings.
        DataError: a token to suppress isn't in the vocabulary.
    """

    session: PromptSession

    def __init__(
        self,
        engine: WindowedEngine,
        tokenizer: Tokenizer,
        config: DecodeConfig,
        *,
        begins: bool = False,
        chat: ChatEncoder | None = None,
        stopping: StoppingCriteria | None = None,
    ) -> None:
        self.chat = chat
        self.engine, self.tokenizer, self.stopping = engine, tokenizer, stopping or StoppingCriteria()
        self.start = [tokenizer.special.bos] * begins
        self.session = PromptSession(engine, config, tokenizer, stopping=self.stopping)

    @property
    def overflow(self) -> str:
        return self.engine.overflow

    def prompt(self, text: str | Messages) -> list[int]:
        """Return the tokens of a text to continue, or of a conversation to answer.

        Raises:
            DataError: the text has characters (or words) that aren't in the vocabulary, and decode.unknown is "error";
                or the chat template has no such message.
            ConfigError: the model has no chat template.
        """
        parts = [text] if isinstance(text, str) else [it["content"] for it in text]
        reads_unknown = self.session.config.unknown == "unk"
        if unknown := [] if reads_unknown else [word for part in parts for word in self.tokenizer.unknown_words(part)]:
            what = "characters" if self.tokenizer.kind == "character" else "words"
            listed = shortened([*map(repr, unknown)], _SHOWN)
            raise DataError(
                f"the prompt contains {what} that aren't in the model's vocabulary: {listed}",
                expected=f"{what} of its training text",
                fix="set `decode.unknown=unk` to read them as <unk>",
                name="prompt",
                value=unknown,
            )
        if isinstance(text, str):
            return [*self.start, *self.tokenizer.encode(text)]
        if self.chat is None:
            raise no_template()
        return self.chat.encode([self.chat.text(text, asks=True)])[0]

    def read(self, texts: Sequence[str | Messages]) -> list[Read]:
        return [Read(text, self.prompt(text)) for text in texts]

    def grow(self, read: Read) -> Grow:
        """Return a function that turns tokens into text. It holds back what may be the start of a stop string."""
        detokenizer, text = StreamingDetokenizer(self.tokenizer, read.source), ""
        trims = self._trims(read)

        def add(token: int) -> str:
            nonlocal text
            text += detokenizer.add([token])
            settled = text[: self.stopping.settled(text)]
            return settled.strip() if trims else settled

        return add

    def record(self, read: Read, answers: Sequence[Hypothesis]) -> list[Continuation]:
        return [self.continuation(read, answer) for answer in answers]

    def best(self, record: list[Continuation]) -> Continuation:
        return record[0]

    def continuation(self, read: Read, answer: Hypothesis) -> Continuation:
        """Return the record of an answer to a prompt."""
        text, reason = self.stopping.cut(StreamingDetokenizer(self.tokenizer, read.source).add(answer.ids))
        if reason is None:
            limited = len(answer.ids) >= self.session.limit
            reason = "end" if answer.finished else "tokens" if limited else "nothing"
        return Continuation(
            text=text.strip() if self._trims(read) else text,
            why=reason,
            ids=answer.ids,
            tokens=tuple(self.tokenizer.pieces(answer.ids)),
            logprobs=answer.token_log_probabilities,
            log_probability=answer.log_probability,
            score=answer.score,
            unread=max(0, len(read.source) - self.engine.max_len),
        )

    def _trims(self, read: Read) -> bool:
        """Return whether the chat template removes whitespace around an answer."""
        return self.chat is not None and not isinstance(read.text, str) and self.chat.template.trim


def no_template() -> ConfigError:
    """Return the error for a conversation with a model that has no chat template."""
    what = "the model has no chat template, so it can't read messages"
    expected = "a model trained on messages or instructions, or an imported one with a known template"
    fix = "give a text to continue, or train from this model with `data.template`"
    return ConfigError(what, expected=expected, fix=fix, name="data.template", value="")
