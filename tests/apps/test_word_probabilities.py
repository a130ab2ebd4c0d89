import math
from pathlib import Path

import pytest

import clearhead


@pytest.mark.parametrize("text", ["She sings.", "The cat is black."])
def test_the_probabilities_of_words_and_of_the_end_are_that_of_the_answer(model_folder: Path, text: str) -> None:
    app = clearhead.load(model_folder)
    [found] = app.results([text])
    words = app.words(found)
    assert [word for word, _ in words] == found.text.split() != []
    ends = math.exp(sum(found.logprobs[len(found.tokens) :]))
    assert math.prod(p for _, p in words) * ends == pytest.approx(math.exp(found.log_probability))
