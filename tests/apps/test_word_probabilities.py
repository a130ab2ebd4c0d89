import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.api import Translator

TEXT = "The black cat is sleeping in the garden."


@pytest.mark.parametrize("text", ["She sings.", "The cat is black."])
def test_the_probabilities_of_words_and_of_the_end_are_that_of_the_answer(model_folder: Path, text: str) -> None:
    app = clearhead.load(model_folder)
    [found] = app.results([text])
    assert [it.text for it in found.words] == found.text.split() != []
    ends = math.exp(sum(found.logprobs[len(found.tokens) :]))
    assert math.prod(it.probability for it in found.words) * ends == pytest.approx(math.exp(found.log_probability))
    assert app.words(found) == found.words and {it.confidence for it in found.words} == {None}


def test_words_have_the_share_of_right_ones_among_such_words() -> None:
    app = clearhead.load("demo")
    assert isinstance(app, Translator) and app.confidence is not None and app.confidence.words is not None
    [found] = app.results([TEXT])
    assert [it.confidence for it in found.words] == [
        app.confidence.words(math.log(it.probability)) for it in found.words
    ]
    sure = [it.confidence for it in sorted(found.words, key=lambda it: it.probability)]
    assert sure == sorted(sure) and sure[0] < sure[-1]
    [*_, other] = app.results([TEXT], n_best=3)[0].alternatives
    assert [it.text for it in app.words(other)] == other.text.split() != found.text.split()


@pytest.mark.parametrize(
    ("change", "right"),
    [
        (lambda said: said, lambda n: [1.0] * n),
        (lambda said: ["other", *said, "words"], lambda n: [1.0] * n),
        (lambda said: ["nothing"], lambda n: [0.0] * n),
        (lambda said: said[1:], lambda n: [0.0] + [1.0] * (n - 1)),
    ],
)
def test_a_word_is_right_if_a_reference_has_it_in_this_order(
    change: Callable[[list[str]], list[str]], right: Callable[[int], list[float]]
) -> None:
    app = clearhead.load("demo")
    [answer] = app.results([TEXT], n_best=1)
    said = answer.text.split()
    assert len(said) == len({*said}) == 7
    # Of several references, the one that has the most words counts.
    references = [(TEXT, "nothing at all"), (TEXT, " ".join(change(said)))]
    judged = app.evaluate(references).judged
    assert judged.words is not None
    log_p, found = judged.words()
    assert found.tolist() == right(len(said))
    assert np.exp(log_p) == pytest.approx([it.probability for it in answer.words], rel=1e-4)
