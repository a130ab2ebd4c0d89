import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import DecodeConfig, SpecialTokens
from clearhead.decode.engine import Engine
from clearhead.decode.session import MIN_LENGTH, Session
from clearhead.errors import ConfigError, DataError

BOS, EOS, PAD, UNK = 1, 2, 0, 3  # the special tokens of a new vocabulary

WORDS = st.integers(4, 20)
SOURCES = st.lists(st.lists(WORDS, max_size=9), max_size=12)


def successors(log_probabilities: np.ndarray, also: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """All tokens as candidates, and those asked for in a column more."""
    ids = np.broadcast_to(np.arange(21), log_probabilities.shape)
    if also is not None:
        ids = np.concatenate((ids, np.broadcast_to(also[:, None, None], (*ids.shape[:2], 1))), 2)
    return np.take_along_axis(log_probabilities, ids, 2), ids


class Echo:
    """An engine whose only answer is its source, token by token; it never ends where `endless`, and records its use."""

    def __init__(self, *, endless: bool = False) -> None:
        self.endless = endless
        self.batches: list[list[list[int]]] = []
        self.first_tokens: set[int] = set()
        self.widest = 0
        self.open = False

    @contextmanager
    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> Iterator["Echo"]:
        self.batches.append([list(source) for source in sources])
        self.live, self.length, self.steps, self.open = [list(source) for source in sources], 0, steps, True
        try:
            yield self
        finally:
            self.open = False

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        assert self.length < self.steps
        if self.length == 0:
            self.first_tokens |= set(tokens.ravel().tolist())
        self.widest = max(self.widest, tokens.shape[1])
        log_probabilities = np.full((*tokens.shape, 21), -30.0)
        for b, source in enumerate(self.live):
            log_probabilities[b, :, source[self.length % len(source)]] = -1e-6
        if self.endless:
            log_probabilities[:, :, EOS] = -np.inf
        self.length += 1
        return successors(log_probabilities, also)

    def select(self, sources: np.ndarray, beams: np.ndarray) -> None:
        self.live = [self.live[source] for source in sources]


class Forks(Echo):
    """Begins with 4 or 5: behind 4 it ends, unlikely as that is, and behind 5 never."""

    def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        likely = np.full((21, 21), -np.inf)
        likely[BOS, [4, 5]], likely[4, EOS], likely[5, 5] = -0.7, -9.0, -0.01
        return successors(likely[tokens], also)


def config(beam: int = 2, batch_tokens: int = 40, max_extra: int = 5) -> DecodeConfig:
    return DecodeConfig(beam=beam, batch_tokens=batch_tokens, max_extra=max_extra)


def best(session: Session, sources: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(answers[0].ids) for answers in session.answers(sources)]


@given(SOURCES, st.integers(1, 4), st.integers(1, 200))
@settings(deadline=None, max_examples=40)
def test_answers_come_in_the_order_of_the_sources_whatever_the_batches(sources, beam, batch_tokens) -> None:
    assert best(Session(Echo(), config(beam, batch_tokens), SpecialTokens()), sources) == sources


@given(SOURCES, st.integers(1, 4), st.integers(1, 200))
@settings(deadline=None, max_examples=40)
def test_a_batch_holds_one_source_or_at_most_batch_tokens_and_no_two_could_be_joined(
    sources, beam, batch_tokens
) -> None:
    engine = Echo()
    Session(engine, config(beam, batch_tokens), SpecialTokens()).answers(sources)
    counts = [beam * max(MIN_LENGTH, *map(len, batch)) for batch in engine.batches]  # of each source, padding included
    assert all(len(batch) == 1 or len(batch) * count <= batch_tokens for batch, count in zip(engine.batches, counts))
    for (batch, after), count in zip(itertools.pairwise(engine.batches), counts):
        assert len(batch[-1]) >= len(after[0]), "longest first"
        assert (len(batch) + 1) * count > batch_tokens


@given(SOURCES)
@settings(deadline=None, max_examples=40)
def test_stream_gives_every_place_once_and_holds_no_engine_open_while_it_waits(sources) -> None:
    engine, places = Echo(), []
    for place, answers in Session(engine, config(), SpecialTokens()).stream(sources):
        assert not engine.open and list(answers[0].ids) == sources[place]
        places.append(place)
    assert sorted(places) == list(range(len(sources)))


def test_the_first_answers_are_there_before_the_last_batch_is_decoded() -> None:
    engine = Echo()
    stream = Session(engine, config(batch_tokens=1), SpecialTokens()).stream([[4], [5, 6], [7, 8, 9]])
    assert next(stream)[0] == 2 and len(engine.batches) == 1


def test_a_source_ends_with_the_end_token_and_a_target_begins_with_the_begin_token() -> None:
    engine = Echo()
    Session(engine, config(), SpecialTokens()).answers([[7, 8], []])
    assert sorted(itertools.chain(*engine.batches)) == [[EOS], [7, 8, EOS]]
    assert engine.first_tokens == {BOS}


@pytest.mark.parametrize(("beam", "alpha"), [(1, 0.6), (3, 0.6), (3, 2.0)])
def test_beam_and_alpha_are_those_of_the_configuration(beam, alpha) -> None:
    engine = Echo(endless=True)
    answers = Session(engine, DecodeConfig(beam=beam, alpha=alpha, max_extra=6), SpecialTokens()).answers([[4, 5]])[0]
    assert len(answers) == engine.widest == beam
    for answer in answers:
        assert answer.score == pytest.approx(answer.log_probability / ((5 + 8) / 6) ** alpha)


def test_an_empty_source_has_an_answer_and_no_source_has_none() -> None:
    assert best(Session(Echo(), config(), SpecialTokens()), [[]]) == [[]]
    assert Session(Echo(), config(), SpecialTokens()).answers([]) == []


@given(SOURCES)
@settings(deadline=None, max_examples=40)
def test_an_answer_is_at_most_max_extra_tokens_longer_than_its_own_source(sources) -> None:
    for source, answers in zip(
        sources, Session(Echo(endless=True), config(max_extra=3), SpecialTokens()).answers(sources)
    ):
        assert len(answers[0].ids) == len(source) + 3 and not answers[0].finished
        assert not {PAD, BOS, EOS, UNK} & {token for answer in answers for token in answer.ids}


def test_no_answer_outgrows_the_positions_of_the_model() -> None:
    session = Session(Echo(endless=True), config(max_extra=50), SpecialTokens(), max_len=8)
    assert [len(answers[0].ids) for answers in session.answers([[4] * 7, [5]])] == [8, 8]


def test_a_source_beyond_the_positions_of_the_model_is_said_before_anything_is_decoded() -> None:
    engine = Echo()
    with pytest.raises(DataError, match=r"^sequence 2 has 8 tokens, too many for model\.max_len=8") as caught:
        Session(engine, config(), SpecialTokens(), max_len=8).answers([[4], [5] * 8])
    error = caught.value
    assert (error.name, error.value, error.expected) == ("sequence 2", 8, "at most 7 tokens") and not engine.batches


def test_the_engine_is_released_after_an_error() -> None:
    class Broken(Echo):
        def step(self, tokens: np.ndarray, k: int, also: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
            raise MemoryError

    engine: Engine = Broken()
    with pytest.raises(MemoryError):
        Session(engine, config(), SpecialTokens()).answers([[4]])
    assert isinstance(engine, Broken) and not engine.open


@pytest.mark.parametrize(
    ("settings_", "lengths"),
    [
        ({"max_len": 4}, [4, 4]),
        ({"max_ratio": 1.5}, [3, 9]),
        ({"max_ratio": 1.4}, [2, 8]),  # rounded down
        ({"max_ratio": 0.1}, [1, 1]),  # but one token there may be
        ({"max_ratio": 1.5, "max_len": 5}, [3, 5]),
        ({"min_ratio": 3.0, "max_len": 5}, [5, 5]),  # the maximum wins
        ({"max_ratio": 1e308}, [5, 9]),  # at most max_extra = 3 longer than the source
    ],
)
def test_a_limit_of_the_length_holds_for_each_source(settings_, lengths) -> None:
    session = Session(Echo(endless=True), DecodeConfig(beam=2, max_extra=3, **settings_), SpecialTokens())
    assert [len(answers[0].ids) for answers in session.answers([[4, 5], [6] * 6])] == lengths


def test_an_output_as_long_as_it_may_be_ends_there_with_the_models_own_probability() -> None:
    for settings_ in ({"beam": 1}, {"beam": 3}, {"sample": True}):
        answer = Session(Echo(), DecodeConfig(max_len=3, **settings_), SpecialTokens()).answers([[4, 5, 6, 7, 8]])[0][0]
        assert (answer.ids, answer.finished) == ((4, 5, 6), True)
        assert answer.token_log_probabilities == (-1e-6, -1e-6, -1e-6, -30.0)
    tokens = Session(Echo(), DecodeConfig(max_len=3, beam=1), SpecialTokens()).tokens([4, 5, 6, 7, 8])
    assert list(tokens) == [4, 5, 6]


def test_a_prefix_longer_than_an_output_may_be_stands_whole_and_alone() -> None:
    for settings_ in ({}, {"n_best": 2, "diverse": True}, {"sample": True}):
        session = Session(Echo(), DecodeConfig(max_len=2, **settings_), SpecialTokens())
        ((_, answers),) = session.stream([[4, 5, 6, 7]], [9, 9, 9])
        assert [(answer.ids, answer.finished) for answer in answers] == [((9, 9, 9), True)]


@pytest.mark.parametrize(("settings_", "shortest"), [({"min_len": 4}, [4, 6]), ({"min_ratio": 1.5}, [3, 9])])
def test_no_answer_is_shorter_than_asked_for(settings_, shortest) -> None:
    session = Session(Echo(), DecodeConfig(beam=2, **settings_), SpecialTokens())
    found = [len(answers[0].ids) for answers in session.answers([[4, 5], [6] * 6])]
    assert all(length >= least for length, least in zip(found, shortest))


def test_the_shortest_output_may_be_longer_than_max_extra_allows() -> None:
    for settings_, lengths in (({"min_len": 20}, [20, 20]), ({"min_ratio": 4.0}, [8, 24])):
        for config_ in (
            DecodeConfig(beam=2, max_extra=3, **settings_),
            DecodeConfig(max_extra=3, sample=True, **settings_),
        ):
            answers = Session(Echo(), config_, SpecialTokens()).answers([[4, 5], [6] * 6])
            assert all(len(found[0].ids) >= least for found, least in zip(answers, lengths))
        for longest in (12, 30):  # the model's positions
            answers = Session(
                Echo(endless=True), DecodeConfig(max_extra=3, **settings_), SpecialTokens(), max_len=longest
            ).answers([[4, 5]])
            assert len(answers[0][0].ids) == min(lengths[0] + 1, longest)


def test_tokens_come_one_by_one_and_are_those_of_greedy_search() -> None:
    engine = Echo()
    tokens = Session(engine, DecodeConfig(beam=1), SpecialTokens()).tokens([7, 8, 9])
    assert next(tokens) == 7 and engine.length == 1
    assert list(tokens) == [8, 9] and not engine.open


def test_a_wide_beam_has_no_tokens_to_give_before_its_end() -> None:
    for settings_, name in (({"beam": 4}, "beam"), ({"sample": True, "n_best": 4}, "n_best")):
        with pytest.raises(ConfigError, match=f"^decode.{name}=4 can't be streamed") as caught:
            next(Session(Echo(), DecodeConfig(**settings_), SpecialTokens()).tokens([4]))
        assert (caught.value.name, caught.value.value) == (f"decode.{name}", 4)


def test_a_prefix_beyond_the_positions_of_the_model_is_refused() -> None:
    with pytest.raises(DataError) as caught:
        list(Session(Echo(), config(), SpecialTokens(), max_len=8).stream([[4]], [5] * 8))
    assert (caught.value.name, caught.value.value) == ("the prefix", 8)


def test_suppressed_tokens_are_never_generated() -> None:
    answers = Session(Echo(), config(), SpecialTokens(), suppress=[0, 1, 3, 5]).answers([[4, 5, 6]])[0]
    assert all(5 not in answer.ids for answer in answers)


def test_where_nothing_may_follow_the_answer_is_what_there_was_streamed_or_not() -> None:
    for settings_ in ({"beam": 1}, {"sample": True, "top_k": 1}):
        session = Session(Forks(), DecodeConfig(min_len=3, **settings_), SpecialTokens())
        (answer,) = session.answers([[7]])[0]
        assert (answer.ids, answer.finished, answer.log_probability) == ((4,), False, -0.7)
        assert list(session.tokens([7])) == [4]


def test_a_draw_that_nothing_may_follow_is_kept_whatever_the_others_are() -> None:
    session = Session(Forks(), DecodeConfig(min_len=3, max_extra=3, sample=True, n_best=8), SpecialTokens())
    answers = session.answers([[7]])[0]
    assert len(answers) == 8 and {answer.ids for answer in answers} == {(4,), (5, 5, 5, 5)}


def test_of_diverse_answers_those_that_were_cut_off_stand_last() -> None:
    first, second = Session(Forks(), DecodeConfig(n_best=2, diverse=True), SpecialTokens()).answers([[7]])[0]
    assert (first.ids, first.finished, second.finished) == ((4,), True, False)
    assert first.score < second.score


def test_diverse_answers_are_no_longer_than_the_others() -> None:
    session = Session(Echo(endless=True), DecodeConfig(n_best=2, diverse=True, max_extra=1), SpecialTokens())
    assert [len(answer.ids) for answer in session.answers([[]])[0]] == [1, 1]


@pytest.mark.parametrize("endless", [False, True])
def test_where_no_token_may_begin_them_diverse_answers_are_the_plain_one(endless: bool) -> None:
    plain, diverse = (
        Session(
            Echo(endless=endless), DecodeConfig(**settings_), SpecialTokens(), suppress=[0, 1, 3, *range(4, 21)]
        ).answers([[4], [5, 6]])
        for settings_ in ({}, {"n_best": 2, "diverse": True})
    )
    assert diverse == plain and [len(found) for found in plain] == [1, 1]


def test_special_tokens_may_have_any_ids() -> None:
    """An Echo repeats its source and then ends, with whatever token ends a text."""
    special = SpecialTokens(pad=20, bos=9, eos=2, unk=None, mask=None, start=11)
    engine = Echo()
    assert best(Session(engine, config(), special), [[4, 5], [3]]) == [[4, 5], [3]]
    assert engine.first_tokens == {11}
    assert Session(engine, config(), special).rules.suppress == (20, 9)
