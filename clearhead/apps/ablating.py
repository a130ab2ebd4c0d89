"""What a trained model can do without each of its parts, on data of its task."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from .. import __version__
from ..config import DecodeConfig
from ..errors import ConfigError, did_you_mean
from ..inspection.ablation.ablation_report import Ablation, Measure, Study
from ..inspection.ablation.study import KeptOutcomes, Outcome, Row, Watch, fingerprint, is_changed_from_outside, study
from ..inspection.record.switches import KINDS, Switch, switches
from ..scoring.score_labels import LABELS
from ..scoring.significance import Compared, compare_means
from ..tasks.base import Judged, Scorable, Task

if TYPE_CHECKING:
    from .app import App

FOLDER = "ablation"  # in that of the model
_HOOKED = "the model has hooks, by which it may do something else than its weights say"


@dataclass(frozen=True)
class Asked:
    """Which parts are switched off, on how many texts (None: all), by which score, and whether results are kept."""

    parts: str
    limit: int | None
    score: str | None
    keep: bool

    def check(self, verb: str, scores: Sequence[str]) -> None:
        """A ConfigError for what there is not."""
        if self.parts not in (known := (*KINDS, "all")):
            raise ConfigError(
                f"parts = {self.parts!r} are none; expected {', '.join(known)}{did_you_mean(self.parts, known)}"
            )
        if self.score is not None and self.score not in scores:
            raise ConfigError(
                f"score = {self.score!r} does not compare models that learnt to {verb}; "
                f"expected {', '.join(scores)}{did_you_mean(self.score, scores)}"
            )
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit = {self.limit} leaves nothing to measure; expected at least 1")

    def of(self, model: nn.Module) -> list[Switch]:
        """Those parts of a model; a ConfigError where it has none."""
        chosen = [it for it in switches(model).values() if self.parts in ("all", it.kind)]
        if not chosen:
            raise ConfigError(f"parts = {self.parts!r}: the model has none of these; expected parts = 'all'")
        return chosen


def ablate(app: "App", data: Any, asked: Asked, search: DecodeConfig, watch: Watch) -> Ablation:
    """Score a model whole and without each of its parts alone, as `App.ablate` says."""
    task, model = app.task, app.model
    asked.check(task.verb, task.compared_by)
    chosen, sampled = asked.of(model), ""
    search = replace(search, engine="torch")  # whose parts are switched off
    if asked.limit is not None:
        data, sampled = task.form.sample(data, asked.limit, app.config.train.seed, "limit")
    held_out = task.hold_out(data)

    def measure() -> Outcome:
        judged = task.evaluate(model, held_out, search)
        return Outcome(list(judged.answers), {name: values.tolist() for name, values in judged.singly().items()})

    hooked = is_changed_from_outside(model)
    key = _key(app, task.form.to_notes(data), search)
    kept = KeptOutcomes(app.path / FOLDER if asked.keep and not hooked else None, key)
    outcomes, n_kept = study(model, [it.name for it in chosen], measure, kept, watch)
    score = asked.score or task.compared_by[0]
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
            weights=app.weights_digest,
            folder=kept.folder,
            kept=n_kept,
            problem=_HOOKED if asked.keep and hooked else kept.problem,
        ),
    )


def _key(app: "App", notes: list[Any], search: DecodeConfig) -> dict[str, Any]:
    """All that the results depend on."""
    settings = app.config.to_dict()
    return {
        "version": __version__,
        "task": app.task.verb,
        "weights": fingerprint(app.model),
        "tokenizer": _sha256(app.tokenizers.to_json()),
        "data": _sha256(json.dumps(notes)),
        "decode": asdict(search),
        "settings": {"model": settings["model"], "data": settings["data"]},
        "device": app.config.train.device,
    }


def _compare(task: Task, held_out: Scorable, outcomes: Mapping[str, Outcome], score: str) -> list[Compared]:
    """The score of each, the first being the whole model, and the difference to that."""
    singly = {name: {key: np.array(values) for key, values in found.values.items()} for name, found in outcomes.items()}
    systems = [
        (name, Judged(found, held_out.sources, found.answers, held_out.references, partial(singly.__getitem__, name)))
        for name, found in outcomes.items()
    ]
    by_score = task.compare(systems).by_score
    return by_score[score] if score in by_score else compare_means([(name, it[score]) for name, it in singly.items()])


def _row(switch: Switch, whole: Compared, found: Compared, outcomes: Mapping[str, Outcome]) -> Row:
    """The part's row: its score beside that of the whole."""
    assert found.difference is not None and found.p_value is not None  # all but the first have them
    first, own = next(iter(outcomes.values())).answers, outcomes[switch.name].answers
    low, high = found.difference
    texts = max(map(len, outcomes[switch.name].values.values()))
    return Row(
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


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
