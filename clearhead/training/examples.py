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
from ..text.sources import Pair, Pairs, PairSource
from ..text.store import Store, new_store

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shelf:
    """Where the tokens of some data lie, or will, and what they are the tokens of: `key`."""

    path: Path
    key: dict[str, Any]
    say: Say

    @classmethod
    def of(cls, source: PairSource, task: Translation, run: Path, say: Say) -> "Shelf":
        """In the folder `data.store`, by a name of its own for each data and tokenizer; without one at `run`."""
        data, train = task.config.data, task.config.train
        key = {
            "data": source.digest(),
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

        Pairs that are too long are counted and shown; a DataError where all of them are.
        """
        begun, too_long, kept = time.monotonic(), Report((), files=corpus.source.report.files), 0
        tokenizers = task.tokenizers
        vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
        with writing(self.path.parent), new_store(self.path, self.key, vocab_size=vocab_size) as writer:
            processes = chosen(task.config.train.threads)
            for encoded in task.encoder.each(corpus.chunks(), len(corpus), processes):
                writer.add(encoded.sources, encoded.targets)
                kept += len(encoded.sources)
                for it in encoded.skipped:
                    too_long.skip(it.line, f"pairs {it.reason}; they are not trained on", it.text)
            rows = "\n".join(too_long.skipped_rows())
            if rows:
                self.say(rows)
            if not kept:
                longest, limit = task.longest
                raise DataError(
                    f"no pair is left to train on: all {len(corpus):,} are longer than {longest} tokens ({limit}); "
                    "expected shorter ones, or a larger limit"
                )
            apart = list(zip(held_out.lines, held_out.sources, held_out.targets))
            writer.notes = {"said": [*said, *([rows] if rows else [])], "held out": apart}
        self.say(f"tokens: {kept:,} pairs in {time.monotonic() - begun:.1f} s")
        store = Store.open(self.path, self.key)
        assert store is not None
        return store


def examples_of(store: Store) -> Examples:
    """The examples, which stay on the disk."""
    return Examples(*store.sides)


def held_out_of(store: Store, report: Report) -> Pairs:
    """The pairs that were held out of the training data."""
    pairs: list[Pair] = [(line, source, target) for line, source, target in store.notes["held out"]]
    return Pairs.of(pairs, report)
