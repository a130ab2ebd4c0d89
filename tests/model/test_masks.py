import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import ModelError
from clearhead.model.masks import causal_mask, check_mask, length_mask, padding_mask

SIDES = st.integers(1, 5)


@given(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3), st.integers(0, 3))
@settings(deadline=None)
def test_padding_is_what_nobody_may_attend(rows, pad) -> None:
    mask = padding_mask(torch.tensor(rows), pad)
    assert mask.dtype == torch.bool and mask.shape == (len(rows), 1, 1, 4)
    assert mask[:, 0, 0].tolist() == [[token != pad for token in row] for row in rows]


@given(SIDES, st.integers(0, 5))
@settings(deadline=None)
def test_a_query_sees_the_keys_up_to_its_own_and_the_last_query_stands_at_the_last_key(n_queries, more) -> None:
    n_keys = n_queries + more
    mask = causal_mask(n_queries, n_keys)
    assert mask.dtype == torch.bool and mask.shape == (1, 1, n_queries, n_keys)
    assert mask[0, 0].tolist() == [[s <= t + more for s in range(n_keys)] for t in range(n_queries)]


def test_a_causal_mask_has_as_many_keys_as_queries_unless_told() -> None:
    assert causal_mask(4).equal(causal_mask(4, 4))


def test_a_causal_mask_with_fewer_keys_than_queries_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        causal_mask(4, 3)
    assert (caught.value.name, caught.value.value) == ("n_keys", 3)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_length_a_row_opens_that_many_first_keys(lengths) -> None:
    mask = length_mask(torch.tensor(lengths), 5)
    assert mask.dtype == torch.bool and mask.shape == (len(lengths), 1, 1, 5)
    assert mask[:, 0, 0].tolist() == [[s < length for s in range(5)] for length in lengths]


@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=4))
@settings(deadline=None)
def test_a_length_a_query_opens_that_many_first_keys_for_it(lengths) -> None:
    mask = length_mask(torch.tensor(lengths), 5)
    assert mask.dtype == torch.bool and mask.shape == (len(lengths), 1, 3, 5)
    assert mask[:, 0].tolist() == [[[s < length for s in range(5)] for length in row] for row in lengths]


def test_the_causal_mask_is_a_length_mask_with_one_key_more_a_query() -> None:
    assert causal_mask(5).equal(length_mask(torch.arange(1, 6)[None], 5))


@pytest.mark.parametrize("shape", [(), (2, 3, 4)])
def test_lengths_of_another_shape_are_refused(shape) -> None:
    with pytest.raises(ModelError) as caught:
        length_mask(torch.ones(shape, dtype=torch.long), 5)
    assert (caught.value.name, caught.value.value) == ("valid_lengths", shape)


def test_masks_combined_with_and_open_what_all_of_them_open() -> None:
    tokens, lengths = torch.tensor([[7, 7, 0, 7], [0, 7, 7, 7]]), torch.tensor([4, 3])
    mask = padding_mask(tokens) & causal_mask(4) & length_mask(lengths, 4)
    assert mask.shape == (2, 1, 4, 4)
    for b in range(2):
        for t in range(4):
            for s in range(4):
                assert bool(mask[b, 0, t, s]) == (int(tokens[b, s]) != 0 and s <= t and s < int(lengths[b]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_of_numbers_is_refused(dtype) -> None:
    with pytest.raises(ModelError) as caught:
        check_mask(torch.ones(2, 2, dtype=dtype), (1, 1, 2, 2))
    assert (caught.value.name, caught.value.value) == ("mask", dtype)


def test_a_mask_that_does_not_broadcast_is_refused_with_both_shapes() -> None:
    with pytest.raises(ModelError) as caught:
        check_mask(torch.ones(2, 1, 1, 4, dtype=torch.bool), (2, 8, 3, 5))
    assert (caught.value.name, caught.value.value) == ("mask", (2, 1, 1, 4))


@given(st.lists(SIDES, max_size=5), st.tuples(SIDES, SIDES, SIDES, SIDES))
@settings(deadline=None)
def test_a_mask_passes_just_when_torch_broadcasts_it_to_the_scores_without_making_them_larger(shape, scores) -> None:
    try:
        fits = torch.broadcast_shapes(tuple(shape), scores) == scores
    except RuntimeError:
        fits = False
    if fits:
        check_mask(torch.ones(shape, dtype=torch.bool), scores)
    else:
        with pytest.raises(ModelError) as caught:
            check_mask(torch.ones(shape, dtype=torch.bool), scores)
        assert (caught.value.name, caught.value.value) == ("mask", tuple(shape))
