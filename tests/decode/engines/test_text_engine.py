"""A decoder alone behind the three calls. What is expected is computed without a cache, a batch or padding."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.config import ModelConfig
from clearhead.decode.beams import Hypothesis, Request
from clearhead.decode.engines import torch_engine
from clearhead.decode.engines.torch_engine import TextEngine
from clearhead.decode.rules import Rules
from clearhead.decode.sampling import Sampler, Sampling
from clearhead.decode.search import Search, beam_search
from clearhead.model.transformer import Decoder, build
from tests.builders import moved

PAD, BOS, EOS, UNK = 0, 1, 2, 3
VOCAB, BLOCK = 19, 8
POSITIONS = ["sinusoidal", "learned", "rotary", "relative", "alibi"]
ENDLESS = ("rotary", "relative", "alibi")
TEXTS = [[BOS, 5, 6, 7], [9, 4], [BOS], [4, 8, 12, 16, 5, 7], [10, 11, 12]]


def model(positions: str, max_len: int = BLOCK, seed: int = 0) -> Decoder:
    torch.manual_seed(seed)
    config = ModelConfig(
        topology="decoder-only",
        tgt_vocab_size=VOCAB,
        d_model=16,
        n_heads=4,
        n_kv_heads=2,
        d_ff=32,
        n_encoder_layers=0,
        n_decoder_layers=2,
        positions=positions,
        max_len=max_len,
        tie="none",
    )
    built = moved(build(config), by=0.1, times=2.0)  # far from uniform, and no table of 0
    assert isinstance(built, Decoder)
    return built.to(torch.float64)


def engine(positions: str, max_len: int = BLOCK, seed: int = 0) -> TextEngine:
    return TextEngine(model(positions, max_len, seed), pad=PAD, max_len=max_len)


@torch.inference_mode()
def after(net: Decoder, prompt: Sequence[int], written: Sequence[int], max_len: int = BLOCK) -> Tensor:
    """Log-probabilities (V,) of what follows, with the window of the model's positions."""
    window = list(prompt[-max_len:])
    if net.positions.endless:  # all of it at once, and every token sees the newest ones by mask
        text = torch.tensor([[*window, *written]])
        at = torch.arange(text.size(1))
        mask = (at[:, None] - at < max_len)[None, None]
        return net.eval()(text, mask=mask)[0, -1].log_softmax(-1)
    for token in written:
        window.append(token)
        if len(window) > max_len:
            window = window[-max(1, max_len // 2) :]
    return net.eval()(torch.tensor([window]))[0, -1].log_softmax(-1)


def run(engine: TextEngine, prompts: Sequence[Sequence[int]], limit: int, beam: int = 4) -> list[list[Hypothesis]]:
    start = np.array([prompt[-1] for prompt in prompts])
    rules = Rules(eos=EOS, suppress=(PAD, BOS, UNK), beam=beam, n_best=beam)
    with engine.prefill([prompt[:-1] for prompt in prompts], limit) as decoding:
        return beam_search(decoding, start, [Request(limit)] * len(prompts), rules)


def twice(values: Sequence[int]) -> pytest.MarkDecorator:
    """All positions with all values; each but two pairs of a scheme and of a value are slow."""
    few = {(scheme, values[(i + shift) % len(values)]) for i, scheme in enumerate(POSITIONS) for shift in (0, 2)}
    pairs = itertools.product(POSITIONS, values)
    rows = [pytest.param(*it, marks=() if it in few else pytest.mark.slow) for it in pairs]
    return pytest.mark.parametrize(("positions", "value"), rows)


@twice([1, 2, 5, BLOCK, 40])
def test_a_step_gives_what_the_whole_text_gives_within_the_block_and_beyond(positions, value) -> None:
    max_len = value
    it, rng = engine(positions, max_len), np.random.default_rng(0)
    prompts, written = list(TEXTS), [[[]] for _ in TEXTS]
    with it.prefill([prompt[:-1] for prompt in prompts], 20) as decoding:
        for number in range(20):
            last = np.array([[[*prompt, *beam][-1] for beam in beams] for prompt, beams in zip(prompts, written)])
            log_probabilities, ids = decoding.step(last, VOCAB)
            for b, beams in enumerate(written):
                for w, beam in enumerate(beams):
                    expected = after(it.model, prompts[b], beam, max_len)[ids[b, w]]
                    np.testing.assert_allclose(log_probabilities[b, w], expected, rtol=0, atol=1e-11)
            live = np.arange(len(prompts))
            if number % 6 == 2 and len(live) > 2:  # the first one, and in time the longest, are gone
                live = live[1:]
            beams = rng.integers(0, len(written[0]), (len(live), 2))
            decoding.select(live, beams)
            prompts = [prompts[b] for b in live]
            written = [[[*written[b][w], int(rng.integers(4, VOCAB))] for w in row] for b, row in zip(live, beams)]


@pytest.mark.parametrize("positions", POSITIONS)
def test_a_prompt_is_read_in_chunks(positions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "CHUNK", 3)
    it, read = engine(positions), []
    it.model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].size(1)))
    prompts, written = [[BOS, 5, 6, 7, 8, 9, 10], [4, 9], [5, 6, 7, 8]], []
    with it.prefill([prompt[:-1] for prompt in prompts], 9) as decoding:
        assert read == [3, 3]
        for _ in range(9):  # a table of positions is left, and half of it read again
            last = np.array([[[*prompt, *written][-1]] for prompt in prompts])
            log_probabilities, ids = decoding.step(last, VOCAB)
            for row, prompt in enumerate(prompts):
                expected = after(it.model, prompt, written)[ids[row, 0]]
                np.testing.assert_allclose(log_probabilities[row, 0], expected, rtol=0, atol=1e-11)
            written.append(7)


@twice([BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_of_a_prompt_longer_than_the_block_the_newest_tokens_are_read(positions, value) -> None:
    length = value
    it, rng = engine(positions), np.random.default_rng(1)
    prompt, written = rng.integers(4, VOCAB, length).tolist(), []
    with it.prefill([prompt[:-1], [5, 6]], 4) as decoding:
        for _ in range(4):
            last = [[*prompt, *written][-1]]
            log_probabilities, ids = decoding.step(np.array([last, [7]]), VOCAB)
            expected = after(it.model, prompt, written)[ids[0, 0]]
            np.testing.assert_allclose(log_probabilities[0, 0], expected, rtol=0, atol=1e-11)
            written.append(int(rng.integers(4, VOCAB)))


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("beam", [1, 3])
def test_batch_mates_and_their_padding_change_no_answer(positions, beam) -> None:
    it = engine(positions)
    alone = [run(it, [text], 12, beam)[0] for text in TEXTS]
    order = [3, 0, 4, 2, 1]
    for place, answers in zip(order, run(it, [TEXTS[place] for place in order], 12, beam)):
        assert [answer.ids for answer in answers] == [answer.ids for answer in alone[place]]
        for answer, expected in zip(answers, alone[place]):
            np.testing.assert_allclose(answer.log_probability, expected.log_probability, rtol=0, atol=1e-11)


@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_an_answers_probability_is_that_of_the_whole_text(positions) -> None:
    it = engine(positions)
    for prompt, answers in zip(TEXTS, run(it, TEXTS, 12)):
        for answer in answers:
            tokens = [*answer.ids] + [EOS] * answer.finished
            expected = [float(after(it.model, prompt, tokens[:t])[tokens[t]]) for t in range(len(tokens))]
            np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("positions", ["alibi", "sinusoidal"])
def test_drawn_texts_are_the_same_alone_and_together(positions) -> None:
    it = engine(positions)

    def drawn(prompts: Sequence[Sequence[int]]) -> list[list[tuple[int, ...]]]:
        rules = Rules(eos=EOS, suppress=(PAD, BOS, UNK), beam=2, n_best=2, pool=100)
        draws = Sampler(Sampling(temperature=1.5), dict(enumerate(map(np.random.default_rng, prompts))))
        with it.prefill([prompt[:-1] for prompt in prompts], 15) as decoding:
            start = np.array([prompt[-1] for prompt in prompts])
            found = Search(decoding, start, [Request(15)] * len(prompts), rules, draws).run()
        return [[answer.ids for answer in answers] for answers in found]

    assert drawn(TEXTS) == [drawn([text])[0] for text in TEXTS]


def test_the_engine_says_how_it_reads_beyond_its_block() -> None:
    for positions in POSITIONS:
        expected = "a ring buffer of the newest 8 tokens"
        if positions not in ENDLESS:
            expected = "whenever 8 tokens fill the window, the newest 4 are read again"
        assert engine(positions).overflow == expected


@pytest.mark.parametrize("positions", POSITIONS)
def test_the_cache_has_no_more_slots_than_the_text_or_the_block_has_tokens(positions) -> None:
    it = engine(positions)
    for steps, slots in ((2, 5), (100, BLOCK)):
        with it.prefill([[4, 5, 6], [7]], steps) as decoding:
            assert decoding.cache.layers[0].keys.size(2) == slots


def test_one_more_successor_can_be_asked_for_and_stands_in_the_last_column() -> None:
    it = engine("rotary")
    with it.prefill([[4, 5], []], 1) as decoding:
        log_probabilities, ids = decoding.step(np.array([[6], [BOS]]), 2, np.array([7, 3]))
    assert ids.shape == (2, 1, 3) and ids[:, 0, 2].tolist() == [7, 3]
    for row, prompt in enumerate(([4, 5, 6], [BOS])):
        np.testing.assert_allclose(log_probabilities[row, 0], after(it.model, prompt, [])[ids[row, 0]], atol=1e-11)


def test_a_model_that_is_training_decodes_without_dropout_and_goes_on_training() -> None:
    it = engine("learned")
    it.model.eval()
    expected = run(it, TEXTS, 12)
    it.model.train()
    assert run(it, TEXTS, 12) == expected
    assert all(module.training for module in it.model.modules())
    with pytest.raises(KeyboardInterrupt), it.prefill([[4]], 1):
        raise KeyboardInterrupt
    assert it.model.training and not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("positions", ["rotary", "learned"])
def test_probabilities_sum_to_one_in_every_precision(dtype, positions) -> None:
    it = TextEngine(model(positions).to(dtype), pad=PAD, max_len=3)
    with it.prefill([[4, 5, 6], [], [7]], 6) as decoding:
        for _ in range(6):
            log_probabilities, _ = decoding.step(np.array([[8], [9], [10]]), VOCAB)
            np.testing.assert_allclose(np.exp(log_probabilities).sum(-1), 1.0, rtol=0, atol=1e-6)
