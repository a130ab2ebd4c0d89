"""Writers, which turn texts into records of their answers, and tokens into text as they come.

reads = writer.read(texts)
records = writer.records(reads)           # all at once
for piece in writer.pieces(reads[0]):     # or one of them, as it's written
    print(piece, end="")
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from .beams import Hypothesis
from .session import Session

R = TypeVar("R")
# Takes the next token of an answer, and returns the text so far that can't change.
Grow: TypeAlias = Callable[[int], str]


@dataclass(frozen=True)
class Read:
    """An input, and the part of it that the model reads.

    Attributes:
        text: the input as it was given.
        source: its tokens.
        cut: number of tokens cut off its end.
        writes: False if nothing is written, as for a blank text.
    """

    text: Any
    source: Sequence[int] = ()
    cut: int = 0
    writes: bool = True


class Pieces:
    """The pieces of one answer's text, each of them final. `grow` is from `Writer.grow`."""

    def __init__(self, grow: Grow) -> None:
        self._grow, self._sent = grow, 0

    def add(self, token: int) -> str:
        """Return what the next token adds to the final text."""
        return self.upto(self._grow(token))

    def upto(self, text: str) -> str:
        """Return the part of this text that isn't in the pieces yet."""
        piece = text[self._sent :]
        self._sent += len(piece)
        return piece


class TextStream(Iterator[str]):
    """Iterator over the pieces of an answer as they are generated; joined, they are its text.

    `continuation` is the full record. It's None until the last piece has been read.
    """

    def __init__(self, pieces: Generator[str, None, Any]) -> None:
        self.continuation: Any = None
        self._pieces = pieces

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            self.continuation = self.continuation or end.value
            raise

    def close(self) -> None:
        """Stop generating, and release the model."""
        self._pieces.close()


class Writer(ABC, Generic[R]):
    """Reads inputs, decodes them in a session, and makes a record of each answer.

    Attributes:
        prefix: the tokens that every answer starts with.
    """

    session: Session
    prefix: Sequence[int] = ()

    @abstractmethod
    def read(self, texts: Sequence[Any]) -> list[Read]:
        """Encode inputs. Raise DataError if one can't be read."""

    @abstractmethod
    def grow(self, read: Read) -> Grow:
        """Return a function that turns the tokens of an answer into text as they come."""

    @abstractmethod
    def record(self, read: Read, answers: Sequence[Hypothesis]) -> R:
        """Return the record of the answers to an input, best first. There are none if nothing is written."""

    @abstractmethod
    def best(self, record: R) -> Any:
        """Return the best answer of a record, which has a `text`."""

    def finish(self, read: Read, answers: Sequence[Hypothesis]) -> Generator[None, None, R]:
        """Make a record that needs another model call. Yields between steps, so that a server can do other work."""
        yield from ()
        return self.record(read, answers)

    def records(self, reads: Sequence[Read]) -> list[R]:
        """Return the record of each input, in order."""
        found = dict(self.stream(reads))
        return [found[place] for place in range(len(reads))]

    def stream(self, reads: Sequence[Read]) -> Iterator[tuple[int, R]]:
        """Yield (index, record) for each input as soon as its batch is done."""
        for place, answers in self.answers(reads):
            yield place, self.record(reads[place], answers)

    def answers(self, reads: Sequence[Read]) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Yield (index, answers) for each input, first for those to which nothing is written."""
        places = [place for place, read in enumerate(reads) if read.writes]
        yield from ((place, []) for place, read in enumerate(reads) if not read.writes)
        for index, answers in self.session.stream([reads[place].source for place in places], self.prefix):
            yield places[index], answers[: self.session.config.n_best]

    def pieces(self, read: Read) -> TextStream:
        """Return an iterator over the pieces of an answer as they are generated.

        Raises:
            ConfigError: on the first piece, if the settings ask for several beams or samples.
        """
        return TextStream(self._pieces(read))

    def _pieces(self, read: Read) -> Generator[str, None, Any]:
        pieces, answers = Pieces(self.grow(read)), list[Hypothesis]()
        tokens = self.session.tokens(read.source, self.prefix) if read.writes else None
        while tokens is not None:
            try:
                piece = pieces.add(next(tokens))
            except StopIteration as end:
                answers, tokens = [end.value], None
            else:
                if piece:
                    yield piece
        best = self.best(self.record(read, answers))
        if rest := pieces.upto(best.text):
            yield rest
        return best
