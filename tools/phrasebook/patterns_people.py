"""Sentences about people: their traits, jobs, age, feelings, belongings, thoughts and languages."""

from functools import partial

from . import lexicon_verbs
from .grammar import (
    NO_ARTICLE,
    NOTHING,
    VERY,
    A,
    Nominal,
    Part,
    Subject,
    Way,
    being,
    clause,
    count,
    described,
    join,
    noun_phrase,
    own,
    say,
    tell,
)
from .pattern import NUMBERED, Pattern, an_object, contradicts, owned, pattern, suits
from .patterns_things import compared, this_is
from .people import (
    ANYONE,
    BABIES,
    COMPANIONSHIP,
    DESCRIBED_FOLK,
    FAMILIES,
    GROWN,
    HE,
    KIN,
    KNOWN,
    MANY,
    MYSELF,
    NAMES,
    OTHERS,
    OURSELVES,
    PASSERS_BY,
    SHE,
    TALKING,
    THIRDS,
    YOU,
    somebody,
)
from .words import ADJECTIVES, NOUNS, PROFESSIONS, VERBS, Adjective, Noun, nouns, number, rows

_QUALITIES = [adjective for adjective in ADJECTIVES.values() if "people" in adjective.kinds]
_OF_BABIES = [adjective for adjective in _QUALITIES if "infant" in adjective.kinds]
_BESIDE_MAN = [each for each in ADJECTIVES.values() if each.place != "be" and {"person", "adult"} & set(each.kinds)]
_LANGUAGES = [Part(en, fr, (en,)) for en, fr in rows(lexicon_verbs.LANGUAGES)]
_FEELINGS = rows(lexicon_verbs.FEELINGS)
_Role = dict[str, Noun]


def _leaves_open(who: Subject, adjective: Adjective) -> bool:
    """Return whether French must choose a gender that English hides: I am tired, fatigué or fatiguée."""
    return not (who.gender or adjective.epicene)


def _being_a(who: Subject, phrase: Part) -> Part:
    """Return "to be" with a noun and an article: "she is a good nurse" is "c'est une bonne infirmière"."""
    part = being(who, phrase)
    return Part(part.en, f"c'est {phrase.fr}", part.content) if who in (HE, SHE) else part


def _is(mood: str, tense: str, who: Subject, adjective: Adjective, degree: Part = NOTHING) -> Part | None:
    if _leaves_open(who, adjective) or (degree is VERY and not adjective.more):
        return None
    if (adjective.en == "old" and who not in GROWN) or contradicts(adjective, who.content):
        return None
    return tell(mood, being(who, described(adjective, who, degree), mood, tense), who)


def _is_more(who: Subject, adjective: Adjective, other: Subject | Noun, equal: bool) -> Part | None:
    whom = somebody(who, other)
    if not adjective.more or _leaves_open(who, adjective) or whom is None or contradicts(adjective, who.content):
        return None
    if other in PASSERS_BY and who not in PASSERS_BY:
        return None
    return say(join(being(who, compared(adjective, who, equal)), whom), ".", who)


def _role(who: Subject, role: _Role) -> Nominal:
    return noun_phrase(NO_ARTICLE, role[who.gender], who.plural)


def _is_a(mood: str, who: Subject, role: _Role) -> Part | None:
    return tell(mood, being(who, _role(who, role), mood), who)


def _wants_to_be_a(who: Subject, role: _Role, mood: str) -> Part | None:
    return tell(mood, clause(who, VERBS["be"], Way("want", mood), _role(who, role)), who)


def _is_a_good(who: Subject, role: _Role, adjective: Adjective) -> Part | None:
    if who.plural:
        return None
    return say(_being_a(who, noun_phrase(A, role[who.gender], False, adjective)), ".", who)


def _is_a_kind_man(who: Subject, adjective: Adjective) -> Part | None:
    if who.plural or (who in KIN and "adult" in adjective.kinds):
        return None
    man = NOUNS["woman" if who.gender == "f" else "man"]
    return say(_being_a(who, noun_phrase(A, man, False, adjective)), ".", who)


def _named(name: Subject, as_who: str, told: Adjective | _Role | int) -> Part:
    """Return a name and one more fact. In "my name is Anna and I am tired", the name tells the gender of "I"."""
    if as_who == "my":
        who = Subject("I", "je", (), name.gender, False, MYSELF.person)
        opening = Part(f"my name is {name.en} and", f"je me appelle {name.fr} et", name.content)
    else:
        who = SHE if name.gender == "f" else HE
        opening = Part(f"{own(who).en} name is {name.en} and", f"{who.fr} se appelle {name.fr} et", name.content)
    if isinstance(told, Adjective):
        rest = being(who, described(told, who))
    elif isinstance(told, int):
        rest = _years(who, told)
    else:
        rest = being(who, _role(who, told))
    return say(join(opening, rest))


def _years(who: Subject, age: int) -> Part:
    en, fr, _ = number(age)
    been = being(who, Part(f"{en} years old", ""))
    return Part(been.en, f"{who.fr} {VERBS['have'].present[who.person]} {fr} ans", (*who.content, en))


def _sensible_age(who: Subject) -> range:
    lemma = (*who.content, *who.call.content, "")[0]
    if lemma.startswith("grand"):
        return range(50, 101)
    if lemma in ("boy", "girl", "child"):
        return range(3, 16)
    return (
        range(20, 90) if lemma in ("father", "mother", "uncle", "aunt", "husband", "wife", "parent") else range(2, 60)
    )


def _is_old(who: Subject, age: int) -> Part | None:
    if who in DESCRIBED_FOLK or age not in _sensible_age(who):
        return None
    return say(_years(who, age), ".", who)


def _how_old(who: Subject, kin: Noun) -> Part:
    phrase = noun_phrase(own(who), kin)
    return say(join(Part("how old is", "quel âge a", ("old",)), phrase), "?", who)


def _feels(mood: str, who: Subject, feeling: list[str], degree: Part) -> Part | None:
    en, fr, negated = feeling
    if degree is VERY and en in ("right", "wrong", "lucky"):
        return None
    been = being(who, join(degree, Part(en, "", (en,))), mood)
    felt = clause(who, VERBS["have"], Way("habit", mood), join(degree, Part("", negated if mood == "no" else fr)))
    return tell(mood, Part(been.en, felt.fr, been.content), who)


def _has(mood: str, who: Subject, noun: Noun) -> Part | None:
    called = {*who.content, *who.call.content}
    if noun.en in ("son", "daughter") and {"Mom", "Dad", "boy", "girl", "child"} & called:
        return None
    phrase = an_object("a", who, noun, False, negated=mood == "no")
    return tell(mood, clause(who, VERBS["have"], Way("habit", mood), phrase or NOTHING), who)


def _has_several(who: Subject, amount: int, noun: Noun) -> Part | None:
    if amount > (99 if noun.family in ("text", "fruit", "tool", "plant") else 6) or not suits(who, noun):
        return None
    return say(clause(who, VERBS["have"], Way("habit"), noun_phrase(count(amount), noun, True)), ".", who)


def _thinks(who: Subject, other: Subject, adjective: Adjective) -> Part | None:
    if who.call.en or set(who.content) & set(other.content) or contradicts(adjective, other.content):
        return None
    said = being(other, described(adjective, other))
    return say(clause(who, VERBS["think"], Way("habit"), join(Part("that", "que"), said)))


def _knows_if(who: Subject, other: Subject, adjective: Adjective) -> Part | None:
    if {*who.content, *who.call.content} & {*other.content} or contradicts(adjective, other.content):
        return None
    mood = "ask" if who.call.en else "no"
    said = join(Part("if", "si"), being(other, described(adjective, other)))
    return tell(mood, clause(who, VERBS["know"], Way("habit", mood), said), who)


def _speaks(who: Subject, language: Part, mood: str) -> Part | None:
    return tell(mood, clause(who, VERBS["speak"], Way("habit", mood), language), who)


def _learns(who: Subject, language: Part, way: Way) -> Part | None:
    with_article = Part(language.en, f"le {language.fr}", language.content)
    return tell(way.mood, clause(who, VERBS["learn"], way, with_article), who)


def _introduces(other: Subject, told: Adjective | _Role) -> Part:
    they = Subject("they", "elles" if other.gender == "f" else "ils", (), other.gender, True, other.person)
    who = they if other.plural else SHE if other.gender == "f" else HE
    quality = described(told, who) if isinstance(told, Adjective) else _role(who, told)
    return join(say(this_is(other)), say(being(who, quality)))


_SINGLE = [*NAMES * 2, HE, SHE, *YOU[:16], *KIN]
_HAD = nouns(
    "pet",
    "vehicle",
    "instrument",
    "device",
    "horse",
    "brother",
    "sister",
    "son",
    "daughter",
    "garden",
    "umbrella",
    "key",
    "suitcase",
)
_COUNTED = [
    noun
    for noun, plural in NUMBERED
    if plural and owned(noun, plural) and not {"plural", "task", "thought"} & noun.kinds
]
_COUNTED += nouns("brother", "sister", "uncle", "aunt")
_TOLD: list[Adjective | _Role | int] = [*_QUALITIES, *PROFESSIONS * 3, *range(5, 100)]
_WORKING = [who for who in GROWN if who.gender and not {"king", "queen"} & {*who.content}]
_WORKERS = [who for who in _WORKING if who.plural] * 2
_DEGREES = [NOTHING, NOTHING, VERY]

PATTERNS: list[Pattern] = [
    pattern("Anna is tired", 1210, partial(_is, "yes", "now"), ANYONE + MANY, _QUALITIES, _DEGREES),
    pattern("Anna is not tired", 660, partial(_is, "no", "now"), ANYONE + MANY, _QUALITIES),
    pattern("is Anna tired?", 660, partial(_is, "ask", "now"), KNOWN + MANY, _QUALITIES),
    pattern("Anna was tired", 500, partial(_is, "yes", "was"), ANYONE + MANY, _QUALITIES, _DEGREES),
    pattern("the baby is tired", 60, partial(_is, "yes", "now"), BABIES, _OF_BABIES, _DEGREES),
    pattern("Anna is taller than Paul", 830, _is_more, ANYONE + MANY, _QUALITIES, OTHERS, [False]),
    pattern("Anna is as tall as Paul", 500, _is_more, ANYONE + MANY, _QUALITIES, OTHERS, [True]),
    pattern("Anna is a nurse", 390, partial(_is_a, "yes"), _WORKING + _WORKERS, PROFESSIONS),
    pattern("Anna is not a nurse", 220, partial(_is_a, "no"), _WORKING + _WORKERS, PROFESSIONS),
    pattern("is Anna a nurse?", 220, partial(_is_a, "ask"), _WORKING + _WORKERS, PROFESSIONS),
    pattern("Anna wants to be a nurse", 220, _wants_to_be_a, KNOWN + _WORKERS, PROFESSIONS, ["yes", "no"]),
    pattern("Anna is a good nurse", 280, _is_a_good, _WORKING, PROFESSIONS, [ADJECTIVES["good"], ADJECTIVES["bad"]]),
    pattern("Anna is a kind woman", 500, _is_a_kind_man, _SINGLE, _BESIDE_MAN),
    pattern("my name is Anna and I am tired", 830, _named, NAMES, ["my", "my", "their"], _TOLD),
    pattern("Anna is twenty-one years old", 830, _is_old, ANYONE, range(2, 101)),
    pattern("how old is your sister, Paul?", 200, _how_old, YOU, nouns("kin")),
    pattern("I am hungry", 550, partial(_feels, "yes"), ANYONE, _FEELINGS, _DEGREES),
    pattern("I am not hungry", 330, partial(_feels, "no"), ANYONE, _FEELINGS, [NOTHING]),
    pattern("are you hungry, Paul?", 330, partial(_feels, "ask"), KNOWN, _FEELINGS, [NOTHING]),
    pattern("I have a cat", 500, partial(_has, "yes"), ANYONE, _HAD),
    pattern("I do not have a cat", 500, partial(_has, "no"), ANYONE, _HAD),
    pattern("do you have a cat, Paul?", 500, partial(_has, "ask"), KNOWN, _HAD),
    pattern("Anna has twenty-one books", 880, _has_several, ANYONE, [*range(2, 10)] * 6 + [*range(10, 100)], _COUNTED),
    pattern("Paul thinks that Anna is tired", 660, _thinks, ANYONE, THIRDS, _QUALITIES),
    pattern(
        "I do not know if he is tired", 550, _knows_if, [MYSELF, OURSELVES, HE, SHE, *NAMES, *YOU], THIRDS, _QUALITIES
    ),
    pattern("Anna speaks French", 330, _speaks, TALKING, _LANGUAGES, ["yes", "no", "ask"]),
    pattern(
        "Anna is learning French",
        330,
        _learns,
        TALKING,
        _LANGUAGES,
        [Way("now"), Way("want"), Way("must"), Way("future"), Way("now", "ask")],
    ),
    pattern(
        "this is my brother. He is tired.",
        500,
        _introduces,
        [*KIN, *FAMILIES, *COMPANIONSHIP],
        [*_QUALITIES, *PROFESSIONS * 2],
    ),
]
