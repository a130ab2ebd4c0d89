"""Sentences that describe things: the soup is hot, this is my new car, what a beautiful house!"""

from functools import partial

from .grammar import (
    DES,
    HER,
    HIS,
    MY,
    NOTHING,
    OUR,
    THE,
    THIS,
    VERY,
    WHAT_A,
    A,
    Determiner,
    Nominal,
    Part,
    Subject,
    Way,
    being,
    clause,
    described,
    join,
    noun_phrase,
    own,
    pronoun,
    say,
    subject,
    tell,
)
from .pattern import (
    ATTRIBUTED,
    DESCRIBED,
    NUMBERED,
    PREDICATED,
    THINGS,
    Described,
    Pattern,
    an_object,
    contradicts,
    evened,
    matches,
    owned,
    pattern,
    shared,
    suits,
    thing,
)
from .people import ANYONE, MYSELF, NAMES, YOU
from .words import ACTIONS, ADJECTIVES, VERBS, Adjective, Noun, fits

_BUY = next(verb for verb in ACTIONS if verb.en == "buy")
_DETERMINERS = [THE, THE, THE, THIS, THIS, MY, HIS, HER, OUR]
_SIZED = ("vehicle", "container", "building", "public", "nature", "fruit")
_COMPARED = [
    (each, other)
    for each in DESCRIBED
    for other in THINGS
    if other is not each.noun and other.family == each.noun.family and not each.plural
    if each.adjective.more and "attribute" not in each.adjective.kinds
    if matches(other, each.adjective) and "plural" not in other.kinds
    if each.noun.family in _SIZED or each.adjective.en not in ("big", "small", "tall")
]
_LASTING = [each for each in ATTRIBUTED if "passing" not in each.adjective.kinds and "mass" not in each.noun.kinds]


def _is(mood: str, tense: str, each: Described, det: Determiner, degree: Part) -> Part | None:
    phrase = thing(det, each.noun, each.plural)
    if phrase is None or (degree is VERY and not each.adjective.more):
        return None
    quality = described(each.adjective, phrase, degree)
    return tell(mood, being(subject(phrase), quality, mood, tense))


def _old_one_is(mood: str, tense: str, twice: tuple[Described, Adjective], det: Determiner) -> Part | None:
    """The old house is big: one adjective next to the noun, and another after the verb."""
    (noun, adjective, plural), quality = twice
    phrase = thing(det, noun, plural, adjective)
    return tell(mood, being(subject(phrase), described(quality, phrase), mood, tense)) if phrase else None


def this_is(phrase: Nominal, mood: str = "yes") -> Part:
    """This is, these are (not): c'est, ce sont, ce n'est pas, ce ne sont pas."""
    en = "these are" if phrase.plural else "this is"
    yes, no = ("ce sont", "ce ne sont pas") if phrase.plural else ("c'est", "ce n'est pas")
    return join(Part(en + " not", no) if mood == "no" else Part(en, yes), phrase)


def _this_is(mood: str, each: Described, det: Determiner) -> Part | None:
    if det in (MY, HIS, HER, OUR) and each.noun.family in ("thought", "task"):
        return None  # "this is our useful idea"
    det = DES if det is A and each.plural else det
    phrase = thing(det, each.noun, each.plural, each.adjective)
    return say(this_is(phrase, mood)) if phrase else None


def _what_a(each: Described) -> Part | None:
    if not each.adjective.more and each.adjective.en not in ("good", "bad"):
        return None
    return say(noun_phrase(WHAT_A, each.noun, each.plural, each.adjective), "!")


def _is_more(equal: bool, pair: tuple[Described, Noun], det: Determiner) -> Part | None:
    (noun, adjective, _), other = pair
    first, second = noun_phrase(det, noun), noun_phrase(det, other)
    return say(join(being(subject(first), compared(adjective, first, equal)), second))


def compared(adjective: Adjective, of: Nominal, equal: bool) -> Part:
    """An adjective in comparison: taller than, plus grande que; as tall as, aussi grande que."""
    quality = described(adjective, of)
    if equal:
        return Part(f"as {quality.en} as", f"aussi {quality.fr} que", quality.content)
    return Part(f"{adjective.more} than", f"plus {quality.fr} que", quality.content)


def _got(who: Subject, each: Described, bought: bool) -> Part | None:
    noun, adjective, plural = each
    if (
        not owned(noun, False)
        or (plural and "home" in noun.kinds)
        or not suits(who, noun)
        or (bought and (adjective.en == "old" or not fits(noun, _BUY.kinds)))
    ):
        return None
    phrase = an_object("a", who, noun, plural)
    assert phrase is not None  # "a" is never refused
    verb, way = (_BUY, Way("past")) if bought else (VERBS["have"], Way("habit"))
    return join(
        say(clause(who, verb, way, phrase), ".", who), say(being(pronoun(phrase), described(adjective, phrase)))
    )


def _of(name: Subject) -> Determiner:
    return Determiner(f"{name.en}'s", f"{name.en}'s", THE.fr, name.content)


def _whose_is(name: Subject, each: Described, mood: str) -> Part | None:
    if not owned(each.noun, each.plural) or not suits(name, each.noun):
        return None
    held = join(noun_phrase(_of(name), each.noun, each.plural), Part("", f"de {name.fr}"))
    who = subject(Nominal(held.en, held.fr, held.content, each.noun.gender, each.plural))
    return tell(mood, being(who, described(each.adjective, who), mood))


def _this_is_of(name: Subject, numbered: tuple[Noun, bool], mood: str) -> Part | None:
    if not owned(*numbered) or not suits(name, numbered[0]):
        return None
    return say(join(this_is(noun_phrase(_of(name), *numbered), mood), Part("", f"de {name.fr}")))


def _color(numbered: tuple[Noun, bool], det: Determiner | None, who: Subject) -> Part | None:
    noun, plural = numbered
    if not (matches(noun, ADJECTIVES["red"]) or matches(noun, ADJECTIVES["black"])):
        return None
    phrase = (
        thing(det, noun, plural)
        if det
        else noun_phrase(own(who), noun, plural)
        if owned(noun, plural) and suits(who, noun) and not shared(who.plural, noun, plural)
        else None
    )
    if phrase is None:
        return None
    question = (
        Part("what color are", "de quelle couleur sont") if plural else Part("what color is", "de quelle couleur est")
    )
    return say(join(Part("", "", ("color",)), question, phrase), "?", None if det else who)


def _has(who: Subject, each: Described) -> Part | None:
    if not suits(who, each.noun):
        return None
    phrase = an_object("a", who, each.noun, each.plural, each.adjective)
    return say(clause(who, VERBS["have"], Way("habit"), phrase or NOTHING), ".", who)


def _two_adjectives(who: Subject, first: Adjective, each: Described) -> Part | None:
    if not suits(who, each.noun):
        return None
    return say(
        clause(who, VERBS["have"], Way("habit"), noun_phrase(A, each.noun, False, first, each.adjective)), ".", who
    )


_BEFORE_NOUNS = evened(
    [each for each in DESCRIBED if each.adjective.place == "before" and owned(each.noun, each.plural)],
    lambda each: noun_phrase(DES, each.noun, each.plural, each.adjective).fr.split()[-2],  # nouvel as often as nouveau
)
_TWICE_DESCRIBED = [
    (ADJECTIVES[en], each)
    for en in ("big", "small", "old", "new", "beautiful", "pretty")
    for each in _LASTING
    if each.adjective.place == "after" and not (each.adjective.more or each.plural)
    if matches(each.noun, ADJECTIVES[en]) and owned(each.noun, False)
]
_ASKED = [THE, THIS, HIS, HER, OUR]
_TWICE = [
    (each, quality)
    for each in DESCRIBED
    if each.adjective.place != "be" and "passing" not in each.adjective.kinds and each.noun.family != "told"
    for quality in ADJECTIVES.values()
    if matches(each.noun, quality)
    and "attribute" not in quality.kinds
    and not contradicts(quality, [each.adjective.en])
]
_TWICE = evened(evened(_TWICE, lambda twice: twice[1]), lambda twice: twice[0].adjective)

PATTERNS: list[Pattern] = [
    pattern(
        "the soup is hot",
        1730,
        partial(_is, "yes", "now"),
        PREDICATED,
        _DETERMINERS,
        [NOTHING, NOTHING, VERY],
    ),
    pattern("the soup is not hot", 860, partial(_is, "no", "now"), PREDICATED, _DETERMINERS, [NOTHING]),
    pattern("is the soup hot?", 860, partial(_is, "ask", "now"), PREDICATED, _ASKED, [NOTHING]),
    pattern("the soup was hot", 650, partial(_is, "yes", "was"), PREDICATED, _DETERMINERS, [NOTHING, VERY]),
    pattern("the old house is big", 900, partial(_old_one_is, "yes", "now"), _TWICE, _DETERMINERS),
    pattern("the old house is not big", 350, partial(_old_one_is, "no", "now"), _TWICE, _DETERMINERS),
    pattern("is the old house big?", 350, partial(_old_one_is, "ask", "now"), _TWICE, _DETERMINERS),
    pattern("the old house was big", 350, partial(_old_one_is, "yes", "was"), _TWICE, _DETERMINERS),
    pattern("this is a new car", 1150, partial(_this_is, "yes"), _LASTING, [A, A, MY, HIS, HER, OUR]),
    pattern("this is not a new car", 580, partial(_this_is, "no"), _LASTING, [A, A, MY, HIS, HER, OUR]),
    pattern("what a beautiful house!", 320, _what_a, _LASTING),
    pattern("the car is more expensive than the boat", 860, partial(_is_more, False), _COMPARED, [THE, THIS]),
    pattern("the car is as heavy as the boat", 500, partial(_is_more, True), _COMPARED, [THE, THIS]),
    pattern(
        "I have a car. It is red.",
        1150,
        _got,
        ANYONE,
        [each for each in PREDICATED if "passing" not in each.adjective.kinds],
        [False, True],
    ),
    pattern("Anna's car is red", 860, _whose_is, NAMES, PREDICATED, ["yes", "yes", "no", "ask"]),
    pattern("this is Anna's car", 650, _this_is_of, NAMES, NUMBERED, ["yes", "no"]),
    pattern("what color is the car?", 220, _color, NUMBERED, [THE, THIS, HIS, HER], [MYSELF]),
    pattern("what color is your car, Paul?", 290, _color, NUMBERED, [None], YOU),
    pattern("I have a new computer", 600, _has, ANYONE, _BEFORE_NOUNS),
    pattern("I have a small black cat", 860, lambda who, pair: _two_adjectives(who, *pair), ANYONE, _TWICE_DESCRIBED),
]
