"""Sentence patterns, and noun phrases that many patterns use."""

import random
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeVar

from .grammar import (
    ANY,
    HER,
    HIS,
    MY,
    NOT_A,
    OUR,
    SOME,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    Part,
    Subject,
    noun_phrase,
    own,
)
from .words import ADJECTIVES, NOUNS, Adjective, Noun, fits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A sentence pattern with choices for each slot.

    `make` takes one choice for each slot and returns the sentence, or None if the choices make no sense together.
    `size` is the maximum number of sentences to draw.
    """

    name: str
    size: int
    make: Callable[..., Part | None]
    slots: tuple[Sequence[Any], ...]

    def draw(self) -> Iterator[Part]:
        """Yield distinct sentences in an order that depends only on the pattern's name."""
        total, tries = prod(len(slot) for slot in self.slots), 12 * self.size
        dice = random.Random(self.name)
        few = total <= tries  # then try all of them
        order = dice.sample(range(total), total) if few else (dice.randrange(total) for _ in range(tries))
        seen: set[str] = set()
        for number in order:
            choice = []
            for slot in self.slots:
                number, at = divmod(number, len(slot))
                choice.append(slot[at])
            part = self.make(*choice)
            if part and part.en not in seen:
                seen.add(part.en)
                yield part
                if len(seen) == self.size:
                    return


def pattern(name: str, size: int, make: Callable[..., Part | None], *slots: Sequence[Any]) -> Pattern:
    """Return a pattern with these slots."""
    return Pattern(name, size, make, slots)


class Described(NamedTuple):
    """A noun, an adjective that fits it, and whether it's plural."""

    noun: Noun
    adjective: Adjective
    plural: bool


_PEOPLE = ("adult", "young", "royal", "infant", "children", "parents", "husband", "wife", "kin")
_NOT_OWNED = [
    "nature",
    "sight",
    "public",
    "goal",
    "wild",
    "flying",
    "opening",
    "mass",
    "fruit",
    "vegetable",
    "tree",
    "transport",
    "show",
    "room",
    "tower",
    "farm",
    "frog",
    "mouse",
    "hedgehog",
]
OWNED_SINGLY = ("vehicle", "furniture", "decoration", "device", "instrument", "home")
THINGS = [noun for noun in NOUNS.values() if noun.family not in _PEOPLE]


def evened(items: Sequence[T], key: Callable[[T], Hashable]) -> list[T]:
    """Repeat items with rare keys, so that each key is about equally likely to be drawn."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    most = max(len(group) for group in groups.values())
    return [item for group in groups.values() for item in group * round(most / len(group))]


def numbers(noun: Noun) -> tuple[bool, ...]:
    """Return the values of `plural` to use with a noun: one for bread and for shoes, both for cats."""
    if noun.family in ("mass", "public", "nature", "room", "goal", "instrument", "transport"):
        return (False,)
    return (True,) if "plural" in noun.kinds else (False, True)


NUMBERED = [(noun, plural) for noun in THINGS for plural in numbers(noun)]


def owned(noun: Noun, plural: bool) -> bool:
    """Return whether people own such things: my key, my keys, my car, but not my mountain or my pianos."""
    if plural and not noun.kinds.isdisjoint(OWNED_SINGLY):
        return False
    return noun.en == "garden" or not fits(noun, _NOT_OWNED)


def matches(noun: Noun, adjective: Adjective) -> bool:
    """Return whether the adjective fits the noun."""
    return fits(noun, adjective.kinds)


# Adjectives that exclude each other, or would repeat each other: "the pretty house is beautiful".
_EXCLUSIVE = [
    {"red", "white", "black", "blue", "green", "yellow", "gray", "brown"},
    {"French", "English", "Italian", "German"},
    {"big", "small", "tall"},
    {"old", "new", "young", "modern"},
    {"beautiful", "pretty"},
    {"good", "bad", "interesting", "boring"},
    {"heavy", "light"},
    {"empty", "full"},
    {"clean", "dirty"},
    {"wet", "dry"},
    {"open", "closed"},
    {"hot", "cold"},
    {"difficult", "easy"},
    {"funny", "sad", "happy", "serious"},
    {"active", "athletic", "lazy", "tired"},
    {"calm", "worried", "dangerous"},
    {"intelligent", "curious"},
    {"kind", "generous", "polite", "honest"},
    {"shy", "discreet"},
]


def contradicts(adjective: Adjective, said: Collection[str]) -> bool:
    """Return whether an adjective repeats or contradicts what was already said."""
    return adjective.en in said or any(adjective.en in group and not group.isdisjoint(said) for group in _EXCLUSIVE)


def suits(who: Subject, noun: Noun) -> bool:
    """Return whether the subject wears such clothes. In the phrasebook, men have no skirts."""
    return "ladies" not in noun.kinds or who.gender == "f"


def shared(who_are_several: bool, noun: Noun, plural: bool) -> bool:
    """Return whether several people would have to share a personal thing: our skirt, our fork."""
    return who_are_several and not plural and (noun.family in ("clothing", "dish", "vessel") or noun.en == "ring")


def thing(det: Determiner, noun: Noun, plural: bool, *adjectives: Adjective) -> Nominal | None:
    """Return a noun phrase, or None if nobody would say it: my mountain, my pianos."""
    if (det in (MY, HIS, HER, OUR) and not owned(noun, plural)) or (det is HIS and "ladies" in noun.kinds):
        return None
    if shared(det is OUR, noun, plural):
        return None
    return noun_phrase(det, noun, plural, *adjectives)


def an_object(
    det: str, who: Subject, noun: Noun, plural: bool, *adjectives: Adjective, negated: bool = False
) -> Nominal | None:
    """Return a verb's object with "a", "the", "this" or the subject's "own"; after "pas", French uses "de"."""
    if det == "own":
        has = owned(noun, plural) and suits(who, noun) and not shared(who.plural, noun, plural)
        return noun_phrase(own(who), noun, plural, *adjectives) if has else None
    if det == "a":
        several = plural or "mass" in noun.kinds
        indefinite = (ANY if negated else SOME) if several else (NOT_A if negated else A)
        return noun_phrase(indefinite, noun, plural, *adjectives)
    return noun_phrase({"the": THE, "this": THIS}[det], noun, plural, *adjectives)


DESCRIBED = [
    Described(noun, adjective, plural)
    for adjective in ADJECTIVES.values()
    for noun in THINGS
    if matches(noun, adjective)
    for plural in numbers(noun)
]
_EVENED = evened(evened(DESCRIBED, lambda each: each.adjective), lambda each: each.noun)
PREDICATED = [each for each in _EVENED if "attribute" not in each.adjective.kinds]  # the soup is hot
ATTRIBUTED = [each for each in _EVENED if each.adjective.place != "be"]  # the hot soup
