import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.errors import ModelError
from clearhead.model.attention import SelfAttention
from clearhead.model.cache import Cache, LayerCache
from clearhead.model.masks import causal_mask

G, K, S, CAPACITY = 2, 3, 4, 12

APPEND = st.tuples(st.just("append"), st.integers(0, 4))
SELECT = st.tuples(st.just("select"), st.lists(st.integers(0, 99), min_size=1, max_size=6))
SELECT_MEMORY = st.tuples(st.just("select_memory"), st.lists(st.integers(0, 99), min_size=1, max_size=4))


def empty(rows: int, capacity: int = CAPACITY, memory: tuple[Tensor, Tensor] | None = None) -> LayerCache:
    keys, values = (torch.full((rows, G, capacity, K), torch.nan) for _ in range(2))
    return LayerCache(keys, values, memory)


@given(st.integers(1, 4), st.lists(st.one_of(APPEND, SELECT, SELECT_MEMORY), max_size=12))
@settings(deadline=None)
def test_it_holds_what_a_list_of_tensors_would_hold(rows, calls) -> None:
    sources = 3
    memories = [(torch.randn(sources, G, S, K), torch.randn(sources, G, S, K)) for _ in range(2)]
    cache = Cache([empty(rows, memory=memory) for memory in memories])
    expected = [[[torch.empty(G, 0, K)] * 2 for _ in range(rows)] for _ in range(2)]  # layer, row, (keys, values)
    memory_rows = [list(zip(*memory)) for memory in memories]
    for name, argument in calls:
        if name == "append":
            room = min(argument, CAPACITY - cache.length)
            for layer, kept in zip(cache.layers, expected):
                new = torch.randn(2, len(kept), G, room, K)
                result = layer.append(*new)
                kept[:] = [[torch.cat([old, new[i, r]], 1) for i, old in enumerate(row)] for r, row in enumerate(kept)]
                for i in range(2):
                    assert result[i].equal(torch.stack([row[i] for row in kept]))
        elif name == "select":
            chosen = [row % len(expected[0]) for row in argument]
            cache.select(torch.tensor(chosen))
            expected = [[kept[row] for row in chosen] for kept in expected]
        else:
            chosen = [source % len(memory_rows[0]) for source in argument]
            cache.select_memory(torch.tensor(chosen))
            memory_rows = [[pairs[source] for source in chosen] for pairs in memory_rows]
    assert cache.length == expected[0][0][0].size(1)
    for layer, kept, pairs in zip(cache.layers, expected, memory_rows):
        nothing_new = torch.empty(len(kept), G, 0, K)
        for i, live in enumerate(layer.append(nothing_new, nothing_new)):
            assert live.equal(torch.stack([row[i] for row in kept]))
            assert layer.memory[i].equal(torch.stack([pair[i] for pair in pairs]))


def test_selecting_rows_keeps_the_buffers_shape_but_for_the_rows() -> None:
    cache = empty(2)
    cache.append(torch.randn(2, G, 3, K), torch.randn(2, G, 3, K))
    for rows in ([1, 0], [0, 0, 1, 1, 1], [2]):
        cache.select(torch.tensor(rows))
        assert cache.keys.shape == cache.values.shape == (len(rows), G, CAPACITY, K)


def test_tokens_beyond_the_capacity_are_refused_and_leave_what_there_is() -> None:
    cache = empty(2, capacity=4)
    keys, _ = cache.append(torch.ones(2, G, 3, K), torch.ones(2, G, 3, K))
    with pytest.raises(ModelError) as caught:
        cache.append(torch.zeros(2, G, 2, K), torch.zeros(2, G, 2, K))
    assert (caught.value.name, caught.value.value) == ("tokens", 5)
    assert cache.length == 3 and keys.equal(torch.ones(2, G, 3, K))


@given(st.integers(1, 5), st.integers(0, 5), st.lists(st.one_of(st.just("append"), SELECT), max_size=20))
@settings(deadline=None)
def test_a_ring_holds_the_newest_tokens_and_knows_their_ages(capacity, first, calls) -> None:
    buffers = (torch.full((2, G, capacity, K), torch.nan) for _ in range(2))
    cache = Cache([LayerCache(*buffers, ring=True)])
    given, rows = 0, 2  # how many tokens each row was given: number n is n everywhere, and its row's own in the values
    marks = torch.arange(rows, dtype=torch.float64)

    def append(n: int) -> None:
        nonlocal given
        ages = cache.ages(n)
        numbers = torch.arange(given, given + n).view(1, 1, n, 1).expand(rows, G, n, K).double()
        keys, values = cache.layers[0].append(numbers, numbers * 0 + marks.view(-1, 1, 1, 1))
        given += n
        newest = list(range(max(0, given - capacity), given))
        assert sorted(keys[0, 0, :, 0].tolist()) == newest
        assert (given - 1 - ages).tolist() == keys[0, 0, :, 0].tolist()
        assert keys.equal(keys[:1, :1, :, :1].expand_as(keys))
        assert values.equal(marks.view(-1, 1, 1, 1).expand_as(values))

    append(min(first, capacity))
    for call in calls:
        if call == "append":
            append(1)
        else:
            chosen = torch.tensor([row % rows for row in call[1]])
            cache.select(chosen)
            marks, rows = marks[chosen], len(chosen)
    assert cache.length == given and cache.layers[0].held == min(given, capacity)


def test_a_full_ring_takes_several_tokens_at_once_no_more_and_stays_as_it_is() -> None:
    keys, values = torch.zeros(1, G, 3, K), torch.zeros(1, G, 3, K)
    cache = LayerCache(keys, values, ring=True)
    cache.append(torch.ones(1, G, 2, K), torch.ones(1, G, 2, K))
    with pytest.raises(ModelError) as caught:
        cache.append(torch.ones(1, G, 2, K), torch.ones(1, G, 2, K))
    assert (caught.value.name, caught.value.value) == ("tokens", 2)
    assert cache.length == 2 and not cache.keys[:, :, 2].any()


def test_ages_without_a_ring_count_down_to_the_newest() -> None:
    cache = Cache([empty(2)])
    cache.layers[0].append(torch.zeros(2, G, 3, K), torch.zeros(2, G, 3, K))
    assert cache.ages(2).tolist() == [4, 3, 2, 1, 0]
    assert Cache([]).ages(2).tolist() == [1, 0]


def test_a_cache_of_no_block_holds_no_token_and_no_memory_needs_none() -> None:
    assert Cache([]).length == 0
    cache = Cache([empty(2)])
    cache.select_memory(torch.tensor([0]))
    assert cache.layers[0].memory is None


@pytest.mark.parametrize("n_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("pieces", [[1, 1, 1, 1, 1], [3, 2], [1, 4], [5]])
def test_attention_in_pieces_is_attention_at_once(pieces, n_kv_heads) -> None:
    part, x = SelfAttention(8, 4, n_kv_heads=n_kv_heads).eval(), torch.randn(2, 5, 8)
    cache = LayerCache(*(torch.full((2, n_kv_heads, 5, 2), torch.nan) for _ in range(2)))
    parts, end = [], 0
    for piece in pieces:
        end += piece
        parts.append(part(x[:, end - piece : end], mask=causal_mask(piece, end), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), part(x, mask=causal_mask(5)), rtol=0, atol=1e-12)
