import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DataConfig
from clearhead.data.batches import Batches
from clearhead.readers.pairs import read_pairs
from clearhead.tokenization.ragged import Ragged
from clearhead.tokenization.source_and_target import train_tokenizers

SEQUENCES = st.lists(st.lists(st.integers(0, 70_000), max_size=6), max_size=8)
LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=80)
SEEDS = st.integers(0, 2**40)


def batches(lengths: list[tuple[int, int]], max_tokens: int, seed: int = 0) -> Batches:
    sources, targets = (np.array([pair[side] for pair in lengths], np.int64) for side in (0, 1))
    return Batches(sources, targets, max_tokens, seed)


def listed(order: list[np.ndarray]) -> list[list[int]]:
    return [rows.tolist() for rows in order]


@given(SEQUENCES)
@settings(deadline=None)
def test_sequences_come_back_as_they_went_in(sequences) -> None:
    ragged = Ragged(sequences)
    assert len(ragged) == len(sequences)
    assert list(ragged) == sequences
    assert [ragged[i - len(sequences)] for i in range(len(sequences))] == sequences
    assert ragged.lengths.tolist() == [len(sequence) for sequence in sequences]
    with pytest.raises(IndexError):
        ragged[len(sequences)]


@given(SEQUENCES, st.lists(st.integers(0, 99), max_size=6), st.integers(-1, 3))
@settings(deadline=None)
def test_padded_rows_are_the_sequences_below_each_other(sequences, rows, pad) -> None:
    rows = [row % len(sequences) for row in rows] if sequences else []
    longest = max((len(sequences[row]) for row in rows), default=0)
    expected = [sequences[row] + [pad] * (longest - len(sequences[row])) for row in rows]
    padded = Ragged(sequences).padded(np.array(rows, np.int64), pad)
    assert padded.shape == (len(rows), longest) and padded.dtype == np.int64
    assert padded.tolist() == expected


@given(LENGTHS, st.integers(1, 200), SEEDS, st.integers(0, 3))
@settings(deadline=None)
def test_every_example_is_in_exactly_one_batch_of_an_epoch(lengths, max_tokens, seed, epoch) -> None:
    order = batches(lengths, max_tokens, seed).epoch(epoch)
    assert sorted(itertools.chain.from_iterable(listed(order))) == list(range(len(lengths)))
    assert all(len(rows) for rows in order)


@given(LENGTHS, st.integers(1, 200), SEEDS, st.integers(1, 9))
@settings(deadline=None)
def test_no_batch_has_more_examples_than_it_may(lengths, max_tokens, seed, most) -> None:
    plan = replace(batches(lengths, max_tokens, seed), max_rows=most)
    order = listed(plan.epoch(0))
    assert sorted(itertools.chain.from_iterable(order)) == list(range(len(lengths)))
    assert all(len(rows) <= most for rows in order)
    short = [(1, 1)] * len(lengths)  # nothing else limits these
    sizes = [len(rows) for rows in replace(batches(short, 10**6, seed), max_rows=most).epoch(0)]
    assert sorted(sizes, reverse=True)[: len(lengths) // most] == [most] * (len(lengths) // most)


@given(LENGTHS, st.integers(1, 200), SEEDS)
@settings(deadline=None)
def test_no_batch_is_above_max_tokens_on_a_side_but_a_single_long_example(lengths, max_tokens, seed) -> None:
    for rows in listed(batches(lengths, max_tokens, seed).epoch(0)):
        widest = max(max(lengths[row]) for row in rows)
        assert len(rows) == 1 or len(rows) * widest <= max_tokens


@given(LENGTHS, st.integers(1, 200), SEEDS, st.integers(0, 9))
@settings(deadline=None)
def test_the_order_is_a_function_of_seed_and_epoch_alone(lengths, max_tokens, seed, epoch) -> None:
    first, second = (batches(lengths, max_tokens, seed) for _ in range(2))
    for earlier in range(3):  # what was drawn before does not matter, so training goes on from any batch
        second.epoch(earlier)
    assert listed(first.epoch(epoch)) == listed(second.epoch(epoch))


def test_another_epoch_and_another_seed_have_another_order_and_other_batch_mates() -> None:
    lengths = [(5, 5)] * 60
    orders = [listed(batches(lengths, 50, seed).epoch(epoch)) for seed, epoch in [(0, 0), (0, 1), (1, 0), (1, 1)]]
    assert all(one != other for one, other in itertools.combinations(orders, 2))
    mates = [{frozenset(rows) for rows in order} for order in orders]
    assert all(one != other for one, other in itertools.combinations(mates, 2))


def test_batches_of_all_lengths_are_mixed() -> None:
    order = batches([(n, n) for n in range(1, 101) for _ in range(20)], 200).epoch(0)
    widths = [int(rows.max()) for rows in order]
    assert np.corrcoef(widths, range(len(widths)))[0, 1] ** 2 < 0.05


def padding(planned: Batches, epoch: int = 0) -> float:
    """The share of the rectangles, of both sides, that no token fills."""
    sides = (planned.source_lengths, planned.target_lengths)
    rectangles = sum(len(rows) * int(side[rows].max()) for rows in planned.epoch(epoch) for side in sides)
    return 1 - sum(int(side.sum()) for side in sides) / rectangles


def test_padding_is_under_5_percent_for_lengths_like_tatoebas() -> None:
    rng = np.random.default_rng(0)
    sources = np.clip(rng.lognormal(2.1, 0.4, 160_000).round(), 2, 60).astype(np.int64)
    targets = np.clip((sources * rng.normal(1.1, 0.15, len(sources))).round(), 2, 70).astype(np.int64)
    assert 0 < padding(Batches(sources, targets, 4096)) < 0.05


@pytest.mark.slow
def test_padding_is_under_5_percent_on_the_tokens_of_tatoeba(data_folder) -> None:
    pairs = read_pairs([data_folder / "tatoeba" / "eng-fra.train.tsv.xz"])
    tokenizers = train_tokenizers(pairs.sources, pairs.targets, DataConfig(vocab_size=4000))
    sides = tokenizers.source.encode_batch(pairs.sources), tokenizers.target.encode_batch(pairs.targets)
    sources, targets = (np.array([len(ids) + 1 for ids in side], np.int64) for side in sides)  # with EOS
    assert 0 < padding(Batches(sources, targets, 4096)) < 0.05
