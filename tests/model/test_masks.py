import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.errors import ModelError
from clearhead.model.masks import causal_mask, check_mask, padding_mask

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


def test_masks_combined_with_and_open_what_all_of_them_open() -> None:
    tokens = torch.tensor([[7, 7, 0, 7], [0, 7, 7, 7]])
    mask = padding_mask(tokens) & causal_mask(4)
    assert mask.shape == (2, 1, 4, 4)
    for b in range(2):
        for t in range(4):
            for s in range(4):
                assert bool(mask[b, 0, t, s]) == (int(tokens[b, s]) != 0 and s <= t)


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
