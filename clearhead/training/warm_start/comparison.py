"""Compare a warm start with the same training without it, for the model card and the log."""

from collections.abc import Collection
from pathlib import Path

from ...config.custom_code import custom_parts
from ...decode.registry import IN_MEMORY
from ...folder.checkpoint import METRICS
from ...folder.model_folder import load_model_folder, load_weights, read_config
from ...model.transformer import build
from ...scoring import score_labels
from ...scoring.bootstrap import Compared
from ...tasks.base import EvaluationResult
from ..prepare import Prepared
from ..report.card import table
from ..report.metrics import read_metrics

_HEADING = "With and without pretraining on the texts"
_CHANCE = 0.05  # a smaller two-tailed p-value is significant


def compare(
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
        return _HEADING, f"{text}\n\nThe effect wasn't measured: nothing was held out.", ""
    systems = {"without": _judge_baseline(without, prepared), "with": judged}
    scores = table({name: it.scores.to_dict() for name, it in systems.items()}, "pretraining")
    verdict = _verdict(score_labels.LABELS[score], *prepared.task.compare([*systems.items()]).by_score[score])
    what = f"pretraining on the texts{f' and averaging {n_runs} runs' if n_runs > 1 else ''} {verdict}"
    text = f"{text}\n\n{scores}\n\n{what[0].upper()}{what[1:]}. The model without it is in `{without.name}`."
    return _HEADING, text, what


def _judge_baseline(without: Path, prepared: Prepared) -> EvaluationResult:
    folder = load_model_folder(without, allow_custom_code=custom_parts(prepared.config).values())
    model = build(folder.config.model).to(folder.config.train.device)
    load_weights(model, folder.weights)
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
    p = with_it.p_value
    assert p is not None  # all but the first of several systems have one
    better = (with_it.score < without.score) if label.lower else (with_it.score > without.score)
    if p >= _CHANCE:
        effect = "may have helped, but the difference could be chance" if better else "didn't help measurably"
    else:
        effect = "helped" if better else "made the model worse"
    numbers = f"{label.name} {label.number(with_it.score)} with it, {label.number(without.score)} without"
    return f"{effect}: {numbers} (p = {p:.3f})"
