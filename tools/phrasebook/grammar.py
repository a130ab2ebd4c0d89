"""Build phrases and clauses from words, in both languages at once.

Everything is built from full words. At the end, `say` joins them, and `french.finish` and `english.finish` adapt their
forms. A `Part` is a piece of a sentence in both languages; a `Subject` is a part that a verb agrees with.
"""

from dataclasses import dataclass
from functools import cache

from . import english, french
from .words import VERBS, Adjective, Noun, Verb, number

JE, TU, IL, NOUS, VOUS, ILS = range(6)  # grammatical persons, in the order of the verb tables
_REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
_AM_IS_ARE = ("am", "are", "is", "are", "are", "are")
_WAS = ("was", "were", "was", "were", "were", "were")
_ÉTAIT = ("étais", "étais", "était", "étions", "étiez", "étaient")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a sentence in both languages, with the lemmas of its content words."""

    en: str
    fr: str
    content: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Nominal(Part):
    """A noun phrase, with its French `gender` ("" if the sentence leaves it open) and number."""

    gender: str = "m"
    plural: bool = False


@dataclass(frozen=True, slots=True)
class Subject(Nominal):
    """A noun phrase that a verb agrees with. `call` is the person addressed, who determines tu or vous."""

    person: int = IL
    call: Part = Part("", "")


@dataclass(frozen=True, slots=True)
class Determiner:
    """A determiner, with its English singular and plural, its French ms, fs, mp, fp, and its `content` if a number."""

    en: str
    en_plural: str
    fr: tuple[str, str, str, str]
    content: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """Tense and mood of a verb, and the question word before it."""

    tense: str  # now, habit, past, future, can, must, want
    mood: str = "yes"  # yes, no, ask, never, often, always
    wh: Part = Part("", "")


NOTHING = Part("", "")
VERY = Part("very", "très")
A = Determiner("a", "", ("un", "une", "", ""))
THE = Determiner("the", "the", ("le", "la", "les", "les"))
THIS = Determiner("this", "these", ("ce", "cette", "ces", "ces"))
SOME = Determiner("some", "some", ("de le", "de la", "des", "des"))
DES = Determiner("", "", ("de le", "de la", "des", "des"))  # "they are books": des livres
ANY = Determiner("any", "any", ("de", "de", "de", "de"))  # after a negation
NOT_A = Determiner("a", "", ("de", "de", "", ""))  # the same, for one thing
IN_GENERAL = Determiner("", "", ("le", "la", "les", "les"))  # "I like cats": les chats
NO = Determiner("no", "no", ("de", "de", "de", "de"))  # "there is no cat": il n'y a pas de chat
NO_ARTICLE = Determiner("a", "", ("", "", "", ""))  # "she is a nurse": elle est infirmière
OF = Determiner("", "", ("de", "de", "de", "de"))
WHICH = Determiner("which", "which", ("quel", "quelle", "quels", "quelles"))
WHAT_A = Determiner("what a", "what", ("quel", "quelle", "quels", "quelles"))
MY, HIS, HER, OUR, THEIR, YOUR, YOUR_VOUS = (
    Determiner(en, en, (m, f, several, several))
    for en, m, f, several in (
        ("my", "mon", "ma", "mes"),
        ("his", "son", "sa", "ses"),
        ("her", "son", "sa", "ses"),
        ("our", "notre", "notre", "nos"),
        ("their", "leur", "leur", "leurs"),
        ("your", "ton", "ta", "tes"),
        ("your", "votre", "votre", "vos"),
    )
)


@cache
def count(n: int) -> Determiner:
    """Return a number as a determiner: twenty-one is vingt et une before a feminine."""
    en, masculine, feminine = number(n)
    return Determiner(en, en, (masculine, feminine) * 2, (en,))


def own(subject: Subject) -> Determiner:
    """Return the subject's possessive: "her" for "she", "their" for "they"."""
    of_third = HER if subject.gender == "f" else HIS
    return (MY, YOUR, of_third, OUR, YOUR_VOUS, THEIR)[subject.person]


@cache
def noun_phrase(det: Determiner, noun: Noun, plural: bool = False, *adjectives: Adjective) -> Nominal:
    """Return determiner, adjectives and noun in each language's word order: a small black cat, un petit chat noir."""
    at = 2 * plural + (noun.gender == "f")
    fr_noun, en_noun = (noun.fr_plural, noun.en_plural) if plural else (noun.fr, noun.en)
    before, after = [], []
    for adjective in adjectives:
        if adjective.place == "before":
            vowel = at == 0 and french.starts_with_vowel(fr_noun)
            before.append(adjective.forms["mv"] if vowel else adjective.form(noun.gender, plural))
        else:
            after.append(adjective.form(noun.gender, plural))
    fr_det = "de" if det.fr[at] == "des" and before else det.fr[at]  # de vieux livres
    return Nominal(
        " ".join(filter(None, [det.en_plural if plural else det.en, *(a.en for a in adjectives), en_noun])),
        " ".join(filter(None, [fr_det, *before, fr_noun, *after])),
        (*det.content, *(a.en for a in adjectives), noun.en),
        noun.gender,
        plural,
    )


def subject(phrase: Nominal) -> Subject:
    """Return a noun phrase as a subject."""
    person = ILS if phrase.plural else IL
    return Subject(phrase.en, phrase.fr, phrase.content, phrase.gender, phrase.plural, person)


def pronoun(phrase: Nominal) -> Subject:
    """Return the pronoun for a thing: it or they, il, elle, ils or elles."""
    fr = ("il", "elle", "ils", "elles")[2 * phrase.plural + (phrase.gender == "f")]
    return Subject(
        "they" if phrase.plural else "it", fr, (), phrase.gender, phrase.plural, ILS if phrase.plural else IL
    )


def object_pronoun(phrase: Nominal) -> Nominal:
    """Return the object pronoun for a thing: it or them, le, la or les."""
    fr = "les" if phrase.plural else "la" if phrase.gender == "f" else "le"
    return Nominal("them" if phrase.plural else "it", fr, (), phrase.gender, phrase.plural)


def described(adjective: Adjective, of: Nominal, degree: Part = NOTHING) -> Part:
    """Return an adjective after "to be", with agreement: (very) tired, (très) fatiguée."""
    form = adjective.form(of.gender or "m", of.plural)
    return join(degree, Part(adjective.en, form, (adjective.en,)))


def join(*parts: Part) -> Part:
    """Join parts that have the same order in both languages."""
    return Part(
        " ".join([part.en for part in parts if part.en]),
        " ".join([part.fr for part in parts if part.fr]),
        sum([part.content for part in parts], ()),
    )


def clause(who: Subject, verb: Verb, way: Way, rest: Part = NOTHING, it: Nominal | None = None) -> Part:
    """Return subject, verb and the rest. `it` is an object pronoun, which precedes the verb in French."""
    en = _english_verb(who, verb, way)
    fr = _french_verb(who, verb, way, it)
    return Part(
        " ".join(filter(None, [way.wh.en, en, it.en if it else "", rest.en])),
        " ".join(filter(None, [way.wh.fr, fr, rest.fr])),
        way.wh.content + who.content + (() if verb.en in ("have", "go") else (verb.en,)) + rest.content,
    )


def being(who: Subject, rest: Part, mood: str = "yes", tense: str = "now") -> Part:
    """Return a clause with "to be": now (is, est) or was (was, était)."""
    be = (_AM_IS_ARE if tense == "now" else _WAS)[who.person]
    être = (VERBS["be"].present if tense == "now" else _ÉTAIT)[who.person]
    middle = {"no": " not", "often": " often", "always": " always", "never": " never"}.get(mood, "")
    en = f"{be} {who.en}" if mood == "ask" else f"{who.en} {be}{middle}"
    return Part(f"{en} {rest.en}", f"{_french_order(who, être, mood)} {rest.fr}", who.content + rest.content)


def say(part: Part, mark: str = ".", who: Subject | None = None) -> Part:
    """Return a whole sentence that ends with the name of the person addressed."""
    call = who.call if who else NOTHING
    comma = ", " if call.en else ""
    return Part(
        english.finish(part.en + comma + call.en, mark),
        french.finish(part.fr + comma + call.fr, mark),
        part.content + call.content,
    )


def tell(mood: str, part: Part, who: Subject | None = None) -> Part | None:
    """Return a whole sentence with the punctuation of its mood, or None for a question about oneself."""
    if mood == "ask" and who and who.person in (JE, NOUS):
        return None
    return say(part, "?" if mood == "ask" else ".", who)


def _english_verb(who: Subject, verb: Verb, way: Way) -> str:
    third = who.person == IL
    does, be = "does" if third else "do", _AM_IS_ARE[who.person]
    plain = verb.third if third else verb.en
    auxiliary, bare, inflected = {
        "now": (be, verb.ing, f"{be} {verb.ing}"),
        "habit": (does, verb.en, plain),
        "past": ("did", verb.en, verb.past),
        "future": (be, f"going to {verb.en}", f"{be} going to {verb.en}"),
        "can": ("can", verb.en, f"can {verb.en}"),
        "must": ("must", verb.en, f"must {verb.en}"),
        "want": (does, f"want to {verb.en}", f"want{'s' if third else ''} to {verb.en}"),
    }[way.tense]
    if way.mood == "ask":
        return f"{auxiliary} {who.en} {bare}"
    if way.mood == "no":
        return f"{who.en} {auxiliary}{'' if auxiliary == 'can' else ' '}not {bare}"
    adverb = "" if way.mood == "yes" else f"{way.mood} "
    return f"{who.en} {adverb}{inflected}"


def _french_verb(who: Subject, verb: Verb, way: Way, it: Nominal | None) -> str:
    before = _REFLEXIVE[who.person] if verb.reflexive else it.fr if it else ""
    if way.tense in ("now", "habit"):
        return _french_order(who, verb.present[who.person], way.mood, before)
    if way.tense == "past":
        auxiliary, agreeing = (VERBS["be"], who) if verb.etre or verb.reflexive else (VERBS["have"], it)
        participle = verb.participle
        if agreeing:
            participle = french.agree(participle, feminine=agreeing.gender == "f", plural=agreeing.plural)
        return f"{_french_order(who, auxiliary.present[who.person], way.mood, before)} {participle}"
    helper = "go" if way.tense == "future" else way.tense
    infinitive = f"{before} {verb.infinitive}" if before else verb.infinitive
    return f"{_french_order(who, VERBS[helper].present[who.person], way.mood)} {infinitive}"


def _french_order(who: Subject, finite: str, mood: str, before: str = "") -> str:
    verb = f"{before} {finite}" if before else finite
    if mood == "ask":
        return f"est-ce que {who.fr} {verb}"
    if mood in ("no", "never"):
        return f"{who.fr} ne {verb} {'pas' if mood == 'no' else 'jamais'}"
    return f"{who.fr} {verb}" + {"often": " souvent", "always": " toujours"}.get(mood, "")
