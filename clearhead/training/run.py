"""Run training from data files to a model folder: prepare, train, score."""

import copy
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..config import Config, DecodeConfig
from ..config.custom_code import custom_parts
from ..data.batches import Alternating, Batches, Plan
from ..decode.registry import IN_MEMORY, prepare_later
from ..errors import ClearheadError
from ..folder.adapters import weights_digest
from ..folder.checkpoint import METRICS, RunFolder
from ..folder.model_folder import CARD, load_model_folder, load_weights, model_files, read_card, read_config
from ..model.linear import remove_lora
from ..model.transformer import build
from ..pictures.figures import loss_curve
from ..scoring import score_labels
from ..tasks.base import Dataset, EvaluationResult, Task, example_of
from ..tasks.examples import Examples, FreshBatches
from ..tasks.sequences import Sequences
from .choices.memory_limit import forecast
from .distributed.processes import Processes
from .init_from import select_weights
from .memory import keep_freed_memory
from .open_run import Opened, RunOptions, Stage, follow_run, open_run
from .prepare import Prepared
from .report.card import model_card, with_scores, with_section, with_steps
from .report.gain import compare_with_start
from .report.metrics import MetricsLog, Unlogged, read_metrics
from .report.observers import EarlyWarnings, TensorBoard, Watch
from .report.progress import Progress
from .run_data import Say
from .schedule import Deadline, shortfall
from .signals import StoppedError, StopSignals
from .state import Run, State
from .trainer import Objective, Trainer
from .update import alternating_loss, loss_of

_GREEDY: dict[str, Any] = {"beam": 1, "n_best": 1, "diverse": False, "sample": False, "engine": IN_MEMORY}


def train(config: Config, out: str | Path, options: RunOptions, stage: Stage | None = None) -> Path:
    """Train a model into the folder `out`, from random weights or those of `train.init_from`, and return the folder.

    Args:
        config: the settings; those left open are chosen.
        out: a new or empty folder, unless the options say otherwise.
        options: what else the user asked for.
        stage: which stage of a warm start it is (default: none).

    Raises:
        ConfigError, DataError, TrainingError: a setting, the data or the folder is unusable.
        StoppedError: a signal stopped the run. It can be resumed.
    """
    began = time.monotonic() if options.began is None else options.began
    out, processes, stage = Path(out), options.processes, stage or Stage()
    keep_freed_memory()
    with StopSignals(silent=not processes.leads) as stop, ExitStack() as opened:

        def lead() -> Opened | None:
            return open_run(config, out, options, stage, began, opened)

        def follow() -> Opened | None:
            return follow_run(config, out, options, stage, opened)

        ready = processes.first(lead, follow)
        if ready is None:
            return out
        trainer = _fit(ready, stop, options, stage)
        _finish(ready, trainer, stage, options)
    if stage.is_last:
        options.say(f"use it: {example_of(ready.prepared.task, str(out), ready.prepared.config)}")
    return out


# --- training -------------------------------------------------------------------------------------------------------


def _fit(ready: Opened, stop: StopSignals, options: RunOptions, stage: Stage) -> Trainer:
    prepared, folder, checkpoint = ready.prepared, ready.folder, ready.checkpoint
    say, after = options.say, checkpoint.step if checkpoint else 0
    options.processes.check_supports(prepared.config, warm_start=False)
    if prepared.config.train.shard == "full" and options.processes.count == 1:
        say("train.shard has no effect: there's only one process")
    options.processes.give_room()
    model = _build(prepared, say if checkpoint is None else lambda _: None)
    seed = (prepared.config.train.seed + stage.turn) % 2**63  # the split and the initial weights keep the first seed
    prepared = replace(prepared, config=prepared.config.assign({"train.seed": seed}, "machine"))
    config, objective = prepared.config, _objective(prepared, model, options.processes)
    if checkpoint is not None:
        objective.check_data(checkpoint)
    prepared.task.check_search(model)
    for name in ("patience", "watch"):
        if config.value(f"train.{name}") and prepared.valid is None:
            say(f"train.{name} has no effect: nothing is held out for validation")
    deadline = None
    if config.train.budget and ready.end is not None and checkpoint is None:  # a resumed run keeps its last step
        deadline = Deadline(config.train.budget, ready.end, prepared.scoring)
    with _open_run(prepared, model, folder, stop, options, after) as run:
        trainer = Trainer(run, model, objective, config.train, deadline)
        if checkpoint is not None:
            trainer.restore(checkpoint, folder.kept())
            checkpoint.tensors.clear()  # they take as much memory as the model and the optimiser
            say(f"resuming {folder.path} at step {after:,} of {trainer.last_step:,}")
        aimed = config.assign({"train.steps": trainer.last_step}, "budget")
        say(forecast(aimed, model, prepared.examples, prepared.task.units, done=after))
        if options.processes.leads:
            prepare_later(config.model, config.decode, config.train.device)  # for the model's first answers
        trainer.train()
        if stage.after_training is not None:
            stage.after_training(trainer)
    return trainer


def _build(prepared: Prepared, say: Say) -> nn.Module:
    """Build the model, and copy the weights of the starting point into it."""
    config = prepared.config
    torch.manual_seed(config.train.seed)
    model = build(config.model).to(config.train.device)
    start = prepared.start
    new = start.give(model, config) if start is not None else []
    if start is not None and not start.rescales(config) and (about := start.about_new(model, new)):
        say(about)
    select_weights(model, config.train, new)
    if config.train.freeze or config.train.adapter:
        total = sum(it.numel() for it in model.parameters())
        learned = sum(it.numel() for it in model.parameters() if it.requires_grad)
        say(f"{learned:,} of {total:,} parameters are trained ({learned / total:.2%})")
    return model


@contextmanager
def _open_run(
    prepared: Prepared, model: nn.Module, folder: RunFolder, stop: StopSignals, options: RunOptions, after: int
) -> Iterator[Run]:
    """Open the outputs of the training loop, to continue after step `after`."""
    config = prepared.config
    on_step, on_eval = ([it] if it else [] for it in (options.on_step, options.on_eval))
    with ExitStack() as opened:
        if not options.processes.leads:
            progress = Progress(config.train.steps, say=options.say)
            yield Run(folder, Unlogged(), progress, stop, processes=options.processes)
            return
        if config.train.tensorboard:
            board = opened.enter_context(TensorBoard(folder.path, after=after))
            on_step.insert(0, board.on_step)
            on_eval.insert(0, board.on_eval)
        if config.train.watch:
            watch = Watch(folder.path, prepared.task, model, config, after=after)
            on_eval.append(opened.enter_context(watch).on_eval)
        log = opened.enter_context(MetricsLog(folder.path / METRICS, after=after))
        unit = prepared.task.units.tokens.split()[-1]  # target tokens are counted with the source tokens
        say = None if options.shows_progress else options.say
        progress = opened.enter_context(Progress(config.train.steps, unit=unit, say=say))
        if (valid := prepared.valid) is not None and not config.train.begins_trained:
            watched = model, prepared.task, prepared.examples, valid, config, progress.message, str(folder.path)
            warnings = EarlyWarnings(*watched)
            on_step.append(warnings.on_step)
            on_eval.append(warnings.on_eval)
        yield Run(folder, log, progress, stop, tuple(on_step), tuple(on_eval), options.processes)


def _objective(prepared: Prepared, model: nn.Module, processes: Processes) -> Objective:
    config, task, valid = prepared.config.train, prepared.task, prepared.valid
    greedy = replace(prepared.config.decode, **_GREEDY)
    batches, judge = _batches(prepared), _together(task, processes).evaluate

    def evaluate() -> dict[str, float]:
        assert valid is not None
        scores, *_ = processes.gather(task.numbers(judge(model, valid, greedy).scores))
        return scores

    loss = loss_of(task, prepared.examples, config.label_smoothing, batches)
    if prepared.replay is not None:
        batches = Alternating(batches, _plan(prepared, prepared.replay))
        loss = alternating_loss(loss, loss_of(task, prepared.replay, config.label_smoothing), batches)
    return Objective(batches, loss, evaluate if valid else None, prepared.constants)


def _plan(prepared: Prepared, examples: Dataset) -> Plan:
    """Return batches of the same examples in each epoch."""
    data = prepared.config.data
    return examples.batches(data.batch_tokens, prepared.config.train.seed, data.batch_sentences)


def _together(task: Task, processes: Processes) -> Task:
    """Return a task that has its answers from all processes."""
    name = "hypotheses" if isinstance(task, Sequences) else "answers"
    answer = getattr(task, name)

    def answers(model: Any, texts: Sequence[str], decode: DecodeConfig) -> list[Any]:
        return processes.each(lambda own: answer(model, own, decode), texts)

    shared = copy.copy(task)
    setattr(shared, name, answers)
    return shared


def _batches(prepared: Prepared) -> Plan:
    """Return the batches of each epoch. Tokens can differ between epochs, for example with subword dropout."""
    config, examples = prepared.config, prepared.examples
    batches = _plan(prepared, examples)
    if not isinstance(examples, Examples) or (make := prepared.task.each_epoch(examples)) is None:
        return batches
    assert isinstance(batches, Batches)
    few = 2 * config.train.accumulate > len(batches.epoch(0))  # then a step may span several epochs
    slots = config.train.accumulate + 1 if few else 2
    return FreshBatches.of(examples, make, batches, slots)


# --- after the last step --------------------------------------------------------------------------------------------


def _finish(ready: Opened, trainer: Trainer, stage: Stage, options: RunOptions) -> None:
    """Score the weights that were kept, complete the model card, and mark the run as finished."""
    folder, prepared, processes, say = ready.folder, ready.prepared, options.processes, options.say
    allowed = custom_parts(prepared.config).values()
    processes.gather(None)  # wait until the weights are written
    remove_lora(trainer.model)
    load_weights(trainer.model, load_model_folder(folder.path, allow_custom_code=allowed).weights)
    if type(prepared.task).is_tuned and prepared.valid is not None:
        prepared = _tuned(folder, prepared, trainer.model, options)
    judged = _judge(prepared, trainer.model, trainer.state, options)
    section = stage.section(prepared, judged.get("validation")) if stage.section is not None else None
    if prepared.check is not None:
        section = compare_with_start(prepared, judged, _together(prepared.task, processes), trainer.model, allowed, say)
    processes.gather(None)  # wait until they are read, and every answer has been given
    if not processes.leads:
        return
    if text := shortfall(trainer.state.step, prepared.config.train):
        say(text)
    _write_card(folder, prepared, judged, trainer.state, section)
    _draw(folder, prepared, judged, say)
    if "validation" in judged and (found := judged["validation"].confidence()) is not None:
        folder.write_files(model_files(confidence={"weights": weights_digest(folder.path), **found.to_dict()}))
    folder.finish(trainer.state.step)


def _tuned(folder: RunFolder, prepared: Prepared, model: nn.Module, options: RunOptions) -> Prepared:
    """Choose settings on the validation data, such as thresholds, and store them with the model."""
    task, allowed = prepared.task, custom_parts(prepared.config).values()
    found = task.evaluate(model, prepared.valid, prepared.config.decode).tuned()
    stored = read_config(folder.path, allow_custom_code=allowed).assign(found, "data")
    options.processes.gather(None)  # wait until every process has read the file
    if options.processes.leads:
        folder.write_files(model_files(config=stored.to_record()))
    config = prepared.config.assign(found, "data")
    return replace(prepared, config=config, task=type(task)(task.tokenizers, config))


def _judge(prepared: Prepared, model: nn.Module, state: State, options: RunOptions) -> dict[str, EvaluationResult]:
    """Score the held-out data with the same search that the task's verb uses for a single answer."""
    say, task = options.say, _together(prepared.task, options.processes)
    search = replace(prepared.config.decode, n_best=1, engine=IN_MEMORY)
    judged: dict[str, EvaluationResult] = {}
    for name, held_out in (("validation", prepared.valid), ("test", prepared.test)):
        if held_out is None:
            continue
        judged[name] = task.evaluate(model, held_out, search)
        values = judged[name].scores.to_dict()
        say(f"{name}: {score_labels.spoken(values)}  ({score_labels.count_of(values)}, {state.kept_weights})")
        for line in score_labels.more_lines(values):
            say(f"  {line}")
    return judged


def _write_card(
    folder: RunFolder,
    prepared: Prepared,
    judged: dict[str, EvaluationResult],
    state: State,
    section: tuple[str, str] | None,
) -> None:
    if (folder.path / CARD).exists():
        card = read_card(folder.path)
    else:
        card = model_card(prepared.config, type(prepared.task), count=len(prepared.examples))
    card = with_scores(card, {name: it.scores.to_dict() for name, it in judged.items()})
    card = with_steps(card, prepared.config.train.steps, state.step)
    if section is not None:
        card = with_section(card, *section)
    folder.write_files(model_files(card=card))


def _draw(folder: RunFolder, prepared: Prepared, judged: dict[str, EvaluationResult], say: Say) -> None:
    """Draw the loss curve and the task's pictures of its scores on the test data, or else on the validation split."""
    train = prepared.config.train
    title = f"training (with dropout{' and label smoothing' if train.label_smoothing else ''})"
    try:
        metrics = read_metrics(folder.path / METRICS)
        loss_curve(metrics, folder.path / "loss.png", score_labels.curve(metrics, train.best), title)
        if judged:
            [*judged.values()][-1].draw(folder.path)
    except StoppedError:
        raise
    except Exception as error:  # the model is complete without its pictures
        reason = error.what if isinstance(error, ClearheadError) else f"{type(error).__name__}: {error}"
        say(f"no picture of the training: {reason.splitlines()[0]}")
