"""From files to a model folder: read, choose, tokenise, train, score. What `clearhead train` calls."""

import hashlib
import json
import math
import sys
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..config import Config, chosen, settings
from ..errors import ConfigError, DataError
from ..model.transformer import EncoderDecoder, build
from ..tasks.scores import Scores
from ..tasks.translation import Examples, HeldOut, Translation
from ..text.batches import IntArray
from ..text.sources import Pairs, read_pairs, split_pairs
from ..text.tokenizer import Tokenizers, train_tokenizers
from . import recipe
from .card import model_card
from .checkpoint import RunFolder
from .figures import loss_curve
from .forecast import forecast
from .memory import keep_freed_memory
from .metrics import MetricsLog, Progress, read_metrics
from .model_folder import CONFIG, TOKENIZER, load_model_folder, load_weights, model_files
from .schedule import Schedule
from .signals import StopSignals
from .trainer import Trainer

Say = Callable[[str], None]


def to_stderr(message: str) -> None:
    """Tell the user, beside the results."""
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Prepared:
    """What a run trains and scores on."""

    config: Config
    task: Translation
    examples: Examples
    valid: HeldOut | None
    notes: list[str]


def train(
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    given: Collection[str] | None = None,
    say: Say = to_stderr,
) -> Path:
    """Train a model into the folder `out`, which is returned.

    `given` names the settings that nothing may choose otherwise (`{"model.d_model"}`); without it, those that differ
    from their default. Raises ConfigError, DataError, TrainingError; StoppedError after a signal.
    """
    if not config.data.train:
        raise ConfigError("data.train names no file; expected a file of pairs, or two line-aligned files")
    out = Path(out)
    keep_freed_memory()
    with StopSignals() as stop, RunFolder.create(out, resume=resume, say=say) as folder:
        if folder.finished_step is not None:
            say(f"{out} is complete: it was trained to step {folder.finished_step:,}")
            return out
        checkpoint = folder.latest_checkpoint() if resume else None
        if checkpoint is not None:
            prepared = _prepare_again(out, config, _given(config, given), say)
        else:
            prepared = _prepare(folder, config, _given(config, given), say)
        config, model = prepared.config, _model(prepared.config)
        trainer = _trainer(prepared, model)
        if checkpoint is not None:
            trainer.restore(checkpoint)
            say(f"resuming {out} at step {checkpoint.step:,} of {config.train.steps:,}")
        say(forecast(config, model, len(prepared.examples), prepared.examples.target_tokens))
        metrics = MetricsLog(out / "metrics.jsonl", after=trainer.state.step)
        with metrics, Progress(chosen(config.train.steps)) as progress:
            trainer.run(folder, metrics, progress, stop)
        _finish(folder, prepared, model, trainer, say)
    return out


def _given(config: Config, given: Collection[str] | None) -> set[str]:
    if given is not None:
        return set(given)
    values = config.to_dict()
    return {
        name
        for name, setting in settings().items()
        if values[name.split(".")[0]][name.split(".")[1]] != setting.default
    }


# --- preparing -------------------------------------------------------------------------------------------------------


def _prepare(folder: RunFolder, config: Config, given: set[str], say: Say) -> Prepared:
    """Read the data, make every choice, and write down both, before the first step."""
    config, machine = recipe.choose_machine(config)
    torch.set_num_threads(chosen(config.train.threads))
    pairs, valid = _read(config, say)
    config, choices = recipe.choose_model(config, len(pairs), given)
    begun = time.monotonic()
    tokenizers = train_tokenizers(pairs.sources, pairs.targets, config.data)
    config = config.override({"model.src_vocab_size": tokenizers.source.vocab_size,
                              "model.tgt_vocab_size": tokenizers.target.vocab_size,
                              "model.tie": config.model.tie if tokenizers.joint else _untied(config)})  # fmt: skip
    say(f"tokenizer: {_sizes(tokenizers)} in {time.monotonic() - begun:.1f} s")
    prepared = _encode(config, tokenizers, pairs, valid, say)
    config, batch = recipe.choose_batch(config, prepared.examples.target_tokens)
    n_batches = len(prepared.examples.batches(chosen(config.data.batch_tokens)).epoch(0))
    config, schedule = recipe.choose_schedule(config, n_batches)
    notes = [str(choice) for choice in (*choices, *batch, *schedule, *machine)]
    for note in notes:
        say(note)
    card = model_card(config, pairs=len(pairs), notes=notes)
    folder.write_files(model_files(config=config.to_dict(), tokenizer=tokenizers.to_json(), card=card))
    task = Translation(tokenizers, config)
    return Prepared(config, task, prepared.examples, prepared.valid, notes)


def _prepare_again(out: Path, asked: Config, given: set[str], say: Say) -> Prepared:
    """The same from what the run wrote down when it began."""
    stored = json.loads((out / CONFIG).read_text(encoding="utf-8"))
    del stored["format_version"]
    config = Config.from_dict(stored, origin=str(out / CONFIG))
    for name in sorted(given):
        section, key = name.split(".")
        before, now = getattr(getattr(config, section), key), getattr(getattr(asked, section), key)
        if before != now and now not in (None, "auto"):
            raise ConfigError(
                f"{name} = {now} contradicts {before}, with which {out} was begun; "
                "leave the option out to resume, or begin anew with another --out"
            )
    torch.set_num_threads(chosen(config.train.threads))
    pairs, valid = _read(config, say)
    return _encode(config, Tokenizers.load(out / TOKENIZER), pairs, valid, say)


def _read(config: Config, say: Say) -> tuple[Pairs, Pairs | None]:
    pairs = read_pairs(config.data.train)
    say(str(pairs.report))
    if config.data.valid:
        valid = read_pairs(config.data.valid)
        say(str(valid.report))
        return pairs, valid
    if not config.data.split:
        return pairs, None
    return _split(pairs, config, say)


def _split(pairs: Pairs, config: Config, say: Say) -> tuple[Pairs, Pairs | None]:
    pairs, valid = split_pairs(pairs, config.data.split, config.train.seed, str)
    say(pairs.report.notes[-1])
    return pairs, valid if len(valid) else None


def _encode(config: Config, tokenizers: Tokenizers, pairs: Pairs, valid: Pairs | None, say: Say) -> Prepared:
    task = Translation(tokenizers, config)
    examples, skipped = task.encode(pairs)
    if skipped:
        lines = ", ".join(str(s.line) for s in skipped[:5])
        say(f"{len(skipped):,} pairs are {skipped[0].reason} and are not trained on (data.max_len); lines {lines}, ...")
    if not len(examples):
        raise DataError(
            f"no pair is left to train on: all {len(pairs):,} are longer than data.max_len = {config.data.max_len}"
        )
    return Prepared(config, task, examples, task.hold_out(valid) if valid else None, [])


def _untied(config: Config) -> str:
    return "target" if config.model.tie == "all" else config.model.tie


def _sizes(tokenizers: Tokenizers) -> str:
    source, target = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return f"{source:,} tokens for both sides" if tokenizers.joint else f"{source:,} and {target:,} tokens"


# --- training and finishing ------------------------------------------------------------------------------------------


def _model(config: Config) -> EncoderDecoder:
    torch.manual_seed(config.train.seed)
    return cast(EncoderDecoder, build(config.model)).to(config.train.device)


def _trainer(prepared: Prepared, model: EncoderDecoder) -> Trainer:
    config, task, examples = prepared.config.train, prepared.task, prepared.examples
    batches = examples.batches(chosen(prepared.config.data.batch_tokens), config.seed)
    schedule = Schedule(chosen(config.schedule), chosen(config.lr), chosen(config.warmup), chosen(config.steps))

    def evaluate() -> dict[str, float]:
        assert prepared.valid is not None
        greedy = prepared.config.override({"decode.beam": 1}).decode
        scores, _ = task.evaluate(model, prepared.valid, greedy, sentences=config.eval_sentences)
        return _numbers(scores)

    def loss(model: nn.Module, rows: IntArray) -> tuple[Tensor, int]:
        return task.loss(cast(EncoderDecoder, model), examples, rows, smoothing=config.label_smoothing)

    constants = {"the training data": _digest(examples)}
    return Trainer(model, loss, batches, config, schedule, evaluate if prepared.valid else None, constants)


def _finish(folder: RunFolder, prepared: Prepared, model: EncoderDecoder, trainer: Trainer, say: Say) -> None:
    """Score the chosen weights with the search that `translate` uses, and complete the folder."""
    config, out = prepared.config, folder.path
    load_weights(model, load_model_folder(out).weights)
    found: dict[str, Any] = {}
    if prepared.valid:
        scores, _ = prepared.task.evaluate(model, prepared.valid, config.decode, sentences=config.train.eval_sentences)
        found["validation"] = scores.to_dict()
    if config.data.test:
        test = prepared.task.hold_out(read_pairs(config.data.test))
        scores, _ = prepared.task.evaluate(model, test, config.decode)
        found["test"] = scores.to_dict()
    for name, values in found.items():
        say(f"{name}: BLEU {values['bleu']:.2f}  chrF {values['chrf']:.2f}  exact match {values['exact_match']:.3f}  "
            f"({values['sentences']:,} sentences, step {trainer.state.best_step:,})")  # fmt: skip
    card = model_card(config, pairs=len(prepared.examples), notes=prepared.notes, scores=found)
    folder.write_files(model_files(card=card))
    try:
        loss_curve(read_metrics(out / "metrics.jsonl"), out / "loss.png")
    except ConfigError as error:
        say(f"no picture of the loss: {error}")
    folder.finish(trainer.state.step)


def _numbers(scores: Scores) -> dict[str, float]:
    values = {"bleu": scores.bleu, "chrf": scores.chrf, "exact_match": scores.exact_match}
    if scores.perplexity is not None and scores.token_accuracy is not None:
        values |= {"loss": math.log(scores.perplexity), "token_accuracy": scores.token_accuracy}
    return values


def _digest(examples: Examples) -> str:
    digest = hashlib.sha256()
    for side in (examples.sources, examples.targets):
        digest.update(side.starts.tobytes())
        digest.update(side.tokens.tobytes())
    return digest.hexdigest()
