"""The examples of a run: cut into tokens once and put on the disk, or found there from before."""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import chosen
from ..errors import DataError
from ..storage import writing
from ..tasks.translation import Examples, Translation
from ..text.corpus import Corpus
from ..text.report import Report
from ..text.sources import Pair, Pairs
from ..text.store import Store, StoreWriter, new_store

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shelf:
    """Where the tokens of some data lie, or will, and what they are the tokens of: `key`."""

    path: Path
    key: dict[str, Any]
    say: Say

    @classmethod
    def of(cls, digest: str, task: Translation, run: Path, say: Say) -> "Shelf":
        """In the folder `data.store`, by a name of its own for each data and tokenizer; without one at `run`.

        `digest` is that of the data before anything was learnt of them.
        """
        data, train = task.config.data, task.config.train
        key = {
            "data": digest,
            "reading": [data.source_column, data.target_column, data.separator, data.reverse],
            "split": None if data.valid else [data.split, train.seed],
            "tokenizer": hashlib.sha256(task.tokenizers.to_json().encode()).hexdigest(),
            "longest": task.longest,
        }
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return cls(Path(data.store) / f"tokens-{name}" if data.store else run, key, say)

    def find(self) -> Store | None:
        """What was put there before for the same data, tokenizer and settings. Damage is said, and as if not there."""
        try:
            store = Store.open(self.path, self.key)
        except DataError as error:
            self.say(f"{error}; they are made again")
            return None
        if store is not None:
            self.say(f"tokens of the same data and tokenizer are in {self.path}: they are used again")
        return store

    def fill(self, corpus: Corpus, task: Translation, held_out: Pairs, said: Iterable[str]) -> Store:
        """Cut all pairs into tokens and put them there, with the pairs held out and what was `said` of all of them.

        A DataError where all are too long, or where the data are not those of the key any more.
        """
        begun = time.monotonic()
        vocab_size = max(task.tokenizers.source.vocab_size, task.tokenizers.target.vocab_size)
        with writing(self.path.parent), new_store(self.path, self.key, vocab_size=vocab_size) as writer:
            kept, noticed = _write(writer, corpus, task)
            for message in noticed:
                self.say(message)
            if not kept:
                longest, limit = task.longest
                raise DataError(
                    f"no pair is left to train on: all {len(corpus):,} are longer than {longest} tokens ({limit}); "
                    "expected shorter ones, or a larger limit"
                )
            corpus.source.expect_digest(self.key["data"])
            apart = list(zip(held_out.lines, held_out.sources, held_out.targets))
            writer.notes = {"said": [*said, *noticed], "held out": apart}
        self.say(f"tokens: {kept:,} pairs in {time.monotonic() - begun:.1f} s")
        store = Store.open(self.path, self.key)
        if store is None:
            raise DataError(f"the tokens in {self.path} were removed by another program; give the command again")
        return store


def _write(writer: StoreWriter, corpus: Corpus, task: Translation) -> tuple[int, list[str]]:
    """Write the tokens of all pairs: how many there are, and in words those that are too long or have unknown words."""
    kept, (too_long, unknown) = 0, (Report((), files=corpus.source.report.files) for _ in range(2))
    for encoded in task.encoder.each(corpus.chunks(), len(corpus), chosen(task.config.train.threads)):
        writer.add(encoded.sources, encoded.targets)
        kept += len(encoded.sources)
        for it in encoded.skipped:
            too_long.skip(it.line, f"pairs {it.reason}; they are not trained on", it.text)
        for it in encoded.unknown:
            unknown.skip(it.line, it.reason, it.text)
    rows = too_long.skipped_rows(), unknown.skipped_rows("found")
    return kept, ["\n".join(some) for some in rows if some]


def examples_of(store: Store) -> Examples:
    """The examples, which stay on the disk."""
    return Examples(*store.sides)


def held_out_of(store: Store, report: Report) -> Pairs:
    """The pairs that were held out of the training data."""
    pairs: list[Pair] = [(line, source, target) for line, source, target in store.notes["held out"]]
    return Pairs.of(pairs, report)
