"""Sentences about people and others or things: they help, love, give, like, want, need and fear."""

from functools import partial

from .grammar import IN_GENERAL, NOTHING, A, Nominal, Part, Subject, Way, being, clause, join, noun_phrase, tell
from .pattern import Pattern, an_object, pattern, suits
from .people import (
    ANYONE,
    FAMILIES,
    HE,
    KIN,
    KNOWN,
    MYSELF,
    NAMES,
    OTHERS,
    OURSELVES,
    PASSERS_BY,
    SHE,
    TALKING,
    YOU,
    somebody,
)
from .times import FUTURE, PAST
from .words import ACTIONS, GIFTS, VERBS, Noun, Verb, nouns


def _sensible(verb: Verb, tense: str) -> bool:
    """Return whether the verb fits the tense: Paul is helping Anna, but Paul loves Anna."""
    if tense == "past":
        return "lasting" not in verb.kinds
    return ("state" not in verb.kinds) if tense != "habit" else bool({"state", "habit"} & {*verb.kinds})


def _helps(way: Way, who: Subject, verb: Verb, other: Subject | Noun, when: Part = NOTHING) -> Part | None:
    whom = somebody(who, other)
    if whom is None or not _sensible(verb, way.tense):
        return None
    if verb.en == "love" and other in PASSERS_BY and who not in PASSERS_BY:
        return None
    return tell(way.mood, clause(who, verb, way, join(whom, when)), who)


# Object pronouns, with a gender if the English has one, because a French participle agrees with it.
_HIM, _HER = Nominal("him", "le", (), "m"), Nominal("her", "la", (), "f")
_THEM, _ME, _US = Nominal("them", "les", (), "", True), Nominal("me", "me", (), ""), Nominal("us", "nous", (), "", True)


def _helps_him(who: Subject, verb: Verb, it: Nominal, way: Way) -> Part | None:
    if not _sensible(verb, way.tense) or (way.tense == "past" and not it.gender):
        return None
    if it in (_ME, _US) and who in (MYSELF, OURSELVES):
        return None
    return tell(way.mood, clause(who, verb, way, it=it), who)


def _loves_you(who: Subject, verb: Verb, you: Subject, mood: str) -> Part | None:
    """I love you, Anna: je t'aime, Anna."""
    if set(who.content) & set(you.call.content):
        return None
    it = Nominal("you", "te" if you.fr == "tu" else "vous", (), you.gender, you.plural)
    tense = "habit" if "state" in verb.kinds else "now"
    return tell(mood, clause(who, verb, Way(tense, mood), it=it), you)


def _gives(who: Subject, gift: tuple[Verb, Noun], det: str, other: Subject | Noun, way: Way) -> Part | None:
    verb, noun = gift
    whom = somebody(who, other)
    if whom is None or (det == "own" and verb.en == "bring"):
        return None
    what = an_object(det, who, noun, False, negated=way.mood == "no")
    if what is None:
        return None
    return tell(way.mood, clause(who, verb, way, join(what, Part("to", "à"), whom)), who)


def _likes(who: Subject, verb: Verb, mood: str, noun: Noun) -> Part | None:
    liked = noun_phrase(IN_GENERAL, noun, "mass" not in noun.kinds)
    return tell(mood, clause(who, verb, Way("habit", mood), liked), who)


def _prefers(who: Subject, mood: str, noun: Noun, other: Noun) -> Part | None:
    if noun is other or noun.family != other.family or {"eaten", "drunk"} <= noun.kinds ^ other.kinds:
        return None
    liked, less = (noun_phrase(IN_GENERAL, each, "mass" not in each.kinds) for each in (noun, other))
    return tell(mood, clause(who, VERBS["prefer"], Way("habit", mood), join(liked, Part("to", "à"), less)), who)


def _wants(who: Subject, mood: str, noun: Noun) -> Part | None:
    what = an_object("a", who, noun, False, negated=mood == "no")
    if what is None or not suits(who, noun) or "plural" in noun.kinds:
        return None
    return tell(mood, clause(who, VERBS["want"], Way("habit", mood), what), who)


def _needs(who: Subject, mood: str, noun: Noun, det: str) -> Part | None:
    """To need: avoir besoin de. After de, the article of "some" is dropped."""
    if not suits(who, noun):
        return None
    if det == "own":
        what = an_object("own", who, noun, False)
    elif "mass" in noun.kinds:
        what = Nominal(f"{'some' if mood == 'yes' else 'any'} {noun.en}", noun.fr, (noun.en,), noun.gender)
    else:
        what = noun_phrase(A, noun)
    if what is None:
        return None
    return tell(mood, clause(who, VERBS["need"], Way("habit", mood), join(Part("", "besoin de"), what)), who)


def _fears(who: Subject, mood: str, noun: Noun) -> Part | None:
    feared = noun_phrase(IN_GENERAL, noun, True)
    en = being(who, join(Part("afraid of", "", ("afraid",)), feared), mood)
    fr = clause(who, VERBS["have"], Way("habit", mood), join(Part("", "peur de"), feared))
    return tell(mood, Part(en.en, fr.fr, en.content), who)


_OF_PEOPLE = [verb for verb in ACTIONS if "person" in verb.kinds]

_GIVEN = [(verb, noun) for verb in GIFTS for noun in nouns(*verb.kinds)]

_LIKED = nouns(
    "food", "eaten", "drunk", "pet", "animal", "plant", "movie", "song", "poem", "concert", "museum", "train", "plane"
)

_COMPARED = nouns("food", "eaten", "drunk", "pet", "farm")

_WANTED = nouns(
    "food",
    "eaten",
    "drunk",
    "pet",
    "clothing",
    "vehicle",
    "instrument",
    "device",
    "toy",
    "ball",
    "doll",
    "notebook",
    "pen",
)

_NEEDED = nouns(
    "tool",
    "umbrella",
    "vehicle",
    "device",
    "furniture",
    "container",
    "coat",
    "hat",
    "bread",
    "water",
    "milk",
    "coffee",
    "rice",
    "egg",
    "knife",
    "ticket",
    "fork",
    "spoon",
    "cup",
    "plate",
)

_FEARED = nouns("animal")

_LIKING = [VERBS["like"], VERBS["hate"]]


PATTERNS: list[Pattern] = [
    pattern("Paul is helping Anna", 600, partial(_helps, Way("now")), TALKING, _OF_PEOPLE, OTHERS),
    pattern("Paul loves Anna", 350, partial(_helps, Way("habit")), TALKING, _OF_PEOPLE, OTHERS),
    pattern("Paul does not know Anna", 250, partial(_helps, Way("habit", "no")), ANYONE, _OF_PEOPLE, OTHERS),
    pattern("do you know Anna, Paul?", 350, partial(_helps, Way("habit", "ask")), KNOWN, _OF_PEOPLE, OTHERS),
    pattern(
        "Paul called Anna yesterday",
        450,
        partial(_helps, Way("past")),
        ANYONE,
        _OF_PEOPLE,
        OTHERS,
        [NOTHING, *PAST],
    ),
    pattern("Paul did not call Anna", 250, partial(_helps, Way("past", "no")), ANYONE, _OF_PEOPLE, OTHERS),
    pattern(
        "Paul is going to call Anna",
        350,
        partial(_helps, Way("future")),
        ANYONE,
        _OF_PEOPLE,
        OTHERS,
        [NOTHING, *FUTURE],
    ),
    pattern(
        "Paul knows her",
        700,
        _helps_him,
        TALKING,
        _OF_PEOPLE,
        [_HIM, _HER, _THEM, _ME, _US],
        [
            *(Way(tense, mood) for tense in ("now", "habit") for mood in ("yes", "no", "ask")),
            Way("past"),
            Way("can"),
            Way("future"),
        ],
    ),
    pattern(
        "I love you, Anna",
        350,
        _loves_you,
        [MYSELF, OURSELVES, HE, SHE, *NAMES, *KIN, *FAMILIES],
        _OF_PEOPLE,
        YOU,
        ["yes", "no"],
    ),
    pattern(
        "Paul is giving the book to Anna",
        850,
        _gives,
        TALKING,
        _GIVEN,
        ["a", "the", "own"],
        OTHERS,
        [Way("now"), Way("now", "ask"), Way("past"), Way("future"), Way("want"), Way("must")],
    ),
    pattern("I like tea", 450, _likes, ANYONE, _LIKING, ["yes"], _LIKED),
    pattern("I do not like tea", 300, _likes, ANYONE, [VERBS["like"]], ["no"], _LIKED),
    pattern("do you like tea, Paul?", 300, _likes, KNOWN, [VERBS["like"]], ["ask"], _LIKED),
    pattern("I prefer tea to coffee", 350, _prefers, ANYONE, ["yes", "ask"], _COMPARED, _COMPARED),
    pattern("I want a cake", 550, _wants, ANYONE, ["yes", "no", "ask"], _WANTED),
    pattern("I need a pen", 500, _needs, ANYONE, ["yes", "no", "ask"], _NEEDED, ["a", "a", "own"]),
    pattern("Paul is afraid of wolves", 300, _fears, ANYONE, ["yes", "no", "ask"], _FEARED),
]
