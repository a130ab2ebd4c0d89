"""A report on an evaluation as a page: how far its answers can be trusted, and where its errors come from."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np

from ..pictures.plain_page import document, line_chart, table
from ..scoring import score_labels
from ..scoring.bootstrap import FloatArray
from ..scoring.confidence import Confidence, quality_of
from ..scoring.costs import Costs, WithCosts
from .evaluation import Evaluation

_ACCEPTED = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.25)  # shares of answers in the table
_ROWS = 20
_LONGEST = 200  # characters of a text
_CHANCE = 0.05  # most probability that a word is listed by chance


def trust_report(
    evaluation: Evaluation,
    *,
    of_texts: bool = True,
    calibrated: Confidence | None = None,
    costs: Costs | None = None,
) -> str:
    """Return the report as HTML: scores, error rates by share of rejected answers, confusions, suspects, and words.

    Sections without data, such as confusions of translations, are omitted.

    Args:
        evaluation: the answers.
        of_texts: whether the sources are texts.
        calibrated: the calibration of the model (default: by these answers).
        costs: what mistakes cost. Confusions are then ordered by their cost.
    """
    judged, values = evaluation.judged, evaluation.scores.to_dict()
    rows = score_labels.rows(values, evaluation.too_long)
    parts = [f"<p>{score_labels.count_of(values)} of {escape(' + '.join(evaluation.data))}</p>", table((), rows)]
    scores = judged.singly()
    found = quality_of(scores)
    if found is not None and judged.answers:
        measure, quality = found
        measured = None if judged.certainty is None else Confidence.of(judged.certainty, scores)
        confidence = calibrated or measured
        parts += _rates(measured, confidence) if measured and confidence else ()
        if costs and (sure := _confidence(evaluation, confidence)) is not None:
            parts += _rejecting(evaluation, costs, values, sure)
        if measure == "accuracy":
            parts += _confusions(evaluation, costs)
        if confidence is not None and judged.certainty is not None:
            parts += _suspects(evaluation, confidence, judged.certainty, quality)
        parts += _words(judged.sources, 1 - quality) if of_texts else ()
    return document("Evaluation", "".join(parts))


def with_costs(evaluation: Evaluation, costs: Costs, calibrated: Confidence | None) -> Evaluation:
    """Add the mean cost, and the confidence below which rejecting is cheapest, to the scores of a classifier.

    Args:
        evaluation: the answers.
        costs: what mistakes cost.
        calibrated: the calibration of the model. None calibrates by these answers.
    """
    judged = evaluation.judged
    labels, sure = _labels(evaluation), _confidence(evaluation, calibrated or judged.confidence())
    scores = WithCosts(judged.scores, costs.to_dict(labels, evaluation.answers, sure))
    return replace(evaluation, judged=replace(judged, scores=scores))


def _labels(evaluation: Evaluation) -> list[str]:
    return [it[0] for it in evaluation.references]


def _confidence(evaluation: Evaluation, calibrated: Confidence | None) -> FloatArray | None:
    """Return the confidence of each answer (N,), or None if it's unknown."""
    certainty = evaluation.judged.certainty
    return None if certainty is None or calibrated is None else np.array([*map(calibrated, certainty.tolist())])


def _rates(measured: Confidence, confidence: Confidence) -> Iterator[str]:
    every = [*measured.thresholds(confidence)]
    error = "error rate" if confidence.measure in ("accuracy", "exact_match") else f"1 - {confidence.measure}"
    yield "<h2>Reject uncertain answers</h2>"
    yield (
        f"<p>If you reject the answers of the lowest confidence (<code>--reject-below</code>), "
        f"the {error} of the others falls.</p>"
    )
    rows = []
    for share in _ACCEPTED:
        it = min(every, key=lambda one: abs(one.accepted - share))
        row = (f"{1 - it.accepted:.1%}", f"{it.error:.2%}", f"{it.low:.2%} to {it.high:.2%}", f"{it.confidence:.4f}")
        rows += [row] if row not in rows else []
    yield table(("rejected", error, "95% interval", "lowest confidence"), rows)
    points = [(1 - it.accepted, it.error) for it in reversed(every)]
    highest = max(y for _, y in points)
    label = f"{error}, from 0 to {highest:.1%}, by share of rejected answers, from 0 to {points[-1][0]:.0%}"
    yield line_chart({error: points}, label)


def _rejecting(
    evaluation: Evaluation, costs: Costs, values: Mapping[str, Any], confidence: FloatArray
) -> Iterator[str]:
    points = costs.rejecting(_labels(evaluation), evaluation.answers, confidence)
    if points:
        yield "<h2>Reject where it's cheaper</h2>"
        yield f"<p>{escape(score_labels.cheapest_rejection(values['cheapest_rejection']).capitalize())}.</p>"
        line, mean = [(share, cost) for _, share, cost in points], points[0][2]
        highest = max(cost for _, cost in line)
        label = f"mean cost, from 0 to {highest:.4g}, by share of rejected answers, from 0 to 100%"
        yield line_chart({"mean cost": line, "without rejecting": [(0.0, mean), (1.0, mean)]}, label)


def _confusions(evaluation: Evaluation, costs: Costs | None) -> Iterator[str]:
    wrong = Counter[tuple[str, str]]()
    for answer, references in zip(evaluation.answers, evaluation.references):
        if answer not in references:
            wrong[references[0], answer] += 1
    if not wrong:
        return
    of, so_far, rows = Counter(_labels(evaluation)), 0.0, []
    found = {pair: (count, count * (costs.of(*pair) if costs else 1)) for pair, count in wrong.items()}
    total = sum(cost for _, cost in found.values()) or 1
    for (right, answer), (count, cost) in sorted(found.items(), key=lambda it: (-it[1][1], -it[1][0]))[:_ROWS]:
        so_far += cost
        each = [f"{cost / count:,.6g}", f"{cost:,.6g}"] * bool(costs)
        shares = f"{cost / total:.1%}", f"{so_far / total:.1%}"
        rows.append((right, answer, f"{count:,}", f"{of[right]:,}", *each, *shares))
    yield f"<h2>{'Confusions by cost' if costs else 'Frequent confusions'}</h2>"
    heads = ("correct label", "answer", "errors", "of", *["cost of each", "total cost"] * bool(costs))
    yield table((*heads, f"share of all {'costs' if costs else 'errors'}", "with those above"), rows)


def _suspects(
    evaluation: Evaluation, confidence: Confidence, certainty: FloatArray, quality: FloatArray
) -> Iterator[str]:
    wrong = [place for place in (-certainty).argsort(kind="stable").tolist() if quality[place] < 0.5][:_ROWS]
    if not wrong:
        return
    yield f"<h2>Suspect {'labels' if confidence.measure == 'accuracy' else 'references'}</h2>"
    yield "<p>Errors that the model was most confident of. In some of them, the data may be wrong.</p>"
    rows = []
    for place in wrong:
        texts = " / ".join(evaluation.references[place]), evaluation.answers[place], str(evaluation.sources[place])
        rows.append((f"{confidence(certainty[place]):.2f}", *map(_cut, texts)))
    yield table(("confidence", "in the data", "answer", "source"), rows)


def _words(sources: Sequence[str], errors: FloatArray) -> Iterator[str]:
    """Yield the words whose texts have more errors than chance explains.

    By chance, a mean error of m in n texts has at most the probability exp(-n KL(m, mean of all)) (Hoeffding 1963),
    times the number of words that are tried.
    """
    of_word = defaultdict[str, list[float]](list)
    for source, error in zip(sources, errors.tolist()):
        for word in {*re.findall(r"\w+", str(source).lower())}:
            of_word[word].append(error)
    mean = float(errors.mean())
    found = []
    for word, own in of_word.items():
        m = sum(own) / len(own)
        if m > mean > 0 and (chance := len(of_word) * math.exp(-len(own) * _divergence(m, mean))) < _CHANCE:
            found.append((chance, word, f"{len(own):,}", f"{m:.1%}"))
    if found:
        yield "<h2>Words behind the errors</h2>"
        yield f"<p>Texts with these words have more errors than all texts ({mean:.1%}), and not by chance.</p>"
        yield table(("word", "texts", "mean error"), [row for _, *row in sorted(found)[:_ROWS]])


def _divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence of two probabilities of an error, in nats."""
    return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
