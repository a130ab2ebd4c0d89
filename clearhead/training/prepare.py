"""What a run trains and scores on: read, chosen and written down before its first step; on resume the same again."""

import hashlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import Config, chosen
from ..errors import ConfigError, DataError
from ..tasks.translation import Examples, HeldOut, Translation
from ..text.sources import Pairs, read_pairs, split_pairs
from ..text.tokenizer import SPECIALS, Tokenizer, Tokenizers, train_tokenizers
from . import recipe
from .card import model_card
from .checkpoint import RunFolder
from .model_folder import TOKENIZER, WORDS, model_files, read_config

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """Settings without open choices, the task, and its examples; `valid` and `test` are None where there are none."""

    config: Config
    task: Translation
    examples: Examples
    valid: HeldOut | None
    test: HeldOut | None

    @property
    def constants(self) -> dict[str, str]:
        """What must be the same when the run goes on, by a name for the error message."""
        valid = _digest(self.valid.examples) if self.valid else "none"
        return {"the training data": _digest(self.examples), "the validation data": valid}


def prepare(folder: RunFolder, config: Config, given: Collection[str], say: Say) -> Prepared:
    """Read the data, make every choice, and write down both; what is in `given` stays as it is."""
    config, machine = recipe.choose_machine(config)
    torch.set_num_threads(chosen(config.train.threads))
    pairs, valid = _read(config, say)
    config, model = recipe.choose_model(config, len(pairs), given)
    begun = time.monotonic()
    tokenizers = train_tokenizers(pairs.sources, pairs.targets, config.data)
    say(f"tokenizer: {_sizes(tokenizers)} in {time.monotonic() - begun:.1f} s")
    config, vocabularies = _with_vocabularies(config, tokenizers)
    prepared = _encode(config, tokenizers, pairs, valid, say)
    examples = prepared.examples
    config, batch = recipe.choose_batch(config, examples.target_tokens)
    n_batches = len(examples.batches(chosen(config.data.batch_tokens)).epoch(0))
    config, schedule = recipe.choose_schedule(config, n_batches, given)
    notes = [str(choice) for choice in (*model, *vocabularies, *batch, *schedule, *machine)]
    for note in notes:
        say(note)
    card = model_card(config, pairs=len(examples), notes=notes)
    folder.write_files(model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), card=card))
    if tokenizers.source.kind == "word":  # the others know every word, or none
        folder.write_files({WORDS: _word_list(tokenizers.source).encode()})
    return replace(prepared, config=config, task=Translation(tokenizers, config))


def _word_list(tokenizer: Tokenizer) -> str:
    """The words seen in training, one a line, in the order of the alphabet."""
    return "\n".join(sorted({word.strip("▁") for word in tokenizer.words()[len(SPECIALS) :]}, key=str.casefold)) + "\n"


def prepare_again(out: Path, asked: Config, given: Collection[str], say: Say) -> Prepared:
    """The same from what the run in `out` wrote down when it began; only the files' paths are taken from `asked`."""
    config = read_config(out)
    refuse_contradictions(out, config, asked, given)
    paths = {"data.train": asked.data.train, "data.valid": asked.data.valid, "data.test": asked.data.test}
    config = config.override({name: files for name, files in paths.items() if files})
    recipe.choose_device(chosen(config.train.device))  # it may be gone
    torch.set_num_threads(chosen(config.train.threads))
    pairs, valid = _read(config, say)
    return _encode(config, Tokenizers.load(out / TOKENIZER), pairs, valid, say)


def refuse_contradictions(out: Path, stored: Config, asked: Config, given: Collection[str]) -> None:
    """Raise a ConfigError where a given setting is another than the one that the run in `out` was begun with."""
    for name in sorted(given):
        before, now = stored.value(name), asked.value(name)
        if before != now and now not in (None, "auto"):
            raise ConfigError(
                f"{name} = {now} contradicts {before}, with which {out} was begun; "
                "leave the setting out to resume, or begin anew with another --out"
            )


def _read(config: Config, say: Say) -> tuple[Pairs, Pairs | None]:
    """The pairs to train on, and those to choose the weights by, None where there are none."""
    pairs = read_pairs(config.data.train)
    say(str(pairs.report))
    if config.data.valid:
        valid = read_pairs(config.data.valid)
        say(str(valid.report))
        return pairs, valid
    pairs, valid = split_pairs(pairs, config.data.split, config.train.seed, str)
    say(pairs.report.notes[-1])
    if not len(valid):
        say("so the newest weights are kept, and their quality is not measured")
        return pairs, None
    return pairs, valid


def _with_vocabularies(config: Config, tokenizers: Tokenizers) -> tuple[Config, list[recipe.Choice]]:
    """The shape with the sizes of both vocabularies; two of them cannot share a matrix."""
    sizes = {"src": tokenizers.source.vocab_size, "tgt": tokenizers.target.vocab_size}
    values: dict[str, Any] = {f"model.{side}_vocab_size": size for side, size in sizes.items()}
    if config.model.tie != "all" or tokenizers.joint:
        return config.override(values), []
    why = "source and target have no vocabulary in common"
    return config.override(values | {"model.tie": "target"}), [recipe.Choice("model.tie", "target", why)]


def _encode(config: Config, tokenizers: Tokenizers, pairs: Pairs, valid: Pairs | None, say: Say) -> Prepared:
    task = Translation(tokenizers, config)
    examples, skipped = task.encode(pairs)
    if skipped:
        lines = ", ".join(f"{it.line:,}" for it in skipped[:5]) + (", ..." if len(skipped) > 5 else "")
        say(f"{len(skipped):,} pairs are {skipped[0].reason} and are not trained on (data.max_len); lines {lines}")
    if not len(examples):
        raise DataError(
            f"no pair is left to train on: all {len(pairs):,} are longer than data.max_len = {config.data.max_len} "
            "tokens; expected shorter ones, or a larger data.max_len"
        )
    return Prepared(config, task, examples, _valid(task, valid, say) if valid else None, _test(task, say))


def _test(task: Translation, say: Say) -> HeldOut | None:
    """What is scored in the end, read now: a file that cannot be read is better known before training."""
    if not task.config.data.test:
        return None
    pairs = read_pairs(task.config.data.test)
    say(str(pairs.report))
    return task.hold_out(pairs)


def _valid(task: Translation, valid: Pairs, say: Say) -> HeldOut | None:
    """The held-out pairs with at most `train.eval_sentences` sources: a sample, since files may be sorted by length."""
    held_out, train = task.hold_out(valid), task.config.train
    if not len(held_out.examples):
        what = f"all {len(valid):,} validation pairs are longer than data.max_len = {task.config.data.max_len} tokens"
        if task.config.data.valid:
            raise DataError(f"{what}; expected shorter ones, or a larger data.max_len")
        say(f"nothing held out: {what}; so the newest weights are kept, and their quality is not measured")
        return None
    n_sources = len(held_out.sources)
    if n_sources <= train.eval_sentences:
        return held_out
    sample = sorted(np.random.default_rng(train.seed).choice(n_sources, train.eval_sentences, replace=False).tolist())
    sources, references = held_out.sources, held_out.references
    return replace(held_out, sources=[sources[i] for i in sample], references=[references[i] for i in sample])


def _sizes(tokenizers: Tokenizers) -> str:
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return f"{source:,} tokens for both sides" if tokenizers.joint else f"{source:,} and {target:,} tokens"


def _digest(examples: Examples) -> str:
    digest = hashlib.sha256()
    for side in (examples.sources, examples.targets):
        digest.update(side.starts.tobytes())
        digest.update(side.tokens.tobytes())
    return digest.hexdigest()
