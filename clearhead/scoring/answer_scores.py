"""How good answers from a text are: exact match and F1 by SQuAD's rules, and answers that need no model.

The rules are those of the official scripts, evaluate-v1.1 (Rajpurkar et al. 2016) and evaluate-v2.0 (2018); those give
per cent.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .resampling import Estimate, estimates
from .sentences import sentences, word_places, words
from .translation_scores import References, check

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WINDOW, _AROUND = 4, 10  # words
# Words that a question shares with any sentence. Of other languages than English all words count.
_FUNCTION_WORDS = (
    " a about after all an and any are as at be been before being but by can could did do does during for from had has "
    "have how if in into is it its kind many most much name named of on or s that the their there these they this "
    "those to type used was were what when where which who whom whose why will with would "
)


@dataclass(frozen=True, eq=False)
class AnswerScores:
    """Exact match and F1 of N questions, 0 to 1."""

    exact_match: Estimate
    f1: Estimate
    answerable: NDArray[np.bool_]  # (N,)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Both, by their names."""
        return {"f1": self.f1, "exact_match": self.exact_match}

    def measures(self) -> dict[str, Any]:
        """Plain values for JSON: both means and the ends of their 95% intervals."""
        return self.exact_match.named("exact_match") | self.f1.named("f1")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; where some questions have no answer, with the means of both kinds."""
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
        """The same of both kinds in words, a line each; nothing where there is one kind alone."""
        values = self.to_dict()
        kinds = {"with an answer": values.get("answerable", {}), "without one": values.get("unanswerable", {})}
        return "\n".join(
            f"{name:<15} {it['questions']:>8,}  exact match {it['exact_match']:.4f}  F1 {it['f1']:.4f}"
            for name, it in kinds.items()
            if "f1" in it
        )


def answer_scores(answers: Sequence[str], references: References, *, unanswerable: bool = False) -> AnswerScores:
    """Exact match and F1 of each answer with the reference that suits it best, each measure its own.

    By the rules of SQuAD v1; where there may be unanswerable questions, of v2: they have no references, and the empty
    answer is right. No answers, and a question without a reference in v1, are a DataError.
    """
    check(answers, [texts or [""] for texts in references] if unanswerable else references)
    values = np.zeros((len(answers), 2))
    for row, answer, texts in zip(values, answers, references):
        if unanswerable:  # v2 leaves out references of articles and punctuation alone
            texts = [text for text in texts if normalised(text)] or [""]
        row[0] = max(normalised(answer) == normalised(text) for text in texts)
        row[1] = max(_f1(answer, text, empty_equals_empty=unanswerable) for text in texts)
    exact_match, f1 = estimates(values)
    return AnswerScores(exact_match, f1, np.array([bool(len(texts)) for texts in references]))


def normalised(text: str) -> str:
    """In lower case, without ASCII punctuation, the English articles and white space but single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _f1(answer: str, reference: str, *, empty_equals_empty: bool) -> float:
    """Of the words that both have; of two texts without words v1 says 0 and v2 says 1."""
    said, wanted = normalised(answer).split(), normalised(reference).split()
    if not said and not wanted:
        return float(empty_equals_empty)
    return 2 * (Counter(said) & Counter(wanted)).total() / (len(said) + len(wanted))  # 2 P R / (P + R)


def first_sentence(context: str, question: str) -> str:
    """The answer of one who does not read the question; of an empty text, "", as of the other two."""
    return next(iter(sentences(context)), "")


def closest_sentence(context: str, question: str) -> str:
    """The first of the sentences that have most of the question's content words, each counted once."""
    asked = content_words(question)
    return max(sentences(context), key=lambda sentence: len(asked.intersection(words(sentence))), default="")


def closest_window(context: str, question: str) -> str:
    """Four successive words that stand near those of the question, and are not among them.

    Of all windows that one is taken around which (itself and ten words on each side) most content words of the question
    stand, each counted once; of several, the one that has fewest of them itself, then the one that is nearest to them,
    then the first. A shorter text is taken whole.
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
    """The words of a question without those that any sentence may have."""
    return {word for word in words(question) if f" {word} " not in _FUNCTION_WORDS}
