"""Ablation: score a trained model without each of its components."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from ...config import DecodeConfig
from ...data.forms import MediaForm
from ...decode.registry import IN_MEMORY
from ...errors import ConfigError, unknown
from ...folder.manifest import digest
from ...inspection.ablation import (
    Ablation,
    KeptOutcomes,
    Measure,
    Outcome,
    PartEffect,
    Study,
    Watch,
    fingerprint,
    has_hooks,
    measure_without_each,
)
from ...inspection.record.switches import KINDS, Switch, switches
from ...loading import LoadedModel
from ...scoring.bootstrap import Compared, compare_means
from ...scoring.score_labels import LABELS
from ...tasks.base import EvaluationResult, HeldOut, Task
from ...version import __version__

FOLDER = "ablation"  # inside the model folder
_HOOKED = "the model has hooks, so its weights alone don't determine its results"


@dataclass(frozen=True)
class AblationOptions:
    """Options of an ablation.

    Args:
        parts: the components to disable in turn: heads, attentions, feed-forwards or all.
        limit: maximum number of texts to score (None: all).
        score: the score to compare (None: the task's main score).
        keep: store the results in the model folder.
    """

    parts: str
    limit: int | None
    score: str | None
    keep: bool

    def check(self, verb: str, scores: Sequence[str]) -> None:
        """Raise ConfigError if the parts, the score or the limit are invalid for this task."""
        _expect_one_of("parts", self.parts, (*KINDS, "all"))
        if self.score is not None:
            _expect_one_of("score", self.score, scores, f" of models that {verb}")
        if self.limit is not None and self.limit < 1:
            what = f"limit={self.limit} leaves no text to score"
            raise ConfigError(what, expected="at least 1", name="limit", value=self.limit)

    def of(self, model: nn.Module) -> list[Switch]:
        """Return switches for the components to disable. Raise ConfigError if the model has none."""
        chosen = [it for it in switches(model).values() if self.parts in ("all", it.kind)]
        if not chosen:
            raise ConfigError(f"the model has no {self.parts}", fix="use parts='all'", name="parts", value=self.parts)
        return chosen


def _expect_one_of(name: str, value: str, known: Sequence[str], of: str = "") -> None:
    if value not in known:
        raise unknown(f"{name}={value!r} isn't a known value{of}", value, known, name)


def ablate(loaded: LoadedModel, data: Any, options: AblationOptions, search: DecodeConfig, watch: Watch) -> Ablation:
    """Score the whole model, then without each of its components. See `App.ablate`.

    Args:
        loaded: the model.
        data: what `inputs.reading_data` yields.
        options: the components, and what to score.
        search: search settings. The engine is always the one whose components can be disabled.
        watch: called before each measurement with the component's name, the number done and the total.
    """
    task, model = loaded.task, loaded.model
    options.check(task.verb, task.compared_by)
    chosen, sampled = options.of(model), ""
    search = replace(search, engine=IN_MEMORY)  # the only engine whose components can be disabled
    if options.limit is not None:
        data, sampled = task.form.sample(data, options.limit, loaded.config.train.seed, "limit")
    held_out = task.hold_out(data)

    def measure() -> Outcome:
        judged = task.evaluate(model, held_out, search)
        return Outcome(list(judged.answers), {name: values.tolist() for name, values in judged.singly().items()})

    hooked = has_hooks(model)
    key = _key(loaded, _identity(task, data), search)
    kept = KeptOutcomes(loaded.path / FOLDER if options.keep and not hooked else None, key)
    outcomes, n_kept = measure_without_each(model, [it.name for it in chosen], measure, kept, watch)
    score = options.score or task.main_score()
    whole, *others = _compare(task, held_out, outcomes, score)
    label = LABELS[score]
    return Ablation(
        Measure(score, label.name, label.digits, label.lower, whole.score, whole.interval),
        tuple(_row(switch, whole, found, outcomes) for switch, found in zip(chosen, others)),
        Study(
            task=task.verb,
            data=[str(path) for path in data.report.paths],
            texts=len(held_out.sources),
            drawn=task.units.sources,
            sampled=sampled,
            cut=held_out.cut,
            decode=asdict(search),
            weights=loaded.weights_digest,
            folder=kept.folder,
            kept=n_kept,
            problem=_HOOKED if options.keep and hooked else kept.problem,
        ),
    )


def _identity(task: Task, data: Any) -> list[Any]:
    """Return JSON values that differ if the data does. Files of images and audio may change under the same name."""
    if isinstance(task.form, MediaForm):
        return list(zip(task.form.contents(data), data.targets))
    return task.form.to_notes(data)


def _key(loaded: LoadedModel, data: list[Any], search: DecodeConfig) -> dict[str, Any]:
    """Return a record of everything that affects the results."""
    settings = loaded.config.to_dict()
    return {
        "version": __version__,
        "task": loaded.task.verb,
        "weights": fingerprint(loaded.model),
        "tokenizer": digest(loaded.tokenizers.to_json().encode()),
        "data": digest(json.dumps(data).encode()),
        "decode": asdict(search),
        "settings": {"model": settings["model"], "data": settings["data"]},
        "device": loaded.config.train.device,
    }


def _compare(task: Task, held_out: HeldOut, outcomes: Mapping[str, Outcome], score: str) -> list[Compared]:
    """Return the score of each outcome and its difference from the first one, the whole model."""
    singly = {name: {key: np.array(values) for key, values in found.values.items()} for name, found in outcomes.items()}

    def judged(name: str, found: Outcome) -> EvaluationResult:
        answers, of_texts = found.answers, partial(singly.__getitem__, name)
        return EvaluationResult(found, held_out.sources, answers, held_out.references, of_texts)

    systems = [(name, judged(name, found)) for name, found in outcomes.items()]
    by_score = task.compare(systems).by_score
    return by_score[score] if score in by_score else compare_means([(name, it[score]) for name, it in singly.items()])


def _row(switch: Switch, whole: Compared, found: Compared, outcomes: Mapping[str, Outcome]) -> PartEffect:
    """Compare the model without one component to the whole model."""
    assert found.difference is not None and found.p_value is not None  # all but the first have them
    first, own = next(iter(outcomes.values())).answers, outcomes[switch.name].answers
    low, high = found.difference
    texts = max(map(len, outcomes[switch.name].values.values()))
    return PartEffect(
        name=switch.name,
        place=switch.place,
        layer=switch.layer,
        head=switch.head,
        score=found.score,
        change=found.score - whole.score,
        low=low,
        high=high,
        p_value=found.p_value,
        changed=sum(a != b for a, b in zip(first, own)) if first else None,
        sure=texts > 1 and not low <= 0 <= high,
    )
