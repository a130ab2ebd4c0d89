"""Pairs to tokens: few of them here, many of them in a process a core."""

import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..errors import TrainingError
from ..readers.pairs import Pairs
from ..readers.skipped import Skipped
from ..tokenization.ragged import Ragged
from ..tokenization.tokenizer import BOS, EOS, UNK, Tokenizers

_MANY = 300_000  # pairs for which it pays to begin processes
_SHOWN = 3  # pairs of each chunk whose unknown words are named
_UNKNOWN = "pairs with words or characters that the vocabulary lacks; these are learnt as <unk>"


@dataclass(frozen=True)
class Encoded:
    """Tokens of both sides: sources end with EOS, targets begin with BOS and end with EOS; the places of their pairs,
    and the pairs left out. Of those that stay, `unknown` have words that the vocabulary lacks, named by the first ones,
    or something else that training cannot teach, and `cut` have a source of which only the beginning is read.
    """

    sources: Ragged
    targets: Ragged
    kept: list[int]
    skipped: list[Skipped]
    unknown: list[Skipped]
    cut: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class PairEncoder:
    """Cuts pairs into tokens; those of more than `longest` on a side are left out, since `limit` says so.

    With `cuts`, the name of the targets, only those with a long one are: of a long source the beginning is read, as
    nothing is wrong with its target.
    """

    tokenizers: Tokenizers
    longest: int
    limit: str
    cuts: str = ""

    def __call__(self, pairs: Pairs) -> Encoded:
        """Both sides of some pairs."""
        sources = self.tokenizers.source.encode_batch(pairs.sources)
        targets = self.tokenizers.target.encode_batch(pairs.targets)
        kept, skipped, reason = [], [], f"longer than {self.longest} tokens ({self.limit})"
        without = f"with {self.cuts} {reason}" if self.cuts else reason
        for i, (source, target) in enumerate(zip(sources, targets)):
            if len(target) <= self.longest and (self.cuts or len(source) <= self.longest):
                kept.append(i)
            else:
                skipped.append(Skipped(int(pairs.lines[i]), without, pairs.sources[i]))
        cut = [Skipped(int(pairs.lines[i]), reason, pairs.sources[i]) for i in kept if len(sources[i]) > self.longest]
        source_tokens = Ragged([[*sources[i][: self.longest], EOS] for i in kept])
        target_tokens = Ragged([[BOS, *targets[i], EOS] for i in kept])
        places = [i for i in kept if UNK in sources[i] or UNK in targets[i]]
        words = [self._unknown_words(pairs, i) for i in places[:_SHOWN]] + [""] * len(places)
        unknown = [Skipped(int(pairs.lines[i]), _UNKNOWN, some) for i, some in zip(places, words)]
        return Encoded(source_tokens, target_tokens, kept, skipped, unknown, cut)

    def _unknown_words(self, pairs: Pairs, place: int) -> str:
        source, target = self.tokenizers.source, self.tokenizers.target
        words = source.unknown_words(pairs.sources[place]) + target.unknown_words(pairs.targets[place])
        return ", ".join(dict.fromkeys(words))

    def each(self, chunks: Iterable[Pairs], n_pairs: int, processes: int) -> Iterator[Encoded]:
        """The chunks, which have `n_pairs` in all, in their order; cut by so many processes where it pays.

        A TrainingError where one of these is killed.
        """
        pool = self._pool(processes) if n_pairs >= _MANY and processes > 1 else None
        if pool is None:
            yield from map(self, chunks)
            return
        try:
            waiting = deque[Any]()
            for chunk in chunks:
                with _without_interrupts():  # which a process that begins meanwhile never hears then
                    waiting.append(pool.submit(_encode, chunk))
                if len(waiting) > 2 * processes:  # what is read and not yet cut is in memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise TrainingError(
                "a process that cuts pairs into tokens was killed, as happens where memory is short; "
                "expected all of them to live: fewer are begun with a lower --threads"
            ) from error
        finally:
            pool.shutdown(kill_workers=True)

    def _pool(self, processes: int) -> Any:
        """The processes, None where the system has none to give.

        Those of the standard library would import the user's main module again, and begin its training once more.
        """
        import loky

        told = (self.tokenizers.to_json(), self.longest, self.limit, self.cuts)
        alone = {"TOKENIZERS_PARALLELISM": "false"}  # every core has a process already
        try:  # who waits for a minute has lost the process that gave the work
            return loky.ProcessPoolExecutor(processes, timeout=60, env=alone, initializer=_begin, initargs=told)
        except OSError:
            return None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C waits. It goes to all processes of a terminal, and the one that trains deals with it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_encoder: PairEncoder | None = None  # of a process that does nothing else


def _begin(tokenizers: str, longest: int, limit: str, cuts: str) -> None:
    global _encoder
    _encoder = PairEncoder(Tokenizers.from_json(tokenizers, origin="the tokenizer"), longest, limit, cuts)


def _encode(pairs: Pairs) -> Encoded:
    assert _encoder is not None
    return _encoder(pairs)
