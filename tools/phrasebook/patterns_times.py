"""Sentences about time and numbers: clocks, days, months, ages of things, prices and sums."""

from functools import partial

from . import french, lexicon_verbs
from .grammar import (
    NOTHING,
    THE,
    THIS,
    Determiner,
    Part,
    Subject,
    Way,
    being,
    clause,
    join,
    noun_phrase,
    say,
    subject,
    tell,
)
from .pattern import NUMBERED, Pattern, pattern
from .patterns_travel import CITIES, FAR_TO, TO
from .people import ANYONE, KNOWN, YOU
from .times import IN_MONTH, IN_SEASON, ON_DAY, ON_DAYS
from .words import ACTIONS, MOVES, VERBS, Noun, Verb, fits, nouns, number, rows

_MOVE = {verb.en: verb for verb in MOVES}
_ACTION = {verb.en: verb for verb in ACTIONS}


_Time = tuple[Part, int]  # a time of day and its hour: 12 at noon, 24 at midnight


def _clock() -> list[_Time]:
    """Return the times of the clock in steps of five minutes. Noon and midnight have no half hours here."""
    hours = [(number(hour)[0], f"{number(hour)[2]} heure{'s' * (hour > 1)}", hour) for hour in range(1, 12)]
    times = [(Part(f"{en} o'clock", fr, (en,)), hour) for en, fr, hour in hours]
    hours += [("noon", "midi", 12), ("midnight", "minuit", 24)]
    times += [(Part(en, fr, (en,)), hour) for en, fr, hour in hours[-2:]]
    for before, after, side in rows(lexicon_verbs.MINUTES):
        minutes = tuple(word for word in before.split() if word not in ("a", "past", "to"))
        for en, fr, hour in hours:
            if hour < 12 or before != "half past":
                told = hour - (side == "to" and hour != 12)
                times.append((Part(f"{before} {en}", f"{fr} {after}", (*minutes, en)), told))
    return times


_CLOCK = _clock()
_ON_THE_DOT = [
    (part, hour) for part, hour in _CLOCK if "o'clock" in part.en or "half" in part.en or "quarter" in part.en
]
_PARTS_OF_DAY = [
    (Part(en, fr), [int(hour) for hour in hours.split()]) for en, fr, hours in rows(lexicon_verbs.PARTS_OF_DAY)
]
_ON_HOLIDAY = [place for place in TO if {"beach", "park", "theater"} & {*place.content}]
_SHUT_ON_SUNDAY = {"school", "bank"}
_WHEN_GOING = [
    (place, day)
    for place in TO + FAR_TO
    for day in ON_DAY
    if not ("Sunday" in day.content and _SHUT_ON_SUNDAY & {*place.content})
] + [(place, month) for place in FAR_TO for month in IN_MONTH]
_WHAT_TIME = Part("what time", "à quelle heure")


def _at(time: Part) -> Part:
    return join(Part("at", "à"), time)


def _it_is(adverb: Part, time: _Time, part_of_day: tuple[Part, list[int]] | None) -> Part | None:
    if part_of_day and time[1] not in part_of_day[1]:
        return None
    return say(join(Part("it is", "il est"), adverb, time[0], part_of_day[0] if part_of_day else NOTHING))


def _what_time_is_it(who: Subject) -> Part:
    return say(Part("what time is it", "quelle heure est-il", ("time",)), "?", who)


def _bound(noun: Noun, city: Part, verb: Verb) -> Subject:
    """The train to Paris, le train pour Paris; it arrives from there, le train de Paris."""
    to = NOTHING if city is NOTHING else Part("to", "pour") if verb.en == "leave" else Part("from", "de")
    phrase = join(noun_phrase(THE, noun), to, city)
    return Subject(phrase.en, phrase.fr, phrase.content, noun.gender)


def _runs(noun: Noun, city: Part, verb: Verb, time: _Time) -> Part:
    return say(clause(_bound(noun, city, verb), verb, Way("habit"), _at(time[0])))


def _when_runs(noun: Noun, city: Part, verb: Verb) -> Part:
    return say(clause(_bound(noun, city, verb), verb, Way("habit", "ask", _WHAT_TIME)), "?")


def _opens(det: Determiner, noun: Noun, verb: Verb, day: Part, time: _Time) -> Part | None:
    """Shops open and movies begin at a time, on a day or on Mondays."""
    if day.en and day.en.endswith("s") != ("shop" in noun.kinds):
        return None
    closing = range(9, 13) if noun.en == "restaurant" else range(4, 10)
    if time[1] not in {"open": range(6, 12), "close": closing}.get(verb.en, range(25)):
        return None
    return say(clause(subject(noun_phrase(det, noun)), verb, Way("habit"), join(day, _at(time[0]))))


def _when_opens(noun: Noun, verb: Verb) -> Part:
    return say(clause(subject(noun_phrase(THE, noun)), verb, Way("habit", "ask", _WHAT_TIME)), "?")


def _moves_at(way: Way, who: Subject, verb: Verb, time: _Time) -> Part | None:
    hours = {"get up": range(5, 11), "wake up": range(4, 11), "go to bed": (8, 9, 10, 11, 23, 24)}
    if time[1] not in hours.get(verb.en, range(25)) or (way.tense == "past" and verb.etre and not who.gender):
        return None
    return say(clause(who, verb, way, _at(time[0])), ".", who)


def _when_moves(who: Subject, verb: Verb) -> Part:
    return say(clause(who, verb, Way("habit", "ask", _WHAT_TIME)), "?", who)


def _moves(way: Way, who: Subject, verb: Verb, when: Part) -> Part | None:
    if way.tense == "past" and verb.etre and not who.gender:
        return None
    return tell(way.mood, clause(who, verb, way, when), who)


def _goes(way: Way, who: Subject, whereto: tuple[Part, Part]) -> Part | None:
    return _moves(way, who, VERBS["go"], join(*whereto))


def _born(mood: str, who: Subject, when: Part) -> Part | None:
    """To be born: être né, with the participle that agrees."""
    born = french.agree("né", feminine=who.gender == "f", plural=who.plural)
    en = being(who, join(Part("born", "", ("born",)), when), mood, "was")
    fr = being(who, join(Part("", born), when), mood)
    return tell(mood, Part(en.en, fr.fr, en.content), who)


def _costs(numbered: tuple[Noun, bool], det: Determiner, price: int) -> Part | None:
    noun, plural = numbered
    cheap = (20, ["food"]), (40, ["tool", "dish", "reading", "box", "basket", "sock", "glove"])
    if "mass" in noun.kinds or any(price > most and fits(noun, kinds) for most, kinds in cheap):
        return None
    en, fr, _ = number(price)
    euros = Part(f"{en} euros", f"{fr} euros", (en,))
    return say(clause(subject(noun_phrase(det, noun, plural)), VERBS["cost"], Way("habit"), euros))


def _how_much(numbered: tuple[Noun, bool], det: Determiner) -> Part:
    asked = clause(
        subject(noun_phrase(det, *numbered)), VERBS["cost"], Way("habit", "ask", Part("how much", "combien"))
    )
    return say(asked, "?")


def _lasts(noun: Noun, det: Determiner, amount: int) -> Part:
    en, _, fr = number(amount)
    minutes = Part(f"{en} minutes", f"{fr} minutes", (en,))
    return say(clause(subject(noun_phrase(det, noun)), VERBS["last"], Way("habit"), minutes))


def _sum(first: int, second: int) -> Part | None:
    return _makes(first, Part("and", "et"), second, first + second, "make")


def _product(first: int, second: int) -> Part | None:
    return _makes(first, Part("times", "fois"), second, first * second, "is")


def _makes(first: int, sign: Part, second: int, result: int, be: str) -> Part | None:
    if result > 100:
        return None
    (en, fr, _), (other_en, other_fr, _), (all_en, all_fr, _) = number(first), number(second), number(result)
    content = tuple(dict.fromkeys((en, other_en, all_en)))
    return say(Part(f"{en} {sign.en} {other_en} {be} {all_en}", f"{fr} {sign.fr} {other_fr} font {all_fr}", content))


_CITIES = [NOTHING, *(city for city, _ in CITIES)]
_RUN = [_MOVE["leave"], _MOVE["arrive"]]
_RISE = [_MOVE[en] for en in ("get up", "wake up", "go to bed", "leave", "arrive", "come back", "go out")]
_SPARE_TIME = [_MOVE[en] for en in ("work", "swim", "run", "dance", "study", "cook", "sing", "walk", "go out", "rest")]
_PRICED = [
    (noun, plural)
    for noun, plural in NUMBERED
    if "fixed" not in noun.kinds
    and {"food", "reading", "clothing", "tool", "dish", "toy", "container"} & {*noun.kinds, noun.en}
]
_SHOWS = nouns("movie", "concert", "lesson")

PATTERNS: list[Pattern] = [
    pattern(
        "it is a quarter past three",
        450,
        _it_is,
        [NOTHING, Part("almost", "presque"), Part("already", "déjà")],
        _CLOCK,
        [None, None, *_PARTS_OF_DAY],
    ),
    pattern("what time is it, Paul?", 25, _what_time_is_it, YOU),
    pattern("the train leaves at noon", 750, _runs, nouns("transport"), _CITIES, _RUN, _CLOCK),
    pattern("what time does the train to Paris leave?", 66, _when_runs, nouns("transport"), _CITIES, _RUN),
    pattern(
        "the bank opens at nine o'clock",
        450,
        _opens,
        [THE, THIS],
        nouns("shop", "museum"),
        [_ACTION["open"], _ACTION["close"]],
        [NOTHING, NOTHING, *ON_DAYS],
        _ON_THE_DOT,
    ),
    pattern(
        "what time does the bank open?", 40, _when_opens, nouns("shop", "museum"), [_ACTION["open"], _ACTION["close"]]
    ),
    pattern(
        "the concert begins at eight o'clock",
        450,
        _opens,
        [THE, THIS],
        _SHOWS,
        [VERBS["begin"], VERBS["end"]],
        [NOTHING, NOTHING, *ON_DAY],
        _CLOCK,
    ),
    pattern("Anna gets up at seven o'clock", 600, partial(_moves_at, Way("habit")), ANYONE, _RISE, _CLOCK),
    pattern("Anna arrived at seven o'clock", 500, partial(_moves_at, Way("past")), ANYONE, _RISE, _CLOCK),
    pattern(
        "Anna is going to leave at seven o'clock",
        300,
        partial(_moves_at, Way("future")),
        ANYONE,
        _RISE,
        _CLOCK,
    ),
    pattern("Anna must leave at seven o'clock", 250, partial(_moves_at, Way("must")), ANYONE, _RISE, _CLOCK),
    pattern("what time do you get up, Paul?", 250, _when_moves, KNOWN, _RISE),
    pattern(
        "Anna works on Mondays",
        350,
        partial(_moves, Way("habit")),
        ANYONE,
        _SPARE_TIME,
        [*ON_DAYS, *IN_SEASON],
    ),
    pattern(
        "Anna does not work on Mondays",
        200,
        partial(_moves, Way("habit", "no")),
        ANYONE,
        _SPARE_TIME,
        ON_DAYS,
    ),
    pattern(
        "does Anna work on Mondays?",
        200,
        partial(_moves, Way("habit", "ask")),
        KNOWN,
        _SPARE_TIME,
        ON_DAYS,
    ),
    pattern(
        "Anna left on Monday",
        350,
        partial(_moves, Way("past")),
        ANYONE,
        [*_RISE[3:], *_SPARE_TIME],
        ON_DAY,
    ),
    pattern("Anna is leaving on Monday", 250, partial(_moves, Way("now")), ANYONE, _RISE[3:], ON_DAY),
    pattern("Anna is going to the market on Monday", 400, partial(_goes, Way("now")), ANYONE, _WHEN_GOING),
    pattern("Anna went to the market on Monday", 350, partial(_goes, Way("past")), KNOWN, _WHEN_GOING),
    pattern(
        "Anna often goes to the beach in summer",
        200,
        partial(_goes, Way("habit", "often")),
        ANYONE,
        [(place, season) for place in FAR_TO + _ON_HOLIDAY for season in IN_SEASON],
    ),
    pattern("Anna was born in April", 450, partial(_born, "yes"), KNOWN, IN_MONTH + IN_SEASON),
    pattern("was Anna born in April?", 250, partial(_born, "ask"), KNOWN, IN_MONTH),
    pattern("the book costs twenty-one euros", 750, _costs, _PRICED, [THE, THIS], range(2, 100)),
    pattern("how much does the book cost?", 200, _how_much, _PRICED, [THE, THIS]),
    pattern("the movie lasts ninety-one minutes", 250, _lasts, _SHOWS, [THE, THIS], range(11, 101)),
    pattern("two and three make five", 350, _sum, range(1, 100), range(1, 100)),
    pattern("two times three is six", 250, _product, range(2, 50), range(2, 50)),
]
