"""Prepare a run: read the data, choose and record all open settings, or load them from an earlier run to resume."""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..config import Config, Recipe
from ..config.values import counted, invalid, spell
from ..data.forms import Divided
from ..data.split import FEWEST
from ..errors import DataError
from ..folder.adapters import ADAPTER, Adapter
from ..folder.checkpoint import RunFolder
from ..folder.model_folder import TOKENIZER, WORDS, model_files, read_config, read_tokenizer
from ..readers.files import STDIN
from ..readers.source import IN_MEMORY
from ..tasks.base import Task
from ..tasks.registry import task_of
from ..tokenization.source_and_target import Tokenizers
from ..tokenization.tokenizer import Tokenizer
from .choices import budget, memory_limit, thread_trial
from .choices.hyperparameters import (
    Chosen,
    choose_batch,
    choose_device,
    choose_machine,
    choose_model,
    choose_schedule,
    usual_batch,
    usual_threads,
)
from .init_from import InitFrom, check_trained_parts
from .report.card import model_card
from .run_data import RunData, Say, changed_data, encode, read_files, with_general

_FILES = ("data.valid", "data.test", "data.replay", "data.check")
PLACES = ("data.train", *_FILES, "data.texts", "data.store")  # paths, which may change on resume
_DIVISIONS = ("train.micro_batches", "train.activation_checkpointing", "train.shard")  # may too, since steps stay equal


@dataclass(frozen=True, kw_only=True)
class Prepared(RunData):
    """Everything that a run needs: its data, the recipe, and the trained model to start from, if there is one."""

    config: Recipe
    start: InitFrom | None = None


def prepare(
    folder: RunFolder,
    config: Config,
    say: Say,
    *,
    task_type: type[Task] | None = None,
    start: InitFrom | None = None,
    end: float = math.inf,
    processes: int = 1,
) -> Prepared:
    """Read the data, make a recipe of the settings, and record it.

    Every setting that the user left open is chosen in this order, since the later choices depend on the earlier ones:
    what a budget needs, the machine, the model for the size of the data, the vocabularies, the batch for the number of
    tokens, the steps, the schedule and the threads.

    Args:
        folder: the folder of the run, for the tokens and the first files.
        config: the settings, with their origins.
        say: receives messages.
        task_type: the task to learn (default: `train.task`).
        start: the model to start from if `train.init_from` names none.
        end: deadline of a run with a budget, as a `time.monotonic` value.
        processes: number of processes that share the run.
    """
    _check_files(config)
    task_type = task_type or task_of(config)
    if start is not None:
        config = start.configure(config)
        for message in start.differences(config):
            say(message)
    config, first = budget.begin(config) if config.train.budget else (config, [])
    config, machine = choose_machine(config)
    torch.set_num_threads(usual_threads(config.train))
    with task_type.form.open(config.data.train, config.data) as source:
        digest = source.digest()  # before reading, to detect files that change meanwhile
        read = read_files(task_type, source, config, say)
        size, spoken = task_type.form.extent(read.corpus)
        config, model = choose_model(config, size, spoken)
        config = config.assign({"data.digest": digest, **task_type.from_data(read.corpus, config)}, "data")
        if start is not None and (about := start.about_labels(config)):
            say(about)
        tokenizers = start.tokenizers if start is not None else _train_tokenizers(task_type, read.corpus, config, say)
        config, vocabularies = _with_vocabularies(config, tokenizers)
        lora = check_trained_parts(config)
        task = task_type(tokenizers, config)
        data = with_general(encode(task, source, digest, folder.tokens, say, read), folder.tokens, say)
        if len(data.examples) < FEWEST:
            few = counted(len(data.examples), task.units.examples)
            say(f"only {few} to learn from: the model will memorise the data, and answer nothing else well")
    config, batch = choose_batch(config, data.examples.tokens, task.units.tokens)
    config, steps = _choose_steps(config, data, end, processes)
    recipe = Recipe.of(config)
    recipe, threads = (recipe, []) if config.train.budget else thread_trial.choose_threads(recipe, task, data.examples)
    torch.set_num_threads(recipe.train.threads)
    choices = (*first, *model, *vocabularies, *machine, *batch, *steps, *threads)
    notes = [str(choice) for choice in {choice.name: choice for choice in choices}.values()]  # a later choice counts
    for note in notes:
        say(note)
    card = model_card(recipe, task_type, count=len(data.examples), notes=notes)
    files = _first_files(recipe, tokenizers, card)
    if lora is not None and start is not None:
        files[ADAPTER] = Adapter.of(folder.path, start.path, start.weights_digest, lora.scale).to_bytes()
    folder.begin(files)
    return Prepared(**vars(data) | {"task": task_type(tokenizers, recipe)}, config=recipe, start=start)


def _choose_steps(config: Config, data: RunData, end: float, processes: int) -> tuple[Config, list[Chosen]]:
    """Choose the steps and how they save memory, then the schedule."""
    task, examples, choices = data.task, data.examples, list[Chosen]()
    if config.train.budget:
        config, choices = budget.plan(config, task, examples, lambda: end - time.monotonic(), data.scoring)
    if config.train.memory:
        config, divided = memory_limit.fit(config, task, examples, processes)
        choices = [*choices, *divided]
    tokens = usual_batch(config, examples.tokens)
    batches = examples.batches(tokens, max_rows=config.data.batch_sentences)
    count = len(batches.epoch(0))
    config, schedule = choose_schedule(config, count if data.replay is None else 2 * count)
    return config, [*choices, *schedule]


def _first_files(config: Config, tokenizers: Tokenizers, card: str) -> dict[str, bytes]:
    """Return the files that a run writes before its first step."""
    config = config.assign({"data.train": _without_temporary(config.data.train)}, config.origin("data.train"))
    files = model_files(config=config.to_record(), tokenizer=tokenizers.to_json(), card=card)
    if tokenizers.source.kind == "word":  # other tokenizers have no list of known words
        files[WORDS] = _word_list(tokenizers.source).encode()
    return files


def _without_temporary(paths: Sequence[str]) -> list[str]:
    """Return the names to record for training files: rows in memory have a temporary file, which soon disappears."""
    return [IN_MEMORY if Path(it).name == IN_MEMORY else it for it in paths]


def _word_list(tokenizer: Tokenizer) -> str:
    """Return the words of the training data, one per line, in alphabetical order."""
    words = {it.strip("▁") for i, it in enumerate(tokenizer.vocabulary()) if i not in tokenizer.special.ids}
    return "\n".join(sorted(words, key=str.casefold)) + "\n"


def prepare_again(
    folder: RunFolder,
    asked: Config,
    say: Say,
    *,
    allow_custom_code: bool | Collection[str],
    task_type: type[Task] | None = None,
    restarts: bool = False,
) -> Prepared:
    """Prepare to resume a run from the settings recorded at its start.

    Only file paths are taken from `asked`, and how a step is divided to save memory.

    If the tokenized training data still exists, the training files are read only to compute their digest. A run that
    `restarts`, because it has no checkpoint yet, needs the files that it began with: its tokenizer is made from them.

    Args:
        folder: the folder of the run.
        asked: the settings that the user gave now.
        say: receives messages.
        allow_custom_code: which custom classes the folder may name: all, none, or these.
        task_type: the task to learn (default: `train.task`).
        restarts: whether the run has no checkpoint yet.
    """
    out = folder.path
    recipe = Recipe.of(read_config(out, allow_custom_code=allow_custom_code))
    refuse_contradictions(out, recipe, asked)
    places = {name: asked.value(name) for name in PLACES}
    recipe = recipe.assign({name: place for name, place in places.items() if place}, "user")
    recipe = recipe.assign({name: asked.value(name) for name in _DIVISIONS if asked.is_users(name)}, "user")
    _check_files(recipe)
    choose_device(recipe.train.device)  # the device may have disappeared
    torch.set_num_threads(recipe.train.threads)
    tokenizers = Tokenizers.for_model(read_tokenizer(out), recipe.model, origin=str(out / TOKENIZER))
    task_type = task_type or task_of(recipe)
    task = task_type(tokenizers, recipe)
    with task_type.form.open(recipe.data.train, recipe.data) as source:
        digest = source.digest()
        if restarts and recipe.data.digest not in ("", digest):  # early versions recorded none
            raise changed_data("the training data", digest)
        data = with_general(encode(task, source, digest, folder.tokens, say), folder.tokens, say)
    return Prepared(**vars(data), config=recipe)


def _check_files(config: Config) -> None:
    """Raise an error for unusable paths, before any data is read."""
    data = config.data
    named = [name for name in ("data.train", *_FILES) if STDIN in config.value(name)]
    if len(named) > 1:
        what = f"standard input (-) is named twice, by {' and '.join(named)}"
        raise DataError(what, expected="- only once, since it can be read only once", name=named[1], value=STDIN)
    if data.store and Path(data.store).is_file():
        raise invalid("data.store", data.store, "is a file", expected="a folder")


def refuse_contradictions(out: Path, stored: Config, asked: Config, names: Collection[str] | None = None) -> None:
    """Raise ConfigError if the user's settings contradict those of the run in `out`.

    Files may have moved, but validation, test and extra texts can't be added to a run that started without them.

    Args:
        out: the folder of the run.
        asked: the settings that the user gave now.
        names: the settings to compare (default: all settings the user gave).
    """
    if names is None:
        added = {name for name in (*_FILES, "data.texts") if not stored.value(name)}
        names = {name for name in asked.by_origin().get("user", ()) if name not in (*PLACES, *_DIVISIONS)} | added
    for name in sorted(names):
        before, now = stored.value(name), asked.value(name)
        if before != now and now not in (None, "auto"):
            what = f"contradicts the run in {out}, which started with {spell(before)}"
            fix = "leave the setting out to resume, or use another `out` (`train.init_from` starts from this run)"
            raise invalid(name, now, what, expected="the same value", fix=fix)


def _train_tokenizers(task_type: type[Task], corpus: Divided, config: Config, say: Say) -> Tokenizers:
    started = time.monotonic()
    tokenizers, (sources, targets) = task_type.learn(corpus, config), corpus.texts()
    if not len(sources) and not len(targets):
        return tokenizers
    if len(sources) < len(corpus):
        say(f"the tokenizer is trained on {len(sources) / len(corpus):.1%} of the text, sampled evenly")
    say(f"tokenizer: {_sizes(tokenizers, two_sides=len(targets) > 0)} in {time.monotonic() - started:.1f} s")
    return tokenizers


def _with_vocabularies(config: Config, tokenizers: Tokenizers) -> tuple[Config, list[Chosen]]:
    """Return the settings with both vocabulary sizes. Two learned vocabularies can't share an embedding."""
    sizes = {"src": tokenizers.source.vocab_size, "tgt": tokenizers.target.vocab_size}
    values: dict[str, Any] = {f"model.{side}_vocab_size": size for side, size in sizes.items()}
    if config.model.tie != "all" or tokenizers.joint or config.train.init_from:
        return config.assign(values, "data"), []
    why = "source and target have separate vocabularies"
    return config.assign(values | {"model.tie": "target"}, "data"), [Chosen("model.tie", "target", why)]


def _sizes(tokenizers: Tokenizers, *, two_sides: bool) -> str:
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    if not tokenizers.joint:
        return f"{source:,} and {target:,} tokens"
    return f"{source:,} tokens{' for both sides' * two_sides}"
