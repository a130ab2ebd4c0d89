"""Groups of inputs with the same work that are being answered. Only the thread of a `Batcher` uses them.

An input joins a group with `add`, which returns its number and raises ClearheadError if it can't be read, and leaves it
with `drop`. `step` computes for a while, and returns the numbers and answers, or exceptions, of those that are done.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ..decode.beams import Hypothesis
from ..decode.live_batch import LiveBatch
from ..decode.session import MIN_LENGTH
from ..decode.writer import Pieces, Read, Writer
from ..errors import ClearheadError

OnPiece: TypeAlias = Callable[[str], None]  # called with each piece of an answer
_PADDING = 4  # a few long texts don't keep out many short ones, though all are padded to the longest
_FINISHING = 8  # steps of records that need the model once more, for each decoding step


@dataclass(frozen=True)
class Seeded:
    """A text to continue or a conversation to answer, with its own random seed."""

    text: Any
    seed: int


class AtOnce:
    """A group whose inputs are all answered in one step, without pieces.

    Args:
        run: returns the answers to some inputs, in the same order.
        most: maximum number of inputs at a time.
    """

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], *, most: int) -> None:
        self._run, self._most, self._next = run, most, 0
        self._inputs: dict[int, Any] = {}

    def has_room(self) -> bool:
        """Return whether another input may join now."""
        return len(self._inputs) < self._most

    def add(self, value: Any, on_piece: OnPiece | None) -> int:
        """Let an input join, and return its number."""
        self._next += 1
        self._inputs[self._next] = value
        return self._next

    def drop(self, number: int) -> None:
        """Give up an input."""
        self._inputs.pop(number, None)

    def step(self) -> list[tuple[int, Any]]:
        """Answer all inputs. An input that fails doesn't affect the others."""
        inputs, self._inputs = self._inputs, {}
        return list(zip(inputs, self._answers(list(inputs.values())), strict=True))

    def _answers(self, inputs: list[Any]) -> list[Any]:
        try:
            return list(self._run(inputs))
        except ClearheadError as error:
            if len(inputs) == 1:
                return [error]
            return [answer for value in inputs for answer in self._answers([value])]

    def close(self) -> None:
        """Give up all inputs."""
        self._inputs.clear()


@dataclass
class _Member:
    read: Read
    on_piece: OnPiece | None
    pieces: Pieces

    def add(self, token: int) -> None:
        """Pass on what a token of the answer adds to its text."""
        self._send(self.pieces.add(token))

    def end(self, text: str) -> None:
        """Pass on the rest of the text."""
        self._send(self.pieces.upto(text))

    def _send(self, piece: str) -> None:
        if piece and self.on_piece is not None:
            self.on_piece(piece)


@dataclass
class _Record:
    """A record that's being made, in steps."""

    member: _Member
    steps: Generator[None, None, Any]
    begun: bool = False

    @property
    def order(self) -> tuple[bool, int, str]:
        """Sort key of records that are made one at a time: short texts first, and equal texts together."""
        return not self.begun, len(self.member.read.source), str(self.member.read.text)


@dataclass
class LiveGroup:
    """Texts that join and leave the model's batch between two decoding steps.

    At most decode.batch_tokens tokens are decoded together, counting every beam, but not padding.
    """

    writer: Writer[Any]
    _members: dict[int, _Member] = field(default_factory=dict)
    _records: dict[int, _Record] = field(default_factory=dict)
    _n_unwritten: int = 0  # texts so far to which nothing is written; they have numbers below 0

    def __post_init__(self) -> None:
        self._batch = LiveBatch(self.writer.session)

    def __len__(self) -> int:
        return len(self._members) + len(self._records)

    def has_room(self) -> bool:
        session = self.writer.session
        lengths = [max(session.length(it.read.source) + 1, MIN_LENGTH) for it in self._members.values()]
        wide = session.width * (session.config.n_best if session.diverse else 1)
        most, padded = session.config.batch_tokens, (len(lengths) + 1) * max(lengths, default=0)
        return not lengths or (wide * (sum(lengths) + MIN_LENGTH) <= most and wide * padded <= _PADDING * most)

    def add(self, value: str | Seeded, on_piece: OnPiece | None) -> int:
        """Let a text join, and return its number. Raise ClearheadError if it can't be read."""
        text, seed = (value.text, value.seed) if isinstance(value, Seeded) else (value, None)
        [read] = self.writer.read([text])
        member = _Member(read, on_piece, Pieces(self.writer.grow(read)))
        if not read.writes:
            self._n_unwritten += 1
            self._end(-self._n_unwritten, member, ())
            return -self._n_unwritten
        on_token = None if on_piece is None else member.add
        number = self._batch.add(read.source, self.writer.prefix, on_token, seed)
        self._members[number] = member
        return number

    def drop(self, number: int) -> None:
        """Give up a text. Its row is free before the next step."""
        self._records.pop(number, None)
        if self._members.pop(number, None) is not None:
            self._batch.drop(number)

    def step(self) -> list[tuple[int, Any]]:
        """Take one decoding step, and return the numbers and records of the texts that are done."""
        for number, answers in self._batch.step() if self._members else ():
            self._end(number, self._members.pop(number), answers[: self.writer.session.config.n_best])
        return list(self._finished())

    def close(self) -> None:
        self._records.clear()
        self._batch.close()

    def _end(self, number: int, member: _Member, answers: Sequence[Hypothesis]) -> None:
        self._records[number] = _Record(member, self.writer.finish(member.read, answers))

    def _finished(self) -> Iterator[tuple[int, Any]]:
        """Take a few steps of the records that need the model, and yield those that are done, or their errors."""
        left = _FINISHING
        for number, making in sorted(self._records.items(), key=lambda it: it[1].order):
            try:
                while left:
                    making.begun = True
                    next(making.steps)
                    left -= 1
                return
            except StopIteration as end:
                making.member.end(self.writer.best(end.value).text)
                yield number, end.value
            except ClearheadError as error:
                yield number, error
            del self._records[number]


Group: TypeAlias = AtOnce | LiveGroup
