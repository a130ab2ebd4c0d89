"""Probes of the log of a run: losses against floors, divergence, overfitting, and whether it was still learning."""

import math
from collections.abc import Iterator

import numpy as np

from ...training.report.floors import memorises, smoothing_floor
from .causes import Blame, Finding, certainty
from .diagnosed_run import Subject

_FEW = 50  # steps of a training that's short in any case
_RISE = 0.1  # rise of the validation loss that counts as overfitting, as a share of its best
_LOST = 0.3  # rise of the training loss that counts as divergence, as a share of its lowest
_LOST_AGAIN = 0.05  # and as a share of what was gained, at most 0.1: losses near 0 double by chance


def log_probes(subject: Subject) -> Iterator[Finding]:
    """Yield the findings about the log. A run without a log yields nothing."""
    if subject.losses:
        yield from _progress(subject)
    if subject.scores:
        yield from _floors(subject)
        yield _validation(subject)


def _progress(subject: Subject) -> Iterator[Finding]:
    losses = subject.losses
    steps, values = np.array([it for it, _ in losses]), np.array([it for _, it in losses])
    norms = np.array([it["grad_norm"] for it in subject.log if "grad_norm" in it] or [0.0])
    values = np.nan_to_num(values, nan=math.inf)
    means = np.convolve(values, np.ones(min(3, len(values))), "valid") / min(3, len(values))
    first, last, lowest = float(values[0]), float(means[-1]), float(means.min())
    measured = f"the training loss went from {first:.2f} to {last:.2f} in {steps[-1]:,} steps"
    lost = last - lowest > max(_LOST * abs(lowest), min(_LOST_AGAIN * (first - lowest), 0.1))
    known = values[np.isfinite(values)]
    noise = float(np.abs(np.diff(known)).mean()) if len(known) > 1 else 0.0  # single batches differ by chance, too
    diverged = not math.isfinite(last) or (len(values) > 3 and lost and last - lowest > noise)
    if diverged:
        at = steps[len(values) - len(means) + int(means.argmin())]
        measured += f", after {lowest:.2f} at step {at:,}: it diverged"
    size = subject.config.model.tgt_vocab_size or subject.config.model.n_classes
    smoothing = subject.config.train.label_smoothing
    numbers = {"first": first, "last": last, "lowest": lowest, "smoothing_floor": smoothing_floor(smoothing, size)}
    blames = (
        [Blame("train.lr", 0.5, f"--train.lr={_tenth(subject)}", "the learning rate is too high")] if diverged else []
    )
    yield Finding("training loss", measured, numbers, blames)
    measured = (
        f"the gradient norm starts at {norms[0]:.2g} and ends at {norms[-1]:.2g}; its median is {np.median(norms):.2g}"
    )
    clip = subject.config.train.clip
    numbers = {"first": float(norms[0]), "median": float(np.median(norms)), "last": float(norms[-1]), "clip": clip}
    yield Finding("gradient norms", measured, numbers)


def _tenth(subject: Subject) -> str:
    return f"{subject.config.train.lr / 10:.2g}"


def _floors(subject: Subject) -> Iterator[Finding]:
    floors, reached = subject.floors, subject.reached
    if floors is None or reached is None:
        return
    pairs = "" if floors.bigram is None else f", and with those of pairs {floors.bigram:.2f}"
    what = "labels" if floors.bigram is None else "tokens"
    measured = (
        f"the validation loss is {reached:.2f}; with the frequencies of {what} alone it would be {floors.unigram:.2f}"
    )
    numbers = {"loss": reached, "unigram": floors.unigram, "bigram": floors.bigram}
    share = certainty(reached / floors.unigram - 0.85, 0.1) if math.isfinite(reached) else 1.0
    yield Finding("loss against frequencies", measured + pairs, numbers, [Blame("unlearned", 0.8 * share)])


def _validation(subject: Subject) -> Finding:
    steps, values = zip(*subject.scores)
    best = int(np.argmin(values))
    newest, kept = values[-1], subject.config.train.best == "newest"
    rise = (newest - values[best]) / max(abs(values[best]), 1e-9)
    measured = f"the validation loss was lowest at step {steps[best]:,}, {values[best]:.3f}"
    measured += f", and {newest:.3f} at the last evaluation" if best < len(values) - 1 else ", at the last evaluation"
    if len(values) > 3:  # the best losses so far, since a recovery from a bad step is no progress
        middle = next(place for place, step in enumerate(steps) if step >= steps[-1] / 2)
        half = min(values[: middle + 1])
        end = values[best]
    else:
        half = next((value for step, value in subject.losses if step >= subject.losses[-1][0] / 2), newest)
        end = subject.losses[-1][1] if subject.losses else newest
    gain = (half - end) / max(abs(newest), 1e-9)  # what the second half of the steps brought
    blames = []
    trained = float(np.mean([it for _, it in subject.losses[-3:]] or [math.nan]))
    if rise > _RISE and memorises(trained, values[best], subject.config):
        remedy = "--train.best=loss keeps the best weights" if kept else "add data, or raise --model.dropout"
        blames.append(Blame("overfitting", certainty(rise, 0.3) if kept else 0.6 * certainty(rise, 0.5), remedy))
    usual, train = subject.usual_steps, subject.config.train
    if train.patience and subject.finished and steps[-1] < 0.8 * train.steps:
        ended = f"train.patience={train.patience} ended the run after {steps[-1]:,} of {train.steps:,} steps"
        early = certainty(1 - steps[-1] / train.steps, 0.5) * certainty(subject.unlearned, 0.7)
        blames.append(Blame("train.patience", early, "--train.patience=0", ended))
    if usual is not None and steps[-1] < usual and gain > 0.02:
        few = certainty(math.log(usual / steps[-1]), math.log(8))
        if steps[-1] >= _FEW or train.begins_trained:
            few *= subject.at_frequencies
        few *= certainty(gain, 0.04)  # if the second half brought little, more steps bring less
        blames.append(Blame("few_steps", few, f"--steps={usual}" if subject.finished else "--resume"))
        measured += f"; the second half of the {steps[-1]:,} steps lowered it by {gain:.0%} ({usual:,} steps are usual)"
    numbers = {
        "best": values[best],
        "best_step": steps[best],
        "last": newest,
        "gain_of_second_half": gain,
        "usual_steps": usual,
    }
    return Finding("validation loss", measured, numbers, blames)
