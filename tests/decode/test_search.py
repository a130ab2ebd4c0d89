import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.decode.beams import Hypothesis, Request, SearchStep
from clearhead.decode.rules import Rules
from clearhead.decode.sampling import Sampler, Sampling
from clearhead.decode.search import Search, beam_search
from clearhead.errors import ModelError

END = 2
seeds = st.integers(0, 10**6)


def distribution(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
    """Log-probabilities (V,): a function of the sentence's seed and what it has generated, and of nothing else."""
    scores = np.random.default_rng([seed, len(prefix), *prefix]).normal(size=vocab) * 1.5
    return scores - np.log(np.exp(scores).sum())


class Toy:
    """An engine whose model is a function `(seed, prefix, vocab) -> (V,)`; a source is a seed. It checks its caller."""

    def __init__(self, vocab: int = 7, model: Any = distribution) -> None:
        self.vocab, self.model = vocab, model
        self.selects: list[bool] = []  # whether sources were dropped
        self.rows_stepped: list[int] = []

    @contextmanager
    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> Iterator["Toy"]:
        self.seeds, self.prefixes, self.steps_left = [source[0] for source in sources], [[[]] for _ in sources], steps
        yield self

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        assert self.steps_left > 0 and tokens.shape == (len(self.seeds), len(self.prefixes[0]))
        self.steps_left -= 1
        self.rows_stepped.append(tokens.size)
        for beams, row in zip(self.prefixes, tokens.tolist()):
            for prefix, token in zip(beams, row):
                prefix.append(token)
        all_ = [[self.model(s, p[1:], self.vocab) for p in beams] for s, beams in zip(self.seeds, self.prefixes)]
        log_probabilities = np.array(all_)
        ids = np.argsort(-log_probabilities, axis=2, kind="stable")[:, :, :k]
        ids = np.random.default_rng(k).permuted(ids, axis=2)  # the order of candidates is nobody's business
        if also is not None:
            ids = np.concatenate((ids, np.broadcast_to(also[:, None, None], (*tokens.shape, 1))), 2)
        return np.take_along_axis(log_probabilities, ids, 2), ids

    def select(self, sources: np.ndarray, beams: np.ndarray) -> None:
        width = len(self.prefixes[0])
        assert (np.diff(sources) > 0).all() and beams.shape[0] == len(sources)
        changed = len(sources) < len(self.seeds) or beams.tolist() != [list(range(width))] * len(sources)
        assert changed, "select was called although no row changes"
        self.selects.append(len(sources) < len(self.seeds))
        self.prefixes = [[list(self.prefixes[s][b]) for b in row] for s, row in zip(sources, beams)]
        self.seeds = [self.seeds[s] for s in sources]


def search(
    toy: Toy, seeds: Sequence[int], limits: Sequence[int], rules: Rules, observe: Any = None, **request: Any
) -> list[list[Hypothesis]]:
    with toy.prefill([[seed] for seed in seeds], max(limits)) as decoding:
        requests = [Request(limit, **request) for limit in limits]
        return beam_search(decoding, np.ones(len(seeds), np.int64), requests, rules, observe)


def score(seed: int, ids: Sequence[int], vocab: int, alpha: float) -> float:
    """log P(Y) / ((5 + |Y|) / 6)^alpha of a finished hypothesis, Y with the end token, term by term."""
    ended = [*ids, END]
    total = sum(float(distribution(seed, ended[:t], vocab)[token]) for t, token in enumerate(ended))
    return total / ((5 + len(ended)) / 6) ** alpha


def plain_beam_search(seed: int, limit: int, vocab: int, rules: Rules) -> list[tuple[float, tuple[int, ...]]]:
    """The same search for one sentence, in loops over lists and without the optimistic bound."""
    live: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    ended: list[tuple[float, tuple[int, ...]]] = []
    for length in range(1, limit + 1):
        candidates = [
            (total + float(log_probability), (*ids, token))
            for total, ids in live
            for token, log_probability in enumerate(distribution(seed, ids, vocab))
            if token not in rules.suppress
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        penalty = ((5 + length) / 6) ** rules.alpha
        ended += [(total / penalty, ids[:-1]) for total, ids in candidates[: rules.beam] if ids[-1] == END]
        live = [candidate for candidate in candidates if candidate[1][-1] != END][: rules.beam]
        if len(ended) >= rules.beam and live[0][0] / penalty <= sorted(ended, reverse=True)[rules.n_best - 1][0]:
            break
    return sorted(ended, key=lambda answer: -answer[0]) or [(t / penalty, ids) for t, ids in live]


@given(seeds, st.integers(3, 5), st.integers(1, 4), st.sampled_from([0.0, 0.6, 2.0]))
@settings(max_examples=40, deadline=None)
def test_a_beam_as_wide_as_all_sequences_finds_what_exhaustive_search_finds(seed, vocab, limit, alpha) -> None:
    words = [token for token in range(vocab) if token != END]
    everything = [ids for length in range(limit) for ids in itertools.product(words, repeat=length)]
    best = max(everything, key=lambda ids: score(seed, ids, vocab, alpha))
    answer = search(Toy(vocab), [seed], [limit], Rules(eos=END, beam=vocab**limit, alpha=alpha))[0][0]
    assert answer.ids == best and answer.finished
    assert math.isclose(answer.score, score(seed, best, vocab, alpha), rel_tol=1e-12)


@given(seeds, st.integers(1, 6), st.integers(1, 12), st.sampled_from([0.0, 0.6, 1.0]))
@settings(max_examples=60, deadline=None)
def test_the_best_answer_is_that_of_a_search_in_plain_loops(seed, beam, limit, alpha) -> None:
    rules = Rules(eos=END, suppress=(0, 3), beam=beam, alpha=alpha)
    expected = plain_beam_search(seed, limit, 7, rules)
    answers = search(Toy(7), [seed], [limit], rules)[0]
    assert answers[0].ids == expected[0][1]
    assert {answer.ids for answer in answers} <= {ids for _, ids in expected}
    assert math.isclose(answers[0].score, expected[0][0], rel_tol=1e-12)


@given(seeds, st.integers(2, 6), st.integers(1, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_the_n_best_are_those_of_a_search_in_plain_loops(seed, beam, limit, data) -> None:
    rules = Rules(eos=END, suppress=(0, 3), beam=beam, n_best=data.draw(st.integers(2, beam)))
    expected = plain_beam_search(seed, limit, 7, rules)[: rules.n_best]
    finished = [answer for answer in search(Toy(7), [seed], [limit], rules)[0] if answer.finished]
    if len(finished) >= rules.n_best:
        assert [answer.ids for answer in finished[: rules.n_best]] == [ids for _, ids in expected]


@given(seeds, st.integers(1, 12))
def test_beam_1_takes_the_likeliest_allowed_token_at_every_step(seed, limit) -> None:
    ids: list[int] = []
    while len(ids) < limit:
        log_probabilities = distribution(seed, ids, 7)
        log_probabilities[[0, 1]] = -np.inf
        if (token := int(log_probabilities.argmax())) == END:
            break
        ids.append(token)
    toy = Toy(7)
    (answer,) = search(toy, [seed], [limit], Rules(eos=END, suppress=(0, 1), beam=1))[0]
    assert answer.ids == tuple(ids) and answer.finished == (len(ids) < limit)
    assert not toy.selects, "one beam of one sentence never moves"


@given(st.lists(st.tuples(seeds, st.integers(1, 10)), min_size=1, max_size=6), st.integers(1, 5), st.randoms())
@settings(max_examples=40, deadline=None)
def test_batch_mates_and_their_order_change_no_answer(sentences, beam, random) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam)
    alone = {(seed, limit): search(Toy(), [seed], [limit], rules)[0] for seed, limit in sentences}
    random.shuffle(sentences)
    together = search(Toy(), [seed for seed, _ in sentences], [limit for _, limit in sentences], rules)
    assert together == [alone[sentence] for sentence in sentences]


@given(seeds, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_a_score_is_the_sum_of_its_tokens_over_the_penalty_of_its_length_with_the_end_token(seed, beam) -> None:
    for answer in search(Toy(), [seed], [9], Rules(eos=END, suppress=(0, 1), beam=beam, alpha=0.6))[0]:
        tokens = [*answer.ids, END] if answer.finished else list(answer.ids)
        expected = [distribution(seed, tokens[:t], 7)[token] for t, token in enumerate(tokens)]
        np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=1e-12)
        assert math.isclose(answer.log_probability, sum(expected), rel_tol=1e-12)
        assert math.isclose(answer.score, sum(expected) / ((5 + len(tokens)) / 6) ** 0.6, rel_tol=1e-12)


@given(seeds, st.integers(2, 6))
@settings(max_examples=40, deadline=None)
def test_answers_come_best_first_and_differ(seed, beam) -> None:
    answers = search(Toy(), [seed], [8], Rules(eos=END, beam=beam))[0]
    assert 1 <= len(answers) <= beam
    assert [a.score for a in answers] == sorted((a.score for a in answers), reverse=True)
    assert len({a.ids for a in answers}) == len(answers)


def endless(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
    log_probabilities = distribution(seed, prefix, vocab)
    log_probabilities[END] = -np.inf
    return log_probabilities


def test_each_sentence_stops_at_its_own_limit_and_is_then_unfinished() -> None:
    for beam in (3, 9):  # 9: the impossible end is among the best candidates of 7
        found = search(Toy(7, endless), [1, 2, 3], [4, 9, 1], Rules(eos=END, beam=beam))
        for answers, limit in zip(found, [4, 9, 1]):
            assert all(len(answer.ids) == limit and not answer.finished for answer in answers)
            assert len(answers) == min(beam, 6**limit)


@given(seeds, st.integers(1, 4))
def test_what_has_not_ended_counts_only_where_nothing_has(seed, limit) -> None:
    answers = search(Toy(), [seed], [limit], Rules(eos=END, beam=4))[0]
    assert len({answer.finished for answer in answers}) == 1
    assert all(len(answer.token_log_probabilities) <= limit for answer in answers)


def test_a_token_that_is_never_to_be_generated_is_not_even_where_it_is_the_likeliest() -> None:
    def favourite(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        return np.log(np.array([0.4, 0.3, 0.01, 0.2, 0.05, 0.04]))

    for beam in (1, 2, 5):
        for answer in search(Toy(6, favourite), [0], [5], Rules(eos=END, suppress=(0, 1, 3), beam=beam))[0]:
            assert set(answer.ids) <= {4, 5}
    (greedy,) = search(Toy(6, favourite), [0], [1], Rules(eos=END, suppress=(0, 1, 3), beam=1))[0]
    assert greedy.ids == (4,) and math.isclose(greedy.log_probability, math.log(0.05)), "probabilities stay the model's"


def test_equal_scores_go_to_the_earlier_beam_and_then_to_the_lower_id() -> None:
    def uniform(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        return np.full(vocab, -math.log(vocab))

    steps: list[SearchStep] = []
    search(Toy(5, uniform), [0], [2], Rules(eos=END, beam=2), steps.append)
    assert steps[0].tokens[0, steps[0].kept[0]].tolist() == [0, 1]
    assert list(zip(steps[1].parents[0], steps[1].tokens[0])) == [(0, 0), (0, 1), (0, 2), (1, 0)]


def test_a_finished_sentence_is_stepped_no_more() -> None:
    def ends_at(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -50.0)
        log_probabilities[END if len(prefix) + 1 >= seed else 4] = 0.0
        return log_probabilities

    toy = Toy(7, ends_at)
    answers = search(toy, [1, 3, 5], [9, 9, 9], Rules(eos=END, beam=1))
    assert [len(found[0].ids) for found in answers] == [0, 2, 4]
    assert toy.rows_stepped == [3, 2, 2, 1, 1] and toy.selects == [True, True]


def test_a_search_stops_when_nothing_alive_can_still_win() -> None:
    def certain(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -50.0)
        log_probabilities[END] = -1e-9
        return log_probabilities

    toy = Toy(7, certain)
    (answer,) = search(toy, [0], [100], Rules(eos=END, beam=4))[0]
    assert answer.ids == () and len(toy.rows_stepped) == 1


def test_a_sentence_that_trails_may_still_win_by_its_length() -> None:
    def patient(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -60.0)
        log_probabilities[[END, 4]] = (-0.7, -0.8) if not prefix else (-60.0, 0.0) if len(prefix) < 9 else (0.0, -60.0)
        return log_probabilities

    for alpha, winner in ((0.0, ()), (1.0, (4,) * 9)):  # -0.7 / (6 / 6) is less than -0.8 / (15 / 6)
        answers = search(Toy(7, patient), [0], [20], Rules(eos=END, beam=2, alpha=alpha))[0]
        assert answers[0].ids == winner


def test_as_many_unlikely_ends_as_beams_do_not_cut_off_a_likely_sentence() -> None:
    def long_sentence(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -40.0)
        log_probabilities[END] = -20.0  # at every step among the best two, and most unlikely
        log_probabilities[END if len(prefix) == 6 else 4] = -0.01
        return log_probabilities

    answers = search(Toy(7, long_sentence), [0], [20], Rules(eos=END, beam=2))[0]
    assert answers[0].ids == (4,) * 6


def test_as_many_ends_as_beams_do_not_cut_off_the_second_of_two_likely_sentences() -> None:
    lengths = {4: 6, 5: 8}

    def two_sentences(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -40.0)
        log_probabilities[END] = -20.0  # among the best two once the other sentence is complete
        if not prefix:
            log_probabilities[[4, 5]] = -0.7, -0.8
        else:
            log_probabilities[END if len(prefix) == lengths.get(prefix[0]) else prefix[0]] = -0.01
        return log_probabilities

    answers = search(Toy(7, two_sentences), [0], [20], Rules(eos=END, beam=2, n_best=2))[0]
    assert {answer.ids for answer in answers} == {(4,) * 6, (5,) * 8}


@pytest.mark.parametrize("n_best", [1, 2])
def test_what_was_cut_off_fills_up_behind_what_ended(n_best: int) -> None:
    def ends_at_once_or_never(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -np.inf)
        log_probabilities[4] = -0.01
        log_probabilities[END] = -np.inf if prefix else -20.0
        return log_probabilities

    answers = search(Toy(7, ends_at_once_or_never), [0], [5], Rules(eos=END, beam=2, n_best=n_best))[0]
    expected = [((), True), ((4,) * 5, False)]
    assert [(answer.ids, answer.finished) for answer in answers] == expected[:n_best]


@given(seeds, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_where_nothing_may_follow_the_answers_are_what_was_alive_last(seed, beam) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam, no_repeat_ngram=1)  # of two words
    for answer in search(Toy(5), [seed], [12], rules, min_len=9)[0]:
        assert sorted(answer.ids) == [3, 4] and not answer.finished
        expected = [distribution(seed, answer.ids[:t], 5)[token] for t, token in enumerate(answer.ids)]
        np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=1e-12)


@pytest.mark.parametrize("n_best", [1, 2])
def test_what_nothing_may_follow_fills_up_where_the_others_end(n_best: int) -> None:
    def ends_behind_3(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        log_probabilities = np.full(vocab, -np.inf)
        if not prefix:
            log_probabilities[[3, 4]] = -1.0, -0.5
        elif prefix == [3]:
            log_probabilities[END] = -0.1
        return log_probabilities

    answers = search(Toy(7, ends_behind_3), [0], [5], Rules(eos=END, beam=2, n_best=n_best))[0]
    expected = [((3,), True), ((4,), False)]
    assert [(answer.ids, answer.finished) for answer in answers] == expected[:n_best]


def test_where_every_token_is_impossible_the_answer_is_empty() -> None:
    answers = search(Toy(3), [0, 1], [4, 4], Rules(eos=END, suppress=(0, 1, 2), beam=2))
    assert answers == [[Hypothesis((), -math.inf, -math.inf, (), finished=False)]] * 2


def test_no_sentences_have_no_answers() -> None:
    none = np.zeros(0, np.int64)
    assert beam_search(Toy(), none, none, Rules(eos=END)) == []


@given(seeds, st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_observing_shows_every_candidate_once_and_changes_nothing(seed, beam) -> None:
    rules, steps = Rules(eos=END, suppress=(0, 1), beam=beam), list[SearchStep]()
    unseen = search(Toy(), [seed, seed + 1], [6, 3], rules)
    assert search(Toy(), [seed, seed + 1], [6, 3], rules, steps.append) == unseen
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    for step in steps:
        assert (step.totals[:, :-1] >= step.totals[:, 1:]).all(), "best first"
        for row in range(len(step.sentences)):
            candidates = list(zip(step.parents[row], step.tokens[row]))
            assert len(set(candidates)) == len(candidates)
            assert not set(np.flatnonzero(step.ended[row])) & set(step.kept[row])
    ended = sum(int(step.ended[row].sum()) for step in steps for row in np.flatnonzero(step.sentences == 0))
    assert ended >= sum(answer.finished for answer in unseen[0])


def test_probabilities_that_are_not_numbers_are_said_with_their_place() -> None:
    def broken(seed: int, prefix: Sequence[int], vocab: int) -> np.ndarray:
        return np.full(vocab, np.nan) if seed == 8 and len(prefix) == 1 else endless(seed, prefix, vocab)

    with pytest.raises(ModelError, match="token 2 of sentence 1 of the batch are NaN") as caught:
        search(Toy(7, broken), [7, 8], [4, 4], Rules(eos=END, beam=2))
    assert caught.value.name == "probabilities" and caught.value.fix


# --- what may be generated


@given(seeds, st.integers(1, 4), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_no_answer_is_shorter_than_asked_for(seed, beam, shortest) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam)
    for answer in search(Toy(), [seed], [8], rules, min_len=shortest)[0]:
        assert len(answer.ids) >= shortest


@given(seeds, st.integers(1, 4), st.lists(st.integers(3, 6), max_size=4))
@settings(max_examples=40, deadline=None)
def test_every_answer_begins_with_what_is_forced_and_counts_it_as_the_model_does(seed, beam, forced) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam)
    for answer in search(Toy(), [seed], [8], rules, prefix=tuple(forced))[0]:
        assert list(answer.ids[: len(forced)]) == forced
        tokens = [*answer.ids, END] if answer.finished else list(answer.ids)
        expected = [distribution(seed, tokens[:t], 7)[token] for t, token in enumerate(tokens)]
        np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=1e-12)


@given(seeds, st.integers(1, 4), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_an_answer_as_long_as_it_may_be_ends_there_with_the_models_own_probability(seed, beam, longest) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam, n_best=beam)
    for answer in search(Toy(), [seed], [8], rules, max_len=longest)[0]:
        assert answer.finished and len(answer.ids) <= longest
        assert math.isclose(answer.score, score(seed, answer.ids, 7, rules.alpha), rel_tol=1e-12)


def test_sentences_with_and_without_a_forced_beginning_or_end_share_a_batch() -> None:
    rules, toy = Rules(eos=END, suppress=(0, 1), beam=3), Toy()
    requests = [Request(7), Request(7, prefix=(5, 5, 3)), Request(4, prefix=(6,)), Request(7, max_len=2)]
    with toy.prefill([[1], [2], [3], [4]], 7) as decoding:
        together = beam_search(decoding, np.ones(4, np.int64), requests, rules)
    for seed, request, answers in zip((1, 2, 3, 4), requests, together):
        asked = {"prefix": request.prefix, "max_len": request.max_len}
        assert search(Toy(), [seed], [request.max_steps], rules, **asked)[0] == answers


def test_an_end_that_is_forced_behind_more_tokens_than_memory_holds_changes_nothing() -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=3)
    assert search(Toy(), [5], [2**40 + 1], rules, max_len=2**40) == search(Toy(), [5], [50], rules)


@given(seeds, st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_no_n_gram_comes_twice(seed, beam, n) -> None:
    rules = Rules(eos=END, suppress=(0, 1), beam=beam, no_repeat_ngram=n)
    for answer in search(Toy(), [seed], [12], rules, min_len=9)[0]:
        grams = [answer.ids[i : i + n] for i in range(len(answer.ids) - n + 1)]
        assert len(grams) == len(set(grams))


def test_what_repeats_is_ranked_lower_but_its_probability_is_told_as_it_is() -> None:
    def favourite(_seed: int, prefix: Sequence[int], _vocab: int) -> np.ndarray:
        return np.log([0.01, 0.01, 0.03, 0.5, 0.45])

    free, _ = (search(Toy(5, favourite), [0], [4], Rules(eos=END, beam=1))[0][0].ids, None)
    assert free == (3, 3, 3, 3)
    answer = search(Toy(5, favourite), [0], [4], Rules(eos=END, suppress=(0, 1), beam=1, repetition_penalty=2.0))[0][0]
    # 3, then 4 since 2 log 0.5 < log 0.45; then both have been: 2 log 0.5 is the larger, and above log 0.03
    assert answer.ids == (3, 4, 3, 3)
    np.testing.assert_allclose(answer.token_log_probabilities, np.log([0.5, 0.45, 0.5, 0.5]))
    assert math.isclose(answer.log_probability, math.log(0.5**3 * 0.45))
    assert math.isclose(answer.score, (math.log(0.5 * 0.45) + 4 * math.log(0.5)) / 1.5**0.6)


@given(seeds, st.integers(1, 4), st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_the_n_best_are_distinct_sorted_and_those_of_a_search_that_never_stops_early(seed, n_best, limit) -> None:
    beam, vocab = 4**limit if limit < 4 else 16, 4
    answers = search(Toy(vocab), [seed], [limit], Rules(eos=END, beam=beam, n_best=min(n_best, beam), alpha=0.6))[0]
    order = [(answer.finished, answer.score) for answer in answers]
    assert order == sorted(order, reverse=True)
    assert len({answer.ids for answer in answers}) == len(answers) >= min(n_best, beam)
    if limit < 4:  # the beam holds everything: the n best of all finished sequences
        words = [token for token in range(vocab) if token != END]
        all_ = [ids for length in range(limit) for ids in itertools.product(words, repeat=length)]
        expected = sorted((score(seed, ids, vocab, 0.6) for ids in all_), reverse=True)[:n_best]
        found = [answer.score for answer in answers if answer.finished][: len(expected)]
        np.testing.assert_allclose(found, expected[: len(found)], rtol=1e-12)


@given(seeds, st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_of_answers_with_the_same_text_only_the_best_counts(seed, n_best, limit) -> None:
    words = [token for token in range(6) if token != END]

    def text(ids: Sequence[int]) -> str:
        return "".join("ab"[token > END] for token in ids)

    best: dict[str, float] = {}
    for ids in (ids for length in range(limit) for ids in itertools.product(words, repeat=length)):
        best[text(ids)] = max(best.get(text(ids), -np.inf), score(seed, ids, 6, 0.6))
    expected = sorted(best.values(), reverse=True)[:n_best]  # 2 ** limit - 1 texts end within the limit
    answers = search(Toy(6), [seed], [limit], Rules(eos=END, beam=6**limit, n_best=n_best, detokenize=text))[0]
    assert len({text(answer.ids) for answer in answers}) == len(answers)
    if len(best) >= n_best:
        np.testing.assert_allclose([answer.score for answer in answers[:n_best]], expected, rtol=1e-12)


# --- sampling


def draw(
    toy: Toy, seeds_: Sequence[int], limit: int, sampling: Sampling, n: int, start: int = 0
) -> list[list[Hypothesis]]:
    rules = Rules(eos=END, suppress=(0, 1), beam=n, n_best=n, pool=toy.vocab)
    generators = [np.random.default_rng([start, seed]) for seed in seeds_]
    with toy.prefill([[seed] for seed in seeds_], limit) as decoding:
        requests = [Request(limit)] * len(seeds_)
        sampler = Sampler(sampling, dict(enumerate(generators)))
        return Search(decoding, np.ones(len(seeds_), np.int64), requests, rules, sampler).run()


def test_tokens_are_drawn_as_often_as_the_model_says() -> None:
    n, p = 20_000, np.exp(distribution(3, (), 7))
    p[[0, 1]] = 0.0
    p /= p.sum()
    answers = draw(Toy(), [3], 1, Sampling(), n)[0]
    drawn = [answer.ids[0] if answer.ids else END for answer in answers]
    counts = np.bincount(drawn, minlength=7)
    assert not counts[:2].any()
    chi_squared = ((counts[2:] - n * p[2:]) ** 2 / (n * p[2:])).sum()
    assert chi_squared < 18.5  # 4 degrees of freedom: 99.9% of all draws


def test_batch_mates_change_no_draw_and_another_seed_does() -> None:
    together = draw(Toy(), [1, 2, 3], 9, Sampling(temperature=1.3), 4)
    for seed, answers in zip((1, 2, 3), together):
        assert draw(Toy(), [seed], 9, Sampling(temperature=1.3), 4)[0] == answers
    assert draw(Toy(), [1], 9, Sampling(temperature=1.3), 4, start=1)[0] != together[0]


def test_draws_tell_the_models_own_probabilities() -> None:
    for answer in draw(Toy(), [5], 9, Sampling(temperature=2.0, top_p=0.9), 5)[0]:
        tokens = [*answer.ids, END] if answer.finished else list(answer.ids)
        expected = [distribution(5, tokens[:t], 7)[token] for t, token in enumerate(tokens)]
        np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=1e-12)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_of_one_token_the_draw_is_greedy(seed) -> None:
    greedy = search(Toy(), [seed], [9], Rules(eos=END, suppress=(0, 1), beam=1))[0]
    assert draw(Toy(), [seed], 9, Sampling(top_k=1), 1)[0] == greedy
    assert draw(Toy(), [seed], 9, Sampling(min_p=1.0), 1)[0] == greedy
    assert draw(Toy(), [seed], 9, Sampling(top_p=1e-9), 1)[0] == greedy


def test_each_filter_keeps_what_it_says() -> None:
    p = np.array([[0.1, 0.4, 0.2, 0.3], [0.0, 0.0, 0.0, 0.0]])
    with np.errstate(divide="ignore"):
        log_p = np.log(p)

    def kept(**options: Any) -> list[float]:
        rows = Sampling(**options).probabilities(log_p)
        assert not rows[1].any()  # nothing is allowed there
        return rows[0].tolist()

    assert kept() == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert kept(top_k=2) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_p=0.7) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(top_p=0.71) == pytest.approx([0, 4 / 9, 2 / 9, 3 / 9])
    assert kept(min_p=0.6) == pytest.approx([0, 4 / 7, 0, 3 / 7])
    assert kept(temperature=1e-310) == [0, 1, 0, 0]
    squares = np.array([0.01, 0.16, 0.04, 0.09])
    assert kept(temperature=0.5) == pytest.approx((squares / squares.sum()).tolist())
    assert kept(top_k=3, top_p=0.45) == pytest.approx([0, 4 / 7, 0, 3 / 7])  # of what top-k left, 4/9 is not enough


# --- texts that end without the end token


@given(seeds, st.integers(1, 4), st.integers(0, 6))
@settings(max_examples=40, deadline=None)
def test_a_hypothesis_that_is_enough_ends_there_and_counts_as_an_answer(seed, beam, wanted) -> None:
    rules, asked = Rules(eos=END, beam=beam, n_best=beam), []

    def enough(ids: np.ndarray) -> bool:
        asked.append(ids.tolist())
        return wanted in ids

    for answer in search(Toy(), [seed], [6], rules, should_stop=enough)[0]:
        assert wanted not in answer.ids[:-1]
        length = len(answer.token_log_probabilities)
        if wanted in answer.ids:
            assert answer.finished and length == len(answer.ids), "the end token is no part of it"
        elif answer.finished:
            assert length == len(answer.ids) + 1
        else:
            assert length == len(answer.ids) == 6
        total = sum(float(distribution(seed, answer.ids[:t], 7)[token]) for t, token in enumerate(answer.ids))
        if length == len(answer.ids):
            assert math.isclose(answer.log_probability, total)
            assert math.isclose(answer.score, total / ((5 + length) / 6) ** rules.alpha)
    assert all(wanted not in ids[:-1] for ids in asked), "nothing goes on behind what is enough"


def test_each_sentence_has_its_own_enough_and_the_others_go_on() -> None:
    toy, counts = Toy(), (2, 4, None)
    with toy.prefill([[1], [2], [3]], 6) as decoding:
        requests = [Request(6, 6, should_stop=None if n is None else lambda ids, n=n: len(ids) >= n) for n in counts]
        found = beam_search(decoding, np.ones(3, np.int64), requests, Rules(eos=END, beam=2))
    assert [(len(answers[0].ids), answers[0].finished) for answers in found] == [(2, True), (4, True), (6, False)]
    for n, answers in zip(counts, found):
        alone = search(Toy(), [1 + found.index(answers)], [n or 6], Rules(eos=END, beam=2), min_len=6)
        assert answers[0].ids == alone[0][0].ids


def test_draws_that_are_enough_end_each_by_itself() -> None:
    rules = Rules(eos=END, suppress=(END,), beam=6, n_best=6, pool=100)
    with Toy().prefill([[5]], 8) as decoding:
        request = Request(8, should_stop=lambda ids: bool(ids[-1] in (0, 1)))
        sampler = Sampler(Sampling(), {0: np.random.default_rng(0)})
        [answers] = Search(decoding, np.ones(1, np.int64), [request], rules, sampler).run()
    assert len(answers) == 6 and len({len(answer.ids) for answer in answers}) > 1
    for answer in answers:
        assert answer.finished == (answer.ids[-1] in (0, 1)) and not {0, 1} & {*answer.ids[:-1]}
