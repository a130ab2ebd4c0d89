"""The best passages, beside those that are found by trying all of them."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.tasks.answer.windows import ANSWER_TOKENS, NOTHING, Passage, best_spans, ranked
from clearhead.tokenization.offsets import TokensWithOffsets

TEXT = TokensWithOffsets("in New  York now", [4, 5, 6, 7], [0, 3, 8, 13], [2, 6, 12, 16])


def tried_one_by_one(scores: torch.Tensor, allowed: torch.Tensor, longest: int) -> list[tuple[float, tuple[int, int]]]:
    """All spans of one window, best first. (S, 2), (S,)"""
    found = []
    for start, end in itertools.product(range(len(scores)), repeat=2):
        if start <= end < start + longest and allowed[start] and allowed[end]:
            score = scores[start, 0] + scores[end, 1] - scores[0, 0] - scores[0, 1]
            found.append((float(score), (start, end)))
    return sorted(found, reverse=True)


@given(st.integers(2, 12), st.integers(1, 14), st.integers(1, 40), st.integers(0, 10_000))
@settings(deadline=None, max_examples=50)
def test_the_best_spans_are_those_of_trying_all(n_tokens: int, longest: int, count: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(3, n_tokens, 2, dtype=torch.float64, generator=generator)
    allowed = torch.rand(3, n_tokens, generator=generator) < 0.7
    allowed[:, 0] = False
    for row, found in enumerate(best_spans(scores, allowed, count, longest)):
        expected = tried_one_by_one(scores[row], allowed[row], longest)[:count]
        assert [span for _, span in found] == [span for _, span in expected]
        assert [score for score, _ in found] == pytest.approx([score for score, _ in expected])


def test_no_answer_has_more_than_thirty_tokens() -> None:
    scores = torch.zeros(1, 80, 2)
    scores[0, 2, 0] = scores[0, 2 + ANSWER_TOKENS, 1] = 50.0  # one token too far away
    scores[0, 1 + ANSWER_TOKENS, 1] = 10.0
    allowed = torch.ones(1, 80, dtype=torch.bool)
    allowed[0, 0] = False
    [[(score, (start, end))]] = best_spans(scores, allowed, 1)
    assert (start, end) == (2, 1 + ANSWER_TOKENS) and end - start + 1 == ANSWER_TOKENS == 30 and score == 60.0


def test_a_score_is_the_logarithm_of_how_much_likelier_than_none_an_answer_is() -> None:
    scores = torch.randn(1, 9, 2, dtype=torch.float64)
    allowed = torch.arange(9)[None] > 3
    scores[0, 1:4] = -torch.inf
    log_p = scores.log_softmax(1)
    for score, (start, end) in best_spans(scores, allowed, 5)[0]:
        likelier = log_p[0, start, 0] + log_p[0, end, 1] - log_p[0, 0].sum()
        assert score == pytest.approx(float(likelier))


def test_passages_are_the_text_letter_by_letter_each_place_once_with_its_best_score() -> None:
    spans = [(1.0, (1, 2)), (3.0, (0, 0)), (2.5, (1, 2)), (0.5, (3, 3))]
    found = ranked(TEXT, spans, 10, may_lack=False)
    assert found == [Passage("in", 0, 2, 3.0), Passage("New  York", 3, 12, 2.5), Passage("now", 13, 16, 0.5)]
    assert ranked(TEXT, spans, 2, may_lack=False) == found[:2]


@pytest.mark.parametrize(("score", "place"), [(0.1, 1), (-0.1, 0)])
def test_that_there_is_no_answer_is_one_of_them_with_the_score_0_where_that_may_be(score: float, place: int) -> None:
    found = ranked(TEXT, [(score, (0, 0))], 5, may_lack=True)
    assert len(found) == 2 and found[place] == NOTHING == Passage("", None, None, 0.0)


def test_where_no_token_may_be_an_answer_there_is_none() -> None:
    barred = torch.zeros(1, 4, dtype=torch.bool)
    assert best_spans(torch.zeros(1, 4, 2), barred, 3) == [[]]
    assert ranked(TEXT, [], 3, may_lack=False) == [NOTHING]
