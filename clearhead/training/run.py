"""Run training from data files to a model folder: prepare, train, score."""

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..config import Config, chosen, messages
from ..config.custom_code import custom_parts
from ..config.values import read_duration
from ..data.batches import Batches, Plan
from ..decode.registry import IN_MEMORY
from ..errors import ConfigError
from ..folder.checkpoint import METRICS, Checkpoint, RunFolder
from ..folder.model_folder import CARD, CONFIG, load_model_folder, load_weights, model_files, read_card, read_config
from ..model.assembly import check_parts
from ..model.transformer import build
from ..pictures.figures import loss_curve
from ..scoring import score_labels
from ..tasks.base import Judged, Task
from ..tasks.detect import find_task, with_modality
from ..tasks.examples import Examples, FreshBatches
from ..tasks.registry import task_of
from ..tokenization.ragged import IntArray
from .choices.early_checks import check_early, check_search
from .choices.forecast import forecast
from .example_store import Say
from .memory import keep_freed_memory
from .pace import Pace, shortfall
from .prepare import Prepared, prepare, prepare_again, refuse_contradictions
from .report.card import model_card, with_scores, with_section, with_steps
from .report.metrics import MetricsLog, read_metrics
from .report.progress import Progress
from .report.tensorboard import TensorBoard, summary_writer
from .report.watch import Watch
from .signals import StopSignals
from .starting_point import StartingPoint
from .state import Observer, Run, State
from .trainer import Objective, Trainer

_GREEDY: dict[str, Any] = {"beam": 1, "n_best": 1, "diverse": False, "sample": False, "engine": IN_MEMORY}


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that aren't settings and aren't stored in the model folder.

    Attributes:
        resume: continue the run in the folder.
        replace: replace a finished or unfinished run in the folder.
        say: receives messages for the user.
        on_step: called after each update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}.
        on_eval: called after each evaluation with {"step", "epoch", "seconds"} and the scores, such as "loss".
        began: start of the time budget, as a `time.monotonic` value (default: now).
        allow_custom_code: import all custom classes that are named in the folder of the run or of its starting point.
    """

    resume: bool = False
    replace: bool = False
    say: Say = messages.say
    on_step: Observer | None = None
    on_eval: Observer | None = None
    began: float | None = None
    allow_custom_code: bool = False

    def allowed(self, config: Config) -> bool | Collection[str]:
        """Return which custom classes folders may name: all with consent, else those in the user's settings."""
        return self.allow_custom_code or custom_parts(config).values()


@dataclass(frozen=True)
class Stage:
    """Options of a run that is one stage of a warm start.

    Attributes:
        task: the task to learn (default: `train.task`).
        start: the model to start from.
        end: deadline of the stage, as a `time.monotonic` value.
        turn: index among runs that differ only in data order and dropout.
        after_training: called with the trainer when its last step is done, before the final scores.
        section: returns the heading and text of a model card section, given the scores on the validation split.
        is_last: whether the result is the model to use.
    """

    task: type[Task] | None = None
    start: StartingPoint | None = None
    end: float | None = None
    turn: int = 0
    after_training: Callable[[Trainer], None] | None = None
    section: Callable[[Prepared, Judged | None], tuple[str, str]] | None = None
    is_last: bool = True


def train(config: Config, out: str | Path, options: RunOptions, stage: Stage = Stage()) -> Path:
    """Train a model into the folder `out`, from random weights or those of `train.init_from`, and return the folder.

    Raises:
        ConfigError, DataError, TrainingError: a setting, the data or the folder is unusable.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    began = time.monotonic() if options.began is None else options.began
    out, say, allowed = Path(out), options.say, options.allowed(config)
    config, task = _check(config, out, options, stage)
    if stage.end is None and config.train.budget:
        stage = replace(stage, end=began + read_duration(config.train.budget))
    keep_freed_memory()
    with (
        StopSignals() as stop,
        RunFolder.create(out, resume=options.resume, replace=options.replace, say=say) as folder,
    ):
        if options.resume and folder.finished_step is not None:
            refuse_contradictions(out, read_config(out, allow_custom_code=allowed), config)
            say(f"{out} is complete: it was trained to step {folder.finished_step:,}")
            return out
        checkpoint = folder.latest_checkpoint() if options.resume else None
        if checkpoint is None:
            end = math.inf if stage.end is None else stage.end
            start = _load_start(config, allowed) if config.train.init_from else stage.start
            prepared = prepare(folder, config, say, task_type=task, start=start, end=end)
        else:
            prepared = prepare_again(folder, config, say, allow_custom_code=allowed, task_type=task)
        trainer = _fit(prepared, folder, stop, checkpoint, options, stage)
        _finish(folder, prepared, trainer, stage, say)
    if stage.is_last:
        say(f"use it: {prepared.task.example(str(out), prepared.config)}")
    return out


def with_task(config: Config, say: Say) -> Config:
    """Return the configuration with modality and task detected from the data. Report the columns used, and why."""
    config = with_modality(config)
    found = find_task(config.data.train, config.data)
    if str(found):
        say(str(found))
    return config.assign({"train.task": found.verb}, "data")


def _check(config: Config, out: Path, options: RunOptions, stage: Stage) -> tuple[Config, type[Task]]:
    """Complete the configuration for its task, and report errors that don't depend on the data."""
    if not config.data.train:
        expected = "a file, a folder, or two line-aligned files"
        raise ConfigError("data.train names no file", expected=expected, name="data.train")
    check_parts(config.model)
    if stage.task is None and not options.resume:
        check_early(config)
    if config.train.task is None and options.resume and (out / CONFIG).exists():
        stored = read_config(out, allow_custom_code=options.allowed(config))
        config = config.assign({"train.task": task_of(stored).verb, "data.modality": stored.data.modality}, "data")
    else:
        config = with_task(config, options.say) if config.train.task is None else with_modality(config)
    if config.train.tensorboard:
        summary_writer()
    task = stage.task or task_of(config)
    config = task.settle(config)
    if stage.task is None:
        check_search(config)
    return config, task


def _load_start(config: Config, allowed: bool | Collection[str]) -> StartingPoint:
    """Read the model named in train.init_from."""
    return StartingPoint.load(Path(config.train.init_from), allow_custom_code=allowed)


# --- training -------------------------------------------------------------------------------------------------------


def _fit(
    prepared: Prepared,
    folder: RunFolder,
    stop: StopSignals,
    checkpoint: Checkpoint | None,
    options: RunOptions,
    stage: Stage,
) -> Trainer:
    """Train from the first step or the checkpoint to the last step."""
    say, after = options.say, checkpoint.step if checkpoint else 0
    model = _build(prepared, say if checkpoint is None else lambda _: None)
    seed = (prepared.config.train.seed + stage.turn) % 2**63  # the split and the initial weights keep the first seed
    prepared = replace(prepared, config=prepared.config.assign({"train.seed": seed}, "machine"))
    config, objective = prepared.config, _objective(prepared, model)
    if checkpoint is not None:
        objective.check_data(checkpoint)
    prepared.task.check_search(model)
    for name in ("patience", "watch"):
        if config.value(f"train.{name}") and prepared.valid is None:
            say(f"train.{name} has no effect: nothing is held out for validation")
    pace = None
    if config.train.budget and stage.end is not None and checkpoint is None:  # a resumed run keeps its last step
        pace = Pace(config.train.budget, stage.end, prepared.scoring)
    with _open_run(prepared, model, folder, stop, options, after) as run:
        trainer = Trainer(run, model, objective, config.train, pace)
        if checkpoint is not None:
            trainer.restore(checkpoint, folder.kept())
            say(f"resuming {folder.path} at step {after:,} of {trainer.last_step:,}")
        aimed = config.assign({"train.steps": trainer.last_step}, "budget")
        say(forecast(aimed, model, prepared.examples, prepared.task.units, done=after))
        trainer.train()
        if stage.after_training is not None:
            stage.after_training(trainer)
    return trainer


def _build(prepared: Prepared, say: Say) -> nn.Module:
    """Build the model, and copy the weights of the starting point into it."""
    config = prepared.config
    torch.manual_seed(config.train.seed)
    model = build(config.model).to(config.train.device)
    if prepared.start is not None and (new := prepared.start.give(model, config)):
        say(new)
    return model


@contextmanager
def _open_run(
    prepared: Prepared, model: nn.Module, folder: RunFolder, stop: StopSignals, options: RunOptions, after: int
) -> Iterator[Run]:
    """Open the outputs of the training loop, to continue after step `after`."""
    config = prepared.config
    on_step, on_eval = ([it] if it else [] for it in (options.on_step, options.on_eval))
    with ExitStack() as opened:
        if config.train.tensorboard:
            board = opened.enter_context(TensorBoard(folder.path, after=after))
            on_step.insert(0, board.on_step)
            on_eval.insert(0, board.on_eval)
        if config.train.watch:
            watch = Watch(folder.path, prepared.task, model, config, after=after)
            on_eval.append(opened.enter_context(watch).on_eval)
        log = opened.enter_context(MetricsLog(folder.path / METRICS, after=after))
        unit = prepared.task.units.tokens.split()[-1]  # target tokens are counted with the source tokens
        progress = opened.enter_context(Progress(chosen(config.train.steps), unit=unit))
        yield Run(folder, log, progress, stop, tuple(on_step), tuple(on_eval))


def _objective(prepared: Prepared, model: nn.Module) -> Objective:
    config, task, examples, valid = prepared.config.train, prepared.task, prepared.examples, prepared.valid
    greedy = replace(prepared.config.decode, **_GREEDY)
    batches = _batches(prepared)

    def loss(model: nn.Module, rows: IntArray) -> Tensor:
        now, rows = batches.at(rows) if isinstance(batches, FreshBatches) else (examples, rows)
        return task.loss(model, now, rows, smoothing=config.label_smoothing)

    def evaluate() -> dict[str, float]:
        assert valid is not None
        return task.numbers(task.evaluate(model, valid, greedy).scores)

    return Objective(batches, loss, evaluate if valid else None, prepared.constants)


def _batches(prepared: Prepared) -> Plan:
    """Return the batches of each epoch. Tokens can differ between epochs, for example with subword dropout."""
    config, examples = prepared.config, prepared.examples
    data = config.data
    batches = examples.batches(chosen(data.batch_tokens), config.train.seed, data.batch_sentences)
    if not isinstance(examples, Examples) or (make := prepared.task.each_epoch(examples)) is None:
        return batches
    assert isinstance(batches, Batches)
    few = 2 * config.train.accumulate > len(batches.epoch(0))  # then a step may span several epochs
    slots = config.train.accumulate + 1 if few else 2
    return FreshBatches.of(examples, make, batches, slots)


# --- after the last step --------------------------------------------------------------------------------------------


def _finish(folder: RunFolder, prepared: Prepared, trainer: Trainer, stage: Stage, say: Say) -> None:
    """Score the weights that were kept, complete the model card, and mark the run as finished."""
    allowed = custom_parts(prepared.config).values()
    load_weights(trainer.model, load_model_folder(folder.path, allow_custom_code=allowed).weights)
    judged = _judge(prepared, trainer.model, trainer.state, say)
    if text := shortfall(trainer.state.step, prepared.config.train):
        say(text)
    _write_card(folder, prepared, judged, trainer.state, stage)
    _draw(folder, prepared, judged, say)
    folder.finish(trainer.state.step)


def _judge(prepared: Prepared, model: nn.Module, state: State, say: Say) -> dict[str, Judged]:
    """Score the held-out data with the same search that the task's verb uses for a single answer."""
    search = replace(prepared.config.decode, n_best=1, engine=IN_MEMORY)
    judged: dict[str, Judged] = {}
    for name, held_out in (("validation", prepared.valid), ("test", prepared.test)):
        if held_out is None:
            continue
        judged[name] = prepared.task.evaluate(model, held_out, search)
        values = judged[name].scores.to_dict()
        say(f"{name}: {score_labels.spoken(values)}  ({score_labels.count_of(values)}, {state.kept_weights})")
        for line in score_labels.baseline_lines(values):
            say(f"  {line}")
    return judged


def _write_card(folder: RunFolder, prepared: Prepared, judged: dict[str, Judged], state: State, stage: Stage) -> None:
    if (folder.path / CARD).exists():
        card = read_card(folder.path)
    else:
        card = model_card(prepared.config, type(prepared.task), count=len(prepared.examples))
    card = with_scores(card, {name: it.scores.to_dict() for name, it in judged.items()})
    card = with_steps(card, chosen(prepared.config.train.steps), state.step)
    if stage.section is not None:
        card = with_section(card, *stage.section(prepared, judged.get("validation")))
    folder.write_files(model_files(card=card))


def _draw(folder: RunFolder, prepared: Prepared, judged: dict[str, Judged], say: Say) -> None:
    """Draw the loss curve and the task's pictures of its scores on the test data, or else on the validation split."""
    train = prepared.config.train
    title = f"training (with dropout{' and label smoothing' if train.label_smoothing else ''})"
    try:
        metrics = read_metrics(folder.path / METRICS)
        loss_curve(metrics, folder.path / "loss.png", score_labels.curve(metrics, train.best), title)
        if judged:
            prepared.task.draw([*judged.values()][-1].scores, folder.path)
    except ConfigError as error:
        say(f"no picture of the loss: {error}")
