"""The examples of a run: cut into tokens once and put on the disk, or found there from before."""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import chosen
from ..data.forms import Divided
from ..data.store import Store, StoreWriter, new_store
from ..errors import DataError
from ..folder.atomic import writing
from ..readers.skipped import Report
from ..tasks.base import Task

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shelf:
    """Where the tokens of some data lie, or will, and what they are the tokens of: `key`."""

    path: Path
    key: dict[str, Any]
    say: Say

    @classmethod
    def of(cls, digest: str, task: Task, run: Path, say: Say) -> "Shelf":
        """In the folder `data.store`, by a name of its own for each data and tokenizer; without one at `run`.

        `digest` is that of the data before anything was learnt of them.
        """
        data, train = task.config.data, task.config.train
        key = {
            "data": digest,
            "reading": [data.source_column, data.target_column, data.separator, data.reverse],
            "split": None if data.valid else [data.split, train.seed],
            "tokenizer": hashlib.sha256(task.tokenizers.to_json().encode()).hexdigest(),
            "task": [type(task).__name__, *task.longest, task.config.model.pooling],  # that of a first token needs one
            "labels": list(data.labels),  # which their numbers are of
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

    def fill(self, corpus: Divided, task: Task, held_out: list[Any], said: Iterable[str]) -> Store:
        """Cut all data into tokens and put them there, with what is held out and what was `said` of all of it.

        A DataError where all are too long, or where the data are not those of the key any more.
        """
        begun = time.monotonic()
        vocab_size = max(task.tokenizers.source.vocab_size, task.tokenizers.target.vocab_size)
        with writing(self.path.parent), new_store(self.path, self.key, vocab_size=vocab_size) as writer:
            kept, noticed, reason = _write(writer, corpus, task)
            for message in noticed:
                self.say(message)
            if not kept:
                raise DataError(
                    f"no {task.units.examples} are left to train on: all {len(corpus):,} are {reason}; "
                    "expected shorter ones, or a larger limit"
                )
            corpus.source.expect_digest(self.key["data"])
            writer.notes = {"said": [*said, *noticed], "held out": held_out}
        store = Store.open(self.path, self.key)
        if store is None:
            raise DataError(f"the tokens in {self.path} were removed by another program; give the command again")
        count = len(task.examples(store.sides))
        self.say(f"tokens: {count:,} {task.units.examples} in {time.monotonic() - begun:.1f} s")
        return store


def _write(writer: StoreWriter, corpus: Divided, task: Task) -> tuple[int, list[str], str]:
    """Write the tokens of all examples: how many there are, in words what is too long, cut or unknown, and why the
    first was left out."""
    read, kept, reason = corpus.source.report, 0, ""
    too_long, cut, unknown = (Report((), item=read.item, files=read.files) for _ in range(3))
    for encoded in task.encoder.each(corpus.chunks(), len(corpus), chosen(task.config.train.threads)):
        writer.add(encoded.sources, encoded.targets)
        kept += len(encoded.sources)
        for it in encoded.skipped:
            reason = reason or it.reason
            too_long.skip(it.line, f"{task.units.examples} {it.reason}; they are not trained on", it.text)
        for it in encoded.cut:
            cut.skip(it.line, f"{task.units.examples} {it.reason}; only the beginning is read", it.text)
        for it in encoded.unknown:
            unknown.skip(it.line, it.reason, it.text)
    rows = too_long.skipped_rows(), cut.skipped_rows("found"), unknown.skipped_rows("found")
    return kept, ["\n".join(some) for some in rows if some], reason
