"""Groups of texts that join and leave the model's batch between two decoding steps."""

from dataclasses import dataclass, field
from typing import Any

from ..decode.live_batch import LiveBatch
from ..decode.session import MIN_LENGTH
from .decoders import Decoder, Grow, Read
from .waiting_rows import OnPiece
from .work import Seeded

_PADDING = 4  # a few long texts don't keep out many short ones, though all are padded to the longest


@dataclass
class _Member:
    read: Read
    pieces: "_Pieces | None"
    length: int  # in tokens, as it counts in a batch


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
    """Texts being decoded; see `batching.Group`. At most decode.batch_tokens tokens are
    decoded together, counting every beam, but not padding."""

    decoder: Decoder
    _members: dict[int, _Member] = field(default_factory=dict)
    _blank: dict[int, Any] = field(default_factory=dict)  # texts that need no decoding, with numbers below 0
    _n_blank: int = 0  # of this group so far

    def __post_init__(self) -> None:
        self._batch = LiveBatch(self.decoder.session)

    def __len__(self) -> int:
        return len(self._members) + len(self._blank)

    def has_room(self) -> bool:
        """Return whether another text may join now."""
        session = self.decoder.session
        lengths = [it.length for it in self._members.values()]
        wide = session.width * (session.config.n_best if session.diverse else 1)
        most, padded = session.config.batch_tokens, (len(lengths) + 1) * max(lengths, default=0)
        return not lengths or (wide * (sum(lengths) + MIN_LENGTH) <= most and wide * padded <= _PADDING * most)

    def add(self, value: str | Seeded, on_piece: OnPiece | None) -> int:
        """Let a text join, and return its number. Raise ClearheadError if it can't be read."""
        text, seed = (value.text, value.seed) if isinstance(value, Seeded) else (value, None)
        read = self.decoder.read(text)
        if read is None:
            self._n_blank += 1
            self._blank[-self._n_blank] = self.decoder.blank(text)
            return -self._n_blank
        pieces = None if on_piece is None else _Pieces(self.decoder.grow(read), on_piece)
        on_token = None if pieces is None else pieces.add
        number = self._batch.add(read.source, self.decoder.prefix, on_token, seed)
        length = max(self.decoder.session.length(read.source) + 1, MIN_LENGTH)
        self._members[number] = _Member(read, pieces, length)
        return number

    def drop(self, number: int) -> None:
        """Give up a text. Its row is free before the next step."""
        self._blank.pop(number, None)
        if self._members.pop(number, None) is not None:
            self._batch.drop(number)

    def step(self) -> list[tuple[int, Any]]:
        """Take one decoding step, and return the numbers and records of the texts that are done."""
        done, self._blank = list(self._blank.items()), {}
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
