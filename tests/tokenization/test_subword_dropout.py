"""Subword dropout: the same texts, other pieces, a function of its seed."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.errors import ConfigError
from clearhead.tokenization.ragged import Ragged
from clearhead.tokenization.subword_dropout import SubwordDropout
from clearhead.tokenization.tokenizer import Tokenizer

BOS, EOS = 1, 2  # the special tokens of a new vocabulary

TEXTS = ["the weather is better there", "l'hiver, c'est là-bas", "other mothers gather", "1984 — été"] * 5
LONG = 10**6
texts = st.lists(st.text(st.sampled_from("theraiowl'.é 19—\n")) | st.sampled_from(TEXTS), min_size=1, max_size=6)


@pytest.fixture(scope="module", params=[True, False], ids=["folded", "white space as it is"])
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train(TEXTS, DataConfig(vocab_size=330, normalise=("NFC", *["whitespace"] * request.param)))


def side(tokenizer: Tokenizer, texts: list[str]) -> Ragged:
    return Ragged([[BOS, *ids, EOS] for ids in tokenizer.encode_batch(texts)])


@given(texts=texts)
@settings(deadline=None)
def test_without_dropout_the_cut_is_the_tokenizers(tokenizer: Tokenizer, texts: list[str]) -> None:
    usual = side(tokenizer, texts)
    assert list(SubwordDropout(tokenizer, 0.0)(usual, LONG, seed="x")) == list(usual)


@given(texts=texts, p=st.floats(0, 1, exclude_max=True), seed=st.text())
@settings(deadline=None)
def test_the_texts_stay_the_same_and_special_tokens_where_they_are(tokenizer: Tokenizer, texts, p, seed) -> None:
    usual = side(tokenizer, texts)
    cut = SubwordDropout(tokenizer, p)(usual, LONG, seed=seed)
    for before, after in zip(usual, cut, strict=True):
        assert (after[0], after[-1]) == (BOS, EOS) and min(after[1:-1], default=4) > EOS
        assert tokenizer.decode(after) == tokenizer.decode(before) and len(after) >= len(before)
    assert cut.tokens.dtype == usual.tokens.dtype


def test_the_cut_is_a_function_of_the_seed(tokenizer: Tokenizer) -> None:
    usual, dropout = side(tokenizer, TEXTS), SubwordDropout(tokenizer, 0.3)
    cuts = {seed: list(dropout(usual, LONG, seed=seed)) for seed in ("0 0", "0 1", "1 0")}
    assert cuts["0 0"] == list(SubwordDropout(tokenizer, 0.3)(usual, LONG, seed="0 0"))
    assert len({str(cut) for cut in [*cuts.values(), list(usual)]}) == 4


def test_each_possible_merge_is_passed_over_with_probability_p() -> None:
    """A word of two letters with one merge stays in two pieces with probability p."""
    tokenizer = Tokenizer.train(["ab ab"], DataConfig(vocab_size=262))
    merged = SubwordDropout(tokenizer, 0.0).segment("ab", random.Random(0))
    assert len(merged) == 1
    rng, dropout, n = random.Random(0), SubwordDropout(tokenizer, 0.3), 20_000
    apart = Counter(len(dropout.segment("ab", rng)) for _ in range(n))[2]
    assert abs(apart / n - 0.3) < 4 * (0.3 * 0.7 / n) ** 0.5


def test_what_would_be_longer_than_allowed_stays_as_it_was(tokenizer: Tokenizer) -> None:
    usual = side(tokenizer, TEXTS)
    most = int(usual.lengths.max()) - 2
    cut = SubwordDropout(tokenizer, 0.9)(usual, most, seed="x")
    assert max(cut.lengths) - 2 <= most
    assert list(SubwordDropout(tokenizer, 0.9)(usual, 1, seed="x")) == list(usual)


def test_a_text_that_was_cut_off_in_the_middle_of_a_character_stays_as_it_is(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("日本")
    half = ids[: len(ids) - 1]  # each byte of these is a token
    with pytest.raises(UnicodeDecodeError):
        SubwordDropout(tokenizer, 0.9)(Ragged([half]), LONG, seed="x")
    assert list(SubwordDropout(tokenizer, 0.9)(Ragged([[*half, EOS]]), len(half), seed="x")) == [[*half, EOS]]


def test_frequent_words_share_a_few_cuts_and_rare_ones_have_their_own(tokenizer: Tokenizer) -> None:
    usual = side(tokenizer, ["weather"] * 1000)
    cuts = Counter(map(tuple, SubwordDropout(tokenizer, 0.5)(usual, LONG, seed="x")))
    assert 4 < len(cuts) <= 32
    assert len(SubwordDropout(tokenizer, 0.5)(side(tokenizer, []), LONG, seed="x")) == 0


def test_dropout_is_a_probability_and_of_merges() -> None:
    for p in (-0.1, 1.0):
        with pytest.raises(ConfigError, match=r"data\.subword_dropout"):
            DataConfig(subword_dropout=p)
    for kind in ("unigram", "word", "character"):
        with pytest.raises(ConfigError, match=r"data\.subword_dropout"):
            DataConfig(subword_dropout=0.1, tokenizer=kind)
