"""Sentences in which animals act: the black cat is sleeping; did your dog see the bird, Paul?"""

from functools import partial
from typing import NamedTuple

from .grammar import (
    HER,
    HIS,
    MY,
    NOTHING,
    OUR,
    SOME,
    THE,
    THIS,
    A,
    Determiner,
    Part,
    Subject,
    Way,
    clause,
    count,
    join,
    subject,
    tell,
)
from .pattern import ATTRIBUTED, Pattern, an_object, pattern, thing
from .times import FUTURE, PAST
from .words import ACTIONS, MOVES, Adjective, Noun, Verb, fits, nouns


class Creature(NamedTuple):
    """An animal, an optional adjective, and whether it's plural."""

    noun: Noun
    adjective: Adjective | None
    plural: bool


_Doing = tuple[Verb, list[str]]  # a verb, and which animals do it
_Object = tuple[Noun, Adjective | None, bool]

_MOVE = {verb.en: verb for verb in MOVES}
_ACTION = {verb.en: verb for verb in ACTIONS}
_MOVING: list[_Doing] = [
    (_MOVE["sleep"], ["animal"]),
    (_MOVE["rest"], ["animal"]),
    (_MOVE["wake up"], ["animal"]),
    (_MOVE["run"], ["pet", "horse", "goat", "hen", "mouse", "wild", "-turtle"]),
    (_MOVE["walk"], ["pet", "farm", "wild", "hedgehog"]),
    (_MOVE["swim"], ["dog", "duck", "turtle", "frog", "horse", "elephant"]),
    (_MOVE["sing"], ["bird"]),
    (_MOVE["play"], ["pet", "-turtle"]),
    (_MOVE["come back"], ["pet", "flying"]),
    (_MOVE["leave"], ["pet", "flying", "wild"]),
    (_MOVE["fall"], ["pet", "horse", "bird"]),
]
_ACTING: list[tuple[Verb, list[str], list[str]]] = [  # a verb, which animals do it, and its objects
    (
        _ACTION["eat"],
        ["rabbit", "hamster", "turtle", "farm", "mouse", "hedgehog", "elephant"],
        ["apple", "pear", "carrot", "bread", "salad", "strawberry", "tomato"],
    ),
    (_ACTION["eat"], ["cat", "dog", "wild", "owl"], ["meat", "fish", "ham"]),
    (_ACTION["drink"], ["animal"], ["water", "milk"]),
    (_ACTION["see"], ["animal"], ["animal", "ball", "tree", "river"]),
    (_ACTION["watch"], ["pet", "flying", "wild"], ["animal"]),
    (_ACTION["look for"], ["pet"], ["ball", "toy", "doll"]),
    (_ACTION["find"], ["pet"], ["ball", "toy", "doll", "key", "glove", "sock"]),
    (_ACTION["break"], ["cat", "dog"], ["lamp", "bottle", "cup", "plate", "toy", "mirror"]),
]
_BEASTS = nouns("animal")
_PLAIN = [Creature(noun, None, plural) for noun in _BEASTS for plural in (False, True)]
_SUCH = [Creature(*each) for each in ATTRIBUTED if "animal" in each.noun.kinds]
_CREATURES = _PLAIN * max(1, len(_SUCH) // (2 * len(_PLAIN))) + _SUCH
_PETS = [each for each in _CREATURES if "pet" in each.noun.kinds]
_DETERMINERS = [THE, THE, THE, THIS, MY, HIS, HER, OUR, A]
_SEVERAL = [each for each in _CREATURES if each.plural]
_NUMBERS = [count(n) for n in (2, 3, 4, 5, 6, 10)]


def _creature(each: Creature, det: Determiner) -> Subject | None:
    det = SOME if det is A and each.plural else det
    phrase = thing(det, each.noun, each.plural, *([each.adjective] if each.adjective else []))
    return subject(phrase) if phrase else None


def _moves(way: Way, each: Creature, det: Determiner, doing: _Doing, when: Part = NOTHING) -> Part | None:
    verb, those = doing
    who = _creature(each, det)
    if who is None or not fits(each.noun, those):
        return None
    if verb.reflexive and (way.tense in ("future", "past", "want") or when.en):
        return None  # nobody says when a frog got up
    if verb.en == "fall" and way.tense in ("future", "want"):
        return None
    return tell(way.mood, clause(who, verb, way, when))


def _acts(
    way: Way, each: Creature, det: Determiner, acting: tuple[Verb, list[str], list[str]], to: _Object, of: str
) -> Part | None:
    verb, those, things = acting
    noun, adjective, plural = to
    who = _creature(each, det)
    if who is None or not fits(each.noun, those) or not fits(noun, things) or noun is each.noun:
        return None
    if (way.tense == "now" and "event" in verb.kinds) or (way.tense != "past" and verb.en == "break"):
        return None
    if way == Way("past") and verb.en == verb.past:
        return None
    what = an_object(of, who, noun, plural, *([adjective] if adjective else []), negated=way.mood == "no")
    tense = "habit" if way.tense == "now" and "state" in verb.kinds else way.tense
    return tell(way.mood, clause(who, verb, Way(tense, way.mood), join(what or NOTHING)))


_WHAT: list[_Object] = [
    (noun, None, plural)
    for noun in nouns(*{name for _, _, things in _ACTING for name in things})
    for plural in ((False,) if "mass" in noun.kinds else (False, True))
]
_WHAT += [(each.noun, each.adjective, each.plural) for each in ATTRIBUTED if any(each.noun is it[0] for it in _WHAT)]

_MOVED = (_CREATURES, _DETERMINERS, _MOVING)
_ACTED = (_CREATURES, _DETERMINERS, _ACTING, _WHAT, ["a", "the", "the", "this"])

PATTERNS: list[Pattern] = [
    pattern("the black cat is sleeping", 1100, partial(_moves, Way("now")), *_MOVED),
    pattern("the black cat is not sleeping", 350, partial(_moves, Way("now", "no")), *_MOVED),
    pattern("is the black cat sleeping?", 450, partial(_moves, Way("now", "ask")), *_MOVED),
    pattern(
        "the black cat slept yesterday",
        350,
        partial(_moves, Way("past")),
        *_MOVED,
        [NOTHING, *PAST[:3]],
    ),
    pattern("three black cats are sleeping", 350, partial(_moves, Way("now")), _SEVERAL, _NUMBERS, _MOVING),
    pattern("did the cat sleep?", 200, partial(_moves, Way("past", "ask")), _PETS, _DETERMINERS[:-1], _MOVING),
    pattern("the dog wants to play", 250, partial(_moves, Way("want")), _PETS, _DETERMINERS, _MOVING),
    pattern("the dog can swim", 250, partial(_moves, Way("can")), _CREATURES, _DETERMINERS, _MOVING[3:8]),
    pattern(
        "the dog is going to run",
        200,
        partial(_moves, Way("future")),
        _PETS,
        _DETERMINERS,
        _MOVING,
        [NOTHING, *FUTURE[:2]],
    ),
    pattern("the cat is drinking the milk", 1100, partial(_acts, Way("now")), *_ACTED),
    pattern("two dogs are drinking water", 250, partial(_acts, Way("now")), _SEVERAL, _NUMBERS, *_ACTED[2:]),
    pattern("the cat is not drinking the milk", 350, partial(_acts, Way("now", "no")), *_ACTED),
    pattern("is the cat drinking the milk?", 400, partial(_acts, Way("now", "ask")), *_ACTED),
    pattern("the cat drank the milk", 600, partial(_acts, Way("past")), *_ACTED),
    pattern("did the cat drink the milk?", 300, partial(_acts, Way("past", "ask")), *_ACTED),
    pattern("the cat wants to drink the milk", 300, partial(_acts, Way("want")), *_ACTED),
]
