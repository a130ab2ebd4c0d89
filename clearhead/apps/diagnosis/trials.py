"""Short trainings from the initial weights: with the run's settings, other learning rates, and the usual settings.

Each trial takes the first batches of the run, a few dozen steps, and is judged by its loss on held-out examples. A
setting is to blame if its usual value reaches a clearly lower loss than the user's.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...config import DROPOUT, Recipe
from ...config.values import spell
from ...errors import ClearheadError
from ...model.transformer import build
from ...tokenization.ragged import IntArray
from ...training.schedule import Schedule
from ...training.update import Update, loss_of
from .causes import Blame, Finding, certainty
from .diagnosed_run import Subject

_STEPS, _FEWEST, _LONG = 50, 15, 200  # steps of a trial; the fewest, for large models; if nothing is learned in 50
_PLATEAU = 0.9  # share of the loss of frequencies above which a trial has learned nothing that tells settings apart
_BATCH = 512  # the most tokens of a batch
_WORK = 1.5e12  # operations of a trial
_LOST = 20.0  # loss that stands for one that isn't finite, in nats
_ENOUGH = 0.1  # share of the loss that a better setting must save to be blamed with a weight of 0.63
_SKIPPED = ("model.max_len", "model.n_classes", "train.steps", "train.epochs", "train.seed", "train.threads",
            "train.device", "train.precision", "train.task", "train.preset", "train.eval_every", "train.save_every",
            "train.log_every", "train.best", "train.patience", "train.average", "train.eval_sentences", "train.watch",
            "train.tensorboard", "train.budget", "train.memory", "train.micro_batches", "train.compile",
            "train.activation_checkpointing", "train.init_from", "train.loss_on", "train.shard")  # fmt: skip
_BATCHES = ("data.batch_tokens", "data.batch_sentences")
_SIZES = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_encoder_layers", "model.n_decoder_layers")


class Trials:
    """Runs trials of a subject, each of them once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[str, float] = {}
        tokens = self._batch(subject.config)
        self._most = _WORK / (12 * _size(subject.config) * tokens)
        self.steps = int(min(max(self._most, _FEWEST), _STEPS))
        self._lengthen()

    def _lengthen(self) -> None:
        """Take more steps if those of a short training bring it no further than the frequencies of tokens or labels.

        Every training gets there at first, so its loss wouldn't show what slows the learning.
        """
        subject = self.subject
        unigram = subject.floors.unigram if subject.floors is not None else 0.0
        if unigram and self.run(subject.config) > _PLATEAU * unigram:
            assert subject.data is not None
            size = self._batch(subject.config)
            epoch = subject.data.examples.batches(size, 0, subject.config.data.batch_sentences).epoch(0)
            most = int(min(self._most, _LONG, 3 * len(epoch)))  # more would show what overfits the least
            if most > self.steps:
                self.steps = most
                self._known.clear()

    @staticmethod
    def _batch(config: Recipe) -> int:
        return min(config.data.batch_tokens, max(_BATCH, config.data.max_len + 1))

    @cached_property
    def _seeds(self) -> tuple[float, float]:
        first, config = self.subject.config.train.seed, self.subject.config
        return self.run(config), self.run(config, seed=first + 1)

    @property
    def own(self) -> float:
        """The mean loss with the run's settings and two seeds."""
        return sum(self._seeds) / 2

    @property
    def noise(self) -> float:
        """The difference of either seed from their mean, as a share of it; at least 2%."""
        return max(abs(self._seeds[0] - self.own) / max(self.own, 1e-9), 0.02)

    def gain(self, loss: float) -> float:
        """Return the share of the loss that a trial with this loss saves, minus the noise."""
        share = (self.own - loss) / max(self.own, 1e-9)
        return share - self.noise if share > 0.02 else min(share, 0.0)

    def run(self, config: Recipe, *, seed: int | None = None, warmup: int | None = None) -> float:
        """Train for a few steps, and return the loss on held-out examples; a large number if it isn't finite.

        Args:
            config: the settings to try.
            seed: the seed of weights and batches (default: that of the settings).
            warmup: steps (default: the setting's, in proportion to the length of the trial).
        """
        key = repr((config, seed, warmup))
        if key not in self._known:
            self._known[key] = self._run(config, seed, warmup)
        return self._known[key]

    def _run(self, config: Recipe, seed: int | None, warmup: int | None) -> float:
        subject, train = self.subject, config.train
        assert subject.data is not None
        task = type(subject.task)(subject.task.tokenizers, config)
        model = subject.initial(config, seed)
        examples = subject.data.examples
        seed = train.seed if seed is None else seed
        plan = examples.batches(self._batch(config), seed, config.data.batch_sentences)
        long = round(self.steps * train.warmup / max(train.steps, 1))  # in proportion, if it's most of the run
        own = max(min(train.warmup, self.steps // 3), long) if warmup is None else warmup
        schedule = Schedule(train.schedule, train.lr, own, self.steps, 0.0)
        update = Update(model, loss_of(task, examples, train.label_smoothing), train)
        batches, epoch = list[IntArray](), 0
        for step in range(1, self.steps + 1):
            if not batches:
                batches, epoch = plan.epoch(epoch), epoch + 1
            rows = [batches.pop(0)]
            count = plan.predictions(rows[0])
            try:
                update(rows, max(count, 1), step=step, lr=schedule(step))
            except ClearheadError:  # it isn't finite
                return _LOST
        reached = subject.loss(model, task)
        return reached if math.isfinite(reached) else _LOST


def trial_probes(subject: Subject) -> Iterator[Finding]:
    """Yield the findings of short trainings. Runs whose initial weights are unknown yield nothing."""
    train = subject.config.train
    if train.warm_start or train.adapter or (train.init_from and subject.start is None):
        return
    trials = Trials(subject)
    yield _one_batch(trials)
    yield from _rates(trials)
    yield from _settings(trials)
    yield from _length(trials)
    yield from _limits(subject)


def _one_batch(trials: Trials) -> Finding:
    """Memorise one small batch, without dropout and smoothing."""
    subject = trials.subject
    assert subject.data is not None
    off = dict.fromkeys((*DROPOUT, "train.label_smoothing", "train.r_drop", "train.weight_decay"), 0.0)
    usual = {"train.lr": subject.usual().train.lr, "train.freeze": ()}
    config = subject.config.assign({**off, **usual}, "machine")
    task = type(subject.task)(subject.task.tokenizers, config)
    examples = subject.data.examples
    plan = examples.batches(max(256, subject.config.data.max_len + 1), 0, 16)
    rows = plan.epoch(0)[0]
    model, count = subject.initial(config), plan.predictions(rows)
    update = Update(model, loss_of(task, examples, 0.0), config.train)
    schedule = Schedule("constant", config.train.lr, 10, 100)
    try:
        losses = [update([rows], max(count, 1), step=n, lr=schedule(n))[0] / max(count, 1) for n in range(1, 61)]
    except ClearheadError:  # it isn't finite
        losses = [1.0, math.inf]
    first, last = losses[0], losses[-1]
    share = last / first if math.isfinite(last) and first > 0 else 1.0
    measured = f"60 steps on one batch, at the usual rate and without dropout, change its loss from {first:.2f} to "
    blame = Blame("architecture", certainty(share - 0.5, 0.3))
    return Finding("one batch", f"{measured}{last:.2f}", {"first": first, "last": last}, [blame])


def _rates(trials: Trials) -> Iterator[Finding]:
    """Follow the learning rate up or down by factors of 10 and 3 for as long as that helps, then try the warmup."""
    subject, rate = trials.subject, trials.subject.config.train.lr
    losses = {1.0: trials.own}

    def at(factor: float) -> float:
        if factor not in losses:
            losses[factor] = trials.run(subject.config.assign({"train.lr": rate * factor}, "machine"))
        return losses[factor]

    for step in (10.0, 0.1):
        best = 1.0
        while at(best * step) < at(best) * 0.98 and abs(math.log10(best)) < 4:
            best *= step
    best = min(losses, key=lambda it: losses[it])
    for factor in (best / 3, best * 3):
        at(factor)
    best = min(losses, key=lambda it: losses[it])
    gain = trials.gain(losses[best])
    listed = ", ".join(f"{rate * it:.2g}: {losses[it]:.2f}" for it in sorted(losses))
    measured = f"{trials.steps} steps from the initial weights reach, by learning rate, {listed}"
    far = abs(math.log10(best))  # short trainings like higher rates than long ones, so a factor of 3 is no error
    weight = certainty(gain, 1.5 * _ENOUGH) * certainty(far, 0.9 if best < 1 else 1.1)
    title = _rate_title(rate, rate * best)
    blames = (
        [Blame("train.lr", weight * _doubt(subject, losses[best]), f"--train.lr={rate * best:.2g}", title)]
        if best != 1
        else []
    )
    by_rate = {f"{rate * it:.3g}": losses[it] for it in sorted(losses)}
    before = subject.loss(subject.initial())
    numbers = {"steps": trials.steps, "losses": by_rate, "before": before}
    yield Finding("learning rates", f"{measured} (before: {before:.2f})", numbers, blames)
    yield _warmup(trials, losses[best])


def _rate_title(rate: float, better: float) -> str:
    return f"the learning rate is too {'high' if rate > better else 'low'}: train.lr={rate:.2g}"


def _warmup(trials: Trials, best: float) -> Finding:
    """Compare the training with a warmup of a third of its steps, and with none."""
    subject, whole = trials.subject, trials.steps // 3
    own = min(subject.config.train.warmup, whole)
    other = trials.run(subject.config, warmup=0 if own else whole)
    gain = trials.gain(other)
    measured = f"with {'no' if own else 'a'} warmup, {trials.steps} steps reach {other:.2f}, "
    measured += f"in place of {trials.own:.2f}"
    usual = subject.usual().train.warmup
    blames = []
    if not own:  # the more of what a better rate gains a warmup alone can gain, the more it's the warmup
        share = (trials.own - other) / max(trials.own - best, 1e-9)
        weight = certainty(gain, _ENOUGH) * min(max(share, 0.0), 1.0)
        if not subject.config.model.pre_norm:  # they need one (Xiong et al. 2020), which often shows only later
            weight = max(weight, 0.75 * subject.unlearned)
            measured += "; there was none, and post-norm models need one"
        blames = [
            Blame("train.warmup", weight * _doubt(subject, other), f"--train.warmup={usual}", "there is no warmup")
        ]
    return Finding("warmup", measured, {"own": trials.own, "other": other}, blames)


def _settings(trials: Trials) -> Iterator[Finding]:
    """Compare the user's settings with the usual ones: all at once, then one by one if those are better."""
    subject = trials.subject
    users = [it for it in subject.config.by_origin().get("user", ()) if it not in _SKIPPED]
    given = [it for it in users if it.startswith(("model.", "train.")) or it in _BATCHES]
    usual = subject.usual()
    changed = [it for it in given if usual.value(it) != subject.config.value(it)]
    if not changed:
        yield Finding("settings", "every setting that you gave has its usual value")
        return
    try:
        all_usual = trials.run(usual)
    except ClearheadError as error:
        yield Finding("settings", f"these can't be compared with the usual ones: {error.what}")
        return
    total = trials.gain(all_usual)
    measured = f"with the usual settings, {trials.steps} steps reach {all_usual:.2f} in place of {trials.own:.2f}"
    yield Finding("settings", measured, {"usual": all_usual, "own": trials.own, "changed": changed})
    if total < 0.02:
        return
    groups = [[it] for it in changed if it not in (*_SIZES, *_BATCHES)]
    groups += filter(None, ([it for it in changed if it in together] for together in (_SIZES, _BATCHES)))
    found = dict[str, Finding]()
    for names in groups:
        try:
            config = subject.usual(*(it for it in given if it not in names))
        except ClearheadError:  # the others need it
            continue
        reached = trials.run(config)
        gain = trials.gain(reached)
        now = ", ".join(f"{it}={spell(subject.config.value(it))}" for it in names)
        value = [f"--{it}={_spelled(config.value(it))}" for it in names]
        measured = f"without {now}, {trials.steps} steps reach {reached:.2f} in place of {trials.own:.2f}"
        weight = certainty(gain, _enough(subject, names)) * _doubt(subject, reached)
        weight *= min(1.25 * gain / total, 1.0) if len(groups) > 1 else 1.0
        if names[0] in _SIZES and (factor := _size(config) / _size(subject.config)) > 1:
            weight *= certainty(math.log(factor), math.log(8))  # a slightly smaller model may be intended
        title = f"{now} slows the learning"
        if names == ["train.lr"]:
            rate, usual_rate = subject.config.train.lr, config.train.lr
            title = _rate_title(rate, usual_rate)
            weight *= certainty(abs(math.log10(rate / usual_rate)), 0.9)
        blame = Blame(names[0], weight, " ".join(value), title)
        found[names[0]] = Finding(names[0], measured, {"gain": gain}, [blame])
    others = max((it.blames[0].weight for name, it in found.items() if not _is_kind(subject, name)), default=0.0)
    for name, it in found.items():  # if a number is to blame, a kind of optimizer or layer hardly is
        weight = it.blames[0].weight * (1 - others if _is_kind(subject, name) else 1.0)
        yield replace(it, blames=[replace(it.blames[0], weight=weight)])


def _length(trials: Trials) -> Iterator[Finding]:
    """Compare a run that's shorter than a short training with that, or half as long as a longer one."""
    subject = trials.subject
    steps, longer = subject.losses[-1][0] if subject.losses else 0, trials.steps > _STEPS
    if subject.reached is None or steps >= trials.steps / (1 + longer):
        return
    measured = f"{trials.steps} steps reach {trials.own:.2f}, and the {steps:,} steps of the run {subject.reached:.2f}"
    share = 1 - trials.own * (1 + trials.noise) / max(subject.reached, 1e-9)
    remedy = f"--steps={subject.usual_steps}" if subject.finished else "--resume"
    blame = Blame("few_steps", certainty(share, _ENOUGH if longer else 1.5 * _ENOUGH), remedy)
    yield Finding("number of steps", measured, {"own": trials.own, "reached": subject.reached}, [blame])


def _limits(subject: Subject) -> Iterator[Finding]:
    """Look for a small size or window in a run that learned little. What they prevent doesn't show in few steps."""
    given, usual = subject.config.by_origin().get("user", {}), subject.usual()
    for name in (sizes := [it for it in _SIZES if it in given])[:1]:
        own, other = _size(subject.config), _size(usual)
        fix = " ".join(f"--{it}={spell(usual.value(it))}" for it in sizes)
        now = ", ".join(f"{it}={spell(subject.config.value(it))}" for it in sizes)
        measured = f"the model has {own:,} weights ({other:,} are usual)"
        yield _limit(subject, name, other / own, measured, fix, f"the model is too small: {now}")
    if (window := subject.config.model.window) and "model.window" in given:
        longest = subject.config.data.max_len
        measured = f"a token attends to {window:,} of up to {longest:,} tokens"
        fix = "leave out --model.window"
        yield _limit(subject, "model.window", longest / window, measured, fix, f"model.window={window} is too short")


def _size(config: Recipe) -> int:
    """Return the number of weights."""
    return sum(it.numel() for it in build(config.model).parameters())


def _limit(subject: Subject, name: str, factor: float, measured: str, fix: str, title: str) -> Finding:
    weight = certainty(math.log(max(factor, 1.0)), math.log(30)) * subject.unlearned
    return Finding("limits of the model", measured, {name: factor}, [Blame(name, weight, fix, title)])


def _enough(subject: Subject, names: Sequence[str]) -> float:
    """Return the gain at which a setting is blamed with a weight of 0.63.

    A kind of optimizer or layer, or a small model, is a choice even if others learn faster. For numbers, the less the
    run has learned, the less is enough.
    """
    if len(names) > 1 or names[0] in _SIZES:
        return 0.15
    if _is_kind(subject, names[0]):
        return 0.25
    return 0.15 - 0.1 * subject.unlearned


def _is_kind(subject: Subject, name: str) -> bool:
    """Return whether a setting isn't a number, but a kind of optimizer or layer, for example."""
    return isinstance(subject.config.value(name), str | bool)


def _spelled(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else spell(value).strip("'")


def _doubt(subject: Subject, better: float) -> float:
    """Return a factor for settings that only seem bad in short trainings: lower if the run has learned much.

    If a short training with a `better` loss beats the whole run, there's no doubt. If little is left to learn, there's
    nothing to blame.
    """
    beaten = 0.0 if subject.reached is None else certainty(1 - better / max(subject.reached, 1e-9), _ENOUGH)
    rest = min((1.0 if subject.left is None else subject.left) / 0.25, 1.0)
    return (0.5 + 0.5 * max(subject.unlearned, beaten)) * rest
