"""Recognise header rows by names of languages, or by how they differ from the rows below."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence

from .columns import data_type, is_number, n_words

_LABELLED = 20  # cells needed to tell a label from a repeated short sentence
_FEWEST = 3  # rows below a header needed to recognise it
_SURPRISE = 0.05  # probability that an ordinary row is this different
_OF_TEXTS_ALONE = 0.002  # the same, if only the lengths of texts differ: the first sentence may be a short one
_NAME = 50, 5  # maximum characters and words of a column name

# Codes and names of languages, in English and in the language itself.
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
    """Return the positions of source and target among column names, or None unless exactly two names are known.

    The names can be two languages, source first, or "source" and "target" in any order. The same language twice
    ("English", "Anglais") is a dictionary entry, not a header. `cells`, the cells of each column, prevent mistakes:
    "id" means Indonesian only above sentences, and "from" and "to" aren't source and target above addresses or dates.
    """
    names = [_unless_misleading(*it) for it in zip(names, cells)] or names
    for table in _TABLES:
        words = [table is _LANGUAGE_TABLE and _is_word(name.strip()) for name in names]
        groups = [None if word else table.get(_plain(name.strip())) for name, word in zip(names, words)]
        known = [place for place, group in enumerate(groups) if group is not None]
        if len(known) == 2 and groups[known[0]] != groups[known[1]]:
            first, second = known if table is _LANGUAGE_TABLE else sorted(known, key=lambda place: groups[place] or 0)
            return first, second
    return None


def _unless_misleading(name: str, column: Sequence[str]) -> str:
    """Return the name of a column, or "" if its cells show that it isn't a language or a side of a pair."""
    sentences = sum(" " in cell.strip() for cell in column) * 2 > len(column)
    is_number = name.strip().casefold() == "id" and not sentences
    return "" if is_number or data_type(column) in ("address", "date") else name


def are_languages(column: Sequence[str]) -> bool:
    """Return whether every cell is the name or code of a language."""
    return len(column) > 1 and all(_plain(cell.strip()) in _LANGUAGE_TABLE for cell in column)


def holds_no_sentences(column: Sequence[str]) -> bool:
    """Return whether the cells are numbers, languages, or a few repeated words."""
    if all(map(is_number, column)) or are_languages(column):
        return True
    few = len(column) >= _LABELLED and len(set(column)) <= len(column) / 10
    return few and all(re.fullmatch(r"[\w-]+", cell) for cell in column)


def looks_like_header(first: Sequence[str], each: Sequence[Sequence[str]], known: Collection[str] = ()) -> bool:
    """Return whether the first row differs enough from the rows below it to be a header.

    If it were a row like the others, each of its cells would be as likely as any other cell of its column to be the odd
    one out: a word above numbers or dates, a value that occurs nowhere below, the shortest of all texts. The product of
    these probabilities must be below 5%. A row isn't a header if one of its cells can't be a name or occurs below.
    Equal cells may be a word and its translation, so they're a header only if they're known above longer texts.

    Args:
        first: the cells of the first row.
        each: the cells below, for each column.
        known: usual names of columns, in lower case.
    """
    cells = [cell.strip() for cell in first]
    names = [cell.casefold() for cell in cells if cell]
    same = len({*names}) < len(names)
    if len(names) < 2 or (same and not {*names} <= {*known}) or not all(_may_be_name(cell) for cell in cells if cell):
        return False
    columns = [[below.strip() for below in column if below.strip()] for column in each]
    if len(each) != len(cells) or any(cell in column for cell, column in zip(cells, columns) if cell):
        return False
    chances: dict[str, float] = {"values": 1.0, "types": 1.0, "texts": 1.0}
    for cell, column in zip(cells, columns):
        if cell and len(column) >= _FEWEST:
            evidence, chance = _surprise(cell, column)
            if evidence == "texts" and chance > 0.5:
                return False
            chances[evidence] *= chance
    if same or chances["types"] == chances["values"] == 1:
        return chances["texts"] < _OF_TEXTS_ALONE
    return min(chances["types"], chances["texts"]) < 0.5 and math.prod(chances.values()) < _SURPRISE


def _surprise(cell: str, column: Sequence[str]) -> tuple[str, float]:
    """Return the kind of difference between the cell and its column, and the probability of such a difference."""
    many = len(column) + 1
    kind = data_type(column)
    if kind:
        others = sum(data_type([it]) != kind for it in column)
        return "types", (1 + others) / many if data_type([cell]) != kind else 1.0
    counts = Counter(column)
    if len(counts) <= len(column) / 2:  # Good and Turing: unseen values are as frequent as those seen once
        seen_once = sum(count == 1 for count in counts.values())
        return "values", max(seen_once, 1) / many if len(counts) > 1 else 1.0
    return "texts", (1 + sum(n_words(it) <= n_words(cell) for it in column)) / many


def _may_be_name(cell: str) -> bool:
    letters, words = _NAME
    fits = len(cell) <= letters and len(cell.split()) <= words
    return fits and cell[-1] not in ".!?…。！？,;" and data_type([cell]) not in ("number", "date", "address")


def _plain(name: str) -> str:
    """Drop case, region and script: en_GB, en-US, EN, srp_Cyrl."""
    return re.sub(r"[-_][a-z]{2}([a-z]{2})?$", "", name.casefold())


def _is_word(name: str) -> bool:
    """Return whether a language code could be an ordinary word: "It", "Es", "He"."""
    return len(name) == 2 and name.istitle()
