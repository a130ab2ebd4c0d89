"""The laws of exercises 8 to 10: encoder, decoder with a cache, beam search (sections 3.1 and 6.1)."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import islice, product
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.positions import sinusoid
from .laws import (
    UNCHANGED,
    Broken,
    Exercise,
    Work,
    differs,
    expect,
    expect_equal,
    expect_gradients,
    expect_shape,
    name_of,
    numbers,
    past_only,
)
from .laws_of_attention import joined_heads

_WIDTH, _HEADS = 4, 2


def layer_weights(seed: int = 0, heads: int = _HEADS) -> SimpleNamespace:
    """Return the weights of a layer: `self_attention` and `cross_attention` (w_q, w_k, w_v, w_o), `feed_forward`
    (w_1, b_1, w_2, b_2), `norm_1` to `norm_3` (gain, bias), and `n_heads`."""
    matrices = [numbers(_WIDTH, _WIDTH, seed=10 * seed + i) / 2 for i in range(8)]
    inner = (numbers(_WIDTH, 6, seed=seed), numbers(6, seed=seed), numbers(6, _WIDTH, seed=seed), numbers(4, seed=seed))
    norms = {f"norm_{i}": (1 + numbers(_WIDTH, seed=seed + i) / 8, numbers(_WIDTH, seed=seed - i)) for i in (1, 2, 3)}
    parts: dict[str, Any] = {"self_attention": matrices[:4], "cross_attention": matrices[4:], "feed_forward": inner}
    return SimpleNamespace(n_heads=heads, **parts, **norms)


def _attention(x: Tensor, memory: Tensor, w: SimpleNamespace, kind: str = "self", mask: Tensor | None = None) -> Tensor:
    matrices = getattr(w, f"{kind}_attention")
    return joined_heads(x, memory, matrices, w.n_heads, mask) @ matrices[3]


def _feed_forward(x: Tensor, w: SimpleNamespace) -> Tensor:
    w_1, b_1, w_2, b_2 = w.feed_forward
    return (x @ w_1 + b_1).clamp(min=0) @ w_2 + b_2


def _norm(x: Tensor, norm: tuple[Tensor, Tensor]) -> Tensor:
    return F.layer_norm(x, (_WIDTH,), *norm)


# --- 8


def _encoder_layer(x: Tensor, w: SimpleNamespace, mask: Tensor | None = None) -> Tensor:
    x = _norm(x + _attention(x, x, w, mask=mask), w.norm_1)
    return _norm(x + _feed_forward(x, w), w.norm_2)


def _embeddings_are_scaled(work: Work) -> None:
    """Embeddings are multiplied by sqrt(d_model), and positions are added."""
    table, ids = numbers(5, _WIDTH), torch.tensor([3, 1, 1])
    found, rows, places = work.embed(ids, table), table[ids], sinusoid(3, _WIDTH).float()
    expect_shape(found, (3, _WIDTH), "the embeddings", ids=ids)
    wrong = {"aren't multiplied by sqrt(d_model)": rows + places, "are multiplied by d_model": rows * 4 + places}
    wrong |= {"have no positions": rows * 2, "have multiplied positions, too": (rows + places) * 2}
    wrong |= {"are multiplied by the root of the vocabulary's size": rows * math.sqrt(5) + places}
    wrong |= {"have the positions of ids, not of places": rows * 2 + sinusoid(5, _WIDTH).float()[ids]}
    for what, other in wrong.items():
        expect(differs(found, other) is not None, f"the embeddings {what}", ids=ids, table=table)
    for width, length in ((_WIDTH, 1), (_WIDTH, 3), (16, 3)):
        table = numbers(5, width)
        expected = table[ids[:length]] * math.sqrt(width) + sinusoid(length, width).float()
        expect_equal(work.embed(ids[:length], table), expected, "the embeddings", ids=ids[:length], table=table)


def _padding_has_no_influence(work: Work) -> None:
    """A masked token doesn't change the other tokens, in any layer."""
    x, w = numbers(3, _WIDTH), layer_weights()
    changed = x.clone()
    changed[2] += 3
    for mask in (torch.tensor([[False, False, False]]), torch.tensor([[True, True, False]])):
        before, after = (work.encoder_layer(it, w, mask=mask)[:2] for it in (x, changed))
        expect(differs(after, before) is None, "token 2 is masked, but changes the others", x=x, mask=mask)
    table, layers = numbers(5, _WIDTH), [layer_weights(1), layer_weights(2)]
    for count in (1, 2):
        texts = [torch.tensor([3, 1, last]) for last in (2, 4)]
        before, after = (work.encoder(ids, table, layers[:count], mask=mask)[:2] for ids in texts)
        what = f"with {count} layer{'s' * (count > 1)}, token 2 is masked, but changes the others"
        expect(differs(after, before) is None, what, ids=texts[0], mask=mask)


def _order_is_invisible(work: Work) -> None:
    """Without positions, exchanging two tokens exchanges their outputs."""
    x, w = numbers(3, _WIDTH), layer_weights()
    found, flipped = work.encoder_layer(x, w), work.encoder_layer(x.flip(0), w)
    expect_shape(found, x.shape, "the output", x=x)
    expect_equal(flipped.flip(0), found, "the output for the reverse order", x=x)


def _sublayers_have_their_order(work: Work) -> None:
    """A layer is self-attention, then feed-forward; each is added to its input and normalised by its own norm."""
    x, w = numbers(2, _WIDTH), layer_weights()
    found, attended = work.encoder_layer(x, w), x + _attention(x, x, w)
    first = _norm(x + _feed_forward(x, w), w.norm_1)
    other = _norm(attended, w.norm_2)
    wrong = {
        "feed-forward comes first": _norm(first + _attention(first, first, w), w.norm_2),
        "the norms are exchanged": _norm(other + _feed_forward(other, w), w.norm_1),
        "feed-forward isn't added to its input": _norm(_feed_forward(_norm(attended, w.norm_1), w), w.norm_2),
        "the second sub-layer reads the input of the first": _norm(x + _feed_forward(x, w), w.norm_2),
        "feed-forward reads the input of the layer": _norm(_norm(attended, w.norm_1) + _feed_forward(x, w), w.norm_2),
    }
    for what, result in wrong.items():
        expect(differs(found, result) is not None, what, x=x)
    for tokens, heads in ((1, 2), (2, 2), (2, 1)):
        w.n_heads = heads
        expected = _encoder_layer(x[:tokens], w)
        expect_equal(work.encoder_layer(x[:tokens], w), expected, "the output", x=x[:tokens], n_heads=heads)


def _layers_follow_each_other(work: Work) -> None:
    """Each layer reads the output of the one before it, with its own weights."""
    table, ids, layers = numbers(5, _WIDTH), torch.tensor([3, 1, 2]), [layer_weights(seed) for seed in (1, 2, 3)]
    for count, mask in product((0, 1, 2, 3), (None, torch.tensor([[True, True, False]]))):
        x = table[ids] * 2 + sinusoid(3, _WIDTH).float()
        for w in layers[:count]:
            x = _encoder_layer(x, w, mask)
        found = work.encoder(ids, table, layers[:count], mask=mask)
        expect_equal(found, x, f"with {count} layer{'s' * (count != 1)}, the output", ids=ids, mask=mask)


def _encoders_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to the table and all weights of a layer, so that a model can learn."""
    table, ids, w = numbers(3, _WIDTH), torch.tensor([0, 1]), layer_weights()
    right = lambda x, w: _encoder_layer(x[ids] * 2 + sinusoid(2, _WIDTH).float(), w)  # noqa: E731
    _expect_gradients(lambda table, w: work.encoder(ids, table, [w]), right, w, table=table)


def _expect_gradients(
    function: Callable[..., Tensor], right: Callable[..., Tensor], w: SimpleNamespace, **inputs: Tensor
) -> None:
    """Raise `Broken` unless gradients flow back to the inputs and a layer's weights, the last argument of both."""
    parts = {part: len(value) for part, value in vars(w).items() if part != "n_heads"}
    flat = {f"{part}[{i}]": getattr(w, part)[i] for part, count in parts.items() for i in range(count)}

    def built(function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        rest = iter(values[len(inputs) :])
        own = {part: tuple(islice(rest, count)) for part, count in parts.items()}
        return function(*values[: len(inputs)], SimpleNamespace(n_heads=w.n_heads, **own))

    expect_gradients(partial(built, function), partial(built, right), flat, **inputs)


def _draw_encoder(work: Work) -> Mapping[str, Tensor]:
    table, ids = numbers(9, _WIDTH), torch.arange(8)
    return {f"after {n} layers": work.encoder(ids, table, [layer_weights(1), layer_weights(2)][:n]) for n in range(3)}


# --- 9


def _decoder_layer(x: Tensor, memory: Tensor, w: SimpleNamespace) -> Tensor:
    x = _norm(x + _attention(x, x, w, mask=past_only(len(x))), w.norm_1)
    x = _norm(x + _attention(x, memory, w, "cross"), w.norm_2)
    return _norm(x + _feed_forward(x, w), w.norm_3)


def _decoders_ignore_the_future(work: Work) -> None:
    """A token doesn't see the tokens after it."""
    memory, w = numbers(3, _WIDTH, seed=1), layer_weights()
    for size in (2, 3, 4):
        x = numbers(size, _WIDTH)
        before = work.decoder_layer(x, memory, w)
        expect_shape(before, x.shape, "the output", x=x)
        for place in range(1, size):
            changed = x.clone()
            changed[place] += 3
            at = differs(work.decoder_layer(changed, memory, w)[:place], before[:place])
            expect(at is None, f"token {at and at[0]} sees token {place}: the future leaks", x=x)


def _everybody_sees_the_memory(work: Work) -> None:
    """Every token sees all of the memory."""
    x, w = numbers(2, _WIDTH), layer_weights()
    for size in (1, 2, 3):
        memory = numbers(size, _WIDTH, seed=1)
        before = work.decoder_layer(x, memory, w)
        for place in range(size if size > 1 else 0):
            changed = memory.clone()
            changed[place] += torch.tensor([3.0, -1.0, 2.0, 0.0])
            after = work.decoder_layer(x, changed, w)
            for token in range(2):
                moved = differs(after[token], before[token]) is not None
                expect(moved, f"token {token} doesn't see vector {place} of the memory", memory=memory)


def _decoders_have_their_order(work: Work) -> None:
    """A layer is self-attention, cross-attention to the memory, then feed-forward, with residuals and three norms."""
    x, memory, w = numbers(3, _WIDTH), numbers(2, _WIDTH, seed=1), layer_weights()
    found = work.decoder_layer(x, memory, w)
    swapped = SimpleNamespace(**vars(w) | {"self_attention": w.cross_attention, "cross_attention": w.self_attention})
    wrong = {"self-attention has the weights of cross-attention": _decoder_layer(x, memory, swapped)}
    for first, second in ((1, 2), (1, 3), (2, 3)):
        norms = {f"norm_{first}": getattr(w, f"norm_{second}"), f"norm_{second}": getattr(w, f"norm_{first}")}
        mixed = _decoder_layer(x, memory, SimpleNamespace(**vars(w) | norms))
        wrong[f"norm_{first} and norm_{second} are exchanged"] = mixed
    crossed = _norm(x + _attention(x, memory, w, "cross"), w.norm_1)
    attended = _norm(crossed + _attention(crossed, crossed, w, mask=past_only(3)), w.norm_2)
    wrong["cross-attention comes before self-attention"] = _norm(attended + _feed_forward(attended, w), w.norm_3)
    for what, result in wrong.items():
        expect(differs(found, result) is not None, what, x=x, memory=memory)
    for heads in (2, 1):
        w.n_heads, expected = heads, _decoder_layer(x, memory, SimpleNamespace(**vars(w) | {"n_heads": heads}))
        found = work.decoder_layer(x, memory, w)
        expect_equal(found, expected, "the output", x=x, memory=memory, n_heads=heads)


def _caches_change_nothing(work: Work) -> None:
    """Token by token with a cache, the outputs are those of all tokens at once."""
    memory, w, x = numbers(2, _WIDTH, seed=1), layer_weights(), numbers(600, _WIDTH)
    for cuts in ((1, 1), (1, 1, 1), (2, 1), (1, 2), (2, 3), (1, 1, 1, 1, 1), (70, 529, 1)):
        whole, cache, done = _decoder_layer(x[: sum(cuts)], memory, w), dict[str, Any](), 0
        for count in cuts:
            found = work.decoder_layer(x[done : done + count], memory, w, cache=cache)
            expect_shape(found, (count, _WIDTH), "the output for the new tokens", new=count, in_the_cache=done)
            expect(bool(cache), "the dictionary is still empty after the first tokens", new=count)
            at = differs(found, whole[done : done + count])
            new = "1 new token" if count == 1 else f"{count} new tokens"
            what = f"with {done} in the cache and {new}, token {done + at[0] if at else 0} gets another output"
            expect(at is None, what, x=x[: sum(cuts)])
            done += count


def _caches_belong_to_one_text(work: Work) -> None:
    """A new, empty cache starts a new text, and so does a call without one."""
    memory, w, first, second = numbers(2, _WIDTH, seed=1), layer_weights(), numbers(2, _WIDTH), numbers(1, _WIDTH)
    for given in ({}, {"cache": dict[str, Any]()}):
        alone, _, again = (work.decoder_layer(x, memory, w, **deepcopy(given)) for x in (second, first, second))
        what = f"with{'' if given else 'out'} a cache, after another text, the output"
        expect_equal(again, alone, what, x=second)


def _decoders_let_gradients_flow(work: Work) -> None:
    """Gradients flow back to all tokens, the memory and all weights, also through the cache."""
    x, memory, w = numbers(3, _WIDTH), numbers(2, _WIDTH, seed=1), layer_weights()

    def portions(x: Tensor, memory: Tensor, w: SimpleNamespace) -> Tensor:
        cache = dict[str, Any]()
        return torch.cat([work.decoder_layer(it, memory, w, cache=cache) for it in (x[:1], x[1:])])

    for function in (work.decoder_layer, portions):
        _expect_gradients(function, _decoder_layer, w, x=x, memory=memory)


def _draw_decoder(work: Work) -> Mapping[str, Tensor]:
    x, memory = numbers(6, _WIDTH), numbers(3, _WIDTH, seed=1)
    return {"6 tokens": x, "after a decoder layer": work.decoder_layer(x, memory, layer_weights())}


# --- 10

_END = 0
_Next = Callable[[tuple[int, ...]], Tensor]


def _random_model(vocabulary: int, seed: int) -> _Next:
    """Return the log-probabilities of the next token for every prefix, drawn at random."""

    def log_probs(prefix: tuple[int, ...]) -> Tensor:
        if not isinstance(prefix, tuple):
            raise Broken(f"it gets a {type(prefix).__name__}", "log_probs is called with a tuple", tokens=prefix)
        key = seed
        for token in prefix:
            key = key * 31 + token + 1
        return numbers(vocabulary, seed=key).mul(1.7).add(numbers(vocabulary, seed=key + 7) / 5).log_softmax(-1)

    return log_probs


def _found(
    work: Work, model: _Next, beam: int, longest: int, alpha: float = 0.0, end: int = _END
) -> list[tuple[list[int], float]]:
    given: dict[tuple[int, ...], tuple[Tensor, Tensor]] = {}

    def kept(prefix: tuple[int, ...]) -> Tensor:
        found = model(prefix)
        given.setdefault(prefix, (found, found.clone()))
        return found

    found = work.beam_search(kept, beam, longest, end, alpha)
    changed = next((prefix for prefix, (now, before) in given.items() if not torch.equal(now, before)), None)
    if changed is not None:
        raise Broken("beam_search changes what log_probs returns in place", UNCHANGED, tokens=changed)
    try:
        answers = [([int(it) for it in tokens], float(score)) for tokens, score in found]
    except (TypeError, ValueError):
        raise Broken("beam_search doesn't return a list of pairs: tokens, score", beam=beam) from None
    expect(bool(answers), "beam_search returns no answer", beam=beam, max_len=longest)
    for tokens, _ in answers:
        if len(tokens) < longest and end not in tokens and tuple(tokens) not in given:  # so its end can't be known
            what = f"the answer {tokens} is cut before its end token and before max_len"
            raise Broken(what, name_of(_answers_end_once), beam=beam, max_len=longest)
    for length, count in Counter(map(len, given)).items():
        if count > beam:
            what = f"{count} beginnings with a length of {length} are extended"
            raise Broken(what, name_of(_beams_stay_narrow), beam=beam, max_len=longest)
    return answers


def _log_probability(model: _Next, tokens: Sequence[int], longest: int) -> float:
    """Return the log-probability of an answer, whose end token counts unless it was cut."""
    whole = [*tokens, _END] if len(tokens) < longest else list(tokens)
    return sum(float(model(tuple(whole[:i]))[token]) for i, token in enumerate(whole))


def _penalised(model: _Next, tokens: Sequence[int], longest: int, alpha: float) -> float:
    length = len(tokens) + (len(tokens) < longest)
    return _log_probability(model, tokens, longest) / ((5 + length) / 6) ** alpha


def _every_answer(vocabulary: int, longest: int) -> list[list[int]]:
    others = [token for token in range(vocabulary) if token != _END]
    return [list(some) for length in range(longest + 1) for some in product(others, repeat=length)]


def _answers_end_once(work: Work) -> None:
    """An answer stops at the end token, which isn't part of it, or after max_len tokens."""
    for longest, seed, end in product((1, 2, 3), range(4), (_END, 2)):
        for tokens, _ in _found(work, _random_model(3, seed), 2, longest, end=end):
            expect(end not in tokens, f"the end token {end} is in the answer {tokens}", max_len=longest)
            expect(len(tokens) <= longest, f"the answer {tokens} is longer than max_len", max_len=longest)


def _scores_are_log_probabilities(work: Work) -> None:
    """Without a penalty, a score is the sum of the log-probabilities of all tokens, the end included."""
    for longest, seed in product((1, 2, 3), range(4)):
        model = _random_model(3, seed)
        for tokens, score in _found(work, model, 2, longest):
            right = _log_probability(model, tokens, longest)
            what = f"the score of {tokens} is {score:.4g}, not {right:.4g}"
            expect(abs(score - right) < 1e-3, what, alpha=0, max_len=longest)


def _tiny_probabilities_work(work: Work) -> None:
    """A probability may be too small for a number: only logarithms are added."""
    for longest, tokens in ((1, []), (2, []), (2, [2])):
        model = lambda _: torch.tensor([-2000.0, -1000.0, 0.0])  # noqa: E731
        found, right = _found(work, model, 7, longest), _log_probability(model, tokens, longest)
        score = next((score for some, score in found if some == tokens), math.nan)
        what = f"the score of {tokens} is {score:.4g}, not {right:.4g}"
        expect(abs(score - right) < 1e-3, what, log_probs=[-2000, -1000, 0], beam=7, max_len=longest)


def _one_beam_is_greedy(work: Work) -> None:
    """With a beam of 1, every token is the most probable one: greedy search."""
    for longest, seed in product((1, 2, 4), range(6)):
        model, greedy = _random_model(4, seed), list[int]()
        while len(greedy) < longest and (best := int(model(tuple(greedy)).argmax())) != _END:
            greedy.append(best)
        found = _found(work, model, 1, longest)
        expect(len(found) == 1, f"a beam of 1 gives {len(found)} answers", max_len=longest)
        expect(found[0][0] == greedy, f"the answer is {found[0][0]}, not {greedy}", max_len=longest)


def _wide_beams_find_the_best(work: Work) -> None:
    """A beam as wide as the number of answers, so wider than the vocabulary, finds the most probable one."""
    for longest, seed in product((1, 2, 3), range(20)):
        model, answers = _random_model(3, seed), _every_answer(3, longest)
        best = max(answers, key=lambda it: _log_probability(model, it, longest))
        found = _found(work, model, len(answers), longest)[0][0]
        what = f"the answer is {found}, but {best} has a higher probability"
        near = _log_probability(model, found, longest) > _log_probability(model, best, longest) - 1e-4
        expect(near, what, beam=len(answers), max_len=longest)


def _ties_are_kept(work: Work) -> None:
    """A beam as wide as the number of answers finds all of them, also equally probable ones."""
    for longest in (1, 2):
        answers = _every_answer(3, longest)
        found = [tokens for tokens, _ in _found(work, lambda _: torch.full((3,), 1 / 3).log(), len(answers), longest)]
        missing = next((it for it in answers if it not in found), None)
        what = f"with equal probabilities, the answer {missing} is missing"
        expect(missing is None, what, vocabulary=3, beam=len(answers), max_len=longest)


def _beams_stay_narrow(work: Work) -> None:
    """At most `beam` beginnings of a length are extended, the best ones of all."""
    for beam, seed in product((1, 2, 3), range(4)):
        _found(work, _random_model(4, seed), beam, 3)


def _beams_see_past_a_bad_start(work: Work) -> None:
    """A beam of 2 finds an answer whose first token isn't the most probable one."""

    def trap(prefix: tuple[int, ...]) -> Tensor:
        likely = {(): [0.02, 0.55, 0.43], (1,): [0.34, 0.33, 0.33], (2,): [0.96, 0.02, 0.02]}
        return torch.tensor(likely.get(prefix, [0.98, 0.01, 0.01])).log()

    found = _found(work, trap, 2, 4)[0][0]
    what = f"the answer is {found} with a probability of 0.19 or less, but [2] has 0.41"
    expect(found == [2], what, first_token=[0.02, 0.55, 0.43])


def _answers_are_sorted(work: Work) -> None:
    """The answers are different, at most as many as the beam is wide, and the best one comes first."""
    for beam, seed in product((2, 3, 4), range(4)):
        found = _found(work, _random_model(4, seed), beam, 3)
        expect(len(found) <= beam, f"there are {len(found)} answers", beam=beam)
        texts, scores = [tuple(tokens) for tokens, _ in found], [score for _, score in found]
        expect(len({*texts}) == len(texts), f"an answer is there twice: {texts}", beam=beam)
        expect(scores == sorted(scores, reverse=True), "the best answer doesn't come first", beam=beam)


def _penalties_favour_length(work: Work) -> None:
    """A score is divided by ((5 + length) / 6) ^ alpha, where the length includes the end, and decides the order."""
    for alpha, longest, seed in product((0.6, 1.0, 4.0), (2, 3), range(4)):
        model, answers = _random_model(3, seed), _every_answer(3, longest)
        found = _found(work, model, len(answers), longest, alpha)
        for tokens, score in found:
            right = _penalised(model, tokens, longest, alpha)
            what = f"the score of {tokens} is {score:.4g}, not {right:.4g}"
            expect(abs(score - right) < 1e-3, what, alpha=alpha, max_len=longest)
        scores = [score for _, score in found]
        what = "the answers aren't sorted by their scores with the penalty"
        expect(scores == sorted(scores, reverse=True), what, alpha=alpha, max_len=longest)
        best = max(_penalised(model, it, longest, alpha) for it in answers)
        expect(found[0][1] > best - 1e-3, f"{found[0][0]} isn't the answer with the best score", alpha=alpha)


def _draw_search(work: Work) -> Mapping[str, Tensor]:
    model = _random_model(4, 1)
    found = work.beam_search(model, 4, 4, _END, 0.0)
    rows = torch.full((len(found), 5), math.nan)
    for row, (tokens, score) in enumerate(found):
        rows[row, : len(tokens)] = torch.tensor([float(it) for it in tokens])
        rows[row, 4] = float(score)
    return {"answers of a beam of 4: tokens, and the log-probability": rows}


EXERCISES = (
    Exercise(
        "step_08_encoder",
        ("embed", "encoder_layer", "encoder"),
        (
            _embeddings_are_scaled,
            _padding_has_no_influence,
            _order_is_invisible,
            _sublayers_have_their_order,
            _layers_follow_each_other,
            _encoders_let_gradients_flow,
        ),
        _draw_encoder,
    ),
    Exercise(
        "step_09_decoder",
        ("decoder_layer",),
        (
            _caches_belong_to_one_text,
            _decoders_ignore_the_future,
            _everybody_sees_the_memory,
            _decoders_have_their_order,
            _caches_change_nothing,
            _decoders_let_gradients_flow,
        ),
        _draw_decoder,
    ),
    Exercise(
        "step_10_beam_search",
        ("beam_search",),
        (
            _answers_end_once,
            _scores_are_log_probabilities,
            _one_beam_is_greedy,
            _beams_stay_narrow,
            _answers_are_sorted,
            _wide_beams_find_the_best,
            _beams_see_past_a_bad_start,
            _ties_are_kept,
            _tiny_probabilities_work,
            _penalties_favour_length,
        ),
        _draw_search,
    ),
)
