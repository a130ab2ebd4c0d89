"""A language model that goes on with texts: in pieces as they come, or many texts at once.

writer = Writer(TextEngine(model, pad=PAD, max_len=256), tokenizer, DecodeConfig(beam=1))
for piece in writer.stream(writer.prompt("Once upon a time")):
    print(piece, end="")
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

from ..config import DecodeConfig
from ..errors import DataError
from ..tokenization.detokenize import Spelling
from ..tokenization.tokenizer import BOS, EOS, Tokenizer
from .beams import Hypothesis, Request
from .ends import Ends, Enough, Why
from .engine import Decoding, WindowEngine
from .rules import IntArray
from .session import MOST, Session

_SHOWN = 10  # unknown characters or words of a prompt that a message names


@dataclass(frozen=True)
class Continuation:
    """What follows a prompt.

    `text` is exact, white space included; it ends before a stop string, and without a last character that lacks bytes.
    `tokens` (and their `ids`) are all that were generated, so that their text may be longer. `logprobs` has one number
    a token, and one more for the end where the model said it. `unread` counts the first tokens of the prompt that the
    model did not read, since the prompt is longer than its block.
    """

    text: str
    why: Why
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    log_probability: float
    score: float
    unread: int


class Stream(Iterator[str]):
    """The pieces of a continuation, each as soon as it is known; together they are its text.

    `continuation` is the record, once the last piece was taken.
    """

    def __init__(self, pieces: Generator[str, None, Continuation]) -> None:
        self.continuation: Continuation | None = None
        self._pieces = pieces

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            self.continuation = self.continuation or end.value
            raise

    def close(self) -> None:
        """End it here, and release the model."""
        self._pieces.close()


class Prompts(Session):
    """A session whose sources are the beginnings of texts: an answer is what follows one, and its length is counted
    alone. A prompt without tokens is the beginning of all texts, BOS."""

    def __init__(
        self,
        engine: WindowEngine,
        config: DecodeConfig,
        tokenizer: Tokenizer,
        *,
        ends: Ends,
    ) -> None:
        named = [tokenizer.token(piece) for piece in config.suppress]
        endless = [EOS] if ends.chars is not None else []  # so many characters are wanted, whatever the model thinks
        super().__init__(engine, config, suppress=[*named, *endless], text=self._text)
        self.window, self.tokenizer, self.ends = engine.max_len, tokenizer, ends
        self.enough = Enough(ends, tokenizer) if ends != Ends() else None
        self.limit = config.max_len or max(config.max_extra, config.min_len)
        if ends.chars is not None and config.max_len is None:
            self.limit = 4 * (ends.chars + 1)  # no character has more bytes, and no token fewer than one
        self.limit = min(self.limit, MOST)

    def _text(self, ids: Sequence[int]) -> str:
        """What tokens add inside a text: of several answers that add the same only the best counts."""
        spelt = b"".join([self.tokenizer.spellings[i] for i in ids]).decode("utf-8", "replace")
        return self.ends.cut(spelt.removesuffix("\ufffd"))[0]

    def _prefill(self, sources: Sequence[Sequence[int]], steps: int) -> AbstractContextManager[Decoding]:
        return self.engine.prefill([source[:-1] for source in sources], steps)

    def _start(self, sources: Sequence[Sequence[int]]) -> IntArray:  # B sources -> (B,)
        return np.array([source[-1] if source else BOS for source in sources], np.int64)

    def _request(self, source: Sequence[int], prefix: Sequence[int]) -> Request:
        shortest = min(self.config.min_len, self.limit)
        enough = None if self.enough is None else self.enough.after(source)
        return Request(max(self.limit, len(prefix)), shortest, tuple(prefix), enough=enough)

    def _length(self, source: Sequence[int]) -> int:
        return min(len(source) + self.limit, self.window)


class Writer:
    """A language model with its tokenizer, ready to go on with texts.

    `config` says how tokens are chosen, and how many: `max_len` at most, or `max_extra` where that is open; with
    `ends.chars` as many as those characters need, and then the model cannot end the text.
    """

    def __init__(
        self, engine: WindowEngine, tokenizer: Tokenizer, config: DecodeConfig, *, ends: Ends | None = None
    ) -> None:
        self.engine, self.tokenizer, self.ends = engine, tokenizer, ends or Ends()
        self.session = Prompts(engine, config, tokenizer, ends=self.ends)

    @property
    def beyond(self) -> str:
        """In words, for people: how a text longer than the model's block is read."""
        return self.engine.beyond

    def prompt(self, text: str) -> list[int]:
        """The tokens of a text to go on with; one with characters (or words) unknown to the model is a DataError."""
        if unknown := self.tokenizer.unknown_words(text):
            what = "characters" if self.tokenizer.kind == "character" else "words"
            named = ", ".join(map(repr, unknown[:_SHOWN]))
            more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
            raise DataError(
                f"the prompt has {what} that the model never saw: {named}{more}; expected {what} of its training text, "
                "or --unknown unk (decode.unknown = unk), to have <unk> read for them"
            )
        return self.tokenizer.encode(text)

    def stream(self, prompt: Sequence[int]) -> Stream:
        """What follows a prompt, in pieces; for a beam of 1, or one drawn text, else a ConfigError."""
        return Stream(self._pieces(prompt))

    def continuations(self, prompts: Sequence[Sequence[int]]) -> list[list[Continuation]]:
        """What follows each prompt, best first: as many as `config.n_best` at most."""
        found = dict(self.as_known(prompts))
        return [found[place] for place in range(len(prompts))]

    def as_known(self, prompts: Sequence[Sequence[int]]) -> Iterator[tuple[int, list[Continuation]]]:
        """(place, continuations) of every prompt as soon as its batch is done."""
        for place, answers in self.session.stream(prompts):
            best = answers[: self.session.config.n_best]
            yield place, [self._continuation(prompts[place], answer) for answer in best]

    def _pieces(self, prompt: Sequence[int]) -> Generator[str, None, Continuation]:
        spelling, tokens = Spelling(self.tokenizer, prompt), self.session.tokens(prompt)
        text, said = "", 0
        while True:
            try:
                text += spelling.add([next(tokens)])
            except StopIteration as end:
                found = self._continuation(prompt, end.value)
                break
            known = self.ends.known(text)
            if known > said:
                yield text[said:known]
                said = known
        if len(found.text) > said:
            yield found.text[said:]
        return found

    def _continuation(self, prompt: Sequence[int], answer: Hypothesis) -> Continuation:
        text, why = self.ends.cut(Spelling(self.tokenizer, prompt).add(answer.ids))
        if why is None:
            limited = len(answer.ids) >= self.session.limit
            why = "end" if answer.finished else "tokens" if limited else "nothing"
        return Continuation(
            text=text,
            why=why,
            ids=answer.ids,
            tokens=tuple(self.tokenizer.pieces(answer.ids)),
            logprobs=answer.token_log_probabilities,
            log_probability=answer.log_probability,
            score=answer.score,
            unread=max(0, len(prompt) - self.engine.max_len),
        )
