"""The record of an evaluation, apart from any model."""

import numpy as np

from clearhead.config import DecodeConfig
from clearhead.evaluation import Evaluation
from clearhead.tasks.scores import score, sentence_chrf
from clearhead.tasks.task import Judged


def test_what_tells_the_best_lines_from_the_worst_is_computed_once() -> None:
    answers, references, calls = ["a dog", "no cat"], [["a dog"], ["a cat"]], []

    def singly() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"chrf": np.array(sentence_chrf(answers, references))}

    judged = Judged(score(answers, references), ["un chien", "un chat"], answers, references, singly)
    evaluation = Evaluation(judged, ["file.tsv"], DecodeConfig(), None, 0, 0)
    assert not calls  # nobody has asked yet
    text, lines = evaluation.report(), evaluation.lines(1)
    assert lines["best"][0]["source"] == "un chien" and lines["worst"][0]["source"] == "un chat"
    assert text.index("The best") < text.index("un chien") and len(calls) == 1
