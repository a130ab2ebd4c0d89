from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.inspection.views.alignment import align, render_alignment, word_weights
from clearhead.tokenization.offsets import word_indices
from clearhead.tokenization.source_and_target import train_tokenizers
from clearhead.tokenization.tokenizer import Tokenizer, words_of

UNK = 3  # the special tokens of a new vocabulary

TEXTS = ["I am hungry.", "The  cat sat on the mat.", "J'ai faim."]
KINDS = ("bpe", "unigram", "word", "character")


@cache
def trained(kind: str) -> Tokenizer:
    return train_tokenizers(TEXTS, TEXTS, DataConfig(tokenizer=kind, vocab_size=300)).source


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_what_white_space_separates_whatever_the_tokens(kind: str) -> None:
    tokenizer = trained(kind)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        words = words_of(ids, tokenizer.decode)
        assert words == sorted(words) and set(words) == set(range(len(text.split())))
        for number, word in enumerate(tokenizer.decode(ids).split()):
            own = [i for i, place in zip(ids, words) if place == number]
            assert tokenizer.decode(own).strip() == word


@pytest.mark.parametrize("kind", KINDS)
@given(text=st.text(st.sampled_from("aths.'é½🙂e\u0301\n\u3000 ")))
@settings(max_examples=60, deadline=None)
def test_the_words_of_a_text_are_those_of_its_tokens_and_the_unknown_have_their_places(kind: str, text: str) -> None:
    tokenizer = trained(kind)
    ids, words = tokenizer.encode(text), word_indices(tokenizer, text)
    assert len(words) == len(ids) and set(words) == set(range(len(text.split())))
    if UNK not in ids:
        assert words == words_of(ids, tokenizer.decode)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Zorro sat.", [0, 1, 1]),
        ("The Zorro sat.", [0, 1, 2, 2]),
        ("The Zorro Bernardo sat.", [0, 1, 2, 3, 3]),
        ("The cat Zorro", [0, 1, 2]),
        ("  Zorro!  Zorro", [0, 0, 1]),
    ],
)
def test_a_word_that_is_unknown_is_counted_wherever_it_stands(text: str, words: list[int]) -> None:
    assert trained("word").unknown_words(text)
    assert word_indices(trained("word"), text) == words


def test_nothing_has_no_words() -> None:
    assert words_of([], lambda ids: "") == word_indices(trained("word"), " ") == []
    assert align(torch.ones(1, 1), [], []) == []


def test_a_word_of_the_translation_goes_to_the_word_that_its_tokens_look_at_most() -> None:
    # the source: two words of two tokens and one, and the end; the translation: two words of one and two tokens
    weights = torch.tensor(
        [
            [0.3, 0.3, 0.4, 0.0],  # together the first word has most, though the single token has not
            [0.1, 0.1, 0.2, 0.6],  # the end token does not count
            [0.3, 0.1, 0.3, 0.3],
            [0.0, 0.0, 0.0, 1.0],  # nor does its row
        ]
    )
    assert align(weights, [0, 0, 1], [0, 1, 1]) == [(0, 0), (0, 1)]
    assert align(weights, [0, 1, 2], [0, 1, 2]) == [(2, 0), (2, 1), (0, 2)]


def test_half_a_precision_is_enough_for_many_words() -> None:
    weights = torch.zeros(1, 300)
    weights[0, 271] = 1
    words = [*range(300)]
    assert align(weights.bfloat16(), words, [0]) == align(weights, words, [0]) == [(271, 0)]


def test_the_weights_of_words_are_sums_over_the_source_and_means_over_the_target() -> None:
    weights = torch.rand(5, 6, dtype=torch.float64).softmax(-1)
    found = word_weights(weights, [0, 0, 1, 2, 2], [0, 1, 1, 1])  # of both sides the end token is no word
    first = [weights[0, :2].sum(), weights[0, 2], weights[0, 3:5].sum()]
    second = [(weights[1:4, :2].sum(1)).mean(), weights[1:4, 2].mean(), (weights[1:4, 3:5].sum(1)).mean()]
    torch.testing.assert_close(found, torch.tensor([first, second]), check_dtype=False)
    assert word_weights(torch.eye(3)[:, :2], [0], [0, 1, 2]).tolist() == [[1.0], [0.0], [0.0]]


def test_it_is_said_which_words_a_word_looked_at() -> None:
    weights = torch.tensor([[0.75, 0.25, 0.0], [0.05, 0.05, 0.05]])
    text = render_alignment([(0, 0), (0, 1)], weights, ["she", "歌う", "."], ["Elle", "."], layer=3)
    pairs, _, first, second, _, layer = text.splitlines()
    assert pairs == "0-0 0-1" and "layer 3" in layer
    assert first == "Elle  she 75%  歌う 25%" and second == ".     nothing in particular"
