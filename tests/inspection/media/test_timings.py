"""Tones that are transcribed to letters: the model's attention tells when each was heard."""

import itertools

import numpy as np
import torch
from torch import Tensor, nn

from clearhead.config import ModelConfig
from clearhead.inspection.record.recorder import record
from clearhead.inspection.views.alignment import centres, timings
from clearhead.model.transformer import build

RATE, TONES, BOS, EOS, STEPS = 1000, (80, 200, 400), 1, 2, 120


def test_the_centres_are_the_best_of_all_sequences_that_never_go_back() -> None:
    weights = np.random.default_rng(0).random((4, 6))
    sequences = itertools.combinations_with_replacement(range(6), 4)
    best = max(sequences, key=lambda at: sum(weights[t, s] for t, s in enumerate(at)))
    assert centres(weights).tolist() == list(best)


def test_a_stretch_reaches_as_far_as_half_of_its_largest_share() -> None:
    weights = np.full((3, 30), 1e-6)
    weights[0, 4:9], weights[1, 14:19], weights[2, 25:] = 1.0, 1.0, 1.0
    first, second = timings(weights, ["a", "b"], 0.04, 1.2)
    assert first.token == "a" and first.start <= 0.16 <= 0.32 <= first.end
    assert 0.4 <= second.start <= 0.6 <= second.end <= 0.86 and first.end <= second.start


def test_a_recording_shorter_than_the_smoothing_has_timings() -> None:
    [only] = timings(np.ones((2, 1)), ["a"], 0.04, 0.03)
    assert (only.start, only.end) == (0.0, 0.02)


def heard(n: int, seed: int) -> tuple[Tensor, Tensor, list[list[float]]]:
    """Three tones in noise, with gaps of random length. -> audio (B, N), letters (B, T), the middle of each tone."""
    dice = np.random.default_rng(seed)
    recordings, letters, middles = np.zeros((n, 1300)), np.full((n, 5), EOS), list[list[float]]()
    letters[:, 0] = BOS
    for row in range(n):
        at, times = 0, list[float]()
        for place in range(3):
            at += int(dice.integers(80, 240))
            letter = int(dice.integers(3))
            recordings[row, at : at + 160] = np.sin(2 * np.pi * TONES[letter] * np.arange(160) / RATE)
            letters[row, 1 + place] = 3 + letter
            times.append((at + 80) / RATE)
            at += 160
        middles.append(times)
    noisy = 8000 * recordings + 200 * dice.normal(size=recordings.shape)
    return torch.from_numpy(noisy.astype(np.int16)), torch.from_numpy(letters), middles


def test_the_timings_of_a_toy_transcription_fall_inside_the_right_tones() -> None:
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    net = build(
        ModelConfig(
            front="frames", sample_rate=RATE, n_mels=16, max_len=60, src_vocab_size=6, tgt_vocab_size=6, d_model=32,
            n_heads=2, d_ff=64, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0, pre_norm=True,
        )
    )  # fmt: skip
    recordings, letters, _ = heard(256, 0)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.004)
    for step in range(STEPS):
        rows = slice(64 * (step % 4), 64 * (step % 4) + 64)
        logits = net(recordings[rows], letters[rows, :-1])
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.flatten(0, 1), letters[rows, 1:].flatten()).backward()
        optimizer.step()
    torch.random.set_rng_state(state)
    net.eval()
    recordings, letters, middles = heard(20, 1)
    right = inside = 0
    for recording, said, times in zip(recordings, letters, middles):
        with torch.no_grad(), record(net) as trace:
            answer = net(recording[None], said[None, :-1]).argmax(-1)[0]
        right += int((answer == said[1:]).sum())
        weights = trace["decoder.0.cross"].weights.values[0].double().mean(0).numpy()
        for it, middle in zip(timings(weights, ["a", "b", "c"], 0.04, 1.3), times):
            inside += it.start - 0.08 <= middle <= it.end + 0.08
    assert right >= 75 and inside >= 54, (right, inside)  # of 80 letters and ends, and of 60 tones
