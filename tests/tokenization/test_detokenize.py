import functools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.tokenization.tokenizer import GrowingText, StreamingDetokenizer, Tokenizer

BOS, EOS, PAD = 1, 2, 0  # the special tokens of a new vocabulary

TEXT = "The man is here.\n\n\tHe  sleeps; the man sleeps. 😀 é 東京\n  end "
KINDS = ("bpe", "unigram", "word", "character")
IDS = st.lists(st.integers(0, 10**6), max_size=20)


@functools.cache
def trained(kind: str) -> Tokenizer:
    size = 300 if kind in ("bpe", "unigram") else None
    return Tokenizer.train([TEXT] * 3, DataConfig(tokenizer=kind, vocab_size=size, normalise=()))


@pytest.mark.parametrize("kind", KINDS)
@given(numbers=IDS, data=st.data())
@settings(max_examples=150, deadline=None)
def test_pieces_joined_are_what_decoding_gives_but_for_a_last_character_that_is_not_whole(kind, numbers, data) -> None:
    tokenizer = trained(kind)
    ids = [number % tokenizer.vocab_size for number in numbers]
    before = data.draw(st.integers(0, len(ids)))
    spelling, first = StreamingDetokenizer(tokenizer, ids[:before]), StreamingDetokenizer(tokenizer).add(ids[:before])
    text = first + "".join(spelling.add([i]) for i in ids[before:])
    assert tokenizer.decode(ids) in [text + "\ufffd" * rest for rest in range(4)]  # for it, or for each byte
    assert text == first + StreamingDetokenizer(tokenizer, ids[:before]).add(ids[before:])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [TEXT, "", " here", "  here", "\n", "\t\n the man", "here "])
def test_a_text_that_is_encoded_comes_back_with_its_white_space_as_it_was(kind, text) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    assert "".join(map(StreamingDetokenizer(tokenizer).add, [[i] for i in ids])) == text == tokenizer.decode(ids)
    assert tokenizer.decode([BOS, *ids, EOS, PAD]) == text
    assert StreamingDetokenizer(tokenizer, [BOS]).add([*ids, EOS, PAD]) == text


def test_a_character_of_several_tokens_comes_when_its_last_byte_does() -> None:
    tokenizer = trained("bpe")
    space, *bytes_ = (tokenizer.token_bytes.index(bytes([byte])) for byte in " 𝄞".encode())
    spelling = StreamingDetokenizer(tokenizer)
    assert [spelling.add([i]) for i in (space, *bytes_)] == ["", "", "", "", "𝄞"]


def test_a_copy_goes_its_own_way() -> None:
    tokenizer = trained("bpe")
    ids = [tokenizer.token_bytes.index(bytes([byte])) for byte in "é𝄞".encode()]
    spelling = StreamingDetokenizer(tokenizer, ids[:3])
    assert spelling.copy().add(ids[3:]) == spelling.copy().add(ids[3:]) == spelling.add(ids[3:]) == "𝄞"


def test_the_space_in_front_is_taken_from_the_beginning_of_a_text_alone() -> None:
    tokenizer = trained("bpe")
    here = tokenizer.encode("here")
    assert StreamingDetokenizer(tokenizer).add(here) == StreamingDetokenizer(tokenizer, [BOS]).add(here) == "here"
    assert StreamingDetokenizer(tokenizer, tokenizer.encode("is")).add(here) == " here"


@pytest.mark.parametrize("kind", KINDS)
@given(numbers=st.lists(st.integers(0, 10**6), max_size=80))
@settings(max_examples=150, deadline=None)
def test_a_growing_text_is_after_each_token_what_decoding_all_of_them_gives(kind, numbers) -> None:
    tokenizer = trained(kind)
    ids = [number % tokenizer.vocab_size for number in numbers]
    growing = GrowingText(tokenizer.decode)
    assert [growing.add(i) for i in ids] == [tokenizer.decode(ids[: n + 1]) for n in range(len(ids))]


def test_a_growing_text_decodes_only_its_last_tokens_unless_these_depend_on_those_before() -> None:
    tokenizer, longest = trained("bpe"), 0

    def decode(ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(ids))
        return tokenizer.decode(ids)

    ids, growing = tokenizer.encode(TEXT * 20), GrowingText(decode)
    assert [growing.add(i) for i in ids][-1] == tokenizer.decode(ids) and longest < 50 < len(ids)
    numbered = GrowingText(lambda ids: " ".join(f"{n}:{i}" for n, i in enumerate(ids)))
    assert [numbered.add(i) for i in range(100)][-1] == " ".join(f"{n}:{n}" for n in range(100))
