"""Tokenize the examples of a run once, and store them on disk for this run and later ones."""

import hashlib
import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from ..config.values import counted
from ..data.forms import Divided
from ..data.store import Store, StoreWriter, new_store
from ..errors import DataError
from ..folder.atomic import writing
from ..readers.skipped import UNREADABLE, Report, none_readable
from ..tasks.base import Task
from .choices.hyperparameters import usual_threads

Say = Callable[[str], None]


@dataclass(frozen=True)
class Shelf:
    """A folder for tokenized data. `key` identifies the data and settings."""

    path: Path
    key: dict[str, Any]
    say: Say
    stored: str = "tokens"

    @classmethod
    def of(cls, digest: str, task: Task, run: Path, say: Say) -> "Shelf":
        """Choose the folder for a task's tokens: one in `data.store` named after the key, or `run` if it isn't set.

        `digest` is the digest of the data, taken before reading it.
        """
        data, train, model = task.config.data, task.config.train, task.config.model
        media = filter(None, (model.image_size, model.image_channels, model.sample_rate))
        key = {
            "data": digest,
            "reading": [data.source_column, data.target_column, data.separator, data.reverse],
            "split": None if data.valid else [data.split, train.seed],
            "tokenizer": hashlib.sha256(task.tokenizers.to_json().encode()).hexdigest(),
            "task": [type(task).__name__, *task.longest, *media],
            "special": [task.config.model.begins, *astuple(task.special)],
            "labels": list(data.labels),  # the tokens contain label ids
        }
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return cls(Path(data.store) / f"tokens-{name}" if data.store else run, key, say, task.units.stored)

    def find(self) -> Store | None:
        """Return the tokens stored earlier for the same data, tokenizer and settings; None if missing or damaged."""
        try:
            store = Store.open(self.path, self.key)
        except DataError as error:
            again = "tokenized" if self.stored == "tokens" else "read"
            self.say(f"{error.what}; the data will be {again} again")
            return None
        if store is not None:
            same = "data and tokenizer" if self.stored == "tokens" else "data"
            self.say(f"reusing the {self.stored} of the same {same} from {self.path}")
        return store

    def fill(self, corpus: Divided, task: Task, held_out: list[Any], said: Iterable[str]) -> Store:
        """Tokenize all data, and store the tokens with the held-out examples and the messages about the data.

        Raises:
            DataError: all examples are too long, or the data changed after its digest was computed.
        """
        begun = time.monotonic()
        with writing(self.path.parent), new_store(self.path, self.key, dtypes=task.stored_as) as writer:
            kept, noticed, reason = _write(writer, corpus, task)
            for message in noticed:
                self.say(message)
            if not kept:
                raise _nothing_left(corpus, task, reason)
            corpus.source.expect_digest(self.key["data"])
            writer.notes = {"said": [*said, *noticed], "held out": held_out}
        store = Store.open(self.path, self.key)
        if store is None:
            raise DataError(
                f"the tokens in {self.path} were removed by another program",
                fix="run the command again",
                name=str(self.path),
            )
        count = len(task.examples(store.sides))
        self.say(f"{self.stored}: {counted(count, task.units.examples)} in {time.monotonic() - begun:.1f} s")
        return store


def _nothing_left(corpus: Divided, task: Task, reason: str) -> DataError:
    what, count = task.units.examples, len(corpus)
    if reason == UNREADABLE:
        return none_readable(what, count)
    why = f"no {what} are left to train on: {f'all {count:,} are' if count > 1 else 'the only one is'} {reason}"
    return DataError(why, expected="shorter ones, or a larger limit", value=count)


def _write(writer: StoreWriter, corpus: Divided, task: Task) -> tuple[int, list[str], str]:
    """Write the tokens of all examples.

    Returns:
        The number of examples, messages about long, truncated or unknown ones, and why the first one was dropped.
    """
    read, kept, reason = corpus.source.report, 0, ""
    too_long, cut, unknown = (Report((), item=read.item, files=read.files, width=read.width) for _ in range(3))
    for encoded in task.encoder.each(corpus.chunks(), len(corpus), usual_threads(task.config.train)):
        writer.add(encoded.sources, encoded.targets)
        kept += len(encoded.sources)
        for it in encoded.skipped:
            reason = reason or it.reason
            too_long.skip(it.line, f"{task.units.examples} {it.reason}; they're dropped", it.text)
        for it in encoded.cut:
            cut.skip(it.line, f"{task.units.examples} {it.reason}; only the beginning is read", it.text)
        for it in encoded.unknown:
            unknown.skip(it.line, it.reason, it.text)
    rows = too_long.skipped_rows(), cut.skipped_rows("found"), unknown.skipped_rows("found")
    return kept, ["\n".join(some) for some in rows if some], reason
