"""Each probe blames its cause, on logs and data made for it, and nothing else."""

import math
import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from clearhead.apps.diagnosis.causes import ranked
from clearhead.apps.diagnosis.data_probes import media_features, relation, relation_of, text_features
from clearhead.apps.diagnosis.log_probes import log_probes
from clearhead.config import Config
from clearhead.training.report.floors import Floors


def blamed(
    losses: Sequence[float],
    scores: Sequence[float],
    floors: Floors | None = None,
    *,
    usual: int | None = None,
    unlearned: float = 1.0,
    best: str = "loss",
    **settings: Any,
) -> dict[str, float]:
    """The causes that the log of a run speaks for, with their weights. Losses and scores come every 10 steps."""
    log = [{"step": 10 * n, "loss": loss, "grad_norm": 1.0} for n, loss in enumerate(losses, 1)]
    subject: Any = SimpleNamespace(
        losses=[(it["step"], it["loss"]) for it in log],
        log=log,
        scores=[(10 * n, score) for n, score in enumerate(scores, 1)],
        floors=floors,
        reached=min(scores, default=None),
        usual_steps=usual,
        finished=True,
        unlearned=unlearned,
        at_frequencies=unlearned,
        config=Config().override({"train.lr": 0.1, "train.steps": 30, "train.best": best, **settings}),
    )
    return {it.cause: it.weight for it in ranked([*log_probes(subject)])}


def test_a_run_that_learned_is_blamed_for_nothing() -> None:
    assert not blamed([7, 5, 4, 3, 2.6, 2.5], [6, 4, 3, 2.8, 2.7], Floors(6, 4), usual=60, unlearned=0.0)


def test_a_run_without_a_log_has_no_findings() -> None:
    assert not blamed([], [])


@pytest.mark.parametrize("last", [9.0, math.inf, math.nan])
def test_a_loss_that_rises_again_diverged(last: float) -> None:
    assert "train.lr" in blamed([7, 5, 4, 6, last, last, last], [])


def test_a_loss_near_zero_that_doubles_did_not_diverge() -> None:
    assert not blamed([7, 0.5, 0.02, 0.01, 0.02, 0.02, 0.02], [])


def test_losses_that_differ_by_chance_did_not_diverge() -> None:
    assert not blamed([0.98, 0.5, 0.3, 0.22, 0.3, 0.14, 0.24, 0.2, 0.14, 0.28, 0.21], [])


def test_a_loss_of_frequencies_means_that_nothing_was_learned() -> None:
    assert blamed([7, 6.2, 6.1], [6.2, 6.1], Floors(6, 4))["unlearned"] > 0.4


def test_a_validation_loss_that_rises_is_overfitting_most_of_all_if_the_newest_weights_are_kept() -> None:
    kept, newest = (blamed([7, 4, 2, 1], [5, 3, 4, 5], best=best)["overfitting"] for best in ("loss", "newest"))
    assert 0.2 < kept < newest


def test_losses_that_rise_together_are_no_overfitting() -> None:
    assert "overfitting" not in blamed([7, 4, 4, 4], [5, 3, 4, 5])


def test_far_fewer_steps_than_usual_are_to_blame_if_little_was_learned() -> None:
    assert blamed([8, 7, 6], [8, 7, 6], usual=1000)["few_steps"] > 0.4
    long = [8, 7.8, 7.6, 7.4, 7.2, 7, 6]
    assert "few_steps" not in blamed(long, long, usual=1000, unlearned=0.0)
    assert "few_steps" not in blamed([8, 7, 6], [8, 7, 6], usual=30)


def test_a_run_of_fewer_than_50_steps_that_still_learned_is_too_short_whatever_it_reached() -> None:
    for steps, is_blamed in ((4, True), (9, False)):
        losses = [*np.linspace(8, 4, steps)]
        assert ("few_steps" in blamed(losses, losses, usual=1000, unlearned=0.0)) == is_blamed


def test_few_steps_are_hardly_to_blame_if_the_second_half_brought_little() -> None:
    assert blamed([8, 6.2, 6.1, 6.05], [8, 6.2, 6.1, 6.05], usual=1000).get("few_steps", 0.0) < 0.4
    assert "few_steps" not in blamed([8, 5, 9, 7, 6], [8, 5, 9, 7, 6], usual=1000)  # it only recovered


def test_a_run_that_ended_early_by_its_patience_is_reported_with_it() -> None:
    early = {"train.patience": 1, "train.steps": 300}
    assert blamed([8, 7, 6], [8, 7, 7.5], **early)["train.patience"] > 0.4
    assert "train.patience" not in blamed([8, 7, 6], [8, 7, 7.5], unlearned=0.0, **early)


WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]


def sentences(n: int, seed: int = 0) -> list[str]:
    dice = random.Random(seed)
    return [" ".join(dice.choices(WORDS, k=dice.randint(1, 6))) for _ in range(n)]


@pytest.mark.parametrize("kind", ["texts", "labels", "lengths", "numbers", "no spaces", "codes"])
def test_sides_that_belong_together_are_related(kind: str) -> None:
    sources = sentences(1000)
    targets = {
        "texts": [" ".join(f"un{word}" for word in reversed(it.split())) for it in sources],
        "labels": ["odd" if "one" in it or "seven" in it else "even" for it in sources],
        "lengths": [f"{n} " + "x" * len(it) for n, it in enumerate(sources)],
        "numbers": [str(3.5 * len(it.split())) for it in sources],
        "codes": [f"{len(it.split()) * 7}-{it[0].encode().hex()}-{n}" for n, it in enumerate(sources)],
        "no spaces": ["".join(chr(0x4E00 + WORDS.index(word)) for word in it.split()) * 4 for it in sources],
    }[kind]
    ratio, doubt = relation(sources, targets)
    assert ratio > 2 and doubt < 0.01
    random.Random(0).shuffle(targets)
    ratio, doubt = relation(sources, targets)
    assert ratio < 1.3 and doubt > 0.6


def test_images_and_recordings_are_related_to_their_labels_by_simple_properties() -> None:
    dice = np.random.default_rng(0)
    labels = dice.integers(0, 3, 400)
    images = [dice.integers(0, 200, 64) + np.repeat([40 * label, 0], 32) for label in labels]
    waves = [np.sin(np.arange(2000) * (0.1 + label)) * 300 + dice.normal(0, 100, 2000) for label in labels]
    for numbers, modality in ((images, "image"), (waves, "audio")):
        one = media_features([np.asarray(it).astype("<i2") for it in numbers], modality)
        ratio, doubt = relation_of(one, text_features([*map(str, labels)]))
        assert ratio > 2 and doubt < 0.01
        ratio, doubt = relation_of(one, text_features([*map(str, dice.permutation(labels))]))
        assert ratio < 1.5 and doubt > 0.6


def test_ids_arent_related_to_texts() -> None:
    ratio, doubt = relation(sentences(1000), [str(random.Random(n).randrange(10**6, 10**7)) for n in range(1000)])
    assert ratio < 1.3 and doubt > 0.6


def test_a_side_that_is_always_the_same_and_few_rows_have_no_relation_to_measure() -> None:
    assert relation(sentences(1000), ["yes"] * 1000) == relation(sentences(20), sentences(20)) == (0, 0)
