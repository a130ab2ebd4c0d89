import itertools
import json
import re
import string
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import DataError
from clearhead.scoring.answer_scores import (
    answer_scores,
    closest_sentence,
    closest_window,
    content_words,
    first_sentence,
    normalised,
)

answers = st.lists(st.sampled_from(["a", "The", "cat", "Sat", "mat.", "..."]), max_size=5).map(" ".join)


def test_case_punctuation_articles_and_white_space_do_not_count() -> None:
    assert normalised("  The  \tU.S.-army, an  Hour ") == "usarmy hour"
    assert normalised("another anthem, 'a' theory") == "another anthem theory", "only whole words are articles"
    found = answer_scores(["the Cat!", "cat", "cats"], [["a cat"], ["dog", "Cat"], ["cat"]])
    assert found.exact_match.values.tolist() == [1, 1, 0] and found.f1.values.tolist() == [1, 1, 0]


def test_f1_by_hand() -> None:
    found = answer_scores(["the black cat sat", "x x y"], [["a black dog sat down"], ["x z"]])
    assert found.f1.values.tolist() == pytest.approx(
        [2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4), 2 * (1 / 3) * (1 / 2) / (5 / 6)]
    )
    assert found.f1.mean == pytest.approx(found.f1.values.mean())


@given(answers, st.lists(answers, min_size=1, max_size=2), st.booleans())
@settings(deadline=None, max_examples=10)
def test_another_reference_never_hurts_and_what_matches_exactly_has_all_words(
    answer: str, references: list[str], unanswerable: bool
) -> None:
    def both(texts: list[str]) -> tuple[float, float]:
        found = answer_scores([answer], [texts], unanswerable=unanswerable)
        return found.exact_match.mean, found.f1.mean

    exact, f1 = both(references)
    assert 0 <= f1 <= 1 and exact in (0, 1) and (not exact or f1 == 1 or not normalised(answer))
    with_words = [text for text in references if normalised(text)]
    if unanswerable and not with_words:
        assert exact == f1 == (not normalised(answer))
    else:
        alone = [both([text]) for text in (with_words if unanswerable else references)]
        assert (exact, f1) == (max(it[0] for it in alone), max(it[1] for it in alone))


def official(answer: str, references: list[str], *, version: int) -> tuple[float, float]:
    """As evaluate-v1.1.py and evaluate-v2.0.py go about it, step by step."""

    def normalize(text: str) -> list[str]:
        text = "".join(it for it in text.lower() if it not in set(string.punctuation))
        return re.sub(r"\b(a|an|the)\b", " ", text).split()

    def f1(gold: list[str], said: list[str]) -> float:
        if version == 2 and (not gold or not said):
            return float(gold == said)
        same = sum((Counter(gold) & Counter(said)).values())
        if same == 0:
            return 0.0
        precision, recall = same / len(said), same / len(gold)
        return 2 * precision * recall / (precision + recall)

    golds = [normalize(it) for it in references]
    if version == 2:
        golds = [it for it in golds if it] or [[]]
    return max(float(it == normalize(answer)) for it in golds), max(f1(it, normalize(answer)) for it in golds)


@given(st.text("aAn the.,-'é\t1"), st.lists(st.text("aAn the.,-'é\t1"), max_size=3), st.booleans())
@settings(deadline=None, max_examples=25)
def test_any_answer_scores_as_by_the_official_scripts(answer: str, references: list[str], unanswerable: bool) -> None:
    if references or unanswerable:
        found = answer_scores([answer], [references], unanswerable=unanswerable)
        expected = official(answer, references, version=1 + unanswerable)
        assert (found.exact_match.mean, found.f1.mean) == pytest.approx(expected)


def test_an_unanswerable_question_wants_the_empty_answer() -> None:
    found = answer_scores(["", "cat", "", "a"], [[], [], ["cat"], []], unanswerable=True)
    assert found.exact_match.values.tolist() == found.f1.values.tolist() == [1, 0, 0, 1]
    assert found.answerable.tolist() == [False, False, True, False]


def test_the_versions_differ_where_no_word_is_left_of_a_reference() -> None:
    """Version 1 finds an exact match without a word in common; version 2 takes such references for none."""
    first, second = (answer_scores(["A"], [["a", "vitamin A"]], unanswerable=it) for it in (False, True))
    assert (first.exact_match.mean, first.f1.mean) == (1, 0)
    assert (second.exact_match.mean, second.f1.mean) == (0, 0)
    only = answer_scores(["A"], [["a"]], unanswerable=True)
    assert (only.exact_match.mean, only.f1.mean) == (1, 1)


def test_the_scores_are_plain_values_and_both_kinds_of_questions_are_told_apart() -> None:
    plain = answer_scores(["cat", "dog"], [["cat"], ["cow"]])
    assert json.loads(json.dumps(plain.to_dict())) == {
        "questions": 2,
        "exact_match": 0.5,
        "exact_match_interval": [0, 1],
        "f1": 0.5,
        "f1_interval": [0, 1],
    }
    mixed = answer_scores(["the cat sat", "", "x"], [["cat"], [], []], unanswerable=True).to_dict()
    assert mixed["answerable"] == {"questions": 1, "exact_match": 0, "f1": pytest.approx(2 / 3)}
    assert mixed["unanswerable"] == {"questions": 2, "exact_match": 0.5, "f1": 0.5}
    assert answer_scores([""], [[]], unanswerable=True).to_dict()["answerable"] == {"questions": 0}


CONTEXT = (
    "Hamlet is a tragedy. It was written by William Shakespeare between 1599 and 1601, and first printed in London. "
    "The play is set in Denmark; Prince Hamlet seeks revenge on his uncle."
)


def test_baselines_by_hand() -> None:
    assert first_sentence(CONTEXT, "Who is sought?") == "Hamlet is a tragedy."
    assert closest_sentence(CONTEXT, "Where was it first printed?").startswith("It was written")
    assert closest_sentence(CONTEXT, "On whom does the prince seek revenge?").startswith("The play")
    assert closest_sentence("The sun. A lion ran. A lion.", "the lion the the") == "A lion ran.", "the first of two"
    assert closest_window("one two Paris is three four five", "Where is Paris?") == "is three four five"
    assert closest_window("It lies on the Seine.", "What?") == "It lies on the", "nothing in common: the first window"


@given(st.lists(st.sampled_from([*"abcdefgh", "lion", "tiger", "bear", "the"]), min_size=5, max_size=40))
def test_the_window_is_the_first_of_the_best_of_all(context: list[str]) -> None:
    asked = {"lion", "tiger", "bear"}

    def rank(start: int) -> tuple[int, int, int]:
        near = context[max(start - 10, 0) : start + 14]
        distances = [
            min(min(abs(i - j) for j in range(start, start + 4)) for i, it in enumerate(context) if it == word)
            for word in asked & set(near)
        ]
        return len(asked & set(near)), -len(asked & set(context[start : start + 4])), -sum(distances)

    ranks = [rank(start) for start in range(len(context) - 3)]
    start = ranks.index(max(ranks))
    assert closest_window(", ".join(context), "Is the lion a tiger or bear?") == ", ".join(context[start : start + 4])


@given(st.text(), st.text())
@settings(deadline=None, max_examples=40)
def test_baselines_answer_with_a_piece_of_the_context(context: str, question: str) -> None:
    for baseline in (first_sentence, closest_sentence, closest_window):
        assert baseline(context, question) in context


def test_short_and_empty_contexts() -> None:
    for baseline, context in itertools.product(
        (first_sentence, closest_sentence, closest_window), ("", " \n", "Paris")
    ):
        assert baseline(context, "Which town?") == context.strip()
    assert closest_window("In Paris, 1900!", "When?") == "In Paris, 1900"


def test_function_words_are_none_of_the_content_words() -> None:
    assert content_words("What is the name of the Queen's dog?") == {"queen", "dog"}
    assert content_words("Wie heißt der Hund?") == {"wie", "heißt", "der", "hund"}, "English ones"


def test_what_cannot_be_scored_is_said() -> None:
    with pytest.raises(DataError, match="no hypotheses"):
        answer_scores([], [], unanswerable=True)
    with pytest.raises(DataError, match="1 hypotheses"):
        answer_scores(["a"], [["a"], []], unanswerable=True)
    with pytest.raises(DataError, match="sentence 2 has no reference"):
        answer_scores(["a", "b"], [["a"], []])
    for unanswerable in (False, True):
        with pytest.raises(DataError, match="sentence 1"):
            answer_scores(["a"], ["ab"], unanswerable=unanswerable)
