"""Token places in the original text, whatever the normalisation made of it."""

import functools
import unicodedata

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.errors import DataError
from clearhead.tokenization.offsets import TokensWithOffsets, encode_with_offsets, unknown_texts
from clearhead.tokenization.tokenizer import Tokenizer

TEXTS = ["The man is hungry.", "I don't see the man.", "naïve café déjà", "ﬁne İstanbul 😀 שלום"] * 3
KINDS = ("bpe", "unigram", "word", "character")
CHANGES: list[dict] = [{}] + [
    {"normalise": it} for it in (("NFKC", "whitespace"), ("whitespace",), ("NFC", "lowercase", "whitespace"), ("NFC",))
]
SETTINGS: list[dict] = [{"tokenizer": kind, **change} for kind in KINDS for change in CHANGES]
SOME = [0, 2, 6, 8, 14, 16]  # every kind and every change; the whole product is slow
every = pytest.mark.parametrize(
    "changes",
    [pytest.param(it, marks=() if i in SOME else pytest.mark.slow) for i, it in enumerate(SETTINGS)],
    ids=["-".join(map(str, it.values())) for it in SETTINGS],
)
# Marks that compose, that are reordered, and that do neither; letters that become several; Hangul in parts; bytes.
awkward = "aeoAJI fls\u0301\u0323\u0327\u030c\u0307\u0345\u1112\u1161\u11ab한ﬁ①½İſΣß\u0958\u0915\u093c▁<s>"
spaces = " \t\n\u00a0\u3000\x1c\x85"
any_text = st.text(st.sampled_from(awkward + spaces + "😀\u200d\ufe0fשׁلاً.'1"), max_size=12) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=20
)


@functools.cache
def trained(changes: tuple) -> Tokenizer:
    options = dict(changes)
    size = 300 if options["tokenizer"] in ("bpe", "unigram") else None
    return Tokenizer.train(TEXTS, DataConfig(vocab_size=size, **options))


def placed(changes: dict, text: str) -> tuple[Tokenizer, TokensWithOffsets]:
    tokenizer = trained(tuple(changes.items()))
    return tokenizer, encode_with_offsets(tokenizer, text)


def begins_anew(text: str, place: int) -> bool:
    """Whether the character there can be no part of the one before: no mark, nor a later letter of a syllable."""
    return place == len(text) or not (
        unicodedata.category(text[place])[0] == "M" or "\u1160" <= text[place] < "\u1200" or text[place] in "\u200d"
    )


@every
@given(text=any_text)
@settings(max_examples=60, deadline=None)
def test_every_character_but_white_space_has_a_token_and_places_never_go_back(changes: dict, text: str) -> None:
    tokenizer, tokens = placed(changes, text)
    assert tokens.ids == tokenizer.encode(text)
    assert tokens.starts == sorted(tokens.starts) and tokens.ends == sorted(tokens.ends)
    covered: set[int] = set()
    for start, end in zip(tokens.starts, tokens.ends):
        assert 0 <= start <= end <= len(text) and text[start:end] == text[start:end].strip()
        covered |= {*range(start, end)}
    assert {place for place, letter in enumerate(text) if not letter.isspace()} <= covered


@every
@given(text=any_text)
@example("e\u0301 ﬁ")
@example(" \t the\n\nman ")
@settings(max_examples=60, deadline=None)
def test_the_tokens_before_a_place_are_those_of_the_text_before_it(changes: dict, text: str) -> None:
    """So places are not only in order but the right ones, wherever a text can be cut without changing its letters."""
    tokenizer, tokens = placed(changes, text)
    if changes["tokenizer"] in ("word", "character"):  # what is unknown has no text
        tokenizer = Tokenizer.train([text, "a"], DataConfig(**changes))
        tokens = encode_with_offsets(tokenizer, text)
    for number in range(1, len(tokens.ids)):
        place = tokens.starts[number]
        if tokens.ends[number - 1] <= place < tokens.ends[number] and begins_anew(text, place):
            before = tokenizer.decode(tokens.ids[:number])
            assert "".join(before.split()) == "".join(tokenizer.normalize(text[:place]).split())


@every
@given(text=any_text, data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_tokens_of_a_place_are_those_with_a_character_in_it(changes: dict, text: str, data: st.DataObject) -> None:
    _, tokens = placed(changes, text)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    places = enumerate(zip(tokens.starts, tokens.ends))
    numbers = [number for number, it in places if text[max(it[0], start) : min(it[1], end)].strip()]
    assert tokens.tokens_of(start, end) == ((numbers[0], numbers[-1]) if numbers else None)
    assert bool(numbers) == bool(text[start:end].strip())


@every
@given(text=any_text, data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_span_of_tokens_gives_them_back(changes: dict, text: str, data: st.DataObject) -> None:
    _, tokens = placed(changes, text)
    assume(tokens.ids)
    first = data.draw(st.integers(0, len(tokens.ids) - 1))
    last = data.draw(st.integers(first, len(tokens.ids) - 1))
    start, end = tokens.span_of(first, last)
    assert text[start:end] == text[start:end].strip()
    found = tokens.tokens_of(start, end)
    assert (found is None) == (start == end)
    if found is not None:
        assert tokens.span_of(*found) == (min(start, tokens.starts[found[0]]), max(end, tokens.ends[found[1]]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  The \t\n man  ", ["The", "man"]),
        ("e\u0301e\u0301", ["e\u0301", "e\u0301", ""]),
        ("😀", ["😀"]),
        ("\u1112\u1161\u11ab a", ["\u1112\u1161\u11ab", "a"]),
    ],
)
def test_spelled_out(text: str, expected: list[str]) -> None:
    _, tokens = placed({"tokenizer": "bpe"}, text)
    found = [text[start:end] for start, end in zip(tokens.starts, tokens.ends)]
    assert set(found) - {""} == set(expected) - {""}
    assert tokens.span_of(0, len(tokens.ids) - 1) == (len(text) - len(text.lstrip()), len(text.rstrip()))


def test_a_word_in_the_middle_is_found_without_the_space_before_it() -> None:
    text = "I  see the\nman."
    _, tokens = placed({"tokenizer": "bpe"}, text)
    for word in ("see", "the", "man"):
        start = text.index(word)
        first, last = tokens.tokens_of(start, start + len(word)) or (0, 0)
        assert tokens.span_of(first, last) == (start, start + len(word))
    assert tokens.tokens_of(10, 11) is None and tokens.tokens_of(3, 3) is None


def test_nothing_has_no_tokens_and_half_a_character_is_an_error() -> None:
    for changes in SETTINGS:
        tokenizer, tokens = placed(changes, "")
        assert tokens.tokens_of(0, 0) is None and tokens.ids == tokenizer.encode("")
    with pytest.raises(DataError, match=r"U\+D800"):
        placed(SETTINGS[0], "a\ud800")


@pytest.mark.parametrize("kind", ["word", "character"])
def test_unknown_texts_are_those_that_were_written(kind: str) -> None:
    tokenizer = Tokenizer.train(
        ["she sings."], DataConfig(tokenizer=kind, normalise=("NFC", "lowercase", *["whitespace"] * (kind == "word")))
    )
    expected = {"word": ["ÉTÉ", "e\u0301a"], "character": ["É", "T", "É", "\n", "e\u0301", "a"]}
    assert unknown_texts(tokenizer, "She ÉTÉ\nsings e\u0301a.") == expected[kind]
    assert unknown_texts(tokenizer, "She sings.") == []
