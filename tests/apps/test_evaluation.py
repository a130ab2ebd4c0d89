"""The record of an evaluation, apart from any model."""

import numpy as np

from clearhead.apps.evaluation import Evaluation
from clearhead.config import DecodeConfig
from clearhead.scoring.translation_scores import score, sentence_chrf
from clearhead.tasks.base import EvaluationResult


def test_what_tells_the_best_lines_from_the_worst_is_computed_once() -> None:
    answers, references, calls = ["a dog", "no cat"], [["a dog"], ["a cat"]], []

    def singly() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"chrf": np.array(sentence_chrf(answers, references))}

    judged = EvaluationResult(score(answers, references), ["un chien", "un chat"], answers, references, singly)
    evaluation = Evaluation(judged, ["file.tsv"], DecodeConfig(), None, 0, 0)
    assert not calls  # nobody has asked yet
    text, lines = evaluation.report(), evaluation.lines(1)
    assert lines["best"][0]["source"] == "un chien" and lines["worst"][0]["source"] == "un chat"
    assert text.index("The best") < text.index("un chien") and len(calls) == 1


def test_the_most_typical_lines_are_those_in_the_middle() -> None:
    values = [0.0, 0.9, 0.5, 0.1, 0.52, 1.0, 0.45]
    texts = [str(value) for value in values]
    references = [[it] for it in texts]
    judged = EvaluationResult(score(texts, references), texts, texts, references, lambda: {"chrf": np.array(values)})
    lines = Evaluation(judged, ["file.tsv"], DecodeConfig(), None, 0, 0).lines(3)
    assert {kind: [line["source"] for line in each] for kind, each in lines.items()} == {
        "best": ["1.0", "0.9", "0.52"],
        "worst": ["0.0", "0.1", "0.45"],
        "typical": ["0.5", "0.52", "0.45"],
    }


def test_the_page_shows_an_empty_answer_as_such() -> None:
    judged = EvaluationResult(score([""], [["a dog"]]), ["un chien"], [""], [["a dog"]], lambda: {"chrf": np.zeros(1)})
    page = Evaluation(judged, ["file.tsv"], DecodeConfig(), None, 0, 0).report()
    assert "\n       model\n   reference  a dog\n" in page
