"""The split, as it was defined: by sorted sets of strings in memory."""

import hashlib
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.text.corpus import Corpus
from clearhead.text.sources import PairSource
from clearhead.text.split import split

from .conftest import written

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


@pytest.mark.parametrize("kept", [0, 10**6])
def test_a_corpus_is_what_is_not_held_out_in_every_reading(kept: int, tmp_path) -> None:
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
            chunks = list(corpus.chunks(32))
            assert {len(chunk) for chunk in chunks[:-1]} == {32}
            assert [pair for chunk in chunks for pair in zip(chunk.sources, chunk.targets)] == train
        assert [list(texts) for texts in corpus.texts()] == [[s for s, _ in train], [t for _, t in train]]


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
            message = f"x changed while being read: 2 pairs first, then {count}; read again"
            with pytest.raises(Exception, match=message):
                list(corpus)
