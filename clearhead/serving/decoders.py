"""How apps read texts to decode, and make records of the answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..apps.answers import Result
from ..apps.app import App
from ..apps.language_model import LanguageModel
from ..apps.translator import Translator
from ..decode.beams import Hypothesis
from ..decode.continuation import Continuation
from ..decode.session import Session
from ..tokenization.detokenize import StreamingDetokenizer
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


@dataclass(frozen=True)
class Completed:
    """A continuation, with the text of each token and its most likely alternatives with their log-probabilities."""

    continuation: Continuation
    prompt_tokens: int
    tokens: tuple[str, ...]
    alternatives: tuple[Mapping[str, float], ...]


class CompletionDecoder(PromptDecoder):
    """Decodes with a language model, and returns one `Completed` per text.

    Args:
        top: number of alternatives per token.
        options: those of `LanguageModel.writer`.
    """

    def __init__(self, app: LanguageModel, *, top: int, **options: Any) -> None:
        super().__init__(app, **options)
        self._top = top

    def record(self, read: Read, hypotheses: Sequence[Hypothesis]) -> Completed:
        """Return the record of the best continuation."""
        [found, *_] = super().record(read, hypotheses)
        places = self.session.successors(read.source, found.ids, self._top) if self._top else []
        alternatives = tuple({self._spelled(token): log_p for token, log_p in place} for place in places)
        return Completed(found, len(read.source), tuple(map(self._spelled, found.ids)), alternatives)

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
