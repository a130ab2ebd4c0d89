"""Sentences about what people do by themselves and together: they sleep, leave, get up, play the piano."""

from functools import partial

from . import lexicon_verbs
from .grammar import NOTHING, Part, Subject, Way, being, clause, described, join, say, tell
from .pattern import Pattern, contradicts, pattern
from .people import ANYONE, BABIES, HE, KNOWN, OTHERS, PAIRS, SHE, TALKING, THIRDS, somebody
from .times import FUTURE, HABIT, PAST
from .words import ADJECTIVES, MOVES, VERBS, Adjective, Noun, Verb, nouns, rows

_MOVE = {verb.en: verb for verb in MOVES}

_PLAYED = [
    Part(f"the {noun.en}", f"de le {noun.fr}" if noun.gender == "m" else f"de la {noun.fr}", (noun.en,))
    for noun in nouns("instrument")
]

_PLAYED += [Part(en, f"à {fr}", (en,)) for en, fr in rows(lexicon_verbs.GAMES)]


# Times at which people do things once a day.
_NATURALLY = {"wake up": "this morning", "get up": "this morning", "go to bed": "yesterday evening"}


def _moves(way: Way, who: Subject, verb: Verb, rest: Part = NOTHING) -> Part | None:
    """Sleep, leave, get up. With être, the participle agrees, so the gender must be known."""
    if verb.reflexive and way.tense == "future" and rest.en:
        return None  # nobody announces when they will get up
    if way.tense == "past" and rest.en and rest.en != _NATURALLY.get(verb.en, rest.en):
        return None
    if way.tense == "past" and ((verb.etre and not who.gender) or verb.en == verb.past):
        return None
    return tell(way.mood, clause(who, verb, way, rest), who)


def _likes_to(who: Subject, verb: Verb, mood: str, doing: tuple[Verb, Part]) -> Part | None:
    if verb.en == "hate" and mood != "yes":
        return None
    done, rest = doing
    said = join(Part(f"to {done.en}", done.infinitive, (done.en,)), rest)
    return tell(mood, clause(who, verb, Way("habit", mood), said), who)


def _plays(way: Way, who: Subject, game: Part, when: Part = NOTHING) -> Part | None:
    return tell(way.mood, clause(who, _MOVE["play"], way, join(game, when)), who)


def _and(who: Subject, verb: Verb, other: Subject, second: Verb) -> Part | None:
    if verb is second or who is other or set(who.content) & set(other.content) or who.call.en or other in PAIRS:
        return None
    return say(join(clause(who, verb, Way("now")), Part("and", "et"), clause(other, second, Way("now"))))


def _because(who: Subject, reasoned: tuple[Verb, Adjective], past: bool) -> Part | None:
    """Anna is crying because she is sad: parce qu'elle est triste."""
    verb, adjective = reasoned
    if contradicts(adjective, who.content):
        return None
    if not (who.gender or adjective.epicene) or (verb.etre and past and not who.gender):
        return None
    they = _pronoun(who)
    reason = being(they, described(adjective, they), "yes", "was" if past else "now")
    first = clause(who, verb, Way("past" if past else "now"))
    return say(join(first, Part("because", "parce que"), reason), ".", who)


def _pronoun(who: Subject) -> Subject:
    if who.person not in (HE.person, PAIRS[0].person):
        return who
    if who.plural:
        return Subject("they", "elles" if who.gender == "f" else "ils", (), who.gender, True, who.person)
    return SHE if who.gender == "f" else HE


def _asks(wh: Part, tense: str, who: Subject, verb: Verb) -> Part | None:
    if tense == "past" and verb.etre and not who.gender:
        return None
    return say(clause(who, verb, Way(tense, "ask", wh)), "?", who)


def _with(who: Subject, verb: Verb, other: Subject | Noun, way: Way) -> Part | None:
    whom = somebody(who, other)
    if whom is None or (way.tense == "past" and verb.etre and not who.gender):
        return None
    return tell(way.mood, clause(who, verb, way, join(Part("with", "avec"), whom)), who)


def _moving(name: str, size: int, way: Way, *slots: list[Subject] | list[Verb] | list[Part]) -> Pattern:
    return pattern(name, size, partial(_moves, way), *slots)


_REASONS = {
    "cry": ("sad", "tired", "sick", "worried", "jealous"),
    "smile": ("happy", "proud", "kind", "polite"),
    "laugh": ("happy",),
    "sing": ("happy",),
    "dance": ("happy",),
    "rest": ("tired", "sick"),
    "sleep": ("tired", "sick"),
    "stay": ("sick", "tired", "busy", "shy"),
    "leave": ("tired", "busy", "sad", "jealous"),
    "run": ("athletic", "active"),
    "work": ("serious",),
}

_REASONED = [(_MOVE[verb], ADJECTIVES[adjective]) for verb, adjectives in _REASONS.items() for adjective in adjectives]

_RUNNING = [verb for verb in MOVES if verb.en not in ("fall", "stay", "arrive")]

_ALL = [verb for verb in MOVES if verb.en != "fall"]

_ABLE = [verb for verb in _ALL if verb.en not in ("arrive", "wake up", "laugh", "cry", "smile")]

_HABITUAL = [
    verb for verb in MOVES if "habit" in verb.kinds and not verb.reflexive and verb.en not in ("play", "sleep")
]

_BABY = [_MOVE[en] for en in ("sleep", "cry", "laugh", "smile", "play", "fall", "wake up")]

_PLEASURES = [(verb, NOTHING) for verb in _HABITUAL if verb.en not in ("sleep", "rest")] + [
    (_MOVE["play"], game) for game in _PLAYED
]

_LIKING = [VERBS["like"], VERBS["hate"]]


PATTERNS: list[Pattern] = [
    pattern("Paul likes to swim", 350, _likes_to, ANYONE, _LIKING, ["yes", "yes", "no", "ask"], _PLEASURES),
    _moving("Anna is sleeping", 600, Way("now"), TALKING, _RUNNING),
    _moving("the baby is sleeping", 21, Way("now"), BABIES, _BABY),
    _moving("the baby cried", 80, Way("past"), BABIES, _BABY, [NOTHING, *PAST[:3]]),
    _moving("Anna is not sleeping", 250, Way("now", "no"), TALKING, _RUNNING),
    _moving("is Anna sleeping?", 300, Way("now", "ask"), KNOWN, _RUNNING),
    _moving("Anna left yesterday", 750, Way("past"), ANYONE, MOVES, [NOTHING, NOTHING, *PAST[:3]]),
    _moving("Anna did not leave", 450, Way("past", "no"), ANYONE, MOVES),
    _moving("did Anna leave yesterday?", 450, Way("past", "ask"), KNOWN, MOVES, [NOTHING, *PAST[:3]]),
    _moving("Anna is going to leave", 450, Way("future"), ANYONE, _ALL, [NOTHING, *FUTURE[:3]]),
    _moving("Anna can swim", 250, Way("can"), ANYONE, _ABLE),
    _moving("Anna cannot swim", 200, Way("can", "no"), ANYONE, _ABLE),
    _moving("Anna must leave", 250, Way("must"), ANYONE, _ABLE),
    _moving("Anna wants to leave", 250, Way("want"), ANYONE, _ABLE),
    _moving("does Anna want to leave?", 250, Way("want", "ask"), KNOWN, _ABLE),
    _moving("Anna swims every day", 250, Way("habit"), ANYONE, _HABITUAL, HABIT),
    _moving("Anna often swims", 200, Way("habit", "often"), ANYONE, _HABITUAL),
    _moving("Anna never swims", 200, Way("habit", "never"), ANYONE, _HABITUAL),
    pattern("Paul is playing the piano", 350, partial(_plays, Way("now")), ANYONE, _PLAYED),
    pattern("is Paul playing the piano?", 200, partial(_plays, Way("now", "ask")), KNOWN, _PLAYED),
    pattern("Paul plays tennis every day", 300, partial(_plays, Way("habit")), ANYONE, _PLAYED, HABIT),
    pattern(
        "Paul played tennis yesterday",
        300,
        partial(_plays, Way("past")),
        ANYONE,
        _PLAYED,
        [NOTHING, *PAST],
    ),
    pattern(
        "Paul wants to play tennis",
        300,
        partial(_plays, Way("want")),
        ANYONE,
        _PLAYED,
        [NOTHING, *FUTURE[:3]],
    ),
    pattern("Paul is singing and Anna is dancing", 350, _and, ANYONE, _RUNNING[:14], THIRDS, _RUNNING[:14]),
    pattern(
        "Anna is crying because she is sad",
        550,
        _because,
        ANYONE,
        _REASONED,
        [False, True],
    ),
    pattern("why is Anna crying?", 250, partial(_asks, Part("why", "pourquoi")), ["now"], KNOWN, _RUNNING),
    pattern("why did Anna cry?", 250, partial(_asks, Part("why", "pourquoi")), ["past"], KNOWN, MOVES),
    pattern(
        "when is Anna leaving?",
        200,
        partial(_asks, Part("when", "quand")),
        ["now", "future"],
        KNOWN,
        [_MOVE[en] for en in ("leave", "arrive", "come back", "go out")],
    ),
    pattern(
        "when did Anna leave?",
        200,
        partial(_asks, Part("when", "quand")),
        ["past"],
        KNOWN,
        [verb for verb in MOVES if verb.etre and verb.en != "stay"],
    ),
    pattern(
        "Anna is dancing with her sister",
        500,
        _with,
        ANYONE,
        [_MOVE[en] for en in ("dance", "sing", "work", "study", "cook", "play", "run", "swim", "walk", "go out")],
        OTHERS,
        [
            Way("now"),
            Way("now", "ask"),
            Way("past"),
            Way("future"),
            Way("want"),
            Way("habit", "often"),
            Way("habit", "never"),
        ],
    ),
]
