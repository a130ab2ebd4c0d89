"""All sentences of the patterns, and the file that contains them."""

import bz2
from collections.abc import Iterable, Mapping
from itertools import chain

from clearhead.demo.phrasebook import Phrase

from . import (
    patterns_actions,
    patterns_animals,
    patterns_moves,
    patterns_others,
    patterns_people,
    patterns_places,
    patterns_things,
    patterns_times,
    patterns_travel,
)
from .grammar import Part

PATTERNS = [
    *patterns_things.PATTERNS,
    *patterns_people.PATTERNS,
    *patterns_animals.PATTERNS,
    *patterns_actions.PATTERNS,
    *patterns_others.PATTERNS,
    *patterns_moves.PATTERNS,
    *patterns_places.PATTERNS,
    *patterns_travel.PATTERNS,
    *patterns_times.PATTERNS,
]


def draw() -> dict[str, list[Part]]:
    """Draw the sentences of each pattern. The keys are the patterns' names."""
    return {pattern.name: list(pattern.draw()) for pattern in PATTERNS}


def sentences(drawn: Mapping[str, Iterable[Part]]) -> list[Phrase]:
    """Return the sentences of all patterns, without repetitions."""
    found: dict[str, Phrase] = {}
    for part in chain.from_iterable(drawn.values()):
        phrase = Phrase(part.en, part.fr, part.content)
        known = found.setdefault(part.en, phrase)
        assert known.french == part.fr, f"{part.en!r} would be both {known.french!r} and {part.fr!r}"
    return list(found.values())


def compressed(phrases: list[Phrase]) -> bytes:
    """Return the content of the data file, which `clearhead.demo.phrasebook` reads."""
    lines = (f"{phrase.english}\t{phrase.french}\t{','.join(phrase.content)}\n" for phrase in phrases)
    return bz2.compress("".join(lines).encode())
