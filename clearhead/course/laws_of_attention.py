"""The laws of exercises 1 to 4: attention, masks, one head, many heads (section 3.2)."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import cast

import torch
from torch import Tensor

from ..model.attention import attention_weights, masked_softmax
from .laws import (
    Broken,
    Exercise,
    Work,
    differs,
    expect,
    expect_equal,
    expect_gradients,
    expect_shape,
    numbers,
    past_only,
    sizes,
)


def _attended(work: Work, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return output and weights of a student's attention, if they have the right kind and shape."""
    return _pair("attention", work.attention(q, k, v), (*q.shape[:-1], v.size(-1), k.size(-2)), q=q, k=k, v=v)


def _pair(function: str, found: object, sizes: Sequence[int], **inputs: object) -> tuple[Tensor, Tensor]:
    """Return output (..., T, V) and weights (..., T, S) if a function returned them. `sizes` are (..., T, V, S)."""
    is_pair = isinstance(found, tuple) and len(found) == 2
    expect(is_pair, f"{function} doesn't return a pair: output, weights", **inputs)
    output, weights = cast("tuple[Tensor, Tensor]", found)
    *rows, width, keys = sizes
    expect_shape(output, (*rows, width), "the output", **inputs)
    expect_shape(weights, (*rows, keys), "the second result, the weights,", **inputs)
    return output, weights


# --- 1


def _rows_sum_to_one(work: Work) -> None:
    """The weights of every query sum to 1."""
    for texts, (rows, columns) in product(((), (1,)), sizes(3, 3)):
        scores = numbers(rows, columns).expand(*texts, rows, columns)
        found = work.softmax(scores)
        expect_shape(found, scores.shape, "the softmax", scores=scores)
        by_column = rows != columns and differs(found.sum(-2), torch.ones(*texts, columns)) is None
        hint = "; those of every column do: use the last axis" if by_column else ""
        place = differs(found.sum(-1), torch.ones(*texts, rows))
        expect(place is None, f"the weights of query {place and place[-1]} don't sum to 1{hint}", scores=scores)


def _weights_are_exponential(work: Work) -> None:
    """A score that's larger by 1 gets e times the weight."""
    for (columns,) in sizes(4):
        scores = numbers(1, columns)
        expect_equal(work.softmax(scores), scores.softmax(-1), "the weights", scores=scores)


def _large_scores_work(work: Work) -> None:
    """Adding the same number to all scores of a query changes nothing, however large it is."""
    for added, first in ((1.0, 1.0), (1000.0, 1.0), (-1000.0, 1.0), (0.0, 1000.0)):
        scores = torch.tensor([[first, 0.0], [0.0, 2.0]]) + torch.tensor([[added], [0.0]])
        found = work.softmax(scores)
        hint = (
            "; exp(1000) is infinite and exp(-1000) is 0, so subtract each row's largest score"
            if found.isnan().any()
            else ""
        )
        what = f"such scores get the wrong weights{hint}"
        expect(differs(found, scores.softmax(-1)) is None, what, scores=scores)
        expect_equal(work.softmax(scores[None]), found[None], "the weights of a text", scores=scores[None])


def _scores_are_scaled(work: Work) -> None:
    """Scores are divided by the square root of the width of a key."""
    for width in (4, 9, 16, 2):  # of a key; that of a value is 3
        q, k, v = torch.ones(1, width), torch.stack([torch.zeros(width), torch.ones(width) / 2]), numbers(2, 3)
        _, weights = _attended(work, q, k, v)
        ratio = float((weights[0, 1] / weights[0, 0]).log())
        scores = width / 2
        wrong = {scores: "aren't divided at all", scores / width: "are divided by d_k, without the square root"}
        wrong |= {scores * math.sqrt(width): "are multiplied by sqrt(d_k)", scores / math.sqrt(3): "use d_v, not d_k"}
        said = next((text for value, text in wrong.items() if abs(value - ratio) < 1e-3), "have another scale")
        expect(abs(ratio - scores / math.sqrt(width)) < 1e-3, f"with d_k = {width}, the scores {said}", q=q, k=k)


def _products_of_queries_and_keys(work: Work) -> None:
    """The score of a query and a key is their product."""
    for queries, keys, width in sizes(3, 3, 2):
        q, k, v = numbers(queries, width), numbers(keys, width, seed=1), numbers(keys, 2, seed=2)
        expect_equal(_attended(work, q, k, v)[1], attention_weights(q, k), "the weights", q=q, k=k)


def _output_is_a_mean(work: Work) -> None:
    """A query's output is the mean of the values, by its weights."""
    for queries, keys in sizes(2, 3):
        q, k, v = numbers(queries, 2), numbers(keys, 2, seed=1), numbers(keys, 3, seed=2)
        output, weights = _attended(work, q, k, v)
        expect_equal(output, weights @ v, "the output", q=q, k=k, v=v)


def _leading_axes_are_independent(work: Work) -> None:
    """Attention works on any number of heads and texts at once, each for itself."""
    q, k, v = numbers(2, 2, 3, 4), numbers(2, 2, 5, 4, seed=1), numbers(2, 2, 5, 2, seed=2)
    output, _ = _attended(work, q, k, v)
    for text in range(2):
        for head in range(2):
            alone, _ = _attended(work, q[text, head], k[text, head], v[text, head])
            expect_equal(output[text, head], alone, f"head {head} of text {text}", shape_of_q=tuple(q.shape))


def _gradients_flow(work: Work) -> None:
    """Gradients flow back to queries, keys and values, so that a model can learn."""
    q, k, v = numbers(2, 2), numbers(3, 2, seed=1), numbers(3, 1, seed=2)
    expect_gradients(lambda *it: work.attention(*it)[0], lambda q, k, v: attention_weights(q, k) @ v, q=q, k=k, v=v)


def _draw_attention(work: Work) -> Mapping[str, Tensor]:
    q, k = numbers(4, 8), numbers(6, 8, seed=1)
    return {"weights of 4 queries and 6 keys": work.attention(q, k, numbers(6, 3, seed=2))[1]}


# --- 2


def _nobody_sees_the_future(work: Work) -> None:
    """A query sees the keys up to its own place, and no later ones."""
    for size in (*range(1, 7), 2100):
        found = work.causal_mask(size)
        expect_shape(found, (size, size), "the mask", n=size)
        expect(found.dtype == torch.bool, f"the mask has numbers of type {found.dtype}, not torch.bool", n=size)
        for query, key in (found != past_only(size)).nonzero().tolist()[::-1]:
            leaks = bool(found[query, key])
            what = f"query {query} sees key {key}: the future leaks" if leaks else f"query {query} can't see key {key}"
            raise Broken(what if size > 1 else f"{what}, its own", n=size, mask=found)


def _masked_keys_weigh_nothing(work: Work) -> None:
    """A masked key has a weight of exactly 0."""
    for rows, columns in sizes(2, 4):
        scores, mask = numbers(rows, columns), numbers(rows, columns, seed=1) > 0
        mask[:, 0] = True
        found = work.masked_softmax(scores, mask)
        expect_shape(found, scores.shape, "the softmax", scores=scores, mask=mask)
        for query, key in ((found != 0) & ~mask).nonzero().tolist():
            what = f"query {query} may not see key {key}, but gives it a weight of {float(found[query, key]):.3g}"
            raise Broken(what, scores=scores, mask=mask)


def _the_others_share_the_weight(work: Work) -> None:
    """The keys that a query sees have the weights of a softmax over them alone."""
    for rows, columns in sizes(2, 4):
        scores, mask = numbers(rows, columns), numbers(rows, columns, seed=1) > 0
        mask[:, 0] = True
        found = work.masked_softmax(scores, mask)
        for row in range(rows):
            alone = scores[row][mask[row]].softmax(-1)
            expect_equal(found[row][mask[row]], alone, f"the weights of query {row}", scores=scores, mask=mask)
    scores = torch.zeros(1, 3000)  # a little weight for each masked key would add up
    found = work.masked_softmax(scores, torch.arange(3000)[None] < 1)
    expect_equal(found[:, :1], torch.ones(1, 1), "with 2999 masked keys and one that isn't, the weights")


def _hidden_scores_are_harmless(work: Work) -> None:
    """Scores may be large or very negative, and those of masked keys much larger."""
    for scores, mask in (
        (torch.tensor([[100.0, 90.0]]), torch.tensor([[True, True]])),
        (torch.tensor([[0.0, 200.0]]), torch.tensor([[True, False]])),
        (torch.tensor([[-1000.0, 0.0]]), torch.tensor([[True, False]])),
    ):
        found, expected = work.masked_softmax(scores, mask), masked_softmax(scores, mask)
        expect_equal(found, expected, "the weights", scores=scores, mask=mask)


def _nothing_to_see(work: Work) -> None:
    """A query that may see no key gets zeros, not NaN."""
    scores, mask = torch.zeros(2, 2), torch.tensor([[True, True], [False, False]])
    found = work.masked_softmax(scores, mask)
    expect_equal(found, masked_softmax(scores, mask), "the weights", scores=scores, mask=mask)


def _outputs_ignore_the_future(work: Work) -> None:
    """Changing a later key and value doesn't change the output of an earlier query."""
    for size in range(2, 6):
        x, mask = numbers(size, 2), past_only(size)
        before, _ = _masked(work, x, mask)
        for place in range(1, size):
            changed = x.clone()
            changed[place] += 3
            after, _ = work.masked_attention(x, changed, changed, mask)
            at = differs(after[:place], before[:place])
            what = f"the output of query {at and at[0]} depends on key {place}: the future leaks"
            expect(at is None, what, x=x)


def _masked_scores_are_the_same(work: Work) -> None:
    """With any mask, scores are divided by sqrt(d_k), and a query's output is the mean of the values that it sees."""
    for queries, keys in sizes(3, 3):
        q, k, v = numbers(queries, 2), numbers(keys, 2, seed=1), numbers(keys, 3, seed=2)
        for mask in (past_only(3)[:queries, :keys], past_only(3).T[:queries, :keys]):  # a mask isn't always causal
            found = work.masked_attention(q, k, v, mask)
            output, found = _pair("masked_attention", found, (queries, 3, keys), q=q, k=k, v=v, mask=mask)
            weights, whole = (masked_softmax(q @ k.T / scale, mask) for scale in (math.sqrt(2), 1.0))
            undivided = differs(found, weights) is not None and differs(found, whole) is None
            expect(not undivided, "the scores aren't divided by sqrt(d_k)", q=q, k=k, mask=mask)
            expect_equal(found, weights, "the weights", q=q, k=k, mask=mask)
            expect_equal(output, weights @ v, "the output", q=q, k=k, v=v, mask=mask)


def _masked(work: Work, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return output and weights of a student's masked attention, if they have the right kind and shape."""
    found = work.masked_attention(x, x, x, mask)
    return _pair("masked_attention", found, (*x.shape, x.size(-2)), x=x, mask=mask)


def _masks_work_in_heads(work: Work) -> None:
    """A mask works for any number of heads and texts at once."""
    x, mask = numbers(2, 2, 3, 4), past_only(3)
    output, _ = work.masked_attention(x, x, x, mask)
    expect_shape(output, x.shape, "the output", shape_of_q=tuple(x.shape))
    for text in range(2):
        for head in range(2):
            alone, _ = work.masked_attention(*[x[text, head]] * 3, mask)
            expect_equal(output[text, head], alone, f"head {head} of text {text}", shape_of_q=tuple(x.shape))


def _gradients_flow_past_a_mask(work: Work) -> None:
    """With a mask, too, gradients flow back to queries, keys and values."""
    q, k, v, mask = numbers(3, 2), numbers(3, 2, seed=1), numbers(3, 1, seed=2), past_only(3)
    mask[0] = False
    masked = lambda q, k, v: attention_weights(q, k, mask=mask) @ v  # noqa: E731
    expect_gradients(lambda *it: work.masked_attention(*it, mask)[0], masked, q=q, k=k, v=v)


def _draw_masks(work: Work) -> Mapping[str, Tensor]:
    scores = numbers(6, 6)
    return {"your causal mask": work.causal_mask(6), "weights": work.masked_softmax(scores, work.causal_mask(6))}


# --- 3


def _weights_of_a_head(width: int, inner: int) -> tuple[Tensor, Tensor, Tensor]:
    first, second, third = (numbers(width, inner, seed=seed) for seed in (3, 4, 5))
    return first, second, third


def _head_has_a_row_for_each_query(work: Work) -> None:
    """A head has one output for each query, as wide as its values, however many keys there are."""
    for queries, keys, width, inner in sizes(2, 2, 3, 3):
        x, memory, matrices = numbers(queries, width), numbers(keys, width, seed=1), _weights_of_a_head(width, inner)
        for mask in (None, past_only(keys)) if queries == keys else (None,):
            found = work.head(x, memory, *matrices, mask=mask)
            expect_shape(found, (queries, inner), "the output", x=x, memory=memory, mask=mask)


def _values_come_from_the_memory(work: Work) -> None:
    """A head is Attention(x W_Q, m W_K, m W_V), and every query sees all of the memory m that no mask hides."""
    w_q, w_k, w_v = _weights_of_a_head(2, 2)

    def mixed(x: Tensor, memory: Tensor) -> Mapping[str, Tensor]:
        """Return the results of common mistakes, by name, if there are as many queries as keys."""
        seen, values = past_only(len(x)), memory @ w_v
        return {
            "queries and memory are swapped": attention_weights(memory @ w_q, x @ w_k) @ (x @ w_v),
            "the matrices of queries and keys are swapped": attention_weights(x @ w_k, memory @ w_q) @ (memory @ w_v),
            "the matrices of keys and values are swapped": attention_weights(x @ w_q, memory @ w_v) @ (memory @ w_k),
            "the values aren't multiplied by w_v": attention_weights(x @ w_q, memory @ w_k) @ memory,
            "the values come from x": attention_weights(x @ w_q, memory @ w_k) @ (x @ w_v),
            "the keys come from x": attention_weights(x @ w_q, x @ w_k) @ values,
            "keys and values come from x": attention_weights(x @ w_q, x @ w_k) @ (x @ w_v),
            "without a mask, later keys are hidden": attention_weights(x @ w_q, memory @ w_k, mask=seen) @ values,
        }

    for masked in (False, True):
        x, memory = numbers(3, 2), numbers(3, 2, seed=1)  # with fewer tokens, different mistakes give the same numbers
        found = work.head(x, memory, w_q, w_k, w_v, mask=torch.ones(3, 3) > 0 if masked else None)
        hint = next((what for what, other in mixed(x, memory).items() if differs(found, other) is None), None)
        for queries, keys in sizes(3, 3):
            if masked and (hint is None or queries != keys):
                continue  # the next law tests masks
            x, memory = numbers(queries, 2), numbers(keys, 2, seed=1)
            mask = torch.ones(queries, keys) > 0 if masked else None
            expected = _head(x, memory, w_q, w_k, w_v)
            found = work.head(x, memory, w_q, w_k, w_v, mask=mask)
            expect(hint is None or differs(found, expected) is None, f"{hint}", x=x, memory=memory, mask=mask)
            expect_equal(found, expected, "the output", x=x, memory=memory, mask=mask)


def _heads_take_a_mask(work: Work) -> None:
    """A masked key has no influence on a query's output."""
    matrices, mask = _weights_of_a_head(2, 2), torch.tensor([[True, True, False]])
    x, memory = numbers(1, 2), numbers(3, 2, seed=1)
    changed = memory.clone()
    changed[2] += 3
    before, after = (work.head(x, it, *matrices, mask=mask) for it in (memory, changed))
    expect(differs(after, before) is None, "key 2 is masked, but changes the output", memory=memory, mask=mask)
    expect_equal(before, work.head(x, memory[:2], *matrices), "the output with a masked key", memory=memory, mask=mask)
    x, mask = numbers(3, 2), past_only(3)
    for query, row in enumerate(work.head(x, memory, *matrices, mask=mask)):
        alone = work.head(x[query : query + 1], memory[: query + 1], *matrices)[0]
        what = f"with a mask for 3 queries, the output of query {query}"
        expect_equal(row, alone, what, x=x, memory=memory, mask=mask)


def _blind_heads_read_nothing(work: Work) -> None:
    """A query that may see no key reads zeros."""
    for keys in (1, 2):
        memory, mask = numbers(keys, 2, seed=1), torch.zeros(1, keys) > 0
        found = work.head(numbers(1, 2), memory, *_weights_of_a_head(2, 2), mask=mask)
        expect_equal(found, torch.zeros(1, 2), "the output", memory=memory, mask=mask)


def _heads_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to x, the memory and the matrices, so that a model can learn."""
    x, memory, (w_q, w_k, w_v) = numbers(2, 2), numbers(3, 2, seed=1), _weights_of_a_head(2, 2)
    for mask in (None, past_only(3)[:2]):
        ours, right = partial(work.head, mask=mask), partial(_head, mask=mask)
        expect_gradients(ours, right, x=x, memory=memory, w_q=w_q, w_k=w_k, w_v=w_v)


def _head(x: Tensor, memory: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, mask: Tensor | None = None) -> Tensor:
    return attention_weights(x @ w_q, memory @ w_k, mask=mask) @ (memory @ w_v)


def _draw_head(work: Work) -> Mapping[str, Tensor]:
    return {"one head reads 6 vectors": work.head(numbers(4, 8), numbers(6, 8, seed=1), *_weights_of_a_head(8, 5))}


# --- 4


def _splitting_cuts_columns(work: Work) -> None:
    """Head i has columns i d_head to (i + 1) d_head of every token."""
    for heads, tokens, inner in sizes(3, 3, 3):
        x = torch.arange(float(tokens * heads * inner)).reshape(tokens, heads * inner)
        found = work.split_heads(x, heads)
        expect_shape(found, (heads, tokens, inner), "the result of split_heads", x=x, n_heads=heads)
        expected = torch.stack([x[:, i * inner : (i + 1) * inner] for i in range(heads)])
        expect_equal(found, expected, "split_heads(x, n_heads)", x=x, n_heads=heads)


def _merging_undoes_splitting(work: Work) -> None:
    """Merging undoes splitting."""
    for heads, tokens, inner in sizes(3, 3, 3):
        x = torch.arange(float(tokens * heads * inner)).reshape(tokens, heads * inner)
        expect_equal(work.merge_heads(work.split_heads(x, heads)), x, "what's merged", x=x, n_heads=heads)


def _in_heads(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(0, 1)


def _four(width: int) -> list[Tensor]:
    return [numbers(width, width, seed=seed) for seed in (3, 4, 5, 6)]


def joined_heads(x: Tensor, memory: Tensor, w: Sequence[Tensor], heads: int, mask: Tensor | None = None) -> Tensor:
    """Return what the heads give side by side, before the output projection. -> (T, D)

    Args:
        x: what the queries come from, (T, D).
        memory: what keys and values come from, (S, D).
        w: W_Q, W_K and W_V, each (D, D). More are ignored.
        heads: the number of heads.
        mask: (T, S) (default: every query sees all keys).
    """
    q, k, v = (_in_heads(it @ w[i], heads) for i, it in enumerate((x, memory, memory)))
    return (attention_weights(q, k, mask=mask) @ v).transpose(0, 1).flatten(1)


def _heads_are_independent(work: Work) -> None:
    """Every head attends with its own columns and its own width, sqrt(d_head)."""
    for heads, tokens in sizes(3, 3):
        width = 2 * heads
        x, w, same = numbers(tokens, width), _four(width), torch.eye(width)
        found = work.multi_head(x, x, *w[:3], same, heads)
        expect_equal(found, joined_heads(x, x, w, heads), "with w_o = 1, the output", x=x, n_heads=heads)


def _an_output_projection_joins_them(work: Work) -> None:
    """Keys and values come from the memory, and the heads are joined, then multiplied by w_o."""
    for heads, keys in product((1, 2), (2, 3)):
        x, memory, w = numbers(2, 2 * heads), numbers(keys, 2 * heads, seed=1), _four(2 * heads)
        found = work.multi_head(x, memory, *w, heads)
        expect_equal(found, joined_heads(x, memory, w, heads) @ w[3], "the output", x=x, memory=memory, n_heads=heads)


def _all_heads_take_the_mask(work: Work) -> None:
    """The mask holds in every head, however many queries and keys there are."""
    w, memory = [it / 4 for it in _four(4)], numbers(3, 4)  # no head looks at one key alone
    for mask in (past_only(3), past_only(3)[:2], past_only(3)[:1] & False):
        x = memory[: len(mask)]
        found = work.multi_head(x, memory, *w[:3], torch.eye(4), 2, mask=mask)
        what = "with this mask and w_o = 1, the output"
        expect_equal(found, joined_heads(x, memory, w, 2, mask), what, x=x, memory=memory, mask=mask)


def _many_heads_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to x, the memory and the matrices, so that a model can learn."""
    x, memory, (w_q, w_k, w_v, w_o) = numbers(2, 4), numbers(3, 4, seed=1), (it / 4 for it in _four(4))
    for mask in (None, past_only(3)[:2]):
        ours = partial(work.multi_head, n_heads=2, mask=mask)
        right = lambda x, memory, *w: joined_heads(x, memory, w, 2, mask) @ w[3]  # noqa: B023, E731
        expect_gradients(ours, right, x=x, memory=memory, w_q=w_q, w_k=w_k, w_v=w_v, w_o=w_o)


def _draw_heads(work: Work) -> Mapping[str, Tensor]:
    x = numbers(5, 8)
    return {f"columns of head {i}": it for i, it in enumerate(work.split_heads(x, 2))} | {
        "multi-head attention": work.multi_head(x, x, *_four(8), 2)
    }


EXERCISES = (
    Exercise(
        "step_01_attention",
        ("softmax", "attention"),
        (
            _rows_sum_to_one,
            _weights_are_exponential,
            _large_scores_work,
            _scores_are_scaled,
            _products_of_queries_and_keys,
            _output_is_a_mean,
            _leading_axes_are_independent,
            _gradients_flow,
        ),
        _draw_attention,
    ),
    Exercise(
        "step_02_mask",
        ("causal_mask", "masked_softmax", "masked_attention"),
        (
            _nobody_sees_the_future,
            _masked_keys_weigh_nothing,
            _the_others_share_the_weight,
            _hidden_scores_are_harmless,
            _nothing_to_see,
            _outputs_ignore_the_future,
            _masked_scores_are_the_same,
            _masks_work_in_heads,
            _gradients_flow_past_a_mask,
        ),
        _draw_masks,
    ),
    Exercise(
        "step_03_one_head",
        ("head",),
        (
            _head_has_a_row_for_each_query,
            _values_come_from_the_memory,
            _heads_take_a_mask,
            _blind_heads_read_nothing,
            _heads_let_gradients_flow,
        ),
        _draw_head,
    ),
    Exercise(
        "step_04_many_heads",
        ("split_heads", "merge_heads", "multi_head"),
        (
            _splitting_cuts_columns,
            _merging_undoes_splitting,
            _heads_are_independent,
            _an_output_projection_joins_them,
            _all_heads_take_the_mask,
            _many_heads_let_gradients_flow,
        ),
        _draw_heads,
    ),
)
