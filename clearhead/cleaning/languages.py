"""Texts in the wrong language: swapped or copied sides, and lines in a language that their column doesn't have.

Models of characters learn the languages from the columns themselves.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..data.split import spelling
from .character_model import CharacterModel, Floats, Grams, Ints

_FEWEST = 200  # minimum number of texts to learn from
_SURE = 6.0  # minimum log-likelihood ratio for a text to be in the language of the other column
_APART = 0.8  # minimum share of texts whose language a model recognises; below it, the columns have the same one
_STRANGE = 3.0  # deviations below the median log-probability, from which a cluster of another language may start
_ALONE = 6.0  # the same, for a text that's in no cluster
_MARGIN = 0.35  # minimum log-likelihood ratio per character of a text in another language
_SHORT = 8  # shorter texts count as having so many characters
_ROUNDS = 6
_KNOWN = 0.5  # maximum share of words in such a text that are usual in the column
_OFTEN = 20.0  # how many times more frequent an unusual word is in such texts
_FEW = 0.2  # maximum share of copies; if more are, it's how the data is
_ALIKE = 0.6  # minimum share of common words in a source and its copy
_WORDS = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class LanguageFaults:
    """The indices of swapped, copied and foreign examples, each with a reason, and notes on what wasn't checked."""

    swapped: list[tuple[int, str]]
    copied: list[tuple[int, str]]
    language: list[tuple[int, str]]
    notes: list[str]


class Column:
    """The texts of a column, and a model of their characters."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    @cached_property
    def grams(self) -> Grams:
        return Grams.of(self.texts)

    @cached_property
    def model(self) -> CharacterModel:
        return CharacterModel.fit(self.grams, np.ones(len(self.texts)))

    @cached_property
    def own(self) -> Floats:
        """The log-probability of each text by a model of the other texts."""
        return self.model.log_probabilities(self.grams, are_counted=True)

    def foreign(self, usable: Floats) -> Ints:
        """Return the texts in other languages than the usable ones, which are 1.

        The most improbable texts start a cluster. Texts that its model finds much more probable than the model of the
        other texts join it, until none does. Most words of such a text must be new to the other texts.
        """
        lengths = np.maximum(self.grams.lengths, _SHORT)
        mean = self.own / lengths
        middle = np.median(mean)
        spread = 1.4826 * np.median(np.abs(mean - middle)) + 1e-9
        strange = (mean - middle) / spread * np.sqrt(np.minimum(lengths / np.median(lengths), 2))
        inside = (strange < -_STRANGE) * usable
        for _ in range(_ROUNDS):
            cluster, rest = (CharacterModel.fit(self.grams, it) for it in (inside, usable - inside))
            ratio = cluster.log_probabilities(self.grams, are_counted=True)
            ratio -= rest.log_probabilities(self.grams, are_counted=True)
            ratio += np.log(max(inside.sum(), 1) / len(lengths))
            inside = (ratio > _MARGIN * lengths) * usable
        found = np.flatnonzero((inside > 0) | ((strange < -_ALONE) & (usable > 0)))
        return found[self.known(found) <= _KNOWN]

    def known(self, places: Ints) -> Floats:
        """Return the share of the words of some texts that are usual outside of these texts.

        Words are unusual if they're many times more frequent inside. The text itself doesn't count.
        """
        some = places.tolist()
        inner = Counter(word for i in some for word in self.words[i])
        n_inner, n_outer = max(1, len(some)), max(1, len(self.texts) - len(some))

        def is_known(word: str) -> bool:
            outer = self.counts[word] - inner[word]
            return outer > 0 and (inner[word] - 1) / n_inner <= _OFTEN * outer / n_outer

        return np.array([sum(map(is_known, self.words[i])) / max(1, len(self.words[i])) for i in some])

    @cached_property
    def words(self) -> list[set[str]]:
        return [{*_WORDS.findall(text.lower())} for text in self.texts]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(word for words in self.words for word in words)


def language_faults(columns: Sequence[Column], shunned: set[int]) -> LanguageFaults:
    """Find examples whose sides are swapped, copied or in other languages.

    Args:
        columns: sources and targets, or the texts alone.
        shunned: indices of examples not to learn from or to judge, such as wrongly decoded ones.
    """
    found, n, has_targets = LanguageFaults([], [], [], []), len(columns[0].texts), len(columns) > 1
    if has_targets:
        found.copied.extend(copies(columns[0].texts, columns[1].texts))
    if n < _FEWEST:
        found.notes.append(f"languages weren't checked: fewer than {_FEWEST} lines")
        return found
    usable = np.ones(n)
    usable[sorted(shunned)] = 0
    if has_targets:
        source, target = columns
        is_source, is_target = (  # log-likelihood ratios for being in the language of the own column
            one.own - other.model.log_probabilities(one.grams) for one, other in ((source, target), (target, source))
        )
        if min(np.mean(is_source > 0), np.mean(is_target > 0)) < _APART:
            found.notes.append("swapped sides weren't looked for: both columns seem to be in one language")
        else:
            _judge(found, source, target, is_source, is_target, shunned)
    wrong = sorted({place for faults in (found.swapped, found.copied, found.language) for place, _ in faults})
    usable[wrong] = 0
    for name, column in zip(("source", "target") if has_targets else ("text",), columns):
        found.language.extend((place, f"the {name} is unlike the others") for place in column.foreign(usable).tolist())
    return found


def copies(sources: Sequence[str], targets: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield examples of two words or more whose sides are the same, if they're few."""
    keys = [
        place
        for place, (one, other) in enumerate(zip(sources, targets))
        if len(_WORDS.findall(one)) > 1 and spelling(one) == spelling(other)
    ]
    if len(keys) <= _FEW * len(sources):
        yield from ((place, "both sides are the same") for place in keys)


def _judge(
    found: LanguageFaults, source: Column, target: Column, is_source: Floats, is_target: Floats, shunned: set[int]
) -> None:
    """Add the examples with a side in the language of the other column, if its words are unusual, too."""
    known = {place for place, _ in found.copied} | shunned
    swapped = (is_source + is_target < -_SURE) & (np.maximum(is_source, is_target) < 1)
    places = np.flatnonzero(swapped | (np.minimum(is_source, is_target) < -_SURE))
    usual = np.minimum(source.known(places), target.known(places))
    for place in places[usual <= _KNOWN].tolist():
        one, other = source.words[place], target.words[place]
        if place in known:
            continue
        if swapped[place]:
            found.swapped.append((place, "each side is in the other's language"))
        elif len(one & other) >= _ALIKE * max(1, len(one | other)):
            found.copied.append((place, "both sides are nearly the same"))
        else:
            side = ("source", "target")[int(is_target[place] < is_source[place])]
            found.language.append((place, f"the {side} is in the language of the other side"))
