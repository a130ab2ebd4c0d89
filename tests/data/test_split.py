"""The split, as it was defined: by sorted sets of strings in memory."""

import hashlib
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import corpus as corpora
from clearhead.data.corpus import Corpus
from clearhead.data.split import n_repeated, split
from clearhead.errors import DataError
from clearhead.readers.pairs import PairSource

from ..readers.conftest import written

sources = st.lists(st.text(st.sampled_from("aAbBéÉßſ①ﬁ.,!？ 12_"), max_size=4), min_size=1, max_size=120)


def definition(texts: list[str], share: float, seed: int) -> list[bool]:
    """Sort the distinct keys by digest, and hold out the first of them."""

    def key(text: str) -> str:
        folded = unicodedata.normalize("NFKC", text.casefold())
        return re.sub(r"[\W_]+", "", folded) or folded

    def digest(key: str) -> bytes:
        return hashlib.blake2b(f"{seed} {key}".encode(), digest_size=16).digest()

    distinct = {key(text) for text in texts}
    if share == 0 or len(distinct) < 20:
        return [False] * len(texts)
    size = min(max(1, round(share * len(distinct))), len(distinct) - 1)
    held = set(sorted(distinct, key=digest)[:size])
    return [key(text) in held for text in texts]


@given(sources, st.floats(0, 1, exclude_max=True), st.integers(0))
@settings(deadline=None)
def test_the_split_is_that_of_its_definition(texts: list[str], share: float, seed: int) -> None:
    assert split(iter(texts), share, seed).held.tolist() == definition(texts, share, seed)


def held_out(texts: list[str], share: float, seed: int = 0) -> list[str]:
    return [text for text, held in zip(texts, split(texts, share, seed).held) if held]


@given(sources, st.floats(0, 1, exclude_max=True), st.integers(0))
@settings(deadline=None)
def test_no_source_stands_on_both_sides_and_some_are_left_to_train_on(
    texts: list[str], share: float, seed: int
) -> None:
    sides: tuple[set[str], set[str]] = (set(), set())
    for text, held in zip(texts, split(texts, share, seed).held):
        sides[int(held)].add("".join(filter(str.isalnum, unicodedata.normalize("NFKC", text.casefold()))))
    assert not sides[0] & sides[1] - {""}
    assert sides[0]


def test_a_split_is_of_the_share_that_was_asked_for() -> None:
    texts = [f"sentence {i // 2}" for i in range(2000)]  # 1,000 distinct ones
    for share in (0.001, 0.02, 0.5, 0.999):
        assert len(set(held_out(texts, share))) == round(share * 1000)
    assert len(held_out(texts, 1e-9)) == 2
    assert len(held_out(texts, 1 - 1e-9)) == 1998


def test_a_split_depends_on_the_seed_and_not_on_the_order_of_the_sources() -> None:
    texts = [f"sentence {i}" for i in range(200)]
    held = {seed: set(held_out(texts, 0.2, seed)) for seed in range(5)}
    assert len({frozenset(chosen) for chosen in held.values()}) == 5
    for seed, chosen in held.items():
        assert set(held_out(texts[::-1], 0.2, seed)) == chosen
        twice = held_out(texts + texts, 0.2, seed)
        assert set(twice) == chosen and len(twice) == 2 * len(chosen)


def test_sources_that_differ_in_case_space_or_punctuation_are_one() -> None:
    variants = ["I am hungry.", "i am hungry", "I  AM\u00a0hungry !", "I’am hungry"]
    texts = variants + [f"sentence {i}" for i in range(30)]
    for seed in range(30):
        assert len(set(variants) & set(held_out(texts, 0.3, seed))) in (0, len(variants))


def test_sources_without_letters_stay_apart() -> None:
    assert len(held_out([chr(0x1F600 + i) for i in range(40)], 0.5)) == 20


@pytest.mark.parametrize(
    ("texts", "share", "note"),
    [
        ([f"{i}" for i in range(19)] * 10, 0.5, "nothing held out: only 19 distinct sources, fewer than 20"),
        (["1"], 0.5, "nothing held out: only 1 distinct source, fewer than 20"),
        ([f"{i}" for i in range(50)], 0, "nothing held out: data.split is 0"),
        (
            [f"s{i // 2}" for i in range(80)],
            0.25,
            "held out 20 pairs: 10 of 40 distinct sources, with all their translations",
        ),
    ],
)
def test_what_a_split_does_is_said(texts: list[str], share: float, note: str) -> None:
    assert split(texts, share, 0).note == note
    assert bool(held_out(texts, share)) == note.startswith("held out")


def test_of_many_sources_no_more_are_held_out_than_it_takes_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"sentence {i // 2}" for i in range(4000)]
    asked = set(held_out(texts, 0.02))
    monkeypatch.setattr("clearhead.data.split._MOST", 30)
    assert set(held_out(texts, 0.02)) < asked and len(set(held_out(texts, 0.02))) == 30
    assert split(texts, 0.02, 0).note == (
        "held out 60 pairs: 30 of 2,000 distinct sources, with all their translations; "
        "a share of 0.02 would be 40, and 30 are enough"
    )


def test_twenty_distinct_sources_are_enough() -> None:
    assert held_out([f"{i}" for i in range(20)], 0.5)


@pytest.mark.parametrize("kept", [0, 10**6])
def test_a_corpus_is_what_is_not_held_out_in_every_reading(kept: int, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(corpora, "_CHUNK", 32)
    rows = [(f"source {i % 70}", f"target {i}") for i in range(200)]
    path = written(tmp_path / "x", "".join(f"{s}\t{t}\nno tab\n" for s, t in rows))
    with PairSource([path], kept=kept) as source:
        corpus = Corpus.of(source, 0.3, 5)
        apart = definition([s for s, _ in rows], 0.3, 5)
        train = [row for row, held in zip(rows, apart) if not held]
        for _ in range(2):
            assert [(s, t) for _, s, t in corpus] == train and len(corpus) == len(train)
            held = corpus.held_out()
            assert list(zip(held.sources, held.targets)) == [row for row, held in zip(rows, apart) if held]
            assert list(held.lines) == [2 * i + 1 for i, held in enumerate(apart) if held]
            chunks = list(corpus.chunks())
            assert {len(chunk) for chunk in chunks[:-1]} == {32}
            assert [pair for chunk in chunks for pair in zip(chunk.sources, chunk.targets)] == train
        assert [list(texts) for texts in corpus.texts()] == [[s for s, _ in train], [t for _, t in train]]


def test_long_pairs_come_in_smaller_chunks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpora, "_LETTERS", 100)
    rows = [(f"{i} " + "x" * 30, "y" * (i % 60) + "y") for i in range(50)]
    path = written(tmp_path / "x", "".join(f"{s}\t{t}\n" for s, t in rows))
    with PairSource([path]) as source:
        chunks = list(Corpus.of(source, 0.0, 0).chunks())
    assert [pair for chunk in chunks for pair in zip(chunk.sources, chunk.targets)] == rows
    for chunk in chunks[:-1]:
        sizes = [len(s) + len(t) for s, t in zip(chunk.sources, chunk.targets)]
        assert sum(sizes) >= 100 > sum(sizes[:-1])


def test_a_sample_for_the_tokenizer_is_spread_evenly_and_pairs_stay_pairs(tmp_path) -> None:
    path = written(tmp_path / "x", "".join(f"{i}\t{i} too\n" for i in range(1000)))
    with PairSource([path]) as source:
        corpus = Corpus.of(source, 0.0, 0)
        for most in (1, 7, 100, 999, 1000, 2000):
            sources, targets = (list(texts) for texts in corpus.texts(most))
            assert len(sources) == len(corpus.texts(most)[0]) == min(most, 1000)
            assert targets == [f"{text} too" for text in sources]
            gaps = [b - a for a, b in zip(map(int, sources), map(int, sources[1:]))]
            assert not gaps or max(gaps) - min(gaps) <= 1


def test_data_that_change_while_they_are_read_are_noticed(tmp_path) -> None:
    path = written(tmp_path / "x", "a\tb\nc\td\n")
    for content, count in (("a\tb\n", 1), ("a\tb\n" * 3, 3)):
        with PairSource([written(path, "a\tb\nc\td\n")], kept=0) as source:
            corpus = Corpus.of(source, 0.0, 0)
            written(path, content)
            with pytest.raises(DataError) as caught:
                list(corpus)
            assert (caught.value.name, caught.value.value) == (str(path), count)


def test_texts_that_differ_in_spelling_only_are_repeated() -> None:
    assert n_repeated(["It is.", "it IS", "new", "it is"], ["IT IS!", "old"]) == 3
    assert n_repeated([], ["a"]) == n_repeated(["a"], []) == 0
