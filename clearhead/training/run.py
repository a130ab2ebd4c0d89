"""From files to a model folder: prepare, train, score. What `clearhead train` calls."""

import dataclasses
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import Config, chosen, messages
from ..config.custom_code import custom_parts
from ..config.values import read_duration
from ..data.batches import Batches, Plan
from ..errors import ConfigError
from ..folder.checkpoint import METRICS, Checkpoint, RunFolder
from ..folder.model_folder import CARD, CONFIG, load_model_folder, load_weights, model_files, read_config
from ..model.assembly import check_parts
from ..model.transformer import build
from ..pictures.figures import loss_curve
from ..scoring import score_labels
from ..tasks.base import Judged, Task
from ..tasks.detect import find_task
from ..tasks.examples import Examples, FreshBatches
from ..tasks.registry import task_of
from ..tokenization.ragged import IntArray
from .choices.forecast import forecast
from .example_store import Say
from .memory import keep_freed_memory
from .pace import Pace
from .prepare import Prepared, prepare, prepare_again, refuse_contradictions
from .report.card import model_card, with_scores, with_section, with_steps
from .report.metrics import MetricsLog, Progress, read_metrics
from .report.tensorboard import TensorBoard, summary_writer
from .report.watch import Watch
from .selection import Observer
from .signals import StopSignals
from .starting_point import StartingPoint
from .trainer import Trainer

_GREEDY = {"decode.beam": 1, "decode.n_best": 1, "decode.diverse": False, "decode.sample": False}


@dataclass(frozen=True)
class Part:
    """A run among several: what it learns where that is not the task, what it begins as, and when, by `time.monotonic`,
    it is to be over. Of runs that differ in order and dropout alone each has its `turn`; `others` are the folders of
    those whose weights have a mean with its own. `ending` gives a section of the card, its heading and its text; the
    `last` is the one to use."""

    task: type[Task] | None = None
    start: StartingPoint | None = None
    end: float | None = None
    turn: int = 0
    others: tuple[Path, ...] = ()
    ending: Callable[[Prepared, Judged | None], tuple[str, str]] | None = None
    last: bool = True


def train(
    config: Config,
    out: str | Path = "runs/model",
    *,
    resume: bool = False,
    replace: bool = False,
    say: Say = messages.say,
    on_step: Observer | None = None,
    on_eval: Observer | None = None,
    began: float | None = None,
    part: Part = Part(),
) -> Path:
    """Train a model into the folder `out`, which is returned.

    `resume` goes on with the run in `out`; `replace` removes it first. Nothing chooses otherwise what the user set.

    `on_step` is called after every update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}, and
    `on_eval` after every evaluation with {"step", "epoch", "seconds"} and the scores of the task, such as "loss". What
    they raise ends training, which can go on from its last checkpoint. A budget counts from `began`, a time of
    `time.monotonic`; without it, from the call. `part` says what is otherwise where this is not a run for itself.

    Raises ConfigError, DataError, TrainingError; StoppedError after a signal.
    """
    if not config.data.train:
        raise ConfigError("data.train names no file; expected a file, a folder, or two line-aligned files")
    check_parts(config.model)  # what cannot be built is better known before the data are read
    out = Path(out)
    if config.train.task is None:
        begun = resume and (out / CONFIG).exists()
        if begun:
            stored = read_config(out, allow_custom_code=custom_parts(config).values())
            config = config.assign({"train.task": task_of(stored).verb}, "data")
        else:
            config = with_task(config, say)
    task = part.task or task_of(config)
    config = task.settle(config)
    began = time.monotonic() if began is None else began
    if config.train.tensorboard:
        summary_writer()  # what is missing is better known before the data are read
    keep_freed_memory()
    with StopSignals() as stop, RunFolder.create(out, resume=resume, replace=replace, say=say) as folder:
        if resume and folder.finished_step is not None:
            refuse_contradictions(out, read_config(out, allow_custom_code=True), config)
            say(f"{out} is complete: it was trained to step {folder.finished_step:,}")
            return out
        checkpoint = folder.latest_checkpoint() if resume else None
        end = began + read_duration(config.train.budget) if config.train.budget else math.inf
        end = end if part.end is None else part.end
        if checkpoint is None:
            prepared = prepare(folder, config, say, task_type=task, start=part.start, end=end)
        else:
            prepared = prepare_again(folder, config, say, task_type=task)
        model = _model(prepared.config)  # a new head, too, is the same in every turn, or a mean of them tells nothing
        seed = (prepared.config.train.seed + part.turn) % 2**63  # what is held out follows from the first alone
        prepared = dataclasses.replace(prepared, config=prepared.config.assign({"train.seed": seed}, "machine"))
        trainer = _ready(prepared, model, checkpoint, folder, say)
        trainer.others = part.others
        if config.train.budget and checkpoint is None:  # one that goes on ends with the step that it last aimed at
            trainer.pace = Pace(config.train.budget, end, prepared.scoring)
        trainer.on_step += [on_step] if on_step else []
        trainer.on_eval += [on_eval] if on_eval else []
        _go(trainer, prepared, folder, stop)
        _finish(folder, prepared, trainer, part, say)
    if part.last:
        say(f"use it: {prepared.task.example(str(out))}")
    return out


def with_task(config: Config, say: Say) -> Config:
    """Return the configuration with the task that the data asks for, and print which columns it uses and why."""
    found = find_task(config.data.train, config.data)
    say(str(found))
    return config.assign({"train.task": found.verb}, "data")


def _ready(prepared: Prepared, model: nn.Module, checkpoint: Checkpoint | None, folder: RunFolder, say: Say) -> Trainer:
    """The trainer where its first step is due, or that after the checkpoint; what is to be expected of it is said."""
    config, examples = prepared.config, prepared.examples
    if prepared.start is not None:
        news = prepared.start.give(model, config)
        if news and checkpoint is None:
            say(news)
    trainer = _trainer(prepared, model)
    prepared.task.check_search(model)
    for name in ("patience", "watch"):
        if config.value(f"train.{name}") and prepared.valid is None:
            say(f"train.{name} changes nothing: nothing is held out to score on")
    if checkpoint is not None:
        trainer.restore(checkpoint, folder.kept())
        say(f"resuming {folder.path} at step {checkpoint.step:,} of {trainer.last_step:,}")
    aimed = config.assign({"train.steps": trainer.last_step}, "budget")
    say(forecast(aimed, model, examples, prepared.task.units, done=trainer.state.step))
    return trainer


def _go(trainer: Trainer, prepared: Prepared, folder: RunFolder, stop: StopSignals) -> None:
    """Train to the end, with all that watches it."""
    done = trainer.state.step
    with ExitStack() as opened:
        if prepared.config.train.tensorboard:
            board = opened.enter_context(TensorBoard(folder.path, after=done))
            trainer.on_step.insert(0, board.on_step)
            trainer.on_eval.insert(0, board.on_eval)
        if text := prepared.config.train.watch:
            decode = prepared.config.decode
            film = Watch(folder.path, prepared.task, trainer.model, text, decode, after=done)
            trainer.on_eval.append(opened.enter_context(film).on_eval)
        metrics = opened.enter_context(MetricsLog(folder.path / METRICS, after=done))
        trainer.run(folder, metrics, opened.enter_context(Progress(trainer.last_step)), stop)


def _model(config: Config) -> nn.Module:
    torch.manual_seed(config.train.seed)
    return build(config.model).to(config.train.device)


def _trainer(prepared: Prepared, model: nn.Module) -> Trainer:
    config, task, examples, valid = prepared.config.train, prepared.task, prepared.examples, prepared.valid
    greedy = prepared.config.override(_GREEDY).decode
    batches = _batches(prepared)

    def loss(model: nn.Module, rows: IntArray) -> Tensor:
        now, rows = batches.at(rows) if isinstance(batches, FreshBatches) else (examples, rows)
        return task.loss(model, now, rows, smoothing=config.label_smoothing)

    def evaluate() -> dict[str, float]:
        assert valid is not None
        return task.numbers(task.evaluate(model, valid, greedy).scores)

    return Trainer(model, loss, batches, config, evaluate if valid else None, prepared.constants)


def _batches(prepared: Prepared) -> Plan:
    """The plan of every epoch; some examples are made anew in each, as with subword dropout."""
    config, examples = prepared.config, prepared.examples
    data = config.data
    batches = examples.batches(chosen(data.batch_tokens), config.train.seed, data.batch_sentences)
    if not isinstance(examples, Examples) or (make := prepared.task.each_epoch(examples)) is None:
        return batches
    assert isinstance(batches, Batches)
    several = 2 * config.train.accumulate > len(batches.epoch(0))  # of few batches a step may take several epochs
    slots = config.train.accumulate + 1 if several else 2
    return FreshBatches.of(examples, make, batches, slots)


def _finish(folder: RunFolder, prepared: Prepared, trainer: Trainer, part: Part, say: Say) -> None:
    """Score the chosen weights with the search that `translate` uses for one answer, and complete the folder."""
    config, task, model = prepared.config, prepared.task, trainer.model
    load_weights(model, load_model_folder(folder.path, allow_custom_code=True).weights)
    search = config.override({"decode.n_best": 1}).decode
    found: dict[str, dict[str, Any]] = {}
    judged: dict[str, Judged] = {}
    for name, held_out in (("validation", prepared.valid), ("test", prepared.test)):
        if held_out is None:
            continue
        judged[name] = task.evaluate(model, held_out, search)
        found[name] = values = judged[name].scores.to_dict()
        say(f"{name}: {score_labels.spoken(values)}  ({score_labels.count_of(values)}, {trainer.state.best_weights})")
        for line in score_labels.beside(values):
            say(f"  {line}")
    written = folder.path / CARD
    card = (
        written.read_text("utf-8")
        if written.exists()
        else model_card(config, type(prepared.task), count=len(prepared.examples))
    )
    card = with_steps(with_scores(card, found), chosen(config.train.steps), trainer.state.step)
    if part.ending:
        card = with_section(card, *part.ending(prepared, judged.get("validation")))
    folder.write_files(model_files(card=card))
    try:
        metrics, smoothed = (
            read_metrics(folder.path / METRICS),
            " and label smoothing" * bool(config.train.label_smoothing),
        )
        curve = score_labels.curve(metrics, config.train.best)
        loss_curve(metrics, folder.path / "loss.png", curve, f"training (with dropout{smoothed})")
        for it in [*judged.values()][-1:]:  # of the test, where there is one
            prepared.task.draw(it.scores, folder.path)
    except ConfigError as error:
        say(f"no picture of the loss: {error}")
    folder.finish(trainer.state.step)
