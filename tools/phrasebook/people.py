"""The subjects of the sentences: names, pronouns, family members, and people who can be addressed."""

from . import lexicon
from .grammar import (
    HER,
    HIS,
    ILS,
    JE,
    MY,
    NOUS,
    OUR,
    THE,
    THIS,
    TU,
    VOUS,
    Determiner,
    Nominal,
    Part,
    Subject,
    join,
    noun_phrase,
    own,
    subject,
)
from .words import ADJECTIVES, COMPANIONS, FIRST_NAMES, NOUNS, Noun, nouns, rows

MYSELF = Subject("I", "je", (), "", False, JE)
OURSELVES = Subject("we", "nous", (), "", True, NOUS)
HE = Subject("he", "il", (), "m")
SHE = Subject("she", "elle", (), "f")
NAMES = [Subject(name.en, name.en, (name.en,), name.gender) for name in FIRST_NAMES]


def _you(en: str, fr: str, form: str, person: str) -> Subject:
    singular = {each.en_plural: each.en for each in NOUNS.values()}
    call = Part(en, fr, (singular.get(en, en),))
    return Subject("you", person, (), form[0], form[1] == "p", TU if person == "tu" else VOUS, call)


YOU = [_you(name.en, name.en, f"{name.gender}s", "tu") for name in FIRST_NAMES]
YOU += [_you(*cells) for cells in rows(lexicon.CALLED)]


def _both(first: Subject, second: Subject) -> Subject:
    gender = "f" if first.gender == second.gender == "f" else "m"
    en, fr = f"{first.en} and {second.en}", f"{first.fr} et {second.fr}"
    return Subject(en, fr, first.content + second.content, gender, True, ILS)


def _noun(det: Determiner, en: str, plural: bool = False) -> Subject:
    return subject(noun_phrase(det, NOUNS[en], plural))


def _companions() -> list[Subject]:
    found = []
    for det in (MY, OUR):
        for role in COMPANIONS:
            for name in NAMES:
                phrase = join(noun_phrase(det, role[name.gender]), name)
                found.append(subject(Nominal(phrase.en, phrase.fr, phrase.content, name.gender)))
    return found


def _described_folk() -> list[Subject]:
    """Return people as a subject: the old man, these intelligent girls."""
    kinds = {"man": {"person", "adult"}, "woman": {"person", "adult"}, "boy": {"person"}, "girl": {"person"}}
    return [
        subject(noun_phrase(det, NOUNS[en], plural, adjective))
        for adjective in ADJECTIVES.values()
        for en, fitting in kinds.items()
        if adjective.place != "be" and not fitting.isdisjoint(adjective.kinds)
        for det in (THE, THIS)
        for plural in (False, True)
    ]


PAIRS = [
    _both(a, NAMES[(5 * i + step) % 16])
    for i, a in enumerate(NAMES)
    for step in (3, 7)
    if a is not NAMES[(5 * i + step) % 16]
]
KIN = [subject(noun_phrase(det, noun)) for noun in nouns("kin") for det in (MY, HIS, HER, OUR)]
KIN += [_noun(MY, "husband"), _noun(HER, "husband"), _noun(MY, "wife"), _noun(HIS, "wife")]
FAMILIES = [subject(noun_phrase(det, noun, True)) for noun in nouns("several") for det in (MY, OUR)]
FAMILIES += [_noun(det, "parent", True) for det in (MY, HIS, HER, OUR)]
FOLK = [_noun(THE, en) for en in ("man", "woman", "boy", "girl", "king", "queen")]
CROWDS = [_noun(THE, en, True) for en in ("man", "woman", "boy", "girl", "child")]
PASSERS_BY = FOLK[:4] + CROWDS  # "the man" is a stranger
DESCRIBED_FOLK = _described_folk()
BABIES = [_noun(det, "baby") for det in (THE, MY, OUR)]
COMPANIONSHIP = _companions()

# Lists of subjects, in which short lists are repeated so that they're used as often as long ones.
_PLURAL_YOU = [you for you in YOU if you.fr == "vous"]
THIRDS = NAMES * 2 + [HE, SHE] * 8 + KIN + FAMILIES + FOLK * 2 + CROWDS * 2 + COMPANIONSHIP[::5] + PAIRS
THIRDS += DESCRIBED_FOLK[::5]
MANY = FAMILIES * 2 + CROWDS * 3 + PAIRS + _PLURAL_YOU * 2
KNOWN = THIRDS + YOU * 2 + _PLURAL_YOU * 2  # subjects with a known gender
ANYONE = KNOWN + [MYSELF, OURSELVES] * 30
TALKING = ANYONE + [MYSELF, OURSELVES] * 30 + YOU + _PLURAL_YOU * 4  # for the present, where French forms differ most
_CHILDREN = {"boy", "girl", "child"}
GROWN = [who for who in ANYONE if not _CHILDREN & {*who.content, *who.call.content}]

# People that something is done to, or that are compared. A noun is a relative of the subject.
OTHERS = NAMES * 3 + nouns("kin") + FOLK + CROWDS + COMPANIONSHIP[::5]


def somebody(who: Subject, other: Subject | Noun) -> Nominal | None:
    """Return the other person as the subject calls them: Anna helps her sister. None for oneself and for in-laws."""
    if isinstance(other, Noun):
        young = other.en in ("son", "daughter") and _CHILDREN & {*who.content, *who.call.content}
        return None if young or who in KIN or who in FAMILIES else noun_phrase(own(who), other)
    return None if {*who.content, *who.call.content} & {*other.content} else other
