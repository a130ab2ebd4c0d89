"""What a run trains and scores on: read, chosen and written down before its first step; on resume the same again."""

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..config import Config, chosen
from ..errors import ConfigError, DataError
from ..tasks.translation import Examples, HeldOut, Translation
from ..text.sources import Pairs, Report, Skipped, read_pairs, split_pairs
from ..text.tokenizer import SPECIALS, Tokenizer, Tokenizers, train_tokenizers
from . import recipe
from .card import model_card
from .checkpoint import RunFolder
from .model_folder import TOKENIZER, WORDS, model_files, read_config, read_tokenizer

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
    files = model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), card=card)
    if tokenizers.source.kind == "word":  # the others know every word, or none
        files[WORDS] = _word_list(tokenizers.source).encode()
    folder.begin(files)
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
    return _encode(config, Tokenizers.from_json(read_tokenizer(out), origin=str(out / TOKENIZER)), pairs, valid, say)


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
    pairs, valid = split_pairs(pairs, config.data.split, config.train.seed)
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
    _say_too_long(skipped, "are not trained on", say)
    if not len(examples):
        raise DataError(f"no pair is left to train on: all {len(pairs):,} are {_too_long(skipped)}")
    return Prepared(config, task, examples, _valid(task, valid, say) if valid else None, _test(task, say))


def _test(task: Translation, say: Say) -> HeldOut | None:
    """What is scored in the end, read now: a file that cannot be read is better known before training."""
    if not task.config.data.test:
        return None
    pairs = read_pairs(task.config.data.test)
    say(str(pairs.report))
    held_out = task.hold_out(pairs)
    _say_too_long(held_out.too_long, "are tested on without their loss", say)
    return held_out


def _valid(task: Translation, valid: Pairs, say: Say) -> HeldOut | None:
    """The held-out pairs of at most `train.eval_sentences` sources: a sample, since files may be sorted by length."""
    distinct, train = list(dict.fromkeys(valid.sources)), task.config.train
    if len(distinct) > train.eval_sentences:
        chosen_ones = np.random.default_rng(train.seed).choice(len(distinct), train.eval_sentences, replace=False)
        sample = {distinct[i] for i in chosen_ones.tolist()}
        valid = valid.take((i for i, source in enumerate(valid.sources) if source in sample), "a sample")
    held_out = task.hold_out(valid)
    if not len(held_out.examples):
        what = f"all {len(valid):,} validation pairs are {_too_long(held_out.too_long)}"
        if task.config.data.valid:
            raise DataError(what)
        say(f"nothing held out: {what}; so the newest weights are kept, and their quality is not measured")
        return None
    _say_too_long(held_out.too_long, "are validated on without their loss", say)
    return held_out


def _say_too_long(skipped: Sequence[Skipped], consequence: str, say: Say) -> None:
    """Count and show the pairs that have too many tokens, as those that cannot be read are shown."""
    report = Report(())
    for it in skipped:
        report.skip(it.line, f"pairs {it.reason}; they {consequence}", it.text)
    if skipped:
        say("\n".join(report.skipped_rows()))


def _too_long(skipped: Sequence[Skipped]) -> str:
    return f"{skipped[0].reason}; expected shorter ones, or a larger limit"


def _sizes(tokenizers: Tokenizers) -> str:
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return f"{source:,} tokens for both sides" if tokenizers.joint else f"{source:,} and {target:,} tokens"


def _digest(examples: Examples) -> str:
    digest = hashlib.sha256()
    for side in (examples.sources, examples.targets):
        digest.update(side.starts.tobytes())
        digest.update(side.tokens.tobytes())
    return digest.hexdigest()
