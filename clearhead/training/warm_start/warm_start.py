"""`--warm-start denoise`: before the task, a model learns from the texts of the task alone (Krishna et al. 2023).

Three runs of the same trainer, on the same split with the same tokenizer, shape and seed:

OUT/.without      the task from random weights, to know what the rest is good for
OUT/.pretrained   to find hidden parts of the texts again, or to predict each token, as a language model does
OUT               the task from the weights of that

With a budget they take a quarter, a half and a quarter of the time. The third can be done several times, in OUT/.run-2
and so on first: the mean of their weights is what OUT has in the end.
"""

import dataclasses
import json
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...config import DROPOUT, Config, chosen, messages
from ...config.values import read_duration
from ...data.extra_texts import FormWithTexts
from ...errors import ConfigError, TrainingError
from ...folder.atomic import remove_folder, write_file, writing
from ...folder.checkpoint import CHECKPOINTS, METRICS, RunFolder
from ...folder.manifest import MANIFEST, Manifest, digest, parse_json_object, read_bytes
from ...folder.model_folder import CONFIG, load_model_folder, load_weights, read_config
from ...model.transformer import build
from ...readers.files import STDIN
from ...scoring import score_labels
from ...scoring.significance import Compared
from ...tasks.base import Judged, Task
from ...tasks.denoise.task import denoising
from ...tasks.registry import task_of
from .. import run
from ..choices.recipe import with_preset
from ..example_store import Say
from ..prepare import PLACES, Prepared, refuse_contradictions
from ..report.card import table
from ..report.metrics import read_metrics
from ..run import Part
from ..selection import Observer
from ..signals import StopSignals
from ..starting_point import StartingPoint

WITHOUT, PRETRAINED, ALSO = ".without", ".pretrained", ".run-"
OF_WARM_START = ("train.warm_steps", "train.hidden_span", "train.soup")  # settings that mean nothing without it
_REPLACED = ".replaced"  # which model is to go when the third run begins: the digest of its manifest
_ASKED = ".asked.json"  # what the runs were begun with, of which nobody need tell anything again when they go on
_SHARES = (1, 2)  # of a budget, and one for each run that follows
_DROPOUT = 0.1  # at most, where other words are hidden every time: more of it finds fewer of them again
_OF_LABELS = 3  # times the steps of the task, which are few, for labels are soon learnt by heart
_SOUP_OF_LABELS = 4  # runs of as few steps, whose mean got up to half a point more right than one of them
_CHANCE = 0.05  # a two-tailed p-value below this is called significant
_HEADING = "With and without learning from the texts alone"


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
) -> Path:
    """Train a model into the folder `out`, which is returned.

    `resume` goes on with the run in `out`; `replace` removes it first. Nothing chooses otherwise what the user set.

    `on_step` is called after every update with {"step", "epoch", "loss", "lr", "grad_norm", "tokens", "seconds"}, and
    `on_eval` after every evaluation with {"step", "epoch", "seconds"} and the scores of the task, such as "loss"; of a
    warm start, in the last of its runs. What they raise ends training, which can go on from its last checkpoint. A
    budget counts from `began`, a time of `time.monotonic`; without it, from the call.

    Raises ConfigError, DataError, TrainingError; StoppedError after a signal.
    """
    out = Path(out)
    named: dict[str, Any] = {"resume": resume, "replace": replace, "on_step": on_step, "on_eval": on_eval}
    is_warm = config.train.warm_start or (resume and _was_warm(out))
    if config.data.texts and not is_warm:
        raise ConfigError(
            f"data.texts = {' '.join(config.data.texts)} is learnt from by a warm start alone; expected "
            "train.warm_start = denoise beside it"
        )
    for name in (it for it in OF_WARM_START if not is_warm and config.value(it) is not None):
        raise ConfigError(
            f"{name} = {config.value(name)} is of a warm start; expected train.warm_start = denoise beside it"
        )
    if not (is_warm or resume or replace) and (out / _ASKED).exists():
        raise TrainingError(
            f"{out} is occupied: it holds a warm start on its way; go on with --resume, or give another folder with "
            "--out"
        )
    if not is_warm or not config.data.train:
        return run.train(config, out, say=say, began=began, **named)
    if resume and (out / CONFIG).exists() and not _is_old(out):
        refuse_contradictions(
            out, read_config(out), config, [it for it in ("train.warm_start",) if config.is_users(it)]
        )
    if resume and (out / _ASKED).exists():
        config = _as_begun(out, config)
    if config.train.task is None:
        config = run.with_task(config, say)
    began = time.monotonic() if began is None else began
    config = config.choose({"train.warm_start": "denoise"}, "user")
    return _WarmStart(config, out, say).train(began, **named)


def _was_warm(out: Path) -> bool:
    """Whether the run in a folder, or what it began with, is a warm start."""
    if (out / CONFIG).exists() and not _is_old(out):
        return bool(read_config(out).train.warm_start)
    return (out / _ASKED).exists()


def _as_begun(out: Path, config: Config) -> Config:
    """What the warm start in a folder was begun with, but for where its files lie now.

    A ConfigError where something else is given now. What was left open then is for the runs that are there to judge.
    """
    begun = Config.from_record(parse_json_object(out / _ASKED, read_bytes(out / _ASKED)), source=str(out / _ASKED))
    told = {name for name in config.by_origin().get("user", ()) if name not in PLACES}
    new = {name for name in told if not begun.is_users(name) and begun.value(name) in (None, "auto")}
    refuse_contradictions(out, begun, config, told - new)
    places = {name for name in PLACES if config.value(name)}
    return begun.override({name: config.value(name) for name in new | places})


def _is_old(out: Path) -> bool:
    """Whether the model in a folder is to be replaced, by this run or by one that was killed in its first two parts."""
    mark, manifest = out / _REPLACED, out / MANIFEST
    return mark.exists() and manifest.exists() and mark.read_text("utf-8") == digest(manifest.read_bytes())


class _Clock:
    """When each run is to be over, by its share of what is left of the time."""

    def __init__(self, budget: str, began: float, done: Collection[int], soup: int = 1) -> None:
        """Of a budget that counts from `began`; the shares of runs that were `done` before are not spent again."""
        shares = [*_SHARES, *[1] * soup]
        self._left = [0 if i in done else share for i, share in enumerate(shares)]
        asked = read_duration(budget) if budget else 0.0
        self._end = began + asked * sum(self._left) / sum(shares) if budget else None

    def end(self, place: int) -> float | None:
        """When the run that begins now is to be over; None without a budget."""
        if self._end is None or not self._left[place]:
            return self._end
        now = time.monotonic()
        return now + (self._end - now) * self._left[place] / sum(self._left[place:])


class _WarmStart:
    """The runs, and what comes of them."""

    def __init__(self, config: Config, out: Path, say: Say) -> None:
        """A ConfigError where the texts alone teach nothing more, or nobody could say what they taught."""
        self.config, self.out, self.say = config, out, say
        self.without, self.pretrained = out / WITHOUT, out / PRETRAINED
        self.task = task_of(config)
        self.denoising = denoising(self.task, config.data.texts)
        usual = _SOUP_OF_LABELS if self.task.has_labels and not config.train.budget else 1
        self.soup = config.train.soup or usual
        self.also = [out / f"{ALSO}{turn}" for turn in range(2, self.soup + 1)]
        _expect_use(config, self.denoising)

    def train(self, began: float, *, resume: bool, replace: bool, **observers: Any) -> Path:
        """One after the other; on resume those that are complete are passed over."""
        self.task.settle(self.config)  # rejects what the last run would reject
        with RunFolder.create(self.out, resume=resume, replace=replace, say=lambda _: None) as folder:
            if replace:
                self._forget(self.without, *self._way())
                if (manifest := self.out / MANIFEST).exists():
                    with writing(self.out):
                        write_file(self.out / _REPLACED, digest(manifest.read_bytes()).encode())
            complete = resume and not _is_old(self.out) and folder.finished_step is not None
            if not complete and (replace or not (self.without / CONFIG).exists()):
                with writing(self.out):
                    write_file(self.out / _ASKED, self._asked())
        if complete:
            run.train(self.config, self.out, resume=True, say=self.say)
        else:
            try:
                with StopSignals():  # each run has its own; this one hears what comes between two of them
                    self._train(began, resume, replace, observers)
            finally:
                with suppress(OSError):  # it holds something, as it should
                    if not self.without.exists():
                        (self.out / _ASKED).unlink(missing_ok=True)
                    self.out.rmdir()
        self._tidy()
        return self.out

    def _asked(self) -> bytes:
        config = self.config.choose({"train.soup": self.soup}, "data")
        return json.dumps(config.to_record(), indent=1).encode() + b"\n"

    def _train(self, began: float, resume: bool, replace: bool, observers: dict[str, Any]) -> None:
        done = [i for i, it in enumerate((self.without, self.pretrained, *self.also)) if resume and _is_complete(it)]
        clock, count = _Clock(self.config.train.budget, began, done, self.soup), 2 + self.soup

        def go(path: Path, config: Config, part: Part, **more: Any) -> None:
            old = path == self.out and _is_old(self.out)
            again = resume and (path / CONFIG).exists() and not old
            run.train(config, path, resume=again, replace=replace or old, part=part, say=self.say, **more)
            if path != self.out and (path / CHECKPOINTS).exists():  # it is complete, and there may be many such runs
                with writing(path):
                    remove_folder(path / CHECKPOINTS)

        self.say(f"1 of {count}: {self.task.verb}, from random weights, to {self.without}{self._forecast()}")
        unseen = {"train.watch": "", "data.test": ()}  # on the way to the last run
        alone = {"train.warm_start": "", "data.texts": (), **dict.fromkeys(OF_WARM_START)}
        part = Part(end=clock.end(0), last=False)
        go(self.without, self.config.assign(unseen | alone, "default"), part)
        self.say(f"2 of {count}: denoise, from the texts alone, to {self.pretrained}")
        shape = dataclasses.replace(StartingPoint.load(self.without), weights={})
        part = Part(self.denoising, shape, clock.end(1), last=False)
        go(self.pretrained, self._of_texts(shape.config), part)
        learnt, dropouts = StartingPoint.load(self.pretrained), {name: shape.config.value(name) for name in DROPOUT}
        start = dataclasses.replace(learnt, config=learnt.config.assign(dropouts, "model"))  # those of the task
        config = self._shaped(shape.config).choose({"train.soup": self.soup}, "data")
        for turn, path in enumerate(self.also, 1):
            self.say(f"{2 + turn} of {count}: {self.task.verb}, from the weights of that, to {path}")
            part = Part(start=start, end=clock.end(1 + turn), turn=turn, last=False)
            go(path, config.assign(unseen, "default"), part)
        mean = f", and the mean of all {self.soup}" if self.also else ""
        self.say(f"{count} of {count}: {self.task.verb}, from the weights of that, to {self.out}{mean}")
        part = Part(start=start, end=clock.end(count - 1), others=tuple(self.also), ending=self._compared)
        go(self.out, config, part, **observers)

    def _forecast(self) -> str:
        """How long all of it will take beside the first run, where the steps of the others follow from that."""
        if self.config.train.budget or self.config.train.warm_steps:
            return ""
        return f"; all together take about {1 + self._times + self.soup} times as long"

    @property
    def _times(self) -> int:
        """So many times the steps of the task are learnt from the texts alone."""
        return _OF_LABELS if self.task.has_labels else 1

    def _shaped(self, of: Config) -> Config:
        """The settings with the preset that was chosen for the first run."""
        preset = of.train.preset
        return self.config if preset is None else with_preset(self.config, preset, of.origin("train.preset"))

    def _of_texts(self, first: Config) -> Config:
        """The settings of the second run."""
        values: dict[str, Any] = {"train.warm_start": "", "train.soup": None, "train.watch": "", "train.best": "loss"}
        values |= {"data.test": (), "data.texts": (), "data.subword_dropout": 0.0, "train.epochs": None}
        usual = {"model.dropout": min(first.model.dropout, _DROPOUT), "train.label_smoothing": 0.0}
        values |= {name: value for name, value in usual.items() if not self.config.is_users(name)}
        if not self.config.train.budget:
            values["train.steps"] = self.config.train.warm_steps or self._times * chosen(first.train.steps)
        config = self._shaped(first).assign(values, "user")
        free = {name: config.value(name) for name in ("train.warmup", "model.head")}
        return config.assign(free, "preset")  # for another number of steps, with another head

    def _compared(self, prepared: Prepared, judged: Judged | None) -> tuple[str, str]:
        """A section of the card: the scores of the same task with and without, and whether the difference is luck."""
        before = _learnt(self.pretrained)
        if self.also:
            before += f" The task was learnt {self.soup} times from there, and the mean of these weights is kept."
        if judged is None:
            return _HEADING, f"{before}\n\nWhat that is good for was not measured: nothing was held out."
        folder = load_model_folder(self.without)
        model = build(folder.config.model).to(folder.config.train.device)
        load_weights(model, folder.weights)
        search = prepared.config.override({"decode.n_best": 1}).decode
        systems = {"without": prepared.task.evaluate(model, prepared.valid, search), "with": judged}
        scores = table({name: it.scores.to_dict() for name, it in systems.items()}, "learning from the texts alone")
        name = self.task.compared_by[0]
        first, second = prepared.task.compare([*systems.items()]).by_score[name]
        verdict = _verdict(score_labels.LABELS[name], first, second)
        what = "learning from the texts alone" + (f", and the mean of {self.soup} runs," if self.also else "")
        self.say(f"{what} {verdict}; the model without it is {self.without}")
        it = "Both together" if self.also else "It"
        return _HEADING, f"{before}\n\n{scores}\n\n{it} {verdict}. The model without it is in `{WITHOUT}`."

    def _tidy(self) -> None:
        """Remove what only the way needed; the model without stays, for whoever wants it."""
        self._forget(*self._way())
        with writing(self.out):
            for name in (_REPLACED, _ASKED):
                (self.out / name).unlink(missing_ok=True)

    def _way(self) -> list[Path]:
        """The runs behind the first and before the last."""
        return [self.pretrained, *self.out.glob(f"{ALSO}*")]

    def _forget(self, *runs: Path) -> None:
        with writing(self.out):
            for path in runs:
                if path.exists():
                    remove_folder(path)


def _expect_use(config: Config, denoising: type[Task]) -> None:
    """Raise a ConfigError where a warm start has no sense beside other settings."""
    data, train = config.data, config.train
    if train.init_from:
        raise ConfigError(
            f"train.warm_start = denoise beside train.init_from = {train.init_from}; expected one of them: each says "
            "which weights training begins with"
        )
    if train.budget and train.warm_steps:
        raise ConfigError(
            f"train.warm_steps = {train.warm_steps} beside train.budget = {train.budget}; expected one of them: "
            "a budget chooses the steps"
        )
    if denoising.required["model.topology"] == "encoder-decoder" and not data.joint:
        raise ConfigError(
            "train.warm_start = denoise reads and writes the same texts, and with data.joint = false each side has a "
            "vocabulary of its own; expected data.joint = true"
        )
    if STDIN in (*data.train, *data.valid, *data.test, *data.texts):
        raise ConfigError(
            "train.warm_start = denoise reads the data several times, and standard input, -, can be read once; "
            "expected the name of a file"
        )
    if not data.split and not data.valid:
        raise ConfigError(
            "train.warm_start = denoise with data.split = 0 would leave nothing to measure its use on; expected a "
            "share above 0, or files of --valid"
        )
    if isinstance(denoising.form, FormWithTexts):
        with denoising.form.open_texts(data) as documents:  # what cannot be read is better known before the first run
            for _ in documents:
                pass


def _is_complete(path: Path) -> bool:
    return (path / MANIFEST).exists() and Manifest.read(path).finished is not None


def _learnt(pretrained: Path) -> str:
    """What the second run came to, in words."""
    records = read_metrics(pretrained / METRICS)
    hidden = read_config(pretrained).model.topology != "decoder-only"
    how = ", of which a part was hidden" if hidden else ""
    name, found = ("hidden_accuracy", "found {:.1%} of the tokens again")
    if not hidden:
        name, found = ("token_accuracy", "predicted {:.1%} of the tokens that were held out")
    said = f"First it learnt for {records[-1]['step']:,} steps from the texts alone{how}"
    scored = [it for it in records if f"valid_{name}" in it]
    if not scored:
        return f"{said}."
    best = min(scored, key=lambda it: float(it["valid_loss"]))
    return f"{said}; in the end it {found.format(best[f'valid_{name}'])}."


def _verdict(label: score_labels.Label, without: Compared, with_it: Compared) -> str:
    """Whether it was good for anything: "helped: accuracy 0.8000 with it, 0.7000 without (p = 0.012)"."""
    p = chosen(with_it.p_value)
    better = (with_it.score < without.score) if label.lower else (with_it.score > without.score)
    if p >= _CHANCE:
        said = "did not help, as far as can be told" if not better else "may have helped, or that was chance"
    else:
        said = "helped" if better else "did harm"
    numbers = f"{label.name} {label.number(with_it.score)} with it, {label.number(without.score)} without"
    return f"{said}: {numbers} (p = {p:.3f})"
