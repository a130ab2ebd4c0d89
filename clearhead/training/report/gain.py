"""Compare a trained model with the one that it started from, or with one trained without a warm start."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ...config import Config
from ...config.custom_code import custom_parts
from ...decode.registry import IN_MEMORY
from ...errors import ModelError
from ...folder.checkpoint import METRICS
from ...folder.model_folder import load_model_folder, load_weights, read_config
from ...model.transformer import build
from ...scoring import score_labels
from ...scoring.bootstrap import Compared
from ...tasks.base import EvaluationResult, Task
from ..init_from import InitFrom
from ..prepare import Prepared
from ..run_data import Say
from .card import table
from .metrics import read_metrics

_HEADING, _WARM_HEADING = "Before and after training", "With and without pretraining on the texts"
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
    first = _loaded(start.config, start.weights, prepared.config.train.device)
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


def _loaded(config: Config, weights: Any, device: str) -> nn.Module:
    model = build(config.model).to(device)
    load_weights(model, weights)
    return model


def _effect(label: score_labels.Label, before: Compared, after: Compared) -> tuple[bool, float]:
    """Return whether a score became better, and the p-value of its change."""
    assert after.p_value is not None  # all but the first of several systems have one
    return (after.score < before.score) if label.lower else (after.score > before.score), after.p_value


def _change(label: score_labels.Label, before: Compared, after: Compared) -> str:
    """Return "gain, BLEU 24.1 -> 31.0 (p = 0.001)", for example."""
    better, p = _effect(label, before, after)
    effect = "no significant change" if p >= _CHANCE else "gain" if better else "loss"
    return f"{effect}, {label.name} {label.number(before.score)} -> {label.number(after.score)} (p = {p:.3f})"


def compare_with_baseline(
    prepared: Prepared, judged: EvaluationResult | None, *, without: Path, pretrained: Path, n_runs: int, score: str
) -> tuple[str, str, str]:
    """Return heading, text and verdict of a model card section. The verdict is "" without a validation split.

    Args:
        prepared: the last stage.
        judged: its final scores.
        without: folder of the baseline.
        pretrained: folder of the pretrained model.
        n_runs: number of times the task was trained from the pretrained weights.
        score: the score that the verdict is based on.
    """
    text = _describe_pretraining(pretrained, custom_parts(prepared.config).values())
    if n_runs > 1:
        text += f" The task was then trained {n_runs} times from there, and the mean of the weights was tried."
    if judged is None:
        return _WARM_HEADING, f"{text}\n\nThe effect wasn't measured: nothing was held out.", ""
    systems = {"without": _judge_baseline(without, prepared), "with": judged}
    scores = table({name: it.scores.to_dict() for name, it in systems.items()}, "pretraining")
    verdict = _verdict(score_labels.LABELS[score], *prepared.task.compare([*systems.items()]).by_score[score])
    what = f"pretraining on the texts{f' and averaging {n_runs} runs' if n_runs > 1 else ''} {verdict}"
    text = f"{text}\n\n{scores}\n\n{what[0].upper()}{what[1:]}. The model without it is in `{without.name}`."
    return _WARM_HEADING, text, what


def _judge_baseline(without: Path, prepared: Prepared) -> EvaluationResult:
    folder = load_model_folder(without, allow_custom_code=custom_parts(prepared.config).values())
    model = _loaded(folder.config, folder.weights, folder.config.train.device)
    search = prepared.config.override({"decode.n_best": 1, "decode.engine": IN_MEMORY}).decode
    return prepared.task.evaluate(model, prepared.valid, search)


def _describe_pretraining(pretrained: Path, allowed: Collection[str]) -> str:
    records = read_metrics(pretrained / METRICS)
    is_denoising = read_config(pretrained, allow_custom_code=allowed).model.topology != "decoder-only"
    what = "with some of their tokens hidden" if is_denoising else "as a language model"
    text = f"The model was first pretrained for {records[-1]['step']:,} steps on the texts alone, {what}"
    name = "hidden_accuracy" if is_denoising else "token_accuracy"
    scored = [it for it in records if f"valid_{name}" in it]
    if not scored:
        return f"{text}."
    accuracy = min(scored, key=lambda it: float(it["valid_loss"]))[f"valid_{name}"]
    tokens = "hidden tokens" if is_denoising else "held-out tokens"
    return f"{text}, and predicted {accuracy:.1%} of the {tokens} correctly."


def _verdict(label: score_labels.Label, without: Compared, with_it: Compared) -> str:
    """Return "helped: accuracy 0.8000 with it, 0.7000 without (p = 0.012)", for example."""
    better, p = _effect(label, without, with_it)
    if p >= _CHANCE:
        effect = "may have helped, but the difference could be chance" if better else "didn't help measurably"
    else:
        effect = "helped" if better else "made the model worse"
    numbers = f"{label.name} {label.number(with_it.score)} with it, {label.number(without.score)} without"
    return f"{effect}: {numbers} (p = {p:.3f})"
