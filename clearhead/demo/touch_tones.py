"""Telephone keys as audio: dual-tone multi-frequency signalling (DTMF, ITU-T Q.23).

Each key is the sum of two sines, one for its row and one for its column:

          1209 Hz  1336 Hz  1477 Hz  1633 Hz
  697 Hz     1        2        3        A
  770 Hz     4        5        6        B
  852 Hz     7        8        9        C
  941 Hz     *        0        #        D
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..readers.media.audio import wav_bytes

RATE = 8000  # samples per second
KEYS = "123A456B789C*0#D"
ROWS, COLUMNS = (697, 770, 852, 941), (1209, 1336, 1477, 1633)  # Hz
LENGTHS = (3, 10)  # keys of a string
TONE, GAP, EDGE = (0.08, 0.12), (0.08, 0.12), (0.02, 0.15)  # seconds: a key, between two, before the first and after
_LEVEL = (-32.0, -14.0)  # dB of each tone, compared with the loudest sine
PRESS = (0.12, 0.08)  # seconds of a key and of the gap after it, in recordings that are all alike
_FADE = 0.05  # amplitude at the end of such a key, divided by that at its beginning
_FRAME, _LOUD = 160, 0.02  # samples that are heard together, and their power in a tone, compared with the loudest
_TWIST, _OFF = 2.0, 0.01  # dB between the two tones, and relative error of their frequencies, at most

Samples = NDArray[np.float64]


def frequencies(key: str) -> tuple[int, int]:
    """Return the frequencies of a key in Hz, of its row and of its column."""
    row, column = divmod(KEYS.index(key), len(COLUMNS))
    return ROWS[row], COLUMNS[column]


def strings(n: int, seed: int, *, repeats: float = 0.0, without: Iterable[str] = ()) -> list[str]:
    """Draw `n` strings of keys, no two alike and none of `without`.

    All lengths are equally frequent, and so are all keys. `repeats` is the probability that a key is the one before it,
    in addition to chance.
    """
    random = np.random.default_rng(seed)
    left_out, found = {*without}, dict[str, None]()
    while len(found) < n:
        keys = random.integers(len(KEYS), size=random.integers(LENGTHS[0], LENGTHS[1] + 1))
        for place in np.flatnonzero(random.random(len(keys) - 1) < repeats) + 1:
            keys[place] = keys[place - 1]
        if (text := "".join(KEYS[it] for it in keys)) not in left_out:
            found[text] = None
    return list(found)


def dial(keys: str, random: np.random.Generator, *, noise: float) -> tuple[Samples, Samples]:
    """Return the tones of some keys, and white noise. The recording is the sum of the two.

    A tone is a (sin(2 pi f1 t + p1) + r sin(2 pi f2 t + p2)) at t seconds. Level a, twist r, lengths, phases p1 and p2,
    and small errors of f1 and f2 are random. -> (N,), (N,)

    Args:
        keys: the keys to press.
        random: the source of randomness.
        noise: signal-to-noise ratio in dB: power of a tone, divided by the power of the noise from 0 to 4 kHz.
    """
    level, twist = 10 ** (random.uniform(*_LEVEL) / 20), 10 ** (random.uniform(-_TWIST, _TWIST) / 20)
    off = 1 + random.uniform(-_OFF, _OFF, 2)
    parts = [_silence(EDGE, random)]
    for key in keys:
        t = np.arange(round(random.uniform(*TONE) * RATE)) / RATE
        low, high = (np.sin(2 * np.pi * f * t + random.uniform(0, 2 * np.pi)) for f in np.array(frequencies(key)) * off)
        parts += [level * (low + twist * high), _silence(GAP, random)]
    parts[-1] = _silence(EDGE, random)
    tones = np.concatenate(parts)
    power = level**2 * (1 + twist**2) / 2
    return tones, random.normal(0, np.sqrt(power / 10 ** (noise / 10)), len(tones))


def press(keys: str) -> Samples:
    """Return the tones of some keys without noise, all alike. They fade, so one can hear where they end. -> (N,)"""
    t, gap = np.arange(round(PRESS[0] * RATE)) / RATE, np.zeros(round(PRESS[1] * RATE))
    sines = {key: sum(np.sin(2 * np.pi * f * t) for f in frequencies(key)) for key in {*keys}}
    return np.concatenate([part for key in keys for part in (0.25 * sines[key] * _FADE ** (t / PRESS[0]), gap)])


def heard(samples: NDArray[np.integer[Any] | np.floating[Any]]) -> str:
    """Return the keys in a recording (N,) without noise: the strongest row and column in each loud stretch of it."""
    frames = samples[: len(samples) // _FRAME * _FRAME].reshape(-1, _FRAME).astype(np.float64)
    power = np.square(frames).mean(1)
    loud = np.concatenate([[False], power > _LOUD * max(power.max(initial=0), 1e-9), [False]])
    edges = np.flatnonzero(loud[1:] != loud[:-1]).reshape(-1, 2)
    waves = np.exp(-2j * np.pi * np.array([*ROWS, *COLUMNS])[:, None] * np.arange(len(samples)) / RATE)  # (8, N)
    keys = ""
    for first, end in edges:
        part = slice(first * _FRAME, end * _FRAME)
        found = np.abs(waves[:, part] @ samples[part])
        keys += KEYS[len(COLUMNS) * int(found[: len(ROWS)].argmax()) + int(found[len(ROWS) :].argmax())]
    return keys


def wav(samples: Samples) -> bytes:
    """Return a 16-bit WAV file of samples from -1 to 1."""
    return wav_bytes((samples * 32767).round().clip(-32767, 32767).astype(np.int16), RATE)


def recordings(texts: Iterable[str], seed: int, noise: tuple[float, float]) -> Iterator[bytes]:
    """Yield a WAV file for each string of keys, with noise at a random level in a range of dB."""
    random = np.random.default_rng(seed)
    for text in texts:
        tones, hiss = dial(text, random, noise=random.uniform(*noise))
        yield wav(tones + hiss)


def _silence(seconds: tuple[float, float], random: np.random.Generator) -> Samples:
    return np.zeros(round(random.uniform(*seconds) * RATE))
