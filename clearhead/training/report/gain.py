"""Compare a trained model with the one that it started from, on its own data and on general data."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from torch import nn

from ...decode.registry import IN_MEMORY
from ...errors import ModelError
from ...folder.model_folder import load_weights
from ...model.transformer import build
from ...scoring import score_labels
from ...scoring.bootstrap import Compared
from ...tasks.base import EvaluationResult, Task
from ..init_from import InitFrom
from ..prepare import Prepared
from ..run_data import Say

_HEADING = "Before and after training"
_CHANCE = 0.05  # a smaller two-tailed p-value is significant


def compare_with_start(
    prepared: Prepared,
    judged: Mapping[str, EvaluationResult],
    task: Task,
    model: nn.Module,
    allowed: bool | Collection[str],
    say: Say,
) -> tuple[str, str]:
    """Return heading and text of a model card section: the scores before and after, and which changes are significant.

    Args:
        prepared: the run, with data to check.
        judged: the scores of the trained model on its own held-out data.
        task: the task, which may answer in several processes.
        model: the trained model.
        allowed: which custom classes the folder of the model to start from may name.
        say: receives the changes, too.
    """
    path = Path(prepared.config.train.init_from)
    try:
        start = prepared.start or InitFrom.load(path, allow_custom_code=allowed)
    except ModelError as error:  # a resumed run doesn't need it
        return _HEADING, _uncompared(say, f"The model to start from can't be read: {error.what}")
    labels = start.config.data.labels == prepared.config.data.labels
    if not start.is_same_task(prepared.config) or not labels:
        return _HEADING, _uncompared(
            say, f"{path.name} has another task or other labels, so it has no scores to compare."
        )
    search = replace(prepared.config.decode, n_best=1, engine=IN_MEMORY)
    after = {"check": task.evaluate(model, prepared.check, search), **judged}
    data = {"check": prepared.check, "validation": prepared.valid, "test": prepared.test}
    first = build(start.config.model).to(prepared.config.train.device)
    load_weights(first, start.weights)
    lines = []
    for name, it in after.items():
        before = task.evaluate(first, data[name], search)
        found = task.compare([("before", before), ("after", it)]).by_score
        lines += [f"{name}: {_change(score_labels.LABELS[score], *pair)}" for score, pair in found.items()]
    for line in lines:
        say(line)
    about = f"Scores of `{path.name}` and of this model on the data to check and on its own held-out data."
    return _HEADING, "\n".join([about, "", *(f"- {line}" for line in lines)])


def _uncompared(say: Say, text: str) -> str:
    say(text)
    return text


def _change(label: score_labels.Label, before: Compared, after: Compared) -> str:
    """Return "gain, BLEU 24.1 -> 31.0 (p = 0.001)", for example."""
    better = (after.score < before.score) if label.lower else (after.score > before.score)
    p = after.p_value
    assert p is not None  # all but the first of several systems have one
    effect = "no significant change" if p >= _CHANCE else "gain" if better else "loss"
    return f"{effect}, {label.name} {label.number(before.score)} -> {label.number(after.score)} (p = {p:.3f})"
