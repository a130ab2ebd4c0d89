"""Sentences about actions with an object: Paul is eating an apple; did you buy the bread, Anna?"""

from functools import partial
from typing import Any

from . import french
from .grammar import (
    DES,
    NOTHING,
    OF,
    THE,
    TU,
    WHICH,
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
    object_pronoun,
    say,
    subject,
    tell,
)
from .pattern import (
    ATTRIBUTED,
    DESCRIBED,
    NUMBERED,
    OWNED_SINGLY,
    PREDICATED,
    Described,
    Pattern,
    an_object,
    evened,
    owned,
    pattern,
    suits,
)
from .people import ANYONE, HE, KNOWN, MYSELF, OURSELVES, SHE, TALKING, YOU
from .times import FUTURE, HABIT, PAST
from .words import ACTIONS, VERBS, Noun, Verb, fits

_Done = tuple[Verb, Noun, bool]  # a verb, its object, and whether the object is plural
_ONE_AT_A_TIME = (*OWNED_SINGLY, "transport", "public", "building", "nature")
_DONE: list[_Done] = [
    (verb, noun, plural)
    for verb in ACTIONS
    for noun, plural in NUMBERED
    if fits(noun, verb.kinds) and not (plural and noun.family in _ONE_AT_A_TIME)
    if not (verb.en == "wear" and plural and "plural" not in noun.kinds)
    if not (verb.en in ("look for", "find") and plural and "pet" in noun.kinds)
]
_BY_NAME = {verb.en: verb for verb in ACTIONS}
_NOT_ONES_OWN = {"buy", "see", "draw", "visit", "watch", "listen to"}
# Nobody drank their tea last month, or is not looking for a key; the key is another matter.
_OF_KNOWN_THINGS = {
    *("look for", "forget", "lose", "hide", "wait for", "take", "watch", "cut", "paint", "close", "repair", "clean"),
    *("wash", "listen to", "visit", "know", "break", "choose", "open", "sell"),
}
_SOON_DONE = {
    *("eat", "drink", "wash", "cut", "open", "close", "clean", "prepare", "listen to", "watch", "choose", "take"),
    *("forget", "break", "hide", "look for", "wait for"),
}
_WHO = Subject("who", "qui", ())


def _done(*without: str) -> list[_Done]:
    left = [done for done in _DONE if not {*without} & {*done[0].kinds}]
    return evened(evened(left, lambda done: done[1]), lambda done: done[0])


def _verbs(names: str) -> list[Verb]:
    return [_BY_NAME[name.replace("_", " ")] for name in names.split()]


def _what(det: str, who: Subject, done: _Done, *, negated: bool = False) -> Nominal | None:
    """Return the object of the action, or None if nobody would say so."""
    verb, noun, plural = done
    if det == "own" and (verb.en in _NOT_ONES_OWN or noun.family == "transport"):
        return None
    if verb.en == "wear" and not suits(who, noun):
        return None
    if det == "a" and (
        verb.en == "forget" or (plural and verb.en in ("lose", "hide")) or (negated and verb.en in _OF_KNOWN_THINGS)
    ):
        return None
    return None if det == "a" and _is_known(done) else an_object(det, who, noun, plural, negated=negated)


def _is_known(done: _Done) -> bool:
    """Return whether an action takes only definite objects, not "some bags" or "a radio"."""
    verb, noun, plural = done
    if verb.en == "listen to":
        return noun.en == "radio"
    if verb.en == "open":
        return plural and noun.en not in ("letter", "gift")
    return plural and (verb.en in ("close", "clean") or (verb.en == "wash" and "dish" in noun.kinds))


def _does(way: Way, who: Subject, done: _Done, det: str, when: Part = NOTHING) -> Part | None:
    verb = done[0]
    what = _what(det, who, done, negated=way.mood == "no")
    if verb.en in _SOON_DONE and when.en.endswith(("week", "month")):
        return None
    if what is None or (way == Way("past") and verb.en == verb.past and not when.en):
        return None  # "I read a book" can be present or past
    tense = "habit" if way.tense == "now" and "state" in verb.kinds else way.tense
    said = clause(who, verb, Way(tense, way.mood), join(what, when))
    return tell(way.mood, said, who)


def _every_day(mood: str, who: Subject, done: _Done, when: Part, det: str) -> Part | None:
    """Return a habit: coffee every morning, du café; never coffee, jamais de café."""
    verb, noun, plural = done
    if det == "own":
        what = _what("own", who, done) if "food" not in noun.kinds and "dish" not in noun.kinds else None
        if verb.en == "read" and (who.person != HE.person or ("written" in noun.kinds and not plural)):
            what = None  # "we never read our letter" can be past, and nobody reads the same letter every day
    elif verb.en not in ("eat", "drink", "read"):
        what = None
    else:
        what = noun_phrase(OF if mood == "never" else DES, noun, plural) if plural or "mass" in noun.kinds else None
    if what is None:
        return None
    return say(clause(who, verb, Way("habit", mood), join(what, when if mood == "yes" else NOTHING)), ".", who)


def _order(you: Subject, done: _Done, det: str, forbidden: bool) -> Part | None:
    """Return an order: Paul, please open the door; with "do not": Paul, n'ouvre pas la porte."""
    verb = done[0]
    what = _what(det, you, done, negated=forbidden)
    if what is None or verb.en == "wear":  # people say "put on"
        return None
    imperative = french.imperative(verb.present[you.person], to_friend=you.person == TU)
    if forbidden:
        en, fr, please = f"do not {verb.en}", f"ne {imperative} pas", ""
    else:
        en, fr = f"please {verb.en}", imperative
        please = ", si il te plaît" if you.person == TU else ", si il vous plaît"
    call = you.call
    return say(
        Part(
            f"{call.en}, {en} {what.en}", f"{call.fr}, {fr} {what.fr}{please}", (*call.content, verb.en, *what.content)
        )
    )


def _who_does(way: Way, done: _Done, det: str) -> Part | None:
    verb = done[0]
    what = None if det == "own" else _what(det, _WHO, done)
    if what is None or (verb.en == "wear" and way.tense != "now"):
        return None
    return say(clause(_WHO, verb, way, what), "?")


def _what_does(who: Subject, verb: Verb, tense: str) -> Part:
    return say(clause(who, verb, Way(tense, "ask", Part("what", "que"))), "?", who)


def _agreeing(what: Nominal) -> Nominal:
    """Return an unspoken object that a participle agrees with: la robe qu'elle a achetée."""
    return Nominal("", "", (), what.gender, what.plural)


def _which(who: Subject, done: _Done, tense: str) -> Part | None:
    verb, noun, plural = done
    if "mass" in noun.kinds or not suits(who, noun):
        return None
    which = noun_phrase(WHICH, noun, plural)
    return say(clause(who, verb, Way(tense, "ask", which), it=_agreeing(which)), "?", who)


def _that(who: Subject, verb: Verb, tense: str, each: Described) -> Part | None:
    noun, adjective, plural = each
    if not fits(noun, verb.kinds) or not suits(who, noun):
        return None
    what = noun_phrase(THE, noun, plural)
    relative = clause(who, verb, Way(tense), it=_agreeing(what))
    whole = join(what, Part("that", "que"), relative)
    known = subject(Nominal(whole.en, whole.fr, whole.content, what.gender, what.plural))
    return say(being(known, described(adjective, what)), ".", who)


def _stands_for(who: Subject) -> Subject:
    """Return the pronoun for a subject: he, she or they; I, we and you are unchanged."""
    if who.person in (MYSELF.person, OURSELVES.person) or who.call.en:
        return who
    if who.plural:
        return Subject("they", "elles" if who.gender == "f" else "ils", (), who.gender, True, who.person)
    return SHE if who.gender == "f" else HE


def _and_does_it(who: Subject, first: Verb, then: _Done, way: Way) -> Part | None:
    """Return two sentences: Anna bought some apples. She is washing them (elle les lave)."""
    verb, noun, plural = then
    if not (fits(noun, first.kinds) or (first.en == "have" and owned(noun, plural))) or not suits(who, noun):
        return None
    what = an_object("a", who, noun, plural)
    assert what is not None  # "a" is never refused
    got = clause(who, first, Way("habit" if first.en == "have" else "past"), what)
    return join(say(got, ".", who), say(clause(_stands_for(who), verb, way, it=object_pronoun(what))))


def _like_this(who: Subject, verb: Verb, tense: str, each: Described) -> Part | None:
    noun, adjective, plural = each
    if (
        not fits(noun, verb.kinds)
        or not suits(who, noun)
        or (verb.en in ("buy", "draw") and "passing" in adjective.kinds)
    ):
        return None
    if verb.en == "wear" and plural and "plural" not in noun.kinds:
        return None
    what = an_object("a", who, noun, plural, adjective)
    return say(clause(who, verb, Way(tense), what or NOTHING), ".", who)


def _does_to_such(way: Way, who: Subject, done: tuple[Verb, Described], det: str, when: Part = NOTHING) -> Part | None:
    """Return a sentence with an adjective: Paul is eating a green apple; did you wash the red dress, Anna?"""
    verb, (noun, adjective, plural) = done
    if _what(det, who, (verb, noun, plural)) is None:
        return None
    if verb.en in _SOON_DONE and when.en.endswith(("week", "month")):
        return None
    if way == Way("past") and verb.en == verb.past and not when.en:
        return None
    what = an_object(det, who, noun, plural, adjective, negated=way.mood == "no")
    tense = "habit" if way.tense == "now" and "state" in verb.kinds else way.tense
    said = clause(who, verb, Way(tense, way.mood), join(what or NOTHING, when))
    return tell(way.mood, said, who)


def _so_many(who: Subject, verb: Verb, amount: int, noun: Noun, when: Part) -> Part | None:
    most = (
        6 if verb.en in ("eat", "draw") or noun.family in ("pet", "thing") else 20 if noun.family == "pastry" else 100
    )
    if amount > most or not fits(noun, verb.kinds):
        return None
    return say(clause(who, verb, Way("past"), join(noun_phrase(count(amount), noun, True), when)), ".", who)


def _doing(name: str, size: int, way: Way, *slots: list[Subject] | list[_Done] | list[str] | list[Part]) -> Pattern:
    return pattern(name, size, partial(_does, way), *slots)


def _done_to_such(*without: str) -> list[tuple[Verb, Described]]:
    """Return the actions that fit a described object: nobody buys a wet umbrella, but somebody may look for one."""
    found = [
        (verb, each)
        for verb, noun, plural in _DONE
        if not {*without} & {*verb.kinds}
        for each in _DESCRIBED_BY_NOUN.get((noun.en, plural), ())
        if "passing" not in each.adjective.kinds or verb.en in _OF_KNOWN_THINGS
    ]
    return evened(evened(found, lambda done: done[1].adjective), lambda done: done[0])


def _doing_to_such(name: str, size: int, way: Way, *slots: Any) -> Pattern:
    who, done, *when = slots
    return pattern(name, size, partial(_does_to_such, way), who, done, _SUCH, *when)


_DESCRIBED_BY_NOUN: dict[tuple[str, bool], list[Described]] = {}
for _each in DESCRIBED:
    if _each.adjective.place != "be":
        _DESCRIBED_BY_NOUN.setdefault((_each.noun.en, _each.plural), []).append(_each)
_SUCH = ["a", "a", "the", "the", "this", "own"]
_LONG = _done_to_such("event")
_SHORT = _done_to_such("lasting")
_WISHED = _done_to_such("event", "state")
_ANY = ["a", "a", "a", "the", "this", "own"]
_OVER = _done("lasting")
_WILLED = _done("event", "state")
_HABITUAL = [done for done in _DONE if "habit" in done[0].kinds]
_WHILE = _done("event")
_DOABLE = [
    done
    for done in _WILLED
    if done[0].en not in ("hide", "wear", "look for", "choose", "watch", "listen to", "wait for")
]
_ASKED_WHAT = _verbs("eat drink read write watch draw paint repair wash look_for prepare choose listen_to wear buy cut")
_ASKED_WHAT_DONE = [verb for verb in _ASKED_WHAT if "lasting" not in verb.kinds] + _verbs("find lose break forget see")
_AFTER_THAT = _verbs("find choose draw see wash buy lose")
_FIRST = [_BY_NAME["buy"], _BY_NAME["find"], VERBS["have"]]
_WITH_IT = [done for done in _DONE if done[0] in _verbs("eat drink read wear wash repair cut open prepare sell hide")]
_SHOPPING = [
    noun
    for noun, plural in NUMBERED
    if plural and fits(noun, ["food", "text", "tool", "dish", "plant", "pet", "toy", "ring", "umbrella"])
]
_AMOUNTS = [*range(2, 20)] * 3 + [*range(20, 101)]

PATTERNS: list[Pattern] = [
    _doing("Paul is eating an apple", 1900, Way("now"), TALKING, _WHILE, _ANY),
    _doing("Paul is not eating an apple", 900, Way("now", "no"), TALKING, _WHILE, _ANY),
    _doing("is Paul eating an apple?", 660, Way("now", "ask"), KNOWN, _WHILE, _ANY),
    _doing("Paul ate an apple yesterday", 960, Way("past"), ANYONE, _OVER, _ANY, PAST),
    _doing("Paul ate an apple", 660, Way("past"), ANYONE, _OVER, _ANY),
    _doing("Paul did not eat an apple", 600, Way("past", "no"), ANYONE, _OVER, _ANY),
    _doing("did Paul eat an apple?", 600, Way("past", "ask"), KNOWN, _OVER, _ANY, [NOTHING, *PAST[:3]]),
    _doing("Paul is going to eat an apple", 780, Way("future"), ANYONE, _WILLED, _ANY, [NOTHING, *FUTURE]),
    _doing("Paul is not going to eat an apple", 300, Way("future", "no"), ANYONE, _WILLED, _ANY),
    _doing("is Paul going to eat an apple?", 420, Way("future", "ask"), KNOWN, _WILLED, _ANY, [NOTHING, *FUTURE[:3]]),
    _doing("Paul can repair the car", 420, Way("can"), ANYONE, _DOABLE, _ANY),
    _doing("Paul cannot repair the car", 360, Way("can", "no"), ANYONE, _DOABLE, _ANY),
    _doing("can you repair the car, Paul?", 360, Way("can", "ask"), ANYONE, _DOABLE, _ANY),
    _doing("Paul must repair the car", 480, Way("must"), ANYONE, _DOABLE, _ANY, [NOTHING, *FUTURE[:3]]),
    _doing("Paul must not repair the car", 300, Way("must", "no"), ANYONE, _DOABLE, _ANY),
    _doing("Paul wants to repair the car", 480, Way("want"), ANYONE, _WILLED, _ANY, [NOTHING, *FUTURE[:3]]),
    _doing("Paul does not want to repair the car", 300, Way("want", "no"), ANYONE, _WILLED, _ANY),
    _doing("do you want to repair the car, Paul?", 300, Way("want", "ask"), KNOWN, _WILLED, _ANY),
    pattern(
        "Paul drinks coffee every morning",
        540,
        partial(_every_day, "yes"),
        ANYONE,
        _HABITUAL,
        HABIT,
        ["a", "own"],
    ),
    pattern(
        "Paul often drinks coffee",
        300,
        partial(_every_day, "often"),
        ANYONE,
        _HABITUAL,
        [NOTHING],
        ["a", "own"],
    ),
    pattern(
        "Paul always drinks coffee",
        240,
        partial(_every_day, "always"),
        ANYONE,
        _HABITUAL,
        [NOTHING],
        ["a", "own"],
    ),
    pattern(
        "Paul never drinks coffee",
        300,
        partial(_every_day, "never"),
        ANYONE,
        _HABITUAL,
        [NOTHING],
        ["a", "own"],
    ),
    pattern("Paul, please open the door", 720, _order, YOU, _WILLED, ["the", "the", "own", "this", "a"], [False]),
    pattern("Paul, do not open the door", 360, _order, YOU, _WILLED, ["the", "the", "own", "this"], [True]),
    pattern("who is eating the apple?", 300, _who_does, [Way("now"), Way("past"), Way("future")], _WILLED, _ANY),
    pattern("what is Anna eating?", 480, _what_does, KNOWN, _ASKED_WHAT, ["now", "future"]),
    pattern("what did Anna buy?", 360, _what_does, KNOWN, _ASKED_WHAT_DONE, ["past"]),
    pattern("which book is Anna reading?", 420, _which, KNOWN, _WILLED, ["now", "future"]),
    pattern(
        "which dress did Anna buy?", 480, _which, KNOWN, [done for done in _OVER if done[0] in _AFTER_THAT], ["past"]
    ),
    pattern(
        "the book that Anna is reading is long",
        420,
        _that,
        ANYONE,
        _verbs("read wear watch look_for draw repair clean"),
        ["now"],
        PREDICATED,
    ),
    pattern("the dress that Anna bought is red", 540, _that, ANYONE, _AFTER_THAT, ["past"], PREDICATED),
    pattern(
        "Anna bought some apples. She is washing them.",
        960,
        _and_does_it,
        ANYONE,
        _FIRST,
        _WITH_IT,
        [Way("now"), Way("now"), Way("future"), Way("want")],
    ),
    pattern(
        "Anna is wearing a red dress", 420, _like_this, ANYONE, _verbs("wear look_for choose draw"), ["now"], ATTRIBUTED
    ),
    pattern(
        "Anna bought a red dress", 780, _like_this, ANYONE, _verbs("buy see find choose draw"), ["past"], ATTRIBUTED
    ),
    _doing_to_such("Paul is eating a green apple", 900, Way("now"), TALKING, _LONG),
    _doing_to_such("Paul is not eating a green apple", 350, Way("now", "no"), TALKING, _LONG),
    _doing_to_such("is Paul eating a green apple?", 400, Way("now", "ask"), KNOWN, _LONG),
    _doing_to_such("Paul ate a green apple yesterday", 600, Way("past"), ANYONE, _SHORT, [NOTHING, *PAST]),
    _doing_to_such("Paul did not eat a green apple", 350, Way("past", "no"), ANYONE, _SHORT),
    _doing_to_such("did Paul eat a green apple?", 350, Way("past", "ask"), KNOWN, _SHORT),
    _doing_to_such("Paul wants to eat a green apple", 350, Way("want"), ANYONE, _WISHED),
    _doing_to_such("Paul is going to eat a green apple", 350, Way("future"), ANYONE, _WISHED),
    pattern(
        "Paul bought twenty-one apples yesterday",
        780,
        _so_many,
        ANYONE,
        _verbs("buy buy see eat sell draw find"),
        _AMOUNTS,
        _SHOPPING,
        [NOTHING, *PAST],
    ),
]
