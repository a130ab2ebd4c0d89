"""Tokenize pairs, in one process per core if there are many."""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..config import SpecialTokens
from ..errors import TrainingError
from ..readers.pairs import Pairs
from ..readers.skipped import Skipped
from ..tokenization.ragged import Ragged
from ..tokenization.source_and_target import Tokenizers

_MANY = 300_000  # number of pairs from which multiprocessing pays off
_SHOWN = 3  # pairs of each chunk whose unknown words are listed
_PAUSE = 0.5  # seconds between looks at the parent process
_UNKNOWN = "pairs with words or characters missing from the vocabulary, which become <unk>"


@dataclass(frozen=True)
class Encoded:
    """Tokens of both sides. Sources end with EOS; targets begin with the decoder's first input, and end with EOS.

    `kept` has the indices of the encoded pairs, and `skipped` has the other pairs. `unknown` has the encoded pairs with
    words missing from the vocabulary, and `cut` those with a truncated source.
    """

    sources: Ragged
    targets: Ragged
    kept: list[int]
    skipped: list[Skipped]
    unknown: list[Skipped]
    cut: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True)
class PairEncoder:
    """Tokenizes pairs, and skips those with too many tokens on a side.

    Args:
        tokenizers: tokenizers of both sides.
        longest: maximum number of tokens per side.
        limit: name of the setting that `longest` comes from.
        cuts: name of the targets, to truncate long sources and skip only long targets; "" to skip both.
        begins: True if sources begin with BOS.
    """

    tokenizers: Tokenizers
    longest: int
    limit: str
    cuts: str = ""
    begins: bool = False

    def __call__(self, pairs: Pairs) -> Encoded:
        sources = self.tokenizers.source.encode_batch(pairs.sources)
        targets = self.tokenizers.target.encode_batch(pairs.targets)
        special, other = self.tokenizers.source.special, self.tokenizers.target.special
        kept, skipped, reason = [], [], f"longer than {self.longest} tokens ({self.limit})"
        without = f"with {self.cuts} {reason}" if self.cuts else reason
        for i, (source, target) in enumerate(zip(sources, targets)):
            if len(target) <= self.longest and (self.cuts or len(source) <= self.longest):
                kept.append(i)
            else:
                skipped.append(Skipped(int(pairs.lines[i]), without, pairs.sources[i]))
        cut = [Skipped(int(pairs.lines[i]), reason, pairs.sources[i]) for i in kept if len(sources[i]) > self.longest]
        source_tokens = Ragged([special.source(sources[i][: self.longest], begins=self.begins) for i in kept])
        target_tokens = Ragged([other.target(targets[i]) for i in kept])
        places = [i for i in kept if special.unk in sources[i] or other.unk in targets[i]]
        words = [self._unknown_words(pairs, i) for i in places[:_SHOWN]] + [""] * len(places)
        unknown = [Skipped(int(pairs.lines[i]), _UNKNOWN, some) for i, some in zip(places, words)]
        return Encoded(source_tokens, target_tokens, kept, skipped, unknown, cut)

    def _unknown_words(self, pairs: Pairs, place: int) -> str:
        source, target = self.tokenizers.source, self.tokenizers.target
        words = source.unknown_words(pairs.sources[place]) + target.unknown_words(pairs.targets[place])
        return ", ".join(dict.fromkeys(words))

    def each(self, chunks: Iterable[Pairs], n_pairs: int, processes: int) -> Iterator[Encoded]:
        """Yield the tokens of each chunk, in order.

        Args:
            n_pairs: number of pairs in all chunks. A small number is tokenized in this process.
            processes: maximum number of processes.

        Raises:
            TrainingError: a process was killed.
        """
        pool = self._pool(processes) if n_pairs >= _MANY and processes > 1 else None
        if pool is None:
            yield from map(self, chunks)
            return
        from concurrent.futures.process import BrokenProcessPool

        try:
            waiting = deque[Any]()
            for chunk in chunks:
                with _without_interrupts():  # so that a process started here never receives them
                    waiting.append(pool.submit(_encode, chunk))
                if len(waiting) > 2 * processes:  # chunks waiting for a process are in memory
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            what = "a process that tokenizes pairs was killed, perhaps for lack of memory"
            fix = "use fewer processes with a lower `train.threads`"
            raise TrainingError(what, fix=fix, name="train.threads", value=processes) from error
        finally:
            pool.shutdown(kill_workers=True)

    def _pool(self, processes: int) -> Any:
        """Start the process pool, or return None if the system can't start processes.

        The standard library's process pool would import the user's main module again, and restart its training.
        """
        import loky

        special = self.tokenizers.source.special
        arguments = (
            os.getpid(),
            self.tokenizers.to_json(),
            special,
            (self.longest, self.limit, self.cuts, self.begins),
        )
        alone = {"TOKENIZERS_PARALLELISM": "false"}  # every core already has a process
        try:
            return loky.ProcessPoolExecutor(processes, timeout=60, env=alone, initializer=_begin, initargs=arguments)
        except OSError:
            return None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Delay Ctrl-C, which all processes of a terminal receive. Only the training process handles it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent(parent: int) -> None:
    """Send this process SIGTERM as soon as its parent has ended, or now if it has.

    `parent` is the id that the parent found for itself: once it has ended, a process has another parent.
    Linux could send the signal itself, but does so when the parent's thread ends that started this process.
    """
    if os.name != "nt":  # there, a process never gets another parent
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_PAUSE)
    os.kill(os.getpid(), signal.SIGTERM)


_encoder: PairEncoder | None = None  # in a worker process


def _begin(parent: int, tokenizers: str, special: SpecialTokens, limits: tuple[int, str, str, bool]) -> None:
    global _encoder
    end_with_parent(parent)
    _encoder = PairEncoder(Tokenizers.from_json(tokenizers, special, origin="the tokenizer"), *limits)


def _encode(pairs: Pairs) -> Encoded:
    assert _encoder is not None
    return _encoder(pairs)
