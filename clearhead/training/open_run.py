"""Open a run: check its settings, lock its folder, and prepare its data or find its checkpoint."""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from ..config import TASKS, Config, messages, settings
from ..config.custom_code import custom_parts
from ..config.values import invalid, read_duration, spell
from ..decode.registry import check_name, choose_engine
from ..errors import ConfigError
from ..folder.adapters import Adapter, is_adapter
from ..folder.checkpoint import Checkpoint, FollowedFolder, RunFolder
from ..folder.model_folder import read_config
from ..model.assembly import check_parts
from ..tasks.base import EvaluationResult, Task, check_best, check_patience
from ..tasks.detect import with_modality, with_task
from ..tasks.registry import classes_of, task_of
from .activations import check_compiler
from .choices.hyperparameters import choose_device
from .distributed.processes import ALONE, Processes
from .init_from import InitFrom
from .prepare import Prepared, prepare, prepare_again, refuse_contradictions
from .report.observers import summary_writer
from .run_data import Say
from .state import Observer
from .trainer import Trainer


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that aren't settings and aren't stored in the model folder.

    Attributes:
        resume: continue the run in the folder.
        replace: replace a finished or unfinished run in the folder.
        say: receives messages for the user.
        progress: show the progress of the run on stderr, next to messages that are printed there.
        on_step: called after each update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}.
        on_eval: called after each evaluation with {"step", "epoch", "seconds"} and the scores, such as "loss".
        began: start of the time budget, as a `time.monotonic` value (default: now).
        allow_custom_code: import all custom classes that are named in the folder of the run or of its starting point.
        processes: the processes that share the run.
        notes: returns notes on a run's settings, given those of the model that it starts from.
    """

    resume: bool = False
    replace: bool = False
    say: Say = messages.say
    on_step: Observer | None = None
    on_eval: Observer | None = None
    began: float | None = None
    allow_custom_code: bool = False
    processes: Processes = ALONE
    progress: bool = True
    notes: Callable[[Config, Config], Sequence[str]] = lambda _, __: ()

    @property
    def shows_progress(self) -> bool:
        """True if steps are reported. With a custom `say`, nothing is printed."""
        return self.progress and self.say is messages.say

    def in_one_of(self, processes: Processes) -> "RunOptions":
        """Return the options of one of several processes. Only the first one talks to the user and to callbacks.

        A process that torchrun has started again resumes the run.
        """
        options = replace(self, processes=processes)
        if processes.restarted:
            options = replace(options, resume=True, replace=False)
        return options if processes.leads else replace(options, say=lambda _: None, on_step=None, on_eval=None)

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
    start: InitFrom | None = None
    end: float | None = None
    turn: int = 0
    after_training: Callable[[Trainer], None] | None = None
    section: Callable[[Prepared, EvaluationResult | None], tuple[str, str]] | None = None
    is_last: bool = True


@dataclass(frozen=True)
class Opened:
    """The folder of a run, what it needs, and the checkpoint that it continues from. `end` is its deadline."""

    folder: RunFolder
    prepared: Prepared
    checkpoint: Checkpoint | None
    end: float | None = None


def open_run(
    config: Config, out: Path, options: RunOptions, stage: Stage, began: float, opened: ExitStack
) -> Opened | None:
    """Open the folder and prepare the run. Return None if it's complete.

    Args:
        config: the settings that the user gave.
        out: the folder of the run.
        options: what else the user asked for.
        stage: which stage of a warm start it is, if any.
        began: start of the time budget, as a `time.monotonic` value.
        opened: closes the folder at the end of the run.
    """
    say, allowed = options.say, options.allowed(config)
    if not options.resume:
        config, task = _check(config, out, stage, say, allowed)
    folder = opened.enter_context(RunFolder.create(out, resume=options.resume, replace=options.replace, say=say))
    if options.resume:
        config, task = _check(config, out, stage, say, allowed, resume=folder.resumes)
    if not folder.resumes:
        start, end = _start(config, stage, allowed), _end(config, stage, began)
        deadline = math.inf if end is None else end
        prepared = prepare(
            folder, config, say, task_type=task, start=start, end=deadline, processes=options.processes.count
        )
        for note in options.notes(start.config, prepared.config) if start is not None else ():
            say(note)
        return Opened(folder, prepared, None, end)
    if folder.finished_step is not None:
        refuse_contradictions(out, read_config(out, allow_custom_code=allowed), config)
        folder.tidy()
        say(f"{out} is complete: it was trained to step {folder.finished_step:,}; to train it further, use --init-from")
        return None
    checkpoint = folder.latest_checkpoint()
    restarts = checkpoint is None
    prepared = prepare_again(folder, config, say, allow_custom_code=allowed, task_type=task, restarts=restarts)
    prepared = _with_start(prepared, out, stage, allowed, restarts=restarts)
    if restarts:
        folder.restart()
    return Opened(folder, prepared, checkpoint, _end(prepared.config, stage, began))


def follow_run(config: Config, out: Path, options: RunOptions, stage: Stage, opened: ExitStack) -> Opened | None:
    """Open a run that another process has opened.

    Args:
        config: the settings that the user gave.
        out: the folder of the run.
        options: what else the user asked for.
        stage: which stage of a warm start it is, if any.
        opened: closes the folder at the end of the run.
    """
    folder = opened.enter_context(FollowedFolder(out))
    if options.resume and folder.finished_step is not None:
        return None
    allowed = options.allowed(config)
    config, task = _check(config, out, stage, options.say, allowed, resume=True)
    checkpoint = folder.latest_checkpoint() if options.resume else None
    prepared = prepare_again(folder, config, options.say, allow_custom_code=allowed, task_type=task)
    return Opened(folder, _with_start(prepared, out, stage, allowed, restarts=False), checkpoint)


def _check(
    config: Config, out: Path, stage: Stage, say: Say, allowed: bool | Collection[str], *, resume: bool = False
) -> tuple[Config, type[Task]]:
    """Complete the configuration for its task, and report errors that don't depend on the data."""
    if not config.data.train:
        expected = "a file, a folder, or two line-aligned files"
        raise ConfigError("data.train names no file", expected=expected, name="data.train")
    check_parts(config.model)
    if stage.task is None and not resume:
        check_early(config)
    if config.train.task is None and resume:
        stored = read_config(out, allow_custom_code=allowed)
        known = {"data.modality": stored.data.modality, "train.loss_on": config.train.loss_on or stored.train.loss_on}
        config = config.assign({"train.task": task_of(stored).verb, **known}, "data")
    else:
        config = with_task(config, say) if config.train.task is None else with_modality(config)
    if config.train.tensorboard:
        summary_writer()
    task = stage.task or task_of(config)
    config = task.settle(config)
    if stage.task is None:
        check_search(config)
    return config, task


class AnyFormat:
    """Every format that a model could be converted to. The real ones are only known when a model is used."""

    def __contains__(self, name: object) -> bool:
        return True


def check_early(config: Config) -> None:
    """Check special tokens, device, compiler, decoding engine and the score to choose weights by, as far as possible.

    Raises:
        ConfigError: one of them is invalid.
    """
    _check_special(config)
    device = choose_device(config.train.device)
    if config.train.compile:
        check_compiler(device)
    check_name(config.decode.engine)
    if config.train.task is not None:
        config = with_modality(config)
        check_search(task_of(config).settle(config))
    elif config.is_users("train.best"):
        scores = [score for name in TASKS for it in classes_of(name) for score in it.scores]
        check_best(config, scores, "any task")
        check_patience(config, [*dict.fromkeys(scores)])


def _check_special(config: Config) -> None:
    """Raise ConfigError if the user chose the id of a special token in a vocabulary that training is about to learn."""
    if config.train.init_from:
        return
    for name, it in settings().items():
        value, default = config.value(name), it.default
        if it.fact and config.is_users(name) and value != default:
            what = "doesn't fit a new vocabulary, whose special tokens have fixed ids"
            expected = f"{spell(default)}, or train.init_from with a model that has this id"
            raise invalid(name, value, what, expected=expected, fix=f"leave out {name}")


def check_search(config: Config) -> None:
    """Check that the decoding engine can run the model with these settings, if the model generates text.

    Raises:
        ConfigError: it can't.
    """
    if config.model.topology != "encoder-only":
        choose_engine(config.model, config.decode, choose_device(config.train.device), AnyFormat())


def _start(config: Config, stage: Stage, allowed: bool | Collection[str]) -> InitFrom | None:
    """Read the model named in train.init_from, if there's one; otherwise, return that of the stage."""
    if not config.train.init_from:
        return stage.start
    start = InitFrom.load(Path(config.train.init_from), allow_custom_code=allowed)
    if config.train.adapter and is_adapter(start.path):
        what = "is an adapter itself"
        fix = "merge it first: clearhead export --merge, or train it without train.adapter"
        raise invalid("train.init_from", str(start.path), what, expected="a model with weights of its own", fix=fix)
    return start


def _with_start(
    prepared: Prepared, out: Path, stage: Stage, allowed: bool | Collection[str], *, restarts: bool
) -> Prepared:
    """Add the model to start from, if a resumed run needs it: it has no checkpoint, or trains an adapter."""
    adapts = bool(prepared.config.train.adapter)
    if not restarts and not adapts:
        return prepared
    start = _start(prepared.config, stage, allowed)
    if adapts and start is not None:
        Adapter.read(out).check_base(out, start.path, start.weights_digest)
    return replace(prepared, start=start)


def _end(config: Config, stage: Stage, began: float) -> float | None:
    budget = config.train.budget
    return began + read_duration(budget) if stage.end is None and budget else stage.end
