"""Sentences about where things are: on the table, in front of the house, near the station."""

from functools import partial

from . import lexicon
from .grammar import (
    HER,
    HIS,
    MY,
    NO,
    OUR,
    SOME,
    THE,
    THIS,
    A,
    Determiner,
    Nominal,
    Part,
    Subject,
    Way,
    being,
    clause,
    count,
    join,
    noun_phrase,
    say,
    subject,
    tell,
)
from .pattern import ATTRIBUTED, NUMBERED, Described, Pattern, an_object, owned, pattern, suits, thing
from .people import YOU
from .words import MOVES, NOUNS, Noun, Verb, fits, nouns, rows

_Numbered = tuple[Noun, bool]

_MOVE = {verb.en: verb for verb in MOVES}

_WHERE = {en: Part(en, fr) for en, fr in rows(lexicon.PREPOSITIONS)}


def _at(preposition: str, noun: Noun) -> Part:
    return join(_WHERE[preposition], noun_phrase(THE, noun))


_INSIDE = [
    _at("in", noun) for noun in nouns("kitchen", "bedroom", "living-room", "garden", "park", "forest", "car", "library")
]

_NEAR = [_at(preposition, noun) for noun in nouns("surface") for preposition in ("on", "under")]

_NEAR += [_at("in", noun) for noun in nouns("container", "wardrobe", "kitchen", "bedroom", "living-room", "car")]

_NEAR += [
    _at(preposition, NOUNS[en])
    for en in ("lamp", "computer", "sofa", "door", "window", "box", "chair")
    for preposition in ("next to", "behind", "in front of")
]

_LANDMARKS = nouns("building", "public", "market", "beach", "park", "lake", "river")

_SIDES = {  # for things without a front and a back
    "apartment": ("near", "far from"),
    **dict.fromkeys(("beach", "lake", "river"), ("near", "next to", "far from")),
}
_AROUND = [
    _at(preposition, noun)
    for noun in _LANDMARKS
    for preposition in _SIDES.get(noun.en, ("near", "next to", "behind", "in front of", "far from"))
]

_SMALL = [(noun, plural) for noun, plural in NUMBERED if "small" in noun.kinds]

_ROAMING = [(noun, False) for noun in nouns("pet", "bird", "mouse", "duck", "hen")]

_LYING = [(noun, False) for noun in nouns("vehicle", "cow", "horse", "goat", "dog", "cat")]


def _is_there(mood: str, tense: str, numbered: _Numbered, det: str, who: Subject, place: Part) -> Part | None:
    """The key is on the table. In questions about "your" key, its owner is addressed."""
    noun, plural = numbered
    if (
        not _fits_in(noun, place)
        or (det == "own" and not suits(who, noun))
        or (plural and "food" not in noun.kinds and det == "this")
    ):
        return None
    phrase = an_object(det, who, noun, plural)
    if phrase is None:
        return None
    return tell(mood, being(subject(phrase), place, mood, tense), who if det == "own" else None)


def _such_is_there(mood: str, tense: str, each: Described, det: str, place: Part) -> Part | None:
    """The black cat is under the table, the red car is in front of the house."""
    noun, adjective, plural = each
    indoors = place in _NEAR
    fitting = (
        ("small", "pet", "bird", "mouse", "duck", "hen") if indoors else ("vehicle", "pet", "horse", "cow", "goat")
    )
    if not fits(noun, fitting) or not _fits_in(noun, place) or (plural and "vehicle" in noun.kinds):
        return None
    phrase = noun_phrase({"the": THE, "this": THIS, "my": MY, "her": HER}[det], noun, plural, adjective)
    if det in ("my", "her") and not owned(noun, plural):
        return None
    return tell(mood, being(subject(phrase), place, mood, tense))


def _fits_in(noun: Noun, place: Part) -> bool:
    """Return whether the thing fits: no dog in the drawer, no table on the table."""
    crowded = {"drawer", "suitcase", "bag", "wardrobe"} & {*place.content} and "animal" in noun.kinds
    return noun.en not in place.content and not crowded


def _where_is(numbered: _Numbered, det: str, who: Subject) -> Part | None:
    noun, plural = numbered
    phrase = an_object(det, who, noun, plural)
    return _where(phrase, who if det == "own" else None) if phrase else None


def _where_is_such(each: Described, det: Determiner | None, who: Subject) -> Part | None:
    """Where is my black umbrella? Without a determiner, it belongs to the person addressed."""
    noun, adjective, plural = each
    if not fits(noun, ("small", "vehicle", "pet")) or (det is None and not suits(who, noun)):
        return None
    phrase = thing(det, noun, plural, adjective) if det else an_object("own", who, noun, plural, adjective)
    return _where(phrase, None if det else who) if phrase else None


def _where(phrase: Nominal, who: Subject | None) -> Part:
    question = Part("where are", "où sont") if phrase.plural else Part("where is", "où est")
    return say(join(question, phrase), "?", who)


def _there_is(mood: str, numbered: _Numbered, amount: int, place: Part) -> Part | None:
    """There is, there are: il y a; after il n'y a pas, de."""
    noun, plural = numbered
    several = plural or "mass" in noun.kinds
    if not _fits_in(noun, place) or (mood == "yes" and amount > 1 and not plural):
        return None
    if plural and amount > 1 and mood == "yes":
        what = noun_phrase(count(amount), noun, True)
    elif mood == "no":
        what = noun_phrase(NO, noun, plural)
    else:
        what = noun_phrase(SOME if several else A, noun, plural)
    be = "are" if plural else "is"
    en, fr = {
        "yes": (f"there {be}", "il y a"),
        "no": (f"there {be}", "il n'y a pas"),
        "ask": (f"{be} there", "est-ce qu'il y a"),
    }[mood]
    return tell(mood, join(Part(en, fr), what, place))


def _there_is_a(each: Described, place: Part) -> Part | None:
    noun, adjective, plural = each
    if ("small" not in noun.kinds and "pet" not in noun.kinds) or not _fits_in(noun, place):
        return None
    be = "are" if plural else "is"
    what = noun_phrase(SOME if plural or "mass" in noun.kinds else A, noun, plural, adjective)
    return say(join(Part(f"there {be}", "il y a"), what, place))


def _landmark(mood: str, noun: Noun, place: Part) -> Part | None:
    return None if noun.en in place.content else tell(mood, being(subject(noun_phrase(THE, noun)), place, mood))


def _animal_does(noun: Noun, det: str, verb: Verb, place: Part) -> Part | None:
    if noun.en in place.content:
        return None
    return say(clause(subject(noun_phrase(THE if det == "the" else A, noun)), verb, Way("now"), place))


_SUCH = (ATTRIBUTED, ["the", "the", "this", "my", "her"], _NEAR * 2 + _AROUND)
_BEASTS = nouns("pet", "bird", "mouse", "duck", "hen", "goat")


PATTERNS: list[Pattern] = [
    pattern(
        "the key is on the table",
        880,
        partial(_is_there, "yes", "now"),
        _SMALL + _ROAMING * 3,
        ["the", "the", "this"],
        YOU[:1],
        _NEAR,
    ),
    pattern(
        "your key is on the table, Paul",
        390,
        partial(_is_there, "yes", "now"),
        _SMALL,
        ["own"],
        YOU,
        _NEAR,
    ),
    pattern(
        "the key is not on the table",
        330,
        partial(_is_there, "no", "now"),
        _SMALL + _ROAMING * 3,
        ["the"],
        YOU[:1],
        _NEAR,
    ),
    pattern(
        "is the key on the table?",
        390,
        partial(_is_there, "ask", "now"),
        _SMALL + _ROAMING * 3,
        ["the"],
        YOU[:1],
        _NEAR,
    ),
    pattern(
        "the key was on the table",
        330,
        partial(_is_there, "yes", "was"),
        _SMALL + _ROAMING * 3,
        ["the"],
        YOU[:1],
        _NEAR,
    ),
    pattern(
        "the car is in front of the house",
        390,
        partial(_is_there, "yes", "now"),
        _LYING,
        ["the", "this"],
        YOU[:1],
        _AROUND,
    ),
    pattern("the black cat is under the table", 700, partial(_such_is_there, "yes", "now"), *_SUCH),
    pattern("the black cat is not under the table", 250, partial(_such_is_there, "no", "now"), *_SUCH),
    pattern("is the black cat under the table?", 250, partial(_such_is_there, "ask", "now"), *_SUCH),
    pattern("the black cat was under the table", 250, partial(_such_is_there, "yes", "was"), *_SUCH),
    pattern("where is the key?", 150, _where_is, _SMALL + _ROAMING + _LYING, ["the"], YOU[:1]),
    pattern("where is your key, Paul?", 390, _where_is, _SMALL + _ROAMING + _LYING, ["own"], YOU),
    pattern("where is my black umbrella?", 450, _where_is_such, ATTRIBUTED, [THE, MY, MY, HIS, HER, OUR], YOU[:1]),
    pattern("where is your black umbrella, Paul?", 250, _where_is_such, ATTRIBUTED, [None], YOU),
    pattern(
        "there are three books on the desk",
        880,
        partial(_there_is, "yes"),
        _SMALL + _ROAMING,
        [1, 1, 1, *range(2, 13)],
        _NEAR,
    ),
    pattern("there is no key on the table", 330, partial(_there_is, "no"), _SMALL + _ROAMING, [1], _NEAR),
    pattern("is there a key on the table?", 390, partial(_there_is, "ask"), _SMALL + _ROAMING, [1], _NEAR),
    pattern("there is a red apple on the table", 550, _there_is_a, ATTRIBUTED, _NEAR),
    pattern(
        "there is a hotel near the station",
        330,
        partial(_there_is, "yes"),
        [(noun, False) for noun in _LANDMARKS],
        [1],
        _AROUND,
    ),
    pattern(
        "is there a hotel near the station?",
        330,
        partial(_there_is, "ask"),
        [(noun, False) for noun in _LANDMARKS],
        [1],
        _AROUND,
    ),
    pattern("the hotel is near the station", 390, partial(_landmark, "yes"), _LANDMARKS, _AROUND),
    pattern("is the hotel near the station?", 280, partial(_landmark, "ask"), _LANDMARKS, _AROUND),
    pattern(
        "the cat is sleeping under the table",
        330,
        _animal_does,
        _BEASTS,
        ["the", "the", "a"],
        [_MOVE["sleep"], _MOVE["rest"], _MOVE["stay"]],
        _NEAR[:12] + _INSIDE[:5],
    ),
]
