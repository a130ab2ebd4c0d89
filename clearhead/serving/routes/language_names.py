"""English names of languages, by their ISO 639-1 codes."""

from collections.abc import Mapping
from types import MappingProxyType

_NAMES = """
ar Arabic, az Azerbaijani, be Belarusian, bg Bulgarian, bn Bengali, ca Catalan, cs Czech, cy Welsh, da Danish,
de German, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr
French, ga Irish, gl Galician, gu Gujarati, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy Armenian, id
Indonesian, is Icelandic, it Italian, ja Japanese, ka Georgian, kk Kazakh, ko Korean, ky Kyrgyz, la Latin, lb
Luxembourgish, lt Lithuanian, lv Latvian, mk Macedonian, mr Marathi, ms Malay, nb Norwegian, nl Dutch, no
Norwegian, pa Punjabi, pl Polish, pt Portuguese, ro Romanian, ru Russian, sk Slovak, sl Slovenian, sq
Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, th Thai, tl Tagalog, tr Turkish, uk
Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, zh Chinese, und Undetermined
"""
LANGUAGE_NAMES: Mapping[str, str] = MappingProxyType(
    dict(entry.split() for entry in _NAMES.replace("\n", " ").strip().split(", "))
)
