"""Labels flipped among texts whose words tell their label."""

import random

import numpy as np

from clearhead.cleaning.label_noise import confident_disagreements, label_noise

WORDS = {
    "cat": "purr meow whiskers sofa kitten",
    "dog": "bark bone fetch leash puppy",
    "bird": "sing wings nest egg fly",
}
SHARED = ["the", "a", "is", "it", "was", "here", "there", "very", "and", "but"]


def texts(seed: int, n: int = 300) -> tuple[list[str], list[str]]:
    draw, labels = random.Random(seed), [[*WORDS][place % 3] for place in range(n)]
    found = [" ".join(draw.choices(WORDS[it].split(), k=3) + draw.choices(SHARED, k=4)) for it in labels]
    return found, labels


def test_flipped_labels_are_found_and_clean_ones_are_not() -> None:
    written, labels = texts(0)
    assert label_noise(written, labels) == ([], [])
    flipped = random.Random(1).sample(range(len(labels)), 15)
    for place in flipped:
        labels[place] = {"cat": "dog", "dog": "bird", "bird": "cat"}[labels[place]]
    found, notes = label_noise(written, labels)
    places = {place for place, _ in found}
    assert not notes and len(places & {*flipped}) >= 13 and len(places - {*flipped}) <= 2
    assert label_noise(written, labels)[0] == found
    right = {place: reason.split()[2].rstrip(",") for place, reason in found}
    assert all(right[place] == [*WORDS][place % 3] for place in places & {*flipped})


def test_as_many_labels_are_doubted_as_are_wrong_among_the_surest_texts() -> None:
    p = np.full((100, 2), 0.4)
    p[:, 0] = 0.6
    p[:30] = 0.99, 0.01
    numbers = np.zeros(100, np.int64)
    numbers[[3, 7, 11]] = 1  # a tenth of the surest
    numbers[40:60] = 1  # guesses
    assert {3, 7, 11} <= {*confident_disagreements(p, numbers).tolist()}
    assert len(confident_disagreements(p, numbers)) == 10


def test_few_texts_or_many_labels_are_said_not_to_be_checked() -> None:
    written, labels = texts(0, 60)
    assert "labels weren't checked" in label_noise(written, labels)[1][0]
    written, _ = texts(0)
    assert "labels weren't checked" in label_noise(written, [str(place) for place in range(300)])[1][0]


def test_labels_that_the_texts_do_not_tell_are_not_doubted() -> None:
    written, labels = texts(0)
    shuffled = random.Random(2).sample(labels, len(labels))
    no_words, each_its_own = [""] * len(labels), [f"word{place}" for place in range(len(labels))]
    for some in (written, no_words, each_its_own):
        assert label_noise(some, shuffled) == ([], ["labels weren't checked: the words don't predict them"])


def test_a_text_of_a_word_that_all_texts_have_spoils_nothing() -> None:
    written, labels = texts(0)
    written = [f"hello {it}" for it in written]
    written[7] = "hello"
    assert label_noise(written, labels) == ([], [])
