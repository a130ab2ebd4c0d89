"""Groups of texts that join and leave the model's batch between two decoding steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..apps.answers import Result
from ..apps.app import App
from ..apps.language_model import LanguageModel
from ..apps.translator import Translator
from ..decode.beams import Hypothesis
from ..decode.continuation import Continuation
from ..decode.live_batch import LiveBatch
from ..decode.session import MIN_LENGTH, Session
from ..tokenization.detokenize import StreamingDetokenizer
from .batching import OnPiece
from .work import Seeded, Work

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


@dataclass
class _Member:
    read: Read
    pieces: "_Pieces | None"


@dataclass
class _Pieces:
    """Passes on what is new of a growing text."""

    grow: Grow
    on_piece: OnPiece
    sent: int = 0

    def add(self, token: int) -> None:
        self.send(self.grow(token))

    def send(self, text: str) -> None:
        if len(text) > self.sent:
            self.on_piece(text[self.sent :])
            self.sent = len(text)


@dataclass
class LiveGroup:
    """Texts being decoded; see `batching.Group`. At most decode.batch_tokens tokens are decoded together."""

    decoder: Decoder
    _members: dict[int, _Member] = field(default_factory=dict)
    _blank: list[tuple[int, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._batch = LiveBatch(self.decoder.session)

    def __len__(self) -> int:
        return len(self._members) + len(self._blank)

    def has_room(self) -> bool:
        """Return whether another text may join now."""
        session, sources = self.decoder.session, [it.read.source for it in self._members.values()]
        longest = max([MIN_LENGTH, *(session.length(source) + 1 for source in sources)])
        wide = session.width * (session.config.n_best if session.diverse else 1)
        return not sources or (len(sources) + 1) * wide * longest <= session.config.batch_tokens

    def add(self, value: str | Seeded, on_piece: OnPiece | None) -> int:
        """Let a text join, and return its number. Raise ClearheadError if it can't be read."""
        text, seed = (value.text, value.seed) if isinstance(value, Seeded) else (value, None)
        read = self.decoder.read(text)
        if read is None:
            self._blank.append((-1 - len(self._blank), self.decoder.blank(text)))
            return self._blank[-1][0]
        pieces = None if on_piece is None else _Pieces(self.decoder.grow(read), on_piece)
        on_token = None if pieces is None else pieces.add
        number = self._batch.add(read.source, self.decoder.prefix, on_token, seed)
        self._members[number] = _Member(read, pieces)
        return number

    def drop(self, number: int) -> None:
        """Give up a text. Its row is free before the next step."""
        self._members.pop(number, None)
        self._batch.drop(number)

    def step(self) -> list[tuple[int, Any]]:
        """Take one decoding step, and return the numbers and records of the texts that are done."""
        done, self._blank = self._blank, []
        for number, hypotheses in self._batch.step() if self._members else ():
            member = self._members.pop(number)
            record = self.decoder.record(member.read, hypotheses)
            if member.pieces is not None:
                member.pieces.send(self.decoder.text(record))
            done.append((number, record))
        return done

    def close(self) -> None:
        """Give up all texts."""
        self._batch.close()
