"""What a run trains and scores on: read, chosen and written down before its first step; on resume the same again."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..config import Config, chosen
from ..config.custom_code import custom_parts
from ..config.values import spell
from ..data.forms import Divided, Source
from ..data.store import Store, token_digest
from ..errors import ConfigError, DataError
from ..folder.checkpoint import RunFolder
from ..folder.model_folder import TOKENIZER, WORDS, model_files, read_config, read_tokenizer
from ..readers.files import STDIN
from ..readers.skipped import Report, Skipped
from ..scoring import score_labels
from ..tasks.base import Learnable, Scorable, Task
from ..tasks.classify.examples import UNSEEN
from ..tasks.registry import task_of
from ..tokenization.tokenizer import SPECIALS, Tokenizer, Tokenizers, train_tokenizers
from .choices import budget, recipe
from .example_store import Say, Shelf
from .pace import Scoring
from .report.card import model_card
from .starting_point import StartingPoint

PLACES = ("data.train", "data.valid", "data.test", "data.texts", "data.store")  # where files lie


@dataclass(frozen=True)
class Prepared:
    """Settings without open choices, the task, and its examples; `valid` and `test` are None where there are none."""

    config: Config
    task: Task
    examples: Learnable
    valid: Scorable | None
    test: Scorable | None
    digest: str  # of the examples
    start: StartingPoint | None = None  # what is begun with, where it is not random

    @property
    def constants(self) -> dict[str, str]:
        """What must be the same when the run goes on, by a name for the error message."""
        valid = self.valid.examples if self.valid else None
        return {
            "the training data": self.digest,
            "the validation data": token_digest(valid.sides) if valid else "none",
        }

    @property
    def scoring(self) -> Scoring:
        """How many sentences are scored, for those who ask how long that takes."""
        valid, test = (len(it.sources) if it else 0 for it in (self.valid, self.test))
        test += valid if self.config.train.warm_start else 0  # those without it, beside which this one is set
        return Scoring(valid, test, mean=bool(self.config.train.average))


@dataclass(frozen=True)
class _Read:
    """What the files hold: the data to train on, what is held out of them or from a file of its own, and the test."""

    corpus: Divided
    held_out: Any
    valid: Any | None
    test: Any | None
    said: list[str]  # of the training data


def prepare(
    folder: RunFolder,
    config: Config,
    say: Say,
    *,
    task_type: type[Task] | None = None,
    start: StartingPoint | None = None,
    end: float = math.inf,
) -> Prepared:
    """Read the data, make every choice that the user left open, and write down both.

    Args:
        folder: where the run writes its files.
        config: the settings, with their origins.
        say: receives messages for the user.
        task_type: the task to learn instead of the configuration's.
        start: the model to start from instead of `train.init_from`.
        end: when a run with a budget has to end, by `time.monotonic`.
    """
    _expect_places(config)
    task_type = task_type or task_of(config)
    if config.train.init_from:
        start = StartingPoint.load(Path(config.train.init_from), allow_custom_code=custom_parts(config).values())
    if start is not None:
        config = start.configure(config)
        for message in start.differences(config):
            say(message)
    config, begun = budget.begin(config) if config.train.budget else (config, [])
    config, machine = recipe.choose_machine(config)
    torch.set_num_threads(chosen(config.train.threads))
    with task_type.form.open(config.data.train, config.data) as source:
        digest = source.digest()  # of what is read from here on
        read = _read(task_type, source, config, say)
        size, spoken = task_type.form.extent(read.corpus)
        config, model = recipe.choose_model(config, size, spoken)
        config = config.assign(task_type.from_data(read.corpus, config), "data")
        tokenizers = start.tokenizers if start is not None else _learn(read.corpus, config, say)
        config, vocabularies = _with_vocabularies(config, tokenizers)
        task = task_type(tokenizers, config)
        shelf = Shelf.of(digest, task, folder.tokens, say)
        if store := shelf.find():
            source.expect_digest(digest)
            for message in store.notes["said"][len(read.said) :]:  # of what only its tokens tell
                say(message)
        else:
            store = shelf.fill(read.corpus, task, task_type.form.to_notes(read.held_out), read.said)
    prepared = _prepared(task, store, read.valid, read.test, say)
    examples = prepared.examples
    config, batch = recipe.choose_batch(config, examples.tokens, task.units.tokens)
    if config.train.budget:
        config, planned = budget.plan(config, task, examples, lambda: end - time.monotonic(), prepared.scoring)
        batch = [*batch, *planned]
    data = config.data
    n_batches = len(examples.batches(chosen(data.batch_tokens), max_rows=data.batch_sentences).epoch(0))
    config, schedule = recipe.choose_schedule(config, n_batches)
    notes = [str(choice) for choice in (*begun, *model, *vocabularies, *batch, *schedule, *machine)]
    for note in notes:
        say(note)
    card = model_card(config, task_type, count=len(examples), notes=notes)
    folder.begin(_first_files(config, tokenizers, card))
    return replace(prepared, config=config, task=task_type(tokenizers, config), start=start)


def _first_files(config: Config, tokenizers: Tokenizers, card: str) -> dict[str, bytes]:
    """What the folder of a run holds before its first step."""
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), card=card)
    if tokenizers.source.kind == "word":  # the others know every word, or none
        files[WORDS] = _word_list(tokenizers.source).encode()
    return files


def _word_list(tokenizer: Tokenizer) -> str:
    """The words seen in training, one a line, in the order of the alphabet."""
    words = {word.strip("▁") for word in tokenizer.vocabulary()[len(SPECIALS) :]}
    return "\n".join(sorted(words, key=str.casefold)) + "\n"


def prepare_again(folder: RunFolder, asked: Config, say: Say, *, task_type: type[Task] | None = None) -> Prepared:
    """Prepare a run to resume from what it wrote down when it began; only the paths of files are taken from `asked`.

    If the encoded training data are still there, the files are only read for their digest.
    """
    out = folder.path
    config = read_config(out, allow_custom_code=custom_parts(asked).values())
    refuse_contradictions(out, config, asked)
    places = {name: asked.value(name) for name in PLACES}
    config = config.assign({name: place for name, place in places.items() if place}, "user")
    _expect_places(config)
    recipe.choose_device(chosen(config.train.device))  # it may be gone
    torch.set_num_threads(chosen(config.train.threads))
    tokenizers = Tokenizers.from_json(read_tokenizer(out), origin=str(out / TOKENIZER))
    task_type = task_type or task_of(config)
    task = task_type(tokenizers, config)
    with task_type.form.open(config.data.train, config.data) as source:
        shelf = Shelf.of(source.digest(), task, folder.tokens, say)
        if store := shelf.find():
            for message in store.notes["said"]:
                say(message)
            held_out = task_type.form.from_notes(store.notes["held out"], source.report)
            valid = _file(task_type, config.data.valid, config, say) or held_out
            return _prepared(task, store, valid or None, _file(task_type, config.data.test, config, say), say)
        read = _read(task_type, source, config, say)
        store = shelf.fill(read.corpus, task, task_type.form.to_notes(read.held_out), read.said)
    return _prepared(task, store, read.valid, read.test, say)


def _expect_places(config: Config) -> None:
    """Raise an error where what is named cannot serve: that is better known before the data are read."""
    data = config.data
    named = [name for name in ("data.train", "data.valid", "data.test") if STDIN in config.value(name)]
    if len(named) > 1:
        raise DataError(
            f"standard input, -, was named twice, by {' and '.join(named)}; it is read to its end by the first of them"
        )
    if data.store and Path(data.store).is_file():
        raise ConfigError(
            f"data.store={data.store!r} is a file", expected="a folder", name="data.store", value=data.store
        )


def refuse_contradictions(out: Path, stored: Config, asked: Config, names: Collection[str] | None = None) -> None:
    """Raise a ConfigError if the user now asks for a value that the run in `out` doesn't have.

    Files may have moved, but validation, test and extra texts can't be added to a run that started without them.

    Args:
        out: the folder of the run.
        stored: the settings of the run.
        asked: the settings that the user gave now.
        names: the settings to compare (default: all that the user gave).
    """
    if names is None:
        added = {name for name in ("data.valid", "data.test", "data.texts") if not stored.value(name)}
        names = {name for name in asked.by_origin().get("user", ()) if name not in PLACES} | added
    for name in sorted(names):
        before, now = stored.value(name), asked.value(name)
        if before != now and now not in (None, "auto"):
            raise ConfigError(
                f"{name}={spell(now)} contradicts the run in {out}, which started with {spell(before)}",
                expected="the same value",
                fix="leave the setting out to resume, or start a new run in another --out",
                name=name,
                value=now,
            )


def _read(task_type: type[Task], source: Source, config: Config, say: Say) -> _Read:
    """Read the training data once, and the others into memory: what cannot be read is better known before training."""
    data = config.data
    corpus = task_type.form.divide(source, 0.0 if data.valid else data.split, config.train.seed)
    said = [str(source.report), *([] if data.valid else [corpus.note])]
    held_out = corpus.held_out()
    if not data.valid and not len(held_out):
        said.append("so the newest weights are kept, and their quality is not measured")
    for message in said:
        say(message)
    if data.valid or data.test:
        config = config.assign(task_type.from_data(corpus, config), "data")  # labels for small files
    valid = _file(task_type, data.valid, config, say) or held_out
    return _Read(corpus, held_out, valid or None, _file(task_type, data.test, config, say), said)


def _file(task_type: type[Task], paths: Sequence[str], config: Config, say: Say) -> Any | None:
    """What files beside the training data hold, None where none are named."""
    if not paths:
        return None
    found = task_type.form.read(paths, config.data)
    say(str(found.report))
    return found


def _learn(corpus: Divided, config: Config, say: Say) -> Tokenizers:
    """The vocabularies of the texts to train on."""
    begun = time.monotonic()
    sources, targets = corpus.texts()
    tokenizers = train_tokenizers(sources, targets, config.data)
    if len(sources) < len(corpus):
        say(f"the tokenizer learns from {len(sources) / len(corpus):.1%} of all text, spread evenly over it")
    say(f"tokenizer: {_sizes(tokenizers, two_sides=len(targets) > 0)} in {time.monotonic() - begun:.1f} s")
    return tokenizers


def _with_vocabularies(config: Config, tokenizers: Tokenizers) -> tuple[Config, list[recipe.Choice]]:
    """The shape with the sizes of both vocabularies; two of them cannot share a matrix."""
    sizes = {"src": tokenizers.source.vocab_size, "tgt": tokenizers.target.vocab_size}
    values: dict[str, Any] = {f"model.{side}_vocab_size": size for side, size in sizes.items()}
    if config.model.tie != "all" or tokenizers.joint:
        return config.assign(values, "data"), []
    why = "source and target have no vocabulary in common"
    return config.assign(values | {"model.tie": "target"}, "data"), [recipe.Choice("model.tie", "target", why)]


def _prepared(task: Task, store: Store, valid: Any | None, test: Any | None, say: Say) -> Prepared:
    held_out = _valid(task, valid, say) if valid is not None else None
    tested = task.hold_out(test) if test is not None else None
    if tested is not None:
        _say_too_long(task, tested, "are tested on without their loss", say)
    return Prepared(task.config, task, task.examples(store.sides), held_out, tested, store.digest)


def _valid(task: Task, valid: Any, say: Say) -> Scorable | None:
    """At most `train.eval_sentences` of what is held out."""
    most = task.config.train.eval_sentences
    valid, said = task.form.sample(valid, most, task.config.train.seed)
    if said:
        say(f"validation: {said}")
    held_out = task.hold_out(valid)
    if not len(held_out.examples):
        what = f"all {len(valid):,} validation {task.units.examples} are {_too_long(held_out.too_long)}"
        if task.config.data.valid:
            raise DataError(what)
        say(f"nothing held out: {what}; so the newest weights are kept, and their quality is not measured")
        return None
    _say_too_long(task, held_out, "are validated on without their loss", say)
    return held_out


def _say_too_long(task: Task, held_out: Scorable, consequence: str, say: Say) -> None:
    """Count and show the examples that have too many tokens, as those that cannot be read are shown."""
    report = Report(())
    for it in held_out.too_long:
        report.skip(it.line, f"{task.units.examples} {it.reason}; they {consequence}", it.text)
    if held_out.too_long:
        say("\n".join(report.skipped_rows()))
    if held_out.cut:
        say(score_labels.what_was_cut(held_out.cut, task.units.sources))


def _too_long(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return "without a token that the vocabulary has; expected others"
    reason = skipped[0].reason
    return f"{reason}; expected {'others' if reason == UNSEEN else 'shorter ones, or a larger limit'}"


def _sizes(tokenizers: Tokenizers, *, two_sides: bool) -> str:
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    if not tokenizers.joint:
        return f"{source:,} and {target:,} tokens"
    return f"{source:,} tokens{' for both sides' * two_sides}"
