import torch

from clearhead.config import DataConfig
from clearhead.inspection.alignment import align, words_of
from clearhead.text.tokenizer import train_tokenizers

TEXTS = ["I am hungry.", "The  cat sat on the mat.", "J'ai faim."]


def test_words_are_what_white_space_separates_whatever_the_tokens() -> None:
    for kind in ("bpe", "unigram", "word", "character"):
        tokenizer = train_tokenizers(TEXTS, TEXTS, DataConfig(tokenizer=kind, vocab_size=300)).source
        for text in TEXTS:
            ids = tokenizer.encode(text)
            words = words_of(ids, tokenizer.decode)
            assert words == sorted(words) and set(words) == set(range(len(text.split())))
            for number, word in enumerate(tokenizer.decode(ids).split()):
                own = [i for i, place in zip(ids, words) if place == number]
                assert tokenizer.decode(own).strip() == word


def test_nothing_has_no_words() -> None:
    assert words_of([], lambda ids: "") == []
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
