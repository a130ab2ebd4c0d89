import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.scoring.sentences import sentences, word_places, words


@pytest.mark.parametrize(
    "expected",
    [
        ["It rained.", "We stayed in!", "Did you?", "“Yes.”", "No… Never."],
        ["He wrote “Go!” and left.", "(It was late.)", "42 people came."],
        ["Dr. No met J. R. Smith of the U.S. Army.", "They spoke, e.g. of Mr. Bond, at 3.15 p.m. or so."],
        ["Il est là.", "À bientôt !", "Élise dort."],
        ["no full stop at all"],
    ],
)
def test_sentences_end_at_stops_but_not_at_those_of_abbreviations(expected: list[str]) -> None:
    joined = [part for sentence in expected for part in sentence.split("… ")]
    given = "  ".join(expected)
    assert sentences(given) == [it + "…" if it == "No" else it for it in joined]


def test_scripts_without_spaces_end_their_sentences_too() -> None:
    assert sentences("今日は雨です。「行こう！」彼は言った。") == ["今日は雨です。", "「行こう！」", "彼は言った。"]


def test_a_line_break_ends_a_sentence_and_blank_lines_are_none() -> None:
    assert sentences("Ann: hi\r\n\n  Bob: hello. Yes.\n") == ["Ann: hi", "Bob: hello.", "Yes."]
    assert sentences("") == sentences(" \n ") == []


@given(st.text())
def test_sentences_lose_and_add_nothing_but_white_space(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@given(st.text())
def test_words_are_where_they_are_said_to_be_and_all_letters_are_in_them(text: str) -> None:
    places = list(word_places(text))
    assert sum(places, ()) == tuple(sorted(sum(places, ()))) and len(words(text)) == len(places)
    inside = {place for start, end in places for place in range(start, end)}
    assert all((place in inside) or not character.isalpha() for place, character in enumerate(text))


def test_words_of_many_scripts() -> None:
    assert words("Don't stop_me, 3.5 x²!") == ["don", "t", "stop", "me", "3", "5", "x²"]
    assert words("Мама мыла раму") == ["мама", "мыла", "раму"]
    assert words("हिन्दी में") == ["हिन्दी", "में"], "vowel signs belong to their letters"
    assert words("東京タワーへ2回") == ["東", "京", "タ", "ワ", "ー", "へ", "2", "回"]
    assert words("cafe\u0301") == words("CAFÉ") == ["café"]
    assert words("か\u3099き\u3099") == words("がぎ") == ["が", "ぎ"], "so does the mark of a voiced sound"


def test_pictures_are_no_words_and_change_none() -> None:
    assert words("I \u2764\ufe0f it \U0001f44d\U0001f3fd, 1\ufe0f\u20e3st") == ["i", "it", "1", "st"]
    assert words("\u2764\ufe0f \ufe0f \u0301 \u20e3") == []
