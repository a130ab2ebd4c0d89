"""Short trainings from the initial weights: with the run's settings, other learning rates, and the usual settings.

Each trial takes the first batches of the run, a few dozen steps, and is judged by its loss on held-out examples. A
setting is to blame if its usual value reaches a clearly lower loss than the user's.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...config import DROPOUT, Recipe
from ...config.values import spell
from ...errors import ClearheadError
from ...tokenization.ragged import IntArray
from ...training.schedule import Schedule
from ...training.update import Update, loss_of
from .causes import Blame, Finding, certainty
from .diagnosed_run import Subject

_STEPS, _FEWEST = 50, 15  # steps of a trial; the fewest, for large models
_BATCH = 512  # the most tokens of a batch
_WORK = 1.5e12  # operations of a trial
_LOST = 20.0  # loss that stands for one that isn't finite, in nats
_ENOUGH = 0.1  # share of the loss that a better setting must save to be blamed with a weight of 0.63
_SKIPPED = ("model.max_len", "model.n_classes", "train.steps", "train.epochs", "train.seed", "train.threads",
            "train.device", "train.precision", "train.task", "train.preset", "train.eval_every", "train.save_every",
            "train.log_every", "train.best", "train.patience", "train.average", "train.eval_sentences", "train.watch",
            "train.tensorboard", "train.budget", "train.memory", "train.micro_batches", "train.compile",
            "train.activation_checkpointing", "train.init_from", "train.loss_on", "train.shard")  # fmt: skip
_SIZES = ("model.d_model", "model.n_heads", "model.d_ff", "model.n_encoder_layers", "model.n_decoder_layers")


@dataclass(frozen=True)
class Trial:
    """A short training. `loss` is that on held-out examples after it; `norms` are gradient norms by layer at first."""

    loss: float
    losses: list[float]
    seed: int = 0


class Trials:
    """Runs trials of a subject, each of them once."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._known: dict[str, Trial] = {}
        tokens = self._batch(subject.config)
        size = sum(it.numel() for it in subject.initial().parameters())
        steps = _WORK / (12 * size * tokens)
        self.steps = int(min(max(steps, _FEWEST), _STEPS))

    @cached_property
    def before(self) -> float:
        """The loss before the first step."""
        return self.subject.loss(self.subject.initial())

    @staticmethod
    def _batch(config: Recipe) -> int:
        return min(config.data.batch_tokens, max(_BATCH, config.data.max_len + 1))

    @cached_property
    def own(self) -> Trial:
        return self.run(self.subject.config)

    @cached_property
    def noise(self) -> float:
        """What another seed changes, as a share of the loss; at least 2%."""
        other = self.run(self.subject.config, seed=self.subject.config.train.seed + 1)
        return max(abs(other.loss - self.own.loss) / max(self.own.loss, 1e-9), 0.02)

    def gain(self, loss: float) -> float:
        """Return what a trial that reaches this loss saves of it, less the noise, as a share."""
        share = (self.own.loss - loss) / max(self.own.loss, 1e-9)
        return share - self.noise if share > 0.02 else min(share, 0.0)

    def run(self, config: Recipe, *, seed: int | None = None, warmup: int | None = None) -> Trial:
        """Train for a few steps. A loss that isn't finite ends it."""
        key = repr((config, seed, warmup))
        if key not in self._known:
            self._known[key] = self._run(config, seed, warmup)
        return self._known[key]

    def _run(self, config: Recipe, seed: int | None, warmup: int | None) -> Trial:
        subject, train = self.subject, config.train
        assert subject.data is not None
        task = type(subject.task)(subject.task.tokenizers, config)
        model = subject.initial(config, seed)
        examples = subject.data.examples
        seed = train.seed if seed is None else seed
        plan = examples.batches(self._batch(config), seed, config.data.batch_sentences)
        own = min(train.warmup, self.steps // 3) if warmup is None else warmup
        schedule = Schedule(train.schedule, train.lr, own, self.steps, 0.0)
        update = Update(model, loss_of(task, examples, train.label_smoothing), train)
        losses, batches, epoch = list[float](), list[IntArray](), 0
        for step in range(1, self.steps + 1):
            if not batches:
                batches, epoch = plan.epoch(epoch), epoch + 1
            rows = [batches.pop(0)]
            count = plan.predictions(rows[0])
            try:
                loss, _ = update(rows, max(count, 1), step=step, lr=schedule(step))
            except ClearheadError:  # it isn't finite
                return Trial(_LOST, losses)
            losses.append(loss / max(count, 1))
        reached = subject.loss(model, task)
        return Trial(reached if math.isfinite(reached) else _LOST, losses)


def trial_probes(subject: Subject) -> Iterator[Finding]:
    """Yield what short trainings say. Runs whose initial weights are unknown yield nothing."""
    train = subject.config.train
    if train.warm_start or train.adapter or (train.init_from and subject.start is None):
        return
    trials = Trials(subject)
    yield _one_batch(trials)
    yield from _rates(trials)
    yield from _settings(trials)


def _one_batch(trials: Trials) -> Finding:
    """Learn one small batch by heart, without dropout and smoothing."""
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
    losses = []
    for step in range(1, 61):
        try:
            loss, _ = update([rows], max(count, 1), step=step, lr=schedule(step))
        except ClearheadError:
            loss = math.inf
            break
        losses.append(loss / max(count, 1))
    last = losses[-1] if losses else math.inf
    first = losses[0] if losses else math.inf
    share = last / first if math.isfinite(last) and first > 0 else 1.0
    measured = (
        f"60 steps on one batch, at the usual rate and without dropout, lower its loss from {first:.2f} to {last:.2f}"
    )
    return Finding(
        "one batch", measured, {"first": first, "last": last}, [Blame("architecture", certainty(share - 0.5, 0.3))]
    )


def _rates(trials: Trials) -> Iterator[Finding]:
    """Follow the learning rate up or down by factors of 10 and 3 for as long as that helps, then try the warmup."""
    subject, rate = trials.subject, trials.subject.config.train.lr
    losses = {1.0: trials.own.loss}

    def at(factor: float) -> float:
        if factor not in losses:
            losses[factor] = trials.run(subject.config.assign({"train.lr": rate * factor}, "machine")).loss
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
    measured = (
        f"{trials.steps} steps from the initial weights reach, by learning rate, {listed} (before: {trials.before:.2f})"
    )
    far = abs(
        math.log10(best)
    )  # a short training likes higher rates than a long one, so that a factor of 3 is no error
    weight = certainty(gain, 1.5 * _ENOUGH) * certainty(far, 0.9 if best < 1 else 1.1)
    title = _rate_title(rate, rate * best)
    blames = [Blame("train.lr", weight * _doubt(subject), f"--train.lr={rate * best:.2g}", title)] if best != 1 else []
    numbers = {
        "steps": trials.steps,
        "losses": {f"{rate * it:.3g}": losses[it] for it in sorted(losses)},
        "before": trials.before,
    }
    yield Finding("learning rates", measured, numbers, blames)
    yield _warmup(trials, losses[best])


def _rate_title(rate: float, better: float) -> str:
    return f"the learning rate is too {'high' if rate > better else 'low'}: train.lr={rate:.2g}"


def _warmup(trials: Trials, best: float) -> Finding:
    """Compare the training with a warmup of a third of its steps, and with none."""
    subject, whole = trials.subject, trials.steps // 3
    own = min(subject.config.train.warmup, whole)
    other = trials.run(subject.config, warmup=0 if own else whole)
    gain = trials.gain(other.loss)
    measured = f"with {'no' if own else 'a'} warmup, {trials.steps} steps reach {other.loss:.2f}, "
    measured += f"in place of {trials.own.loss:.2f}"
    usual = subject.usual().train.warmup
    blames = []
    if not own:  # the more of what a better rate gains a warmup alone can gain, the more it's the warmup
        share = (trials.own.loss - other.loss) / max(trials.own.loss - best, 1e-9)
        weight = certainty(gain, _ENOUGH) * min(max(share, 0.0), 1.0)
        if not subject.config.model.pre_norm:  # they need one (Xiong et al. 2020), which often shows only later
            weight = max(weight, 0.75 * subject.unlearned)
            measured += "; there was none, and post-norm models need one"
        blames = [Blame("train.warmup", weight * _doubt(subject), f"--train.warmup={usual}", "there is no warmup")]
    return Finding("warmup", measured, {"own": trials.own.loss, "other": other.loss}, blames)


def _settings(trials: Trials) -> Iterator[Finding]:
    """Compare the user's settings with the usual ones: all at once, then one by one if those are better."""
    subject = trials.subject
    given = [
        it
        for it in subject.config.by_origin().get("user", ())
        if it.startswith(("model.", "train.")) or it == "data.batch_tokens"
    ]
    given = [it for it in given if it not in _SKIPPED]
    usual = subject.usual()
    changed = [it for it in given if usual.value(it) != subject.config.value(it)]
    if not changed:
        yield Finding("settings", "every setting that you gave has its usual value")
        return
    try:
        all_usual = trials.run(usual)
    except ClearheadError:
        return
    total = trials.gain(all_usual.loss)
    measured = (
        f"with the usual settings, {trials.steps} steps reach {all_usual.loss:.2f} in place of {trials.own.loss:.2f}"
    )
    yield Finding("settings", measured, {"usual": all_usual.loss, "own": trials.own.loss, "changed": changed})
    if total < 0.02:
        return
    groups = [[it] for it in changed if it not in _SIZES]
    groups += [sizes] if (sizes := [it for it in changed if it in _SIZES]) else []
    for names in groups:
        try:
            config = subject.usual(*(it for it in given if it not in names))
        except ClearheadError:  # the others need it
            continue
        reached = trials.run(config).loss
        gain = trials.gain(reached)
        now = ", ".join(f"{it}={spell(subject.config.value(it))}" for it in names)
        value = [f"--{it}={_spelled(config.value(it))}" for it in names]
        measured = f"without {now}, {trials.steps} steps reach {reached:.2f} in place of {trials.own.loss:.2f}"
        weight = certainty(gain, _ENOUGH) * _doubt(subject)
        weight *= min(gain / total, 1.0) if len(groups) > 1 else 1.0
        title = f"{now} slows the learning"
        if names == ["train.lr"]:
            title = _rate_title(subject.config.train.lr, config.train.lr)
        yield Finding(names[0], measured, {"gain": gain}, [Blame(names[0], weight, " ".join(value), title)])


def _spelled(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else spell(value).strip("'")


def _doubt(subject: Subject) -> float:
    """Return a factor for settings that only seem bad in short trainings: lower if the run has learned much."""
    return 0.5 + 0.5 * subject.unlearned
