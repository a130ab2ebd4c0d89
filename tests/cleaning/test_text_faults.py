"""Boilerplate, rare characters and wrong decoding among texts that have none of them."""

import random

import pytest

from clearhead.cleaning.text_faults import boilerplate, decoding_faults, rare_characters, restored

TEXTS = [f"Line {n} of a report. Subject: a quick fox, five dozen jugs, {n} boxes of wax." for n in range(1200)]


def planted(*changed: str) -> tuple[list[str], list[int]]:
    """The texts, some of them changed, and the indices of these."""
    places = sorted(random.Random(len(changed)).sample(range(len(TEXTS)), len(changed)))
    texts = [*TEXTS]
    for place, text in zip(places, changed):
        texts[place] = text
    return texts, places


@pytest.mark.parametrize("form", ["{} Click here to read more.", "All rights reserved - {}", "{}\nSent from  my phone"])
def test_a_sentence_at_the_end_of_many_different_texts_is_boilerplate(form: str) -> None:
    texts, places = planted(*(form.format(f"News {n} are here.") for n in range(8)))
    found = [*boilerplate(texts)]
    assert [place for place, _ in found] == places and all(why.endswith("as in 8 texts") for _, why in found)


def test_repeated_texts_short_phrases_and_few_texts_are_not_boilerplate() -> None:
    same = ["The same text. Click here to read more."] * 8
    short = [f"Thank you. News {n} are here." for n in range(8)]
    few = [f"News {n} are here. Click here to read more." for n in range(3)]
    assert not [*boilerplate(planted(*same, *short, *few)[0])]


def test_personal_data_in_boilerplate_are_not_shown() -> None:
    texts, places = planted(*(f"News {n} are here. Write to ann@example.com today." for n in range(8)))
    assert [*boilerplate(texts)] == [(place, "personal data, as in 8 texts") for place in places]


def test_a_character_that_no_other_text_has_is_named() -> None:
    texts, (place,) = planted("A quick\u200b fox.")
    assert [*rare_characters(texts)] == [(place, "U+200B ZERO WIDTH SPACE")]
    assert [*rare_characters(texts[: place + 1][-500:])] == []  # too few texts to tell


def test_a_script_with_many_characters_has_rare_ones() -> None:
    texts, _ = planted(*(chr(0x4E00 + n) for n in range(100)))
    assert [*rare_characters(texts)] == []


def test_a_rare_letter_is_named_as_it_is_written() -> None:
    assert [*rare_characters([*["abcs"] * 999, "xßs"])] == [(999, "U+0078 LATIN SMALL LETTER X")]
    assert [*rare_characters([*["abcs"] * 999, "ßs"])] == [(999, "U+00DF LATIN SMALL LETTER SHARP S")]


def test_wrong_decoding_is_undone_where_every_byte_fits() -> None:
    text = "L'été où « ça » brûle – Œuvre"
    once, latin = (text.encode().decode(it, "ignore") for it in ("mac_roman", "latin-1"))
    assert restored(once) == restored(latin) == restored(latin.encode().decode("latin-1")) == text
    for certain in (text, "plain", f"{latin} é", "Lâ€™Ã"):  # right, right, right in part, and cut
        assert restored(certain) == certain


def test_one_letter_decoded_wrongly_or_lost_at_the_beginning_of_a_word_is_enough() -> None:
    right = [
        "Il est refusé.",
        "Où est-ce ?",
        "Quoi ?!",
        "Il a dit : « Où ? »",
        "√2 est irrationnel",
        "├── dossier",
    ] * 100
    wrong = [text.encode().decode(it) for text in ("à cause", "refusé.") for it in ("cp437", "mac_roman", "cp1252")]
    lost = ["?pais", "F??e", "gar?on"]
    assert [place for place, _ in decoding_faults([*right, *wrong, *lost])] == [*range(600, 609)]
