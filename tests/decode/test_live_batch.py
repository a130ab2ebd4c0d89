"""Sequences join a batch and leave it between steps, and each gets the answer that it gets alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from clearhead.config import DataConfig, DecodeConfig, ModelConfig, SpecialTokens
from clearhead.decode.beams import Hypothesis
from clearhead.decode.continuation import PromptSession, StoppingCriteria
from clearhead.decode.live_batch import LiveBatch
from clearhead.decode.model_handle import as_handle
from clearhead.decode.registry import open_engine
from clearhead.decode.session import Session
from clearhead.errors import ConfigError, DataError
from clearhead.model.transformer import build
from clearhead.tokenization.tokenizer import Tokenizer
from tests.builders import moved
from tests.decode.test_session import Echo

MAX_LEN = 12
SOURCES = [[5, 6, 7], [9], [], [4, 8, 10, 11, 5, 7], [6, 6], [7, 7, 8, 8], [4], [12, 5, 5]]
POSITIONS = ["sinusoidal", "rotary", "relative", "alibi"]
LETTERS = Tokenizer.train(["abcdefghij\n"] * 2, DataConfig(tokenizer="character"))


def model(topology: str, positions: str, **more: Any) -> tuple[nn.Module, ModelConfig]:
    torch.manual_seed(1)
    size, alone = LETTERS.vocab_size, topology == "decoder-only"
    shape = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_encoder_layers": 0 if alone else 1, "n_decoder_layers": 2}
    config = ModelConfig(
        topology=topology, positions=positions, src_vocab_size=size, tgt_vocab_size=size, max_len=MAX_LEN,
        **{"tie": "none", **shape, **more},
    )  # fmt: skip
    return moved(build(config), by=0.1, times=2.0).double(), config  # far from uniform: beams cross


def session(topology: str, positions: str, config: DecodeConfig, **more: Any) -> Session:
    net, shape = model(topology, positions, **more)
    engine: Any = open_engine(as_handle(net, shape), DecodeConfig(engine="torch"))
    if topology == "decoder-only":
        return PromptSession(engine, config, LETTERS, stopping=StoppingCriteria())
    return Session(engine, config, SpecialTokens(), max_len=MAX_LEN)


def run(it: Session, arrivals: dict[int, list[list[int]]], dropped: Sequence[int] = ()) -> dict[int, list[Hypothesis]]:
    """Add the sequences that arrive before each step, drop some two steps later, and return the answers by number."""
    found: dict[int, list[Hypothesis]] = {}
    with LiveBatch(it) as batch:
        step, leaving = 0, {}
        while batch or step <= max(arrivals):
            for source in arrivals.get(step, []):
                leaving[batch.add(source)] = step + 2
            for number in dropped:
                if leaving.get(number) == step:
                    batch.drop(number)
            found |= batch.step()
            step += 1
    return found


def same(found: dict[int, list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for number, answers in found.items():
        assert [it.ids for it in answers] == [it.ids for it in expected[number - 1]]
        for one, other in zip(answers, expected[number - 1]):
            np.testing.assert_allclose(one.token_log_probabilities, other.token_log_probabilities, atol=1e-11)
            assert (one.finished, one.score) == (other.finished, pytest.approx(other.score, abs=1e-11))


ARRIVALS = {0: SOURCES[:2], 1: SOURCES[2:3], 4: SOURCES[3:6], 5: SOURCES[6:7], 30: SOURCES[7:]}


@pytest.mark.parametrize("topology", ["encoder-decoder", "decoder-only"])
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("settings", [
    {"beam": 1}, {"beam": 3, "n_best": 2, "no_repeat_ngram": 2}, {"sample": True, "n_best": 2, "top_k": 5},
], ids=str)  # fmt: skip
def test_a_sequence_that_joins_later_has_the_answers_that_it_has_alone(topology, positions, settings) -> None:
    it = session(topology, positions, DecodeConfig(max_extra=20, **settings))
    alone = [it.answers([source])[0] for source in SOURCES]
    found = run(it, ARRIVALS)
    assert sorted(found) == list(range(1, len(SOURCES) + 1))
    same(found, alone)
    left = run(it, ARRIVALS, dropped=[1, 4, 5])
    assert set(left) == {number for number in found if number not in (1, 4, 5) or number in left}
    same(left, alone)


def test_a_pointer_copies_from_the_source_of_its_own_row() -> None:
    it = session("encoder-decoder", "sinusoidal", DecodeConfig(beam=2), copy=True, tie="all")
    same(run(it, ARRIVALS), [it.answers([source])[0] for source in SOURCES])


def test_rows_that_joined_share_a_step_and_a_dropped_row_is_gone_before_the_next() -> None:
    it, rows = session("encoder-decoder", "rotary", DecodeConfig(beam=1, min_len=9)), []
    it.engine.model.decoder.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))  # type: ignore
    with LiveBatch(it) as batch:
        first, second = batch.add([5, 6]), batch.add([7, 8])
        batch.step()
        batch.add([9])
        batch.step()
        batch.drop(second)
        assert len(batch) == 2
        batch.step()
        batch.drop(first)
        batch.drop(first)
        batch.step()
    assert rows == [2, 3, 2, 1] and len(batch) == 0
    assert not torch.is_inference_mode_enabled()


def test_tokens_are_passed_on_as_they_are_chosen() -> None:
    it = session("encoder-decoder", "rotary", DecodeConfig(beam=1, min_len=3))
    tokens: list[int] = []
    with LiveBatch(it) as batch:
        number = batch.add(SOURCES[0], on_token=tokens.append)
        batch.add(SOURCES[1])
        batch.step()
        assert len(tokens) == 1
        found = dict(answer for _ in range(40) for answer in batch.step())
    assert tuple(tokens) == found[number][0].ids


def test_an_engine_whose_decodings_have_no_join_decodes_groups_next_to_each_other() -> None:
    engines: list[Echo] = []

    class Several(Echo):
        def prefill(self, sources, steps):  # type: ignore[no-untyped-def]
            engines.append(Echo())
            return engines[-1].prefill(sources, steps)

    it = Session(Several(), DecodeConfig(beam=2), SpecialTokens())
    sources = [[4, 5, 6, 7], [8, 9], [10, 11]]
    found = run(it, {0: sources[:1], 2: sources[1:]})
    assert [list(found[number][0].ids) for number in (1, 2, 3)] == sources
    assert [len(engine.batches[0]) for engine in engines] == [1, 2] and not any(engine.open for engine in engines)


def test_a_diverse_search_decodes_all_that_wait_in_one_step() -> None:
    it = session("encoder-decoder", "rotary", DecodeConfig(beam=2, n_best=2, diverse=True))
    with LiveBatch(it) as batch:
        numbers = [batch.add(source) for source in SOURCES]
        found = dict(batch.step())
    assert list(found) == numbers and not len(batch)
    same(found, it.answers(SOURCES))


def test_nothing_is_kept_of_a_sequence_that_is_done() -> None:
    it = session("encoder-decoder", "sinusoidal", DecodeConfig(sample=True, max_extra=4))
    with LiveBatch(it) as batch:
        for _ in range(30):
            for source in SOURCES[:2]:
                batch.add(source, on_token=lambda _: None)
            batch.step()
            for search, _ in batch._searches:
                assert search.beams.tokens.shape[2] <= 11 and search.decoding.cache.capacity <= 24  # type: ignore
        while batch:
            batch.step()
        assert not batch._searches and not batch._streams and not batch._sampler.generators  # type: ignore


def test_what_can_t_be_decoded_is_rejected_when_it_is_added() -> None:
    it = session("encoder-decoder", "rotary", DecodeConfig(beam=2))
    with LiveBatch(it) as batch:
        with pytest.raises(DataError) as caught:
            batch.add([5] * MAX_LEN)
        assert caught.value.value == MAX_LEN
        with pytest.raises(ConfigError) as rejected:
            batch.add([5], on_token=print)
        assert (rejected.value.name, len(batch)) == ("decode.beam", 0)
