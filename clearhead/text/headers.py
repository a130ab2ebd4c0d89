"""Whether the first line of a table is a header: only where it is recognisable as one."""

import re
from collections.abc import Sequence

# A language's code and names; one word a language is enough where its own name and the English one are the same.
_LANGUAGES = """
en eng english anglais englisch inglés inglese inglês | fr fra fre french français francais französisch francés
francese | de deu ger german allemand deutsch alemán tedesco | es spa spanish espagnol spanisch español espanol
| it ita italian italien italienisch italiano | pt por portuguese portugais português | nl nld dut dutch
néerlandais nederlands | ru rus russian russe russisch русский | uk ukr ukrainian українська | pl pol polish
polonais polski | cs ces cze czech čeština | sv swe swedish svenska | da dan danish dansk | nb nob norwegian
norsk | fi fin finnish suomi | hu hun hungarian magyar | ro ron rum romanian română | el ell gre greek ελληνικά
| tr tur turkish türkçe | ar ara arabic العربية | he heb hebrew עברית | fa fas per persian فارسی | hi hin hindi
हिन्दी | zh zho chi cmn chinese 中文 | ja jpn japanese 日本語 | ko kor korean 한국어 | vi vie vietnamese | id ind
indonesian | th tha thai ไทย
"""
_SIDES = "source src input original sentence text from | target tgt trg output translation to"


def _groups(text: str) -> dict[str, int]:
    return {word: number for number, group in enumerate(text.split("|")) for word in group.split()}


_TABLES = (_groups(_LANGUAGES), _groups(_SIDES))


def header_of(line: bytes, columns: Sequence[int]) -> str | None:
    """The header's cells for a message, or None: a header names two languages, or the source and the target.

    One and the same language twice ("English", "Anglais") is a line of a dictionary and no header.
    """
    cells = [cell.strip() for cell in line.decode("utf-8", "replace").split("\t")]
    if len(cells) <= max(columns):
        return None
    first, second = (cells[i] for i in columns)
    for table in _TABLES:
        found = {table.get(_plain(first)), table.get(_plain(second))}
        if None not in found and len(found) == 2:
            return f"({first}, {second})"
    return None


def _plain(cell: str) -> str:
    """Case and region do not matter: en_GB, en-US, EN."""
    return re.sub(r"[-_][a-z]{2}$", "", cell.casefold())
