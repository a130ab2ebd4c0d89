import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from clearhead.config import ModelConfig
from clearhead.decode.beams import Hypothesis, Request
from clearhead.decode.engines.torch_engine import TorchEngine, _largest
from clearhead.decode.rules import Rules
from clearhead.decode.search import beam_search
from clearhead.model.masks import padding_mask
from clearhead.model.transformer import EncoderDecoder, build

PAD, BOS, EOS, UNK = 0, 1, 2, 3
VOCAB = 23
RULES = Rules(eos=EOS, suppress=(PAD, BOS, UNK), beam=4)
SOURCES = [[5, 6, 7, EOS], [9, EOS], [EOS], [4, 8, 12, 16, 20, 5, 7, EOS], [10, 11, 12, EOS]]


def model(dtype: torch.dtype = torch.float64, positions: str = "sinusoidal", seed: int = 0) -> EncoderDecoder:
    torch.manual_seed(seed)
    config = ModelConfig(
        src_vocab_size=VOCAB,
        tgt_vocab_size=VOCAB,
        d_model=16,
        n_heads=4,
        n_kv_heads=2,
        d_ff=32,
        n_encoder_layers=2,
        n_decoder_layers=2,
        positions=positions,
        tie="none",
    )
    built = build(config)
    assert isinstance(built, EncoderDecoder)
    for parameter in built.parameters():
        parameter.data *= 2.0  # far enough from uniform that beams cross and end at different lengths
    return built.to(dtype)


def full_forward(model: EncoderDecoder, source: Sequence[int], target: Sequence[int]) -> torch.Tensor:
    """Log-probabilities (V,) after a target, computed without a cache, a batch or padding."""
    tokens = torch.tensor([source])
    with torch.inference_mode():
        return model.eval()(tokens, torch.tensor([target]), source_mask=padding_mask(tokens, PAD))[0, -1].log_softmax(
            -1
        )


def decode(model: EncoderDecoder, sources: Sequence[Sequence[int]], rules: Rules = RULES) -> list[list[Hypothesis]]:
    requests = [Request(len(source) + 10) for source in sources]
    with TorchEngine(model, pad=PAD).prefill(sources, max(request.max_steps for request in requests)) as decoding:
        return beam_search(decoding, np.full(len(sources), BOS), requests, rules)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "relative", "alibi"])
def test_a_cached_step_gives_what_the_full_forward_gives(positions) -> None:
    net, rng = model(positions=positions), np.random.default_rng(0)
    targets = [[[BOS]] for _ in SOURCES]
    sources = list(SOURCES)
    with TorchEngine(net, pad=PAD).prefill(sources, 6) as decoding:
        for _ in range(6):
            last = np.array([[target[-1] for target in beams] for beams in targets])
            log_probabilities, ids = decoding.step(last, VOCAB)
            for b, beams in enumerate(targets):
                for w, target in enumerate(beams):
                    expected = full_forward(net, sources[b], target)[ids[b, w]]
                    np.testing.assert_allclose(log_probabilities[b, w], expected, rtol=0, atol=1e-12)
            live = np.sort(rng.choice(len(sources), max(1, len(sources) - 1), replace=False))
            beams = rng.integers(0, len(targets[0]), (len(live), 3))
            decoding.select(live, beams)
            sources = [sources[b] for b in live]
            targets = [[[*targets[b][w], int(rng.integers(4, VOCAB))] for w in row] for b, row in zip(live, beams)]


@pytest.mark.parametrize("k", [1, 5, VOCAB, 10 * VOCAB])
def test_a_step_gives_the_k_likeliest_tokens_and_no_more_than_there_are(k) -> None:
    net = model()
    with TorchEngine(net, pad=PAD).prefill([SOURCES[0]], 1) as decoding:
        log_probabilities, ids = decoding.step(np.array([[BOS]]), k)
    expected = full_forward(net, SOURCES[0], [BOS]).topk(min(k, VOCAB))
    np.testing.assert_allclose(log_probabilities[0, 0], expected.values, rtol=0, atol=1e-12)
    assert ids[0, 0].tolist() == expected.indices.tolist() and ids.dtype == np.int64


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_batch_mates_padding_and_order_change_no_answer(beam, seed) -> None:
    net, rules = model(seed=seed), Rules(eos=EOS, suppress=(PAD, BOS, UNK), beam=beam)
    alone = [decode(net, [source], rules)[0] for source in SOURCES]
    order = torch.randperm(len(SOURCES)).tolist()
    together = decode(net, [SOURCES[place] for place in order], rules)
    for place, answers in zip(order, together):
        assert [answer.ids for answer in answers] == [answer.ids for answer in alone[place]]
        for answer, expected in zip(answers, alone[place]):
            assert math.isclose(answer.log_probability, expected.log_probability, rel_tol=0, abs_tol=1e-12)


def test_an_answers_probability_is_that_of_the_full_forward() -> None:
    net = model()
    for source, answers in zip(SOURCES, decode(net, SOURCES)):
        for answer in answers:
            tokens = [BOS, *answer.ids] + [EOS] * answer.finished
            expected = [float(full_forward(net, source, tokens[:t])[tokens[t]]) for t in range(1, len(tokens))]
            np.testing.assert_allclose(answer.token_log_probabilities, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_probabilities_sum_to_one_in_every_precision(dtype) -> None:
    with TorchEngine(model(dtype), pad=PAD).prefill(SOURCES, 1) as decoding:
        log_probabilities, _ = decoding.step(np.full((len(SOURCES), 1), BOS), VOCAB)
    assert log_probabilities.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(np.exp(log_probabilities).sum(-1), 1.0, rtol=0, atol=tolerance)


def test_every_module_is_in_its_own_mode_afterwards_even_after_an_error() -> None:
    net = model().train()
    net.encoder.eval()
    before = [module.training for module in net.modules()]
    with pytest.raises(KeyboardInterrupt), TorchEngine(net, pad=PAD).prefill(SOURCES, 3):
        assert not any(module.training for module in net.modules())
        raise KeyboardInterrupt
    assert [module.training for module in net.modules()] == before
    assert not torch.is_inference_mode_enabled()


def test_a_model_that_is_training_decodes_without_dropout() -> None:
    net = model()
    expected = decode(net.eval(), SOURCES)
    assert decode(net.train(), SOURCES) == expected


def test_one_more_successor_can_be_asked_for_and_stands_in_the_last_column() -> None:
    net, engine_sources = model(), [[4, 5, EOS], [6, EOS]]
    with TorchEngine(net, pad=PAD).prefill(engine_sources, 3) as decoding:
        log_probabilities, ids = decoding.step(np.full((2, 1), BOS), 2, np.array([7, 3]))
    assert ids.shape == (2, 1, 3) and ids[:, 0, 2].tolist() == [7, 3]
    for row, source in enumerate(engine_sources):
        expected = full_forward(net, source, [BOS])[ids[row, 0]].numpy()
        np.testing.assert_allclose(log_probabilities[row, 0], expected, atol=1e-5)


@pytest.mark.parametrize(("rows", "size", "k"), [(9, 640, 2), (8, 1000, 3), (12, 777, 3), (3, 5000, 4), (9, 20, 20)])
def test_the_largest_values_are_those_of_a_full_sort(rows, size, k) -> None:
    values = torch.randn(rows, size, generator=torch.Generator().manual_seed(size))
    values[:, -1] = values.amax(1) + 1  # in the rest that fills no chunk
    values[:, 1:4] = 9.0  # several in one chunk
    best, places = _largest(values, k)
    expected = values.sort(dim=1, descending=True).values[:, :k]
    assert torch.equal(best, expected) and torch.equal(values.gather(1, places), best)
    assert all(len(set(row)) == k for row in places.tolist())
