"""The data of a run: read its files, tokenize the examples once, and store the tokens for this run and later ones."""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from ..cleaning.checkup import first_look
from ..config import Config
from ..config.values import counted
from ..data.corpus import Corpus
from ..data.forms import Divided
from ..data.store import Store, StoreWriter, new_store, token_digest
from ..errors import DataError, TrainingError
from ..folder.atomic import writing
from ..readers.conversations import Conversations
from ..readers.pairs import Pairs, PairSource
from ..readers.skipped import UNREADABLE, Report, Skipped, none_readable
from ..readers.source import Source
from ..scoring import score_labels
from ..tasks.base import Dataset, HeldOut, Task
from ..tasks.classify.examples import UNSEEN
from .choices.hyperparameters import usual_threads
from .schedule import Scoring

Say = Callable[[str], None]

_UNSCORED = "the newest weights are kept, and their quality isn't measured"


@dataclass(frozen=True)
class RunData:
    """The data of a run as tokens, and the task with their tokenizers. `digest` is that of the training examples.

    A run that starts from a trained model can also have general data: examples to `replay`, and some to `check`.
    """

    task: Task
    examples: Dataset
    valid: HeldOut | None
    test: HeldOut | None
    digest: str
    replay: Dataset | None = None
    replay_digest: str = ""
    check: HeldOut | None = None

    @property
    def constants(self) -> dict[str, str]:
        """Digests that must match when the run resumes, keyed by a name for the error message."""
        valid = self.valid.examples if self.valid else None
        return {
            "the training data": self.digest,
            "the validation data": token_digest(valid.sides) if valid else "none",
            **({"the data to replay": self.replay_digest} if self.replay is not None else {}),
        }

    @property
    def scoring(self) -> Scoring:
        """The number of sentences to score, for time estimates."""
        valid, test = (len(it.sources) if it else 0 for it in (self.valid, self.test))
        train = self.task.config.train
        test += valid if train.warm_start else 0  # the baseline without the warm start is scored too
        test += 2 * len(self.check.sources) + valid if self.check else 0  # the model to start from is scored too
        return Scoring(valid, test, mean=bool(train.n_averaged))


@dataclass(frozen=True)
class ReadFiles:
    """The content of the files. `held_out` comes from the training data; `said` contains messages about the split."""

    corpus: Divided
    held_out: Any
    valid: Any | None
    test: Any | None
    said: list[str]


def encode(task: Task, source: Source, digest: str, run: Path, say: Say, read: ReadFiles | None = None) -> RunData:
    """Tokenize the data of a run, or find its tokens on disk.

    Args:
        task: the task, with its tokenizers.
        source: the training files.
        digest: their digest, taken before reading them, to detect files that change meanwhile.
        run: a folder for the tokens, unless `data.store` is set.
        say: receives messages.
        read: the content of the files (default: read what is needed).
    """
    form, config = task.form, task.config
    shelf = _Shelf.of(digest, task, run, say)
    store = shelf.find()
    if store is not None and read is None:
        for message in store.notes["said"]:
            say(message)
        held_out = form.from_notes(store.notes["held out"], source.report)
        valid = _file(type(task), config.data.valid, config, say) or held_out or None
        test = _file(type(task), config.data.test, config, say)
    else:
        read = read or read_files(type(task), source, config, say)
        valid, test = read.valid, read.test
        if store is None:
            store = shelf.fill(read, task)
        else:
            source.expect_digest(digest)
            for message in store.notes["said"][len(read.said) :]:  # messages about the tokens
                say(message)
    valid = None if valid is None else _valid(task, valid, say)
    test = None if test is None else _test(task, test, say)
    return RunData(task, task.examples(store.sides), valid, test, store.digest)


def with_general(data: RunData, run: Path, say: Say) -> RunData:
    """Add the general data of a run that starts from a trained model: `data.replay` and `data.check`.

    Args:
        data: the other data.
        run: the folder for the tokens.
        say: receives messages.
    """
    task, asked = data.task, data.task.config.data
    if (given := _file(type(task), asked.check, task.config, say)) is not None:
        data = replace(data, check=_test(task, given, say, "data.check"))
    if not asked.replay:
        return data
    alone = {"data.train": asked.replay, "data.split": 0.0, "data.valid": (), "data.test": ()}
    task = type(task)(task.tokenizers, task.config.assign(alone, "data"))
    with task.form.open(asked.replay, task.config.data) as source:
        digest = source.digest()
        corpus = task.form.divide(source, 0.0, task.config.train.seed)
        say(str(source.report))
        read = ReadFiles(corpus, corpus.held_out(), None, None, [str(source.report)])
        found = encode(task, source, digest, run / "replay", say, read)
    return replace(data, replay=found.examples, replay_digest=found.digest)


def read_files(task_type: type[Task], source: Source, config: Config, say: Say) -> ReadFiles:
    """Read all files before training starts. Validation and test files are kept in memory.

    Args:
        task_type: the class of the task.
        source: the training files.
        config: names the other files, and the split.
        say: receives what was read.
    """
    data = config.data
    corpus = task_type.form.divide(source, 0.0 if data.valid else data.split, config.train.seed)
    said = [str(source.report), *([] if data.valid else [corpus.note])]
    held_out = corpus.held_out()
    if not data.valid and not len(held_out):
        said.append(_UNSCORED)
    for message in said:
        say(message)
    if data.valid or data.test:
        config = config.assign(task_type.from_data(corpus, config), "data")  # small files may lack some labels
    valid, test = (_file(task_type, paths, config, say) for paths in (data.valid, data.test))
    if isinstance(corpus, Corpus) and isinstance(corpus.source, PairSource | Conversations):
        for what, given in (("validation", valid), ("test", test)):
            if isinstance(given, Pairs) and (note := corpus.repeats(given, what)):
                say(note)
    if isinstance(corpus, Corpus) and corpus.sides and (note := first_look(corpus, of_pairs=len(corpus.sides) > 1)):
        say(note)
    return ReadFiles(corpus, held_out, valid or held_out or None, test, said)


def _file(task_type: type[Task], paths: Sequence[str], config: Config, say: Say) -> Any | None:
    """Return the content of validation or test files, or None if there are none."""
    if not paths:
        return None
    found = task_type.form.read(paths, config.data)
    say(str(found.report))
    return found


# --- tokens on disk -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shelf:
    """A folder for tokenized data. `key` identifies the data and settings."""

    path: Path
    key: dict[str, Any]
    say: Say
    stored: str = "tokens"

    @classmethod
    def of(cls, digest: str, task: Task, run: Path, say: Say) -> "_Shelf":
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
        if data.label_kind:
            key |= {"label kind": data.label_kind, "number scale": [*data.number_scale]}
        if train.loss_on:
            key |= {"template": data.template, "loss on": train.loss_on}
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

    def fill(self, read: ReadFiles, task: Task) -> Store:
        """Tokenize all data, and store the tokens with the held-out examples and the messages about the data.

        Raises:
            DataError: all examples are too long, or the data changed after its digest was computed.
        """
        begun, corpus = time.monotonic(), read.corpus
        with writing(self.path.parent), new_store(self.path, self.key, dtypes=task.stored_as) as writer:
            kept, noticed, reason = _write(writer, corpus, task)
            for message in noticed:
                self.say(message)
            if not kept:
                raise _nothing_left(corpus, task, reason)
            corpus.source.expect_digest(self.key["data"])
            writer.notes = {"said": [*read.said, *noticed], "held out": task.form.to_notes(read.held_out)}
        store = Store.open(self.path, self.key)
        if store is None:
            what = f"the tokens in {self.path} were removed by another program"
            raise DataError(what, fix="run the command again", name=str(self.path))
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


def changed_data(name: str, digest: str) -> TrainingError:
    """Return the error for data whose digest isn't that of the data that the run began with."""
    what = f"{name} changed since the run began"
    fix = "restore the data to resume, or start a new run with another `out`"
    return TrainingError(what, expected="the data that the run began with", fix=fix, name=name, value=digest)


# --- held-out data --------------------------------------------------------------------------------------------------


def _valid(task: Task, valid: Any, say: Say) -> HeldOut | None:
    """Return at most `train.eval_sentences` held-out examples, or None if none can be scored."""
    most = task.config.train.eval_sentences
    valid, said = task.form.sample(valid, most, task.config.train.seed)
    if said:
        say(f"validation: {said}")
    held_out = task.hold_out(valid)
    if not len(held_out.examples):
        error = _all_unusable(task, len(valid), held_out.too_long, "data.valid")
        if task.config.data.valid:
            raise error
        say(f"nothing is held out: {error.what}; {_UNSCORED}")
        return None
    _report_too_long(task, held_out, valid, "are validated without a loss", say)
    return held_out


def _test(task: Task, test: Any, say: Say, name: str = "data.test") -> HeldOut:
    tested = task.hold_out(test)
    _report_too_long(task, tested, test, "are tested without a loss", say)
    if not len(tested.sources) and tested.too_long:
        raise _all_unusable(task, len(tested.too_long), tested.too_long, name)
    return tested


def _report_too_long(task: Task, held_out: HeldOut, data: Any, consequence: str, say: Say) -> None:
    """Report the number of examples with too many tokens, and some of them."""
    read = data.report
    report = Report((), item=read.item, files=read.files, width=read.width)
    for it in held_out.too_long:
        what = "aren't scored" if it.reason == UNREADABLE else consequence
        report.skip(it.line, f"{task.units.examples} {it.reason}; they {what}", it.text)
    if held_out.too_long:
        say("\n".join(report.skipped_rows()))
    if held_out.cut:
        say(score_labels.what_was_cut(held_out.cut, task.units.sources))


def _all_unusable(task: Task, count: int, skipped: Sequence[Skipped], name: str) -> DataError:
    which = "validation" if name == "data.valid" else "test"
    reason = skipped[0].reason if skipped else "outside the vocabulary"
    expected = "other examples" if reason == UNSEEN or not skipped else "shorter examples, or a larger limit"
    number = counted(count, f"{which} {task.units.examples}")
    what = f"all {number} are {reason}" if count > 1 else f"the only{number.removeprefix('1')} is {reason}"
    if reason == UNREADABLE:
        what, expected = f"none of the {count:,} {which} {task.units.examples} can be read", "other files"
    return DataError(what, expected=expected, name=name)
