"""Sentences about where people go, come from, live, work and are, and about the weather there."""

from functools import partial

from . import lexicon, lexicon_verbs
from .grammar import NOTHING, THE, Part, Subject, Way, being, clause, join, noun_phrase, say, tell
from .pattern import Pattern, pattern
from .people import ANYONE, BABIES, KNOWN
from .times import FUTURE, IN_MONTH, IN_SEASON, PAST, SEASON_OF
from .words import MOVES, VERBS, Noun, Verb, nouns, rows

_MOVE = {verb.en: verb for verb in MOVES}

_WHERE = {en: Part(en, fr) for en, fr in rows(lexicon.PREPOSITIONS)}


def _at(preposition: str, noun: Noun) -> Part:
    return join(_WHERE[preposition], noun_phrase(THE, noun))


CITIES = [(Part(en, fr, (en,)), snowy) for en, fr, snowy in rows(lexicon_verbs.CITIES)]

_COUNTRIES = [Part(en, fr, (en.removeprefix("the "),)) for en, fr in rows(lexicon_verbs.COUNTRIES)]

_GOALS = [Part(f"the {noun.en}", noun_phrase(THE, noun).fr, (noun.en,)) for noun in nouns("goal")]

_GOALS += [Part("school", "la école", ("school",))]


def _in_country(country: Part, preposition: str) -> Part:
    """In or to a country: en France, au Japon, aux États-Unis."""
    fr = country.fr.replace("la ", "en ") if country.fr.startswith("la ") else f"à {country.fr}"
    return Part(f"{preposition} {country.en}", fr, country.content)


def _from_country(country: Part) -> Part:
    """From a country: de France, du Japon, des États-Unis."""
    return Part(f"from {country.en}", f"de {country.fr.removeprefix('la ')}", country.content)


def _to(preposition: str, goal: Part) -> Part:
    return Part(f"{preposition} {goal.en}", f"à {goal.fr}", goal.content)


TO = [_to("to", goal) for goal in _GOALS]

_AT = [_to("at", goal) for goal in _GOALS]

_FROM = [Part(f"from {goal.en}", f"de {goal.fr}", goal.content) for goal in _GOALS]

FAR_TO = [_to("to", city) for city, _ in CITIES] + [_in_country(country, "to") for country in _COUNTRIES]

_FAR_IN = [_to("in", city) for city, _ in CITIES] + [_in_country(country, "in") for country in _COUNTRIES]

_FAR_FROM = [Part(f"from {city.en}", f"de {city.fr}", city.content) for city, _ in CITIES]

_FAR_FROM += [_from_country(country) for country in _COUNTRIES]

_INSIDE = [
    _at("in", noun) for noun in nouns("kitchen", "bedroom", "living-room", "garden", "park", "forest", "car", "library")
]


def _goes(way: Way, who: Subject, place: Part, when: Part = NOTHING) -> Part | None:
    if way.tense == "past" and not who.gender:
        return None
    return tell(way.mood, clause(who, VERBS["go"], way, join(place, when)), who)


def _moves(way: Way, who: Subject, verb: Verb, place: Part, when: Part = NOTHING) -> Part | None:
    if way.tense == "past" and verb.etre and not who.gender:
        return None
    return tell(way.mood, clause(who, verb, way, join(place, when)), who)


def _is_at(mood: str, tense: str, who: Subject, place: Part) -> Part | None:
    return tell(mood, being(who, place, mood, tense), who)


def _where_does(who: Subject, asked: tuple[Verb, str]) -> Part:
    verb, tense = asked
    return say(clause(who, verb, Way(tense, "ask", Part("where", "où"))), "?", who)


_Weather = tuple[str, dict[str, Part], list[str]]  # lemma, phrases, and seasons


def _sky(en: str, finite: str, infinitive: str, rest: str, seasons: str) -> _Weather:
    """It is raining, it often rains, it is not raining, it is going to rain; also with an adjective."""
    verb = en in ("rain", "snow")
    without = rest.removeprefix("de le ")
    negated = f"de {without}" if without != rest else rest
    il, *words = finite.split()
    finite = " ".join(words)
    said = {
        "now": (f"it is {en}ing" if verb else f"it is {en}", f"{il} {finite} {rest}"),
        "often": (f"it often {en}s" if verb else f"it is often {en}", f"{il} {finite} souvent {rest}"),
        "no": (f"it is not {en}ing" if verb else f"it is not {en}", f"{il} ne {finite} pas {negated}"),
        "future": (f"it is going to {en}" if verb else f"it is going to be {en}", f"{il} va {infinitive} {rest}"),
    }
    return en, {mood: Part(text, fr.strip(), (en,)) for mood, (text, fr) in said.items()}, seasons.split()


_WEATHER = [_sky(*cells) for cells in rows(lexicon_verbs.WEATHER)]


def _weather(mood: str, weather: _Weather, city: tuple[Part, str], when: Part) -> Part | None:
    lemma, forms, _ = weather
    return None if lemma == "snow" and not city[1] else say(join(forms[mood], _to("in", city[0]), when))


def _climate(weather: _Weather, city: tuple[Part, str], when: Part) -> Part | None:
    return _weather("often", weather, city, when) if SEASON_OF[when.content[0]] in weather[2] else None


_LIVE, _GO = VERBS["live"], VERBS["go"]
_LEFT = [_MOVE["come back"]]

_IN_PLACE = [
    _MOVE[en]
    for en in ("sleep", "run", "swim", "dance", "sing", "work", "walk", "study", "play", "rest", "cry", "laugh", "stay")
]

_AT_HOME = [verb for verb in _IN_PLACE if verb.en != "swim"]

_TODAY = [NOTHING, Part("today", "aujourd'hui"), Part("this morning", "ce matin")]


PATTERNS: list[Pattern] = [
    pattern(
        "Anna is going to the market",
        600,
        partial(_goes, Way("now")),
        ANYONE,
        TO + FAR_TO,
        [NOTHING, *FUTURE],
    ),
    pattern(
        "is Anna going to the market?",
        330,
        partial(_goes, Way("now", "ask")),
        KNOWN,
        TO + FAR_TO,
        [NOTHING, *FUTURE],
    ),
    pattern("Anna went to the market", 660, partial(_goes, Way("past")), KNOWN, TO + FAR_TO, [NOTHING, *PAST]),
    pattern("Anna did not go to the market", 330, partial(_goes, Way("past", "no")), KNOWN, TO + FAR_TO),
    pattern("did Anna go to the market?", 330, partial(_goes, Way("past", "ask")), KNOWN, TO + FAR_TO),
    pattern("Anna wants to go to the market", 330, partial(_goes, Way("want")), ANYONE, TO + FAR_TO),
    pattern(
        "Anna must go to the market",
        280,
        partial(_goes, Way("must")),
        ANYONE,
        TO + FAR_TO,
        [NOTHING, *FUTURE],
    ),
    pattern("Anna often goes to the market", 280, partial(_goes, Way("habit", "often")), ANYONE, TO + FAR_TO),
    pattern("Anna never goes to the market", 220, partial(_goes, Way("habit", "never")), ANYONE, TO + FAR_TO),
    pattern(
        "Anna is coming back from the market",
        330,
        partial(_moves, Way("now")),
        ANYONE,
        _LEFT,
        _FROM + _FAR_FROM,
    ),
    pattern(
        "Anna came back from the market",
        390,
        partial(_moves, Way("past")),
        KNOWN,
        _LEFT,
        _FROM + _FAR_FROM,
        [NOTHING, *PAST],
    ),
    pattern("Anna lives in Paris", 330, partial(_moves, Way("habit")), ANYONE, [_LIVE], _FAR_IN),
    pattern("Anna does not live in Paris", 220, partial(_moves, Way("habit", "no")), ANYONE, [_LIVE], _FAR_IN),
    pattern("does Anna live in Paris?", 280, partial(_moves, Way("habit", "ask")), KNOWN, [_LIVE], _FAR_IN),
    pattern("Anna wants to live in Paris", 220, partial(_moves, Way("want")), ANYONE, [_LIVE], _FAR_IN),
    pattern("Anna works in Paris", 330, partial(_moves, Way("habit")), ANYONE, [_MOVE["work"]], _FAR_IN + _AT),
    pattern("Anna is at the museum", 500, partial(_is_at, "yes", "now"), ANYONE, _AT + _FAR_IN + _INSIDE),
    pattern("is Anna at the museum?", 330, partial(_is_at, "ask", "now"), KNOWN, _AT + _FAR_IN + _INSIDE),
    pattern("Anna was not at the museum", 280, partial(_is_at, "no", "was"), ANYONE, _AT + _FAR_IN + _INSIDE),
    pattern("Anna is sleeping in the garden", 500, partial(_moves, Way("now")), ANYONE, _AT_HOME, _INSIDE),
    pattern("Anna slept in the garden", 390, partial(_moves, Way("past")), ANYONE, _AT_HOME, _INSIDE),
    pattern(
        "the baby is sleeping in the garden",
        60,
        partial(_moves, Way("now")),
        BABIES,
        [_MOVE["sleep"], _MOVE["play"], _MOVE["cry"]],
        _INSIDE[:4],
    ),
    pattern(
        "where does Anna live?",
        280,
        _where_does,
        KNOWN,
        [
            (_LIVE, "habit"),
            (_MOVE["work"], "habit"),
            (_GO, "now"),
            (_MOVE["sleep"], "now"),
            (_MOVE["study"], "habit"),
            (_MOVE["play"], "now"),
        ],
    ),
    pattern("it is raining in Paris", 200, partial(_weather, "now"), _WEATHER, CITIES, _TODAY),
    pattern("it is not raining in Paris", 150, partial(_weather, "no"), _WEATHER, CITIES, _TODAY),
    pattern("it is going to rain in Paris", 250, partial(_weather, "future"), _WEATHER, CITIES, [NOTHING, *FUTURE[:3]]),
    pattern("it often rains in Paris in spring", 300, _climate, _WEATHER, CITIES, IN_SEASON + IN_MONTH),
]
