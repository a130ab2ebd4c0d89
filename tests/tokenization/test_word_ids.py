"""Encoding by words is the library's encoding of the whole text."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.tokenization.tokenizer import Tokenizer, _WordEncoder

TEXTS = [
    "L'homme qu'il est, aujourd'hui!",
    "It's 1984 - don't.",
    "Ünïcödé ﬁne ½ ①② 東京",
    "</s> <pad> l'",
    "a a a a b b",
]
SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
nasty = st.text(
    st.sampled_from("aAbé'’l1½ﬁ①¨´\u0301\u0345ςΣİ.<>/spad-")
    | st.sampled_from(SPACES)
    | st.characters(exclude_categories=["Cs"])
)
KINDS = [
    {"tokenizer": kind, "normalise": (*form, *fold)}
    for kind in ("bpe", "unigram", "word", "character")
    for form in (("NFC", "lowercase"), ("NFKC",), ())
    for fold in (("whitespace",), ())
]
SOME = [0, 3, 4, 8, 10, 12, 14, 16, 21]  # every pair of a kind and a form, of a form and a fold; the product is slow


@pytest.fixture(
    scope="module",
    params=[pytest.param(it, marks=() if i in SOME else pytest.mark.slow) for i, it in enumerate(KINDS)],
    ids=["-".join(map(str, it.values())) for it in KINDS],
)
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(TEXTS * 3, DataConfig(vocab_size=300, **request.param))


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer._backend.encode(text, add_special_tokens=False).ids


def test_every_kind_of_white_space_cuts_as_the_library_does(tokenizer: Tokenizer) -> None:
    texts = [f"{before}a{space}{space}\u0301b'{space}" for space in SPACES for before in ("", space, "l'")]
    assert tokenizer.encode_batch(texts) == [whole(tokenizer, text) for text in texts]


@given(texts=st.lists(nasty, max_size=5))
@settings(deadline=None, max_examples=60)
def test_whatever_the_texts_hold_their_ids_are_the_librarys(tokenizer: Tokenizer, texts: list[str]) -> None:
    expected = [whole(tokenizer, text) for text in texts]
    for _ in range(2):  # the second time all words are known
        assert tokenizer.encode_batch(texts) == expected


def test_no_more_words_are_remembered_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.tokenization.tokenizer._MOST", 10)
    backend = Tokenizer.train(TEXTS, DataConfig(vocab_size=300))._backend
    encode = _WordEncoder(backend)
    for start in range(0, 60, 4):
        texts = [f"{start} {start + 1}", f"{start + 2} {start + 3}"]
        assert encode(texts) == [backend.encode(text, add_special_tokens=False).ids for text in texts]
        assert len(encode._known) <= 10
    many = " ".join(map(str, range(50)))
    assert encode([many]) == [backend.encode(many, add_special_tokens=False).ids]


def test_what_is_returned_may_be_changed(tokenizer: Tokenizer) -> None:
    tokenizer.encode("a b").append(3)
    assert tokenizer.encode("a b") == whole(tokenizer, "a b")


def test_what_is_long_is_encoded_as_well_and_not_remembered() -> None:
    backend = Tokenizer.train(TEXTS, DataConfig(vocab_size=300))._backend
    encode, sentence = _WordEncoder(backend), "東京は日本の首都です。" * 4
    for _ in range(2):
        texts = [f"a {sentence} b", "b", sentence]
        assert encode(texts) == [backend.encode(text, add_special_tokens=False).ids for text in texts]
    assert encode._known.keys() == {"a", "b"}
