"""The recordings of `clearhead demo hear`: frequencies, noise, timing and seeds."""

import io
import wave
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from clearhead.demo import keys_demos
from clearhead.demo.keys_demos import (
    COLUMNS,
    EDGE,
    GAP,
    KEYS,
    RATE,
    ROWS,
    TONE,
    dial,
    frequencies,
    heard,
    press,
    recordings,
    strings,
)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Telephones whose frequencies have no error."""
    monkeypatch.setattr(keys_demos, "_OFF", 0.0)


def test_the_keys_have_the_frequencies_of_the_standard() -> None:
    assert [frequencies(key) for key in "159D"] == [(697, 1209), (770, 1336), (852, 1477), (941, 1633)]
    assert [frequencies(key) for key in "*0#A"] == [(941, 1209), (941, 1336), (941, 1477), (697, 1633)]
    assert {frequencies(key) for key in KEYS} == {(row, column) for row in ROWS for column in COLUMNS}


@pytest.mark.parametrize("key", KEYS)
def test_the_spectrum_of_a_key_peaks_at_its_two_frequencies(exact: None, key: str) -> None:
    tones, _ = dial(key, np.random.default_rng(3), noise=30)
    power = np.abs(np.fft.rfft(tones, RATE * 4)) ** 2  # bins of 0.25 Hz
    bins = np.arange(len(power)) / 4
    peaks = [bins[band][power[band].argmax()] for band in (bins < 1075, bins >= 1075)]
    assert peaks == pytest.approx(frequencies(key), abs=2)


def test_noise_is_white_and_as_loud_as_asked_for() -> None:
    random = np.random.default_rng(0)
    for noise in (0.0, 10.0, 25.0):
        tones, hiss = dial("0123456789", random, noise=noise)
        sounding = np.convolve(tones != 0, np.ones(9), "same") >= 5  # a sine may be 0 for a moment
        ratio = (tones[sounding] ** 2).mean() / (hiss**2).mean()
        assert 10 * np.log10(ratio) == pytest.approx(noise, abs=0.4)
        low, high = np.split(np.abs(np.fft.rfft(hiss))[1 : len(hiss) // 4 * 2 + 1] ** 2, 2)
        assert low.mean() == pytest.approx(high.mean(), rel=0.1)


def test_keys_and_gaps_last_as_long_as_they_may() -> None:
    tones, _ = dial("5" * 10, np.random.default_rng(1), noise=20)
    sounding = np.convolve(tones != 0, np.ones(9), "same") >= 5
    edges = np.flatnonzero(np.diff(sounding.astype(int))) + 1
    lengths = np.diff(np.concatenate(([0], edges, [len(tones)]))) / RATE
    assert len(lengths) == 21
    for found, (least, most) in ((lengths[1::2], TONE), (lengths[2:-1:2], GAP), (lengths[[0, -1]], EDGE)):
        assert (found > least - 0.002).all() and (found < most + 0.002).all()


def test_strings_are_distinct_and_use_all_keys_and_lengths() -> None:
    drawn = strings(2_000, seed=0)
    assert drawn == strings(2_000, seed=0) != strings(2_000, seed=1)
    assert len({*drawn}) == 2_000
    assert {len(it) for it in drawn} == {*range(3, 11)} and {*"".join(drawn)} == {*KEYS}
    counts = Counter("".join(drawn))
    assert max(counts.values()) < 1.2 * min(counts.values())


def _share_of_repeats(texts: list[str]) -> float:
    pairs = [pair for text in texts for pair in pairwise(text)]
    return sum(one == two for one, two in pairs) / len(pairs)


def test_keys_repeat_as_often_as_asked_for_and_strings_can_be_left_out() -> None:
    plain, repeating = strings(2_000, seed=0), strings(2_000, seed=0, repeats=0.3)
    assert _share_of_repeats(plain) == pytest.approx(1 / 16, abs=0.01)
    assert _share_of_repeats(repeating) == pytest.approx(0.3 + 0.7 / 16, abs=0.02)
    others = strings(2_000, seed=0, without=plain[:500])
    assert not {*others} & {*plain[:500]} and others[:1_500] == plain[500:]


def test_a_recording_is_plain_16_bit_recording_that_a_seed_reproduces() -> None:
    texts = ["12#", "A*0D"]
    first, again, other = ([*recordings(texts, seed, (5, 30))] for seed in (0, 0, 1))
    assert first == again != other
    with wave.open(io.BytesIO(first[1])) as recording:
        assert (recording.getnchannels(), recording.getsampwidth(), recording.getframerate()) == (1, 2, RATE)
        samples = np.frombuffer(recording.readframes(recording.getnframes()), "<i2")
    assert 0.4 < len(samples) / RATE < 1.4
    assert 0 < np.abs(samples.astype(int)).max() < 32767


def test_a_classic_detector_finds_the_keys_too(exact: None, goertzel: Callable[[np.ndarray], str]) -> None:
    tones, hiss = dial("A", np.random.default_rng(5), noise=10)
    assert goertzel(tones + hiss) == "A"


@pytest.fixture
def goertzel() -> Callable[[np.ndarray], str]:
    """The key whose row and column have most power, by Goertzel's method: the usual detector."""

    def found(samples: np.ndarray) -> str:
        at = np.arange(len(samples)) / RATE
        power = {f: abs((samples * np.exp(-2j * np.pi * f * at)).sum()) for f in (*ROWS, *COLUMNS)}
        row, column = (max(range(4), key=lambda i: power[group[i]]) for group in (ROWS, COLUMNS))
        return KEYS[4 * row + column]

    return found


def test_keys_are_heard_in_their_tones() -> None:
    for keys in (KEYS, *strings(20, seed=5)):
        assert heard(press(keys)) == keys and heard((press(keys) * 32767).astype(np.int16)) == keys
    assert heard(np.zeros(1000)) == heard(np.zeros(0)) == ""
