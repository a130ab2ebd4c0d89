"""From files to a model folder: prepare, train, score. What `clearhead train` calls."""

import math
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import messages
from ..config import PRESETS, SHAPE, Config, chosen, settings
from ..errors import ConfigError
from ..figures import loss_curve
from ..model.transformer import EncoderDecoder, build
from ..tasks.scores import Scores
from ..tasks.translation import FreshBatches
from ..text.batches import Batches, IntArray
from ..values import read_duration
from .card import model_card, with_scores, with_steps
from .checkpoint import Checkpoint, RunFolder
from .examples import Say
from .forecast import forecast
from .memory import keep_freed_memory
from .metrics import METRICS, MetricsLog, Progress, read_metrics
from .model_folder import CARD, load_model_folder, load_weights, model_files, read_config
from .pace import Pace
from .prepare import Prepared, prepare, prepare_again, refuse_contradictions
from .selection import Observer
from .signals import StopSignals
from .tensorboard import TensorBoard, summary_writer
from .trainer import Trainer

_GREEDY = {"decode.beam": 1, "decode.n_best": 1, "decode.diverse": False, "decode.sample": False}


def train(
    config: Config,
    out: str | Path = "runs/model",
    *,
    resume: bool = False,
    replace: bool = False,
    given: Collection[str] | None = None,
    say: Say = messages.say,
    on_step: Observer | None = None,
    on_eval: Observer | None = None,
    began: float | None = None,
) -> Path:
    """Train a model into the folder `out`, which is returned.

    `resume` goes on with the run in `out`; `replace` removes it first. `given` names the settings that nothing may
    choose otherwise (`{"model.d_model"}`); without it, those that `config` was told, and those that differ from their
    default and from the preset's.

    `on_step` is called after every update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}, and
    `on_eval` after every evaluation with {"step", "epoch", "seconds"} and its scores, "bleu" and "loss" among them.
    What they raise ends training, which can go on from its last checkpoint. A budget counts from `began`, a time of
    `time.monotonic`; without it, from the call.

    Raises ConfigError, DataError, TrainingError; StoppedError after a signal.
    """
    if not config.data.train:
        raise ConfigError("data.train names no file; expected a file of pairs, or two line-aligned files")
    if config.model.topology != "encoder-decoder":
        raise ConfigError(
            f"model.topology = {config.model.topology} does not learn from pairs; expected encoder-decoder"
        )
    out, given = Path(out), (_seemingly_given(config) if given is None else set(given)) - _following(config)
    began = time.monotonic() if began is None else began
    if config.train.tensorboard:
        summary_writer()  # what is missing is better known before the data are read
    keep_freed_memory()
    with StopSignals() as stop, RunFolder.create(out, resume=resume, replace=replace, say=say) as folder:
        if resume and folder.finished_step is not None:
            refuse_contradictions(out, read_config(out), config, given)
            say(f"{out} is complete: it was trained to step {folder.finished_step:,}")
            return out
        checkpoint = folder.latest_checkpoint() if resume else None
        end = began + read_duration(config.train.budget) if config.train.budget else math.inf
        if checkpoint is None:
            prepared = prepare(folder, config, given, say, end=end)
        else:
            prepared = prepare_again(folder, config, given, say)
        trainer = _ready(prepared, checkpoint, folder, say)
        if config.train.budget and checkpoint is None:  # one that goes on ends with the step that it last aimed at
            trainer.pace = Pace(config.train.budget, end, prepared.scoring)
        trainer.on_step += [on_step] if on_step else []
        trainer.on_eval += [on_eval] if on_eval else []
        _go(trainer, prepared, folder, stop)
        _finish(folder, prepared, trainer, say)
    return out


def _ready(prepared: Prepared, checkpoint: Checkpoint | None, folder: RunFolder, say: Say) -> Trainer:
    """The trainer where its first step is due, or that after the checkpoint; what is to be expected of it is said."""
    config, examples, model = prepared.config, prepared.examples, _model(prepared.config)
    if prepared.weights is not None:
        load_weights(model, prepared.weights)
    trainer = _trainer(prepared, model)
    prepared.task.session(model, config.decode)  # refuses now what no search can do
    if config.train.patience and prepared.valid is None:
        say("train.patience changes nothing: no pairs are held out to score on")
    if checkpoint is not None:
        trainer.restore(checkpoint, folder.kept())
        say(f"resuming {folder.path} at step {checkpoint.step:,} of {trainer.last_step:,}")
    aimed = config.override({"train.steps": trainer.last_step})
    say(forecast(aimed, model, examples, done=trainer.state.step))
    return trainer


def _go(trainer: Trainer, prepared: Prepared, folder: RunFolder, stop: StopSignals) -> None:
    """Train to the end, with all that watches it."""
    done = trainer.state.step
    with ExitStack() as opened:
        if prepared.config.train.tensorboard:
            board = opened.enter_context(TensorBoard(folder.path, after=done))
            trainer.on_step.insert(0, board.on_step)
            trainer.on_eval.insert(0, board.on_eval)
        metrics = opened.enter_context(MetricsLog(folder.path / METRICS, after=done))
        trainer.run(folder, metrics, opened.enter_context(Progress(trainer.last_step)), stop)


def _seemingly_given(config: Config) -> set[str]:
    """The settings that somebody seems to have set; of a shape that is no preset's, all of it."""
    preset = PRESETS.get(config.train.preset or "", {})
    values = {f"{section}.{name}": value for section, part in config.to_dict().items() for name, value in part.items()}
    given = {name for name, it in settings().items() if values[name] not in (it.default, preset.get(name, it.default))}
    return {*config.given, *given, *(SHAPE if not preset and given.intersection(SHAPE) else ())}


def _following(config: Config) -> set[str]:
    """The settings that follow from others and are nobody's wish, although a file of all settings names them.

    Of files what they hold counts, and not where they lie.
    """
    follow = {"data.train", "data.valid", "data.test", "data.store", "model.src_vocab_size", "model.tgt_vocab_size"}
    return follow | {"model.tie"} if config.model.tie == "all" and not config.data.joint else follow


def _model(config: Config) -> EncoderDecoder:
    torch.manual_seed(config.train.seed)
    return cast(EncoderDecoder, build(config.model)).to(config.train.device)


def _trainer(prepared: Prepared, model: EncoderDecoder) -> Trainer:
    config, task, examples, valid = prepared.config.train, prepared.task, prepared.examples, prepared.valid
    greedy = prepared.config.override(_GREEDY).decode
    batches = _batches(prepared)

    def loss(model: nn.Module, rows: IntArray) -> Tensor:
        now, rows = batches.at(rows) if isinstance(batches, FreshBatches) else (examples, rows)
        return task.loss(model, now, rows, smoothing=config.label_smoothing)

    def evaluate() -> dict[str, float]:
        assert valid is not None
        return _numbers(task.evaluate(model, valid, greedy)[0])

    return Trainer(model, loss, batches, config, evaluate if valid else None, prepared.constants)


def _batches(prepared: Prepared) -> Batches:
    """The plan of every epoch; with subword dropout the examples are cut anew in each."""
    config, examples = prepared.config, prepared.examples
    data = config.data
    batches = examples.batches(chosen(data.batch_tokens), config.train.seed, data.batch_sentences)
    if not config.data.subword_dropout:
        return batches
    several = 2 * config.train.accumulate > len(batches.epoch(0))  # of few batches a step may take several epochs
    slots = config.train.accumulate + 1 if several else 2
    return FreshBatches.of(examples, prepared.task.fresh(examples), batches, slots)


def _finish(folder: RunFolder, prepared: Prepared, trainer: Trainer, say: Say) -> None:
    """Score the chosen weights with the search that `translate` uses for one answer, and complete the folder."""
    config, task, model = prepared.config, prepared.task, cast(EncoderDecoder, trainer.model)
    load_weights(model, load_model_folder(folder.path).weights)
    search = config.override({"decode.n_best": 1}).decode
    found: dict[str, dict[str, Any]] = {}
    for name, held_out in (("validation", prepared.valid), ("test", prepared.test)):
        if held_out is None:
            continue
        found[name] = values = task.evaluate(model, held_out, search)[0].to_dict()
        say(f"{name}: BLEU {values['bleu']:.2f}  chrF {values['chrf']:.2f}  exact match {values['exact_match']:.3f}  "
            f"({values['sentences']:,} sentences, {trainer.state.best_weights})")  # fmt: skip
    written = folder.path / CARD
    card = written.read_text("utf-8") if written.exists() else model_card(config, pairs=len(prepared.examples))
    card = with_steps(with_scores(card, found), chosen(config.train.steps), trainer.state.step)
    folder.write_files(model_files(card=card))
    try:
        loss_curve(read_metrics(folder.path / METRICS), folder.path / "loss.png")
    except ConfigError as error:
        say(f"no picture of the loss: {error}")
    folder.finish(trainer.state.step)


def _numbers(scores: Scores) -> dict[str, float]:
    values = {"bleu": scores.bleu, "chrf": scores.chrf, "exact_match": scores.exact_match}
    if scores.perplexity is not None and scores.token_accuracy is not None:
        values |= {"loss": math.log(scores.perplexity), "token_accuracy": scores.token_accuracy}
    return values
