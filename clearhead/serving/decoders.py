"""How apps read texts to decode, and make records of the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any, Protocol

from ..apps.answers import Result
from ..apps.app import App
from ..apps.language_model import LanguageModel
from ..apps.translator import Translator
from ..decode.beams import Hypothesis
from ..decode.continuation import Continuation
from ..decode.session import Session
from ..tokenization.detokenize import StreamingDetokenizer
from ..tokenization.offsets import encode_with_offsets
from .work import Work

Grow = Callable[[int], str]  # takes the next token of an answer, and returns the text so far that can't change


@dataclass(frozen=True)
class Read:
    """A text, and what the model reads of it. `cut` is the number of tokens that were cut off its end."""

    text: str
    source: Sequence[int]
    cut: int = 0


class Decoder(Protocol):
    """How an app reads texts, and makes records of the answers."""

    session: Session
    prefix: Sequence[int]

    def read(self, text: str) -> Read | None:
        """Encode a text. Return None if it needs no model. Raise DataError if it can't be read."""

    def record(self, read: Read, hypotheses: Sequence[Hypothesis]) -> Any:
        """Return the record of an answer."""

    def blank(self, text: str) -> Any:
        """Return the record for a text that needs no model."""

    def grow(self, read: Read) -> Grow:
        """Return a function that turns the tokens of an answer into text as they come."""

    def text(self, record: Any) -> str:
        """Return the text of a record."""


class SequenceDecoder:
    """Decodes with a translator, or an app like it."""

    prefix: Sequence[int]

    def __init__(self, app: Translator, prefix: str = "", **decode: Any) -> None:
        self._app, self._search = app, app.decode_config(**decode)
        self.session, self.prefix = app.task.session(app.loaded.handle, self._search), app.task.prefix(prefix)

    def read(self, text: str) -> Read | None:
        """Encode a text. A blank one needs no model."""
        if not text.strip():
            return None
        [source], [cut] = self._app.task.sources([text])
        return Read(text, source, cut)

    def record(self, read: Read, hypotheses: Sequence[Hypothesis]) -> Result:
        """Return the record of an answer."""
        return self._app.result(read.text, read.source, read.cut, hypotheses[: self._search.n_best])

    def blank(self, text: str) -> Result:
        """Return the record of a blank text."""
        return Result("", 0.0, 0.0, (), (), text)

    def grow(self, read: Read) -> Grow:
        """Return a function that turns tokens into text."""
        ids: list[int] = []
        settled = ""

        def add(token: int) -> str:
            nonlocal settled
            ids.append(token)
            text = self._app.task.text(ids)
            settled = settled if text.endswith("\ufffd") else text  # an incomplete character
            return settled

        return add

    def text(self, record: Result) -> str:
        """Return the text of a record."""
        return record.text


class PromptDecoder:
    """Decodes with a language model."""

    prefix: Sequence[int] = ()

    def __init__(self, app: LanguageModel, **options: Any) -> None:
        self._writer = app.writer(**options)
        self.session: Session = self._writer.session

    def read(self, text: str) -> Read | None:
        """Encode a text."""
        return Read(text, self._writer.prompt(text))

    def record(self, read: Read, hypotheses: Sequence[Hypothesis]) -> Any:
        """Return the records of all continuations."""
        best = hypotheses[: self.session.config.n_best]
        return [self._writer.continuation(read.source, it) for it in best]

    def blank(self, text: str) -> list[Continuation]:
        """Return nothing: every text can be continued."""
        return []

    def grow(self, read: Read) -> Grow:
        """Return a function that turns tokens into text."""
        detokenizer, text = StreamingDetokenizer(self._writer.tokenizer, read.source), ""

        def add(token: int) -> str:
            nonlocal text
            text += detokenizer.add([token])
            return text[: self._writer.stopping.settled(text)]

        return add

    def text(self, record: Any) -> str:
        """Return the text of the best record."""
        text: str = record[0].text
        return text


_Score = tuple[float | None, dict[int, float] | None]  # a token's log-probability, and those of the most likely ones


@dataclass(frozen=True)
class TokenScores:
    """Tokens of a text, with their log-probabilities and the most likely alternatives, and where they begin in it.

    The first token of a text has neither, unless the model reads a token before it.
    """

    tokens: tuple[str, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    alternatives: tuple[Mapping[str, float] | None, ...] = ()
    offsets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Completed:
    """A continuation, with the scores of its tokens if they were asked for, after those of the prompt."""

    continuation: Continuation
    prompt_tokens: int
    scores: TokenScores


class CompletionDecoder(PromptDecoder):
    """Decodes with a language model, and returns one `Completed` per text.

    Args:
        top: number of alternatives per token; None means no scores.
        echo: also score the tokens of the prompt.
        writes: False if nothing is added to the prompt.
        options: those of `LanguageModel.writer`.
    """

    def __init__(self, app: LanguageModel, *, top: int | None, echo: bool, writes: bool, **options: Any) -> None:
        super().__init__(app, **options)
        self._top, self._echo, self._writes = top, echo, writes

    def read(self, text: str) -> Read | None:
        """Encode a text. Without anything to write, the answer is `blank`."""
        return super().read(text) if self._writes else None

    def blank(self, text: str) -> Completed:  # type: ignore[override]
        """Return the record of a prompt to which nothing is added."""
        return self._completed(Read(text, self._writer.prompt(text)), Hypothesis((), 0.0, 0.0, (), False))

    def record(self, read: Read, hypotheses: Sequence[Hypothesis]) -> Completed:
        """Return the record of the best continuation."""
        return self._completed(read, hypotheses[0])

    def _completed(self, read: Read, best: Hypothesis) -> Completed:
        found = self._writer.continuation(read.source, best)
        if self._top is None:
            return Completed(found, len(read.source), TokenScores())
        parts = [self._of_prompt(read)] * self._echo + [self._of_answer(read, found, self._top)]
        joined = [tuple(chain(*(getattr(it, field.name) for it in parts))) for field in fields(TokenScores)]
        return Completed(found, len(read.source), TokenScores(*joined))

    def _of_prompt(self, read: Read) -> TokenScores:
        """Return the scores of the tokens of a prompt, which a model reads one after another."""
        source, n = read.source, len(self._writer.start)
        places = self.session.successors(source[:1], source[1:], self._top or 0)
        scores: list[_Score] = [*places] if n else [(None, None), *places][: len(source)]
        offsets, text = self._offsets([], source[n:])
        if text != read.text:  # a normalised text is decoded
            offsets = encode_with_offsets(self._writer.tokenizer, read.text).starts
        return self._scores(source[n:], scores, offsets)

    def _of_answer(self, read: Read, found: Continuation, top: int) -> TokenScores:
        """Return the scores of the tokens whose text isn't cut off by a stop string."""
        offsets, _ = self._offsets(read.source, found.ids)
        n = sum(it < len(found.text) for it in offsets) if found.why == "stop" else len(offsets)
        ids = found.ids[:n]
        most = [it for _, it in self.session.successors(read.source, ids, top)] if top else [dict[int, float]()] * n
        return self._scores(ids, list(zip(found.logprobs, most)), [len(read.text) + it for it in offsets[:n]])

    def _offsets(self, before: Sequence[int], ids: Sequence[int]) -> tuple[list[int], str]:
        """Return how many characters are complete before each token, and the text of all tokens."""
        detokenizer, offsets, text = StreamingDetokenizer(self._writer.tokenizer, before), list[int](), ""
        for token in ids:
            offsets.append(len(text))
            text += detokenizer.add([token])
        return offsets, text

    def _scores(self, ids: Sequence[int], scores: Sequence[_Score], offsets: list[int]) -> TokenScores:
        def spelled(most: dict[int, float] | None) -> Mapping[str, float] | None:
            return None if most is None else {self._spelled(token): log_p for token, log_p in most.items()}

        logprobs, alternatives = (it for it, _ in scores), (spelled(most) for _, most in scores)
        return TokenScores(tuple(map(self._spelled, ids)), tuple(logprobs), tuple(alternatives), tuple(offsets))

    def _spelled(self, token: int) -> str:
        return self._writer.tokenizer.token_bytes[token].decode("utf-8", "backslashreplace")

    def text(self, record: Any) -> str:
        """Return the text of a record."""
        text: str = record.continuation.text
        return text


def decoder_of(app: App, work: Work) -> Decoder | None:
    """Return the decoder for some work, or None if it isn't decoding."""
    if work.method == "results" and isinstance(app, Translator):
        return SequenceDecoder(app, **dict(work.options))
    if work.method == "completions" and isinstance(app, LanguageModel):
        return CompletionDecoder(app, **dict(work.options))
    if work.method == "continuations" and isinstance(app, LanguageModel):
        return PromptDecoder(app, **dict(work.options))
    return None
