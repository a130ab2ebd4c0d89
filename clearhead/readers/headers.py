"""Which columns of a table, or keys of JSON, hold source and target: by their names, or as somebody asks for them."""

import math
import re
from collections.abc import Sequence

from ..config import DataConfig
from ..errors import DataError, did_you_mean
from .lines import shown

_SHOWN = 20  # names in a message
_LABELLED = 20  # cells that tell a label from a short sentence that comes again

# A language's code and names; one word a language is enough where its own name and the English one are the same.
_LANGUAGES = """
en eng english anglais englisch inglés inglese inglês | fr fra fre french français francais französisch francés
francese | de deu ger german allemand deutsch alemán tedesco | es spa spanish espagnol spanisch español espanol
| it ita italian italien italienisch italiano | pt por portuguese portugais português | nl nld dut dutch
néerlandais nederlands | ru rus russian russe russisch русский | uk ukr ukrainian українська | pl pol polish
polonais polski | cs ces cze czech čeština | sv swe swedish svenska | da dan danish dansk | nb nob norwegian
norsk | fi fin finnish suomi | hu hun hungarian magyar | ro ron rum romanian română | el ell gre greek ελληνικά
| bg bul bulgarian български | hr hrv croatian hrvatski | sr srp serbian српски srpski | sk slk slovak slovenčina
| sl slv slovenian slovene slovenščina | lt lit lithuanian lietuvių | lv lav latvian latviešu | estonian eesti
| icelandic íslenska | ga gle irish gaeilge | cy cym wel welsh cymraeg | eu eus baq basque euskara
| ca cat catalan català | gl glg galician galego | latin | eo epo esperanto | sq sqi alb albanian shqip
| mk mkd macedonian македонски | hy hye armenian հայերեն | ka kat geo georgian ქართული
| kk kaz kazakh қазақ | uz uzb uzbek | bn bengali বাংলা | ur urd urdu اردو | ta tam tamil தமிழ் | te telugu తెలుగు
| sw swa swahili kiswahili | ms msa malay | tl fil tagalog filipino | af afr afrikaans | mn mongolian монгол
| tr tur turkish türkçe | ar ara arabic العربية | he heb hebrew עברית | fa fas per persian فارسی | hi hin hindi
हिन्दी | zh zho chi cmn chinese 中文 | ja jpn japanese 日本語 | ko kor korean 한국어 | vi vie vietnamese | id ind
indonesian | th tha thai ไทย
"""
_SIDES = "source src input original sentence text from | target tgt trg output translation to"


def _groups(text: str) -> dict[str, int]:
    return {word: number for number, group in enumerate(text.split("|")) for word in group.split()}


_LANGUAGE_TABLE = _groups(_LANGUAGES)
_TABLES = (_LANGUAGE_TABLE, _groups(_SIDES))


def named_pair(names: Sequence[str], cells: Sequence[Sequence[str]] = ()) -> tuple[int, int] | None:
    """Where source and target stand among names of columns; None unless just two of these are recognisable.

    They are two languages, in their order, or "source" and "target", whatever their order. One and the same language
    twice ("English", "Anglais") is a line of a dictionary and names nothing. `cells` has what stands in each column:
    "id" is Indonesian above sentences alone.
    """
    sentences = [sum(" " in cell.strip() for cell in column) * 2 > len(column) for column in cells]
    names = [it if is_text or it.strip().casefold() != "id" else "" for it, is_text in zip(names, sentences)] or names
    for table in _TABLES:
        words = [table is _LANGUAGE_TABLE and _is_word(name.strip()) for name in names]
        groups = [None if word else table.get(_plain(name.strip())) for name, word in zip(names, words)]
        known = [place for place, group in enumerate(groups) if group is not None]
        if len(known) == 2 and groups[known[0]] != groups[known[1]]:
            first, second = known if table is _LANGUAGE_TABLE else sorted(known, key=lambda place: groups[place] or 0)
            return first, second
    return None


def holds_no_sentences(column: Sequence[str]) -> bool:
    """Whether these cells, below each other, are numbers or labels: languages, or few words again and again."""
    if all(map(is_number, column)):
        return True
    if len(column) > 1 and all(_plain(cell.strip()) in _LANGUAGE_TABLE for cell in column):
        return True
    few = len(column) >= _LABELLED and len(set(column)) <= len(column) / 10
    return few and all(re.fullmatch(r"[\w-]+", cell) for cell in column)


def is_number(cell: str) -> bool:
    """Whether it is one, be it the score of an alignment: 12, -3, 1.2498."""
    try:
        return cell.isascii() and math.isfinite(float(cell.strip('"')))  # of a TSV a quote is part of the cell
    except ValueError:
        return False


def asked_columns(name: str, names: Sequence[str], data: DataConfig, what: str = "column") -> tuple[int, int] | None:
    """Where the columns stand that `data` asks for, by name or by number from 1; None where it asks for none.

    A DataError where there is no such column, or where one of more than two is left open; it begins with `name`.
    """
    asked = [data.source_column, data.target_column]
    if not any(asked):
        return None
    found = [_place(name, names, it, what) if it else None for it in asked]
    if len(names) == 2:
        found = [
            1 - other if place is None and other is not None else place for place, other in zip(found, found[::-1])
        ]
    source, target = found
    if source is None or target is None:
        missing, given = ("source", data.target_column) if source is None else ("target", data.source_column)
        raise DataError(
            f"{name}: of its {len(names)} {what}s, {given!r} is asked for and no other; expected --{missing}-column too"
            f"\n  {what}s: {listed(names)}"
        )
    if source == target:
        raise DataError(
            f"{name}: source and target are both {what} {data.source_column!r}; expected two different ones"
            f"\n  {what}s: {listed(names)}"
        )
    return source, target


def listed(names: Sequence[str]) -> str:
    """Names for a message."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(shown(name, 40)[1:-1] for name in names[:_SHOWN]) + more


def _place(name: str, names: Sequence[str], asked: str, what: str) -> int:
    plain = [it.strip() for it in names]
    if asked in plain:
        return plain.index(asked)
    if asked.isascii() and asked.isdigit() and 1 <= int(asked) <= len(names):
        return int(asked) - 1
    raise DataError(
        f"{name} has no {what} {asked!r}{did_you_mean(asked, plain)}\n  {what}s: {listed(names)}\n"
        f"  expected one of these names, or a number from 1 to {len(names)}"
    )


def _plain(name: str) -> str:
    """Case, region and script do not matter: en_GB, en-US, EN, srp_Cyrl."""
    return re.sub(r"[-_][a-z]{2}([a-z]{2})?$", "", name.casefold())


def _is_word(name: str) -> bool:
    """Whether what might be a language's code is a word of a dictionary: "It", "Es", "He"."""
    return len(name) == 2 and name.istitle()
