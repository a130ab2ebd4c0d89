"""The lexicon as objects: nouns, adjectives, verbs and numbers with all their forms."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from . import english, french, lexicon, lexicon_verbs


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages. Its `kinds` determine which sentences it fits."""

    en: str
    en_plural: str
    fr: str
    fr_plural: str
    gender: str  # "m" or "f"
    family: str  # the first of its kinds; comparisons stay within it
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages."""

    en: str
    forms: dict[str, str]  # ms fs mp fp, and mv: masculine before a vowel
    place: str  # "before" or "after" the noun; "be": only after the verb
    more: str  # the English comparative, or "" if there is none
    kinds: tuple[str, ...]

    def form(self, gender: str, plural: bool) -> str:
        """Return the French form for a gender and a number."""
        return self.forms[gender + ("p" if plural else "s")]

    @property
    def epicene(self) -> bool:
        """True if masculine and feminine are the same, so that "I am sad" is unambiguous."""
        return self.forms["ms"] == self.forms["fs"]


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages."""

    en: str
    third: str
    past: str
    ing: str
    infinitive: str  # without "se"
    present: tuple[str, ...]  # je, tu, il, nous, vous, ils
    participle: str
    etre: bool  # True if the past is formed with être
    reflexive: bool
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A first name, the same in both languages."""

    en: str
    gender: str


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table, row by row. A line that starts with a space continues the row above."""
    lines = re.sub(r"\n +", " ", table.strip()).splitlines()
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def fits(noun: Noun, kinds: Iterable[str]) -> bool:
    """Return whether `kinds` contains the noun or one of its kinds, and doesn't exclude it with `-`."""
    names = noun.kinds | {noun.en.replace(" ", "-")}
    return not names.isdisjoint(kinds) and {f"-{name}" for name in names}.isdisjoint(kinds)


def _noun(english_forms: str, french_forms: str, kinds: str) -> Noun:
    en, *en_plural = english_forms.split("/")
    forms, gender = french_forms.rsplit(" ", 1)
    fr, *fr_plural = forms.split("/")
    return Noun(
        en=en,
        en_plural=en_plural[0] if en_plural else english.plural(en),
        fr=fr,
        fr_plural=fr_plural[0] if fr_plural else french.plural(fr),
        gender=gender,
        family=kinds.split()[0],
        kinds=frozenset(kinds.split()),
    )


def _adjective(en: str, forms: str, place: str, more: str, kinds: str) -> Adjective:
    masculine, *given = forms.split("/")
    feminine = given[0] if given else french.feminine(masculine)
    masculines = given[1] if given[1:] else french.plural(masculine)
    invariable = masculines == masculine and masculine[-1] not in "sx"
    groups = dict(rows(lexicon.GROUPS))
    return Adjective(
        en=en,
        forms={
            "ms": masculine,
            "fs": feminine,
            "mp": masculines,
            "fp": feminine if invariable else french.plural(feminine),
            "mv": given[2] if given[2:] else masculine,
        },
        place=place,
        more={"": f"more {en}", "-": ""}.get(more, more),
        kinds=tuple(part for kind in kinds.split() for part in groups.get(kind, kind).split()),
    )


_IRREGULAR = {cells[0]: cells[1:] for cells in rows(lexicon_verbs.IRREGULAR)}


def _verb(english_forms: str, infinitive: str, kinds: str = "") -> Verb:
    en, *given = english_forms.split("/")
    bare = infinitive.removeprefix("se ")
    present, participle = _IRREGULAR.get(bare, ("", ""))
    words = kinds.split()
    return Verb(
        en=en,
        third=english.third(en),
        past=given[0] if given else english.past(en),
        ing=given[1] if given[1:] else english.ing(en),
        infinitive=bare,
        present=tuple(present.split()) if present else french.present(bare),
        participle=participle or french.participle(bare),
        etre="être" in words,
        reflexive=bare != infinitive,
        kinds=tuple(words),
    )


FIRST_NAMES = [Name(*cells) for cells in rows(lexicon.NAMES)]
NOUNS = {cells[0].split("/")[0]: _noun(*cells) for cells in rows(lexicon.NOUNS)}
ADJECTIVES = {cells[0]: _adjective(*cells) for cells in rows(lexicon.ADJECTIVES)}
ACTIONS = [_verb(*cells) for cells in rows(lexicon_verbs.ACTIONS)]
GIFTS = [_verb(*cells) for cells in rows(lexicon_verbs.GIFTS)]
MOVES = [_verb(*cells) for cells in rows(lexicon_verbs.MOVES)]
VERBS = {cells[0].split("/")[0]: _verb(*cells) for cells in rows(lexicon_verbs.HELPERS)}


def _by_gender(en: str, forms: str) -> dict[str, Noun]:
    return {gender: _noun(en, f"{fr} {gender}", "role") for gender, fr in zip("mf", forms.split(), strict=True)}


COMPANIONS = [_by_gender(*cells) for cells in rows(lexicon.COMPANIONS)]  # by gender
PROFESSIONS = [_by_gender(*cells) for cells in rows(lexicon.PROFESSIONS)]


def nouns(*kinds: str) -> list[Noun]:
    """Return the nouns of the kinds, in table order."""
    return [noun for noun in NOUNS.values() if fits(noun, kinds)]


@cache
def number(n: int) -> tuple[str, str, str]:
    """Return a number from 1 to 100 in English, in French, and in French before a feminine noun."""
    if n == 100:
        return "one hundred", "cent", "cent"
    units_en, units_fr = lexicon_verbs.UNITS, lexicon_verbs.UNITS_FR
    if n < 20:
        return units_en[n - 1], units_fr[n - 1], "une" if n == 1 else units_fr[n - 1]
    ten, unit = divmod(n, 10)
    en = lexicon_verbs.TENS[ten - 2] + (f"-{units_en[unit - 1]}" if unit else "")
    start = lexicon_verbs.TENS_FR[ten - 2]
    rest = unit + (10 if ten in (7, 9) else 0)  # seventy is soixante-dix, ninety is quatre-vingt-dix
    if not rest:
        fr = start + ("s" if n == 80 else "")
    elif rest in (1, 11) and ten < 8:
        fr = f"{start} et {units_fr[rest - 1]}"
    else:
        fr = f"{start}-{units_fr[rest - 1]}"
    return en, fr, fr + "e" if rest == 1 else fr
