"""Scores of extractive answers: exact match and F1 by SQuAD's rules, and baseline answers that need no model.

The rules are those of the official scripts, evaluate-v1.1 (Rajpurkar et al. 2016) and evaluate-v2.0 (2018), which
report percentages.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import Estimate, estimates
from .sentences import sentences, word_places, words
from .translation_scores import References, check

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WINDOW, _AROUND = 4, 10  # words
# English function words. In other languages, all words count as content words.
_FUNCTION_WORDS = (
    " a about after all an and any are as at be been before being but by can could did do does during for from had has "
    "have how if in into is it its kind many most much name named of on or s that the their there these they this "
    "those to type used was were what when where which who whom whose why will with would "
)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """Exact match and F1 of N questions, from 0 to 1."""

    exact_match: Estimate
    f1: Estimate
    answerable: NDArray[np.bool_]  # (N,)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Both scores, keyed by name."""
        return {"f1": self.f1, "exact_match": self.exact_match}

    def measures(self) -> dict[str, Any]:
        """Return plain values for JSON: both means with their 95% intervals."""
        return self.exact_match.named("exact_match") | self.f1.named("f1")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        If some questions have no answer, the values include the means for answerable and unanswerable questions.
        """
        found = {"questions": len(self.answerable)} | self.measures()
        if self.answerable.all():
            return found
        for kind, own in (("answerable", self.answerable), ("unanswerable", ~self.answerable)):
            found[kind] = {"questions": int(own.sum())}
            if own.any():
                found[kind] |= {"exact_match": float(self.exact_match.values[own].mean())}
                found[kind] |= {"f1": float(self.f1.values[own].mean())}
        return found

    def of_kinds(self) -> str:
        """Return a line of scores for questions with an answer and one for those without, or "" if all have one."""
        values = self.to_dict()
        kinds = {"with an answer": values.get("answerable", {}), "without one": values.get("unanswerable", {})}
        return "\n".join(
            f"{name:<15} {it['questions']:>8,}  exact match {it['exact_match']:.4f}  F1 {it['f1']:.4f}"
            for name, it in kinds.items()
            if "f1" in it
        )


def answer_scores(answers: Sequence[str], references: References, *, unanswerable: bool = False) -> AnswerScores:
    """Score each answer by exact match and F1, each against the reference that scores best.

    Args:
        answers: one answer per question.
        references: the correct answers to each question.
        unanswerable: use the rules of SQuAD v2, where the correct answer to a question without references is empty
            (default: the rules of v1).

    Raises:
        DataError: there are no answers, or a question has no reference under the rules of v1.
    """
    check(answers, [texts or [""] for texts in references] if unanswerable else references)
    values = np.zeros((len(answers), 2))
    for row, answer, texts in zip(values, answers, references):
        if unanswerable:  # v2 ignores references with nothing but articles and punctuation
            texts = [text for text in texts if normalised(text)] or [""]
        row[0] = max(normalised(answer) == normalised(text) for text in texts)
        row[1] = max(_f1(answer, text, empty_equals_empty=unanswerable) for text in texts)
    exact_match, f1 = estimates(values)
    return AnswerScores(exact_match, f1, np.array([bool(len(texts)) for texts in references]))


def normalised(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation and English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _f1(answer: str, reference: str, *, empty_equals_empty: bool) -> float:
    """Return F1 of the shared words. For two texts without words, it's 0 in v1 and 1 in v2."""
    said, wanted = normalised(answer).split(), normalised(reference).split()
    if not said and not wanted:
        return float(empty_equals_empty)
    return 2 * (Counter(said) & Counter(wanted)).total() / (len(said) + len(wanted))  # 2 P R / (P + R)


def first_sentence(context: str, question: str) -> str:
    """Return the first sentence and ignore the question. All baselines return "" for an empty text."""
    return next(iter(sentences(context)), "")


def closest_sentence(context: str, question: str) -> str:
    """Return the sentence with the most distinct content words of the question; in a tie, the first one."""
    asked = content_words(question)
    return max(sentences(context), key=lambda sentence: len(asked.intersection(words(sentence))), default="")


def closest_window(context: str, question: str) -> str:
    """Return the window of four consecutive words that is closest to the question's content words.

    Windows are ranked by the number of distinct content words of the question in the window or within ten words of it.
    Ties go to the window that contains the fewest of these words, then to the one nearest to them, then to the first
    one. A text of at most four words is returned whole.
    """
    places, asked = list(word_places(context)), content_words(question)
    here = [word if word in asked else None for word in words(context)]

    def rank(start: int) -> tuple[int, int, int]:
        end, nearest = start + _WINDOW, dict[str, int]()
        for place in range(max(start - _AROUND, 0), min(end + _AROUND, len(here))):
            word = here[place]
            if word is not None:
                distance = max(start - place, place - end + 1, 0)
                nearest[word] = min(distance, nearest.get(word, distance))
        inside = len(set(here[start:end]) - {None})
        return len(nearest), -inside, -sum(nearest.values())

    if not places:
        return ""
    best = max(range(max(len(places) - _WINDOW, 0) + 1), key=rank)
    return context[places[best][0] : places[best : best + _WINDOW][-1][1]]


def content_words(question: str) -> set[str]:
    """Return the words of a question, without function words."""
    return {word for word in words(question) if f" {word} " not in _FUNCTION_WORDS}
