"""`clearhead demo hear` and `clearhead demo speak`: train a model that writes down telephone keys, or one that speaks
them.

The recordings are synthesised, and both models are scored on unseen strings of keys. A key is the sum of two sines, one
for its row and one for its column (dual-tone multi-frequency signalling, ITU-T Q.23):

          1209 Hz  1336 Hz  1477 Hz  1633 Hz
  697 Hz     1        2        3        A
  770 Hz     4        5        6        B
  852 Hz     7        8        9        C
  941 Hz     *        0        #        D
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..api import load
from ..apps.evaluation import Evaluation
from ..apps.translator import Speaker, Transcriber
from ..config import NEWEST
from ..config.messages import say
from ..readers.media.audio import wav_bytes
from .demo_folder import DemoFolder, expect

# --- tones

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
    """Draw strings of keys, no two alike. All lengths are equally frequent, and so are all keys.

    Args:
        n: the number of strings.
        seed: the same seed draws the same strings.
        repeats: the probability that a key is the one before it, in addition to chance.
        without: strings that aren't drawn.
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
    """Yield a WAV file for each string of keys.

    Args:
        texts: the strings.
        seed: the seed of tones and noise.
        noise: the range of the signal-to-noise ratio in dB, which is random.
    """
    random = np.random.default_rng(seed)
    for text in texts:
        tones, hiss = dial(text, random, noise=random.uniform(*noise))
        yield wav(tones + hiss)


def _silence(seconds: tuple[float, float], random: np.random.Generator) -> Samples:
    return np.zeros(round(random.uniform(*seconds) * RATE))


# --- demos

RECORDINGS = "keys"  # subfolder of the model folder with the recordings
N_TRAINING = 6_000
_SETTINGS: dict[str, Any] = {
    "model.d_model": 64,
    "model.n_heads": 4,
    "model.d_ff": 128,
    "model.n_encoder_layers": 2,
    "model.n_decoder_layers": 2,
    "data.max_len": 100,
    "data.split": 0.02,
    "data.batch_tokens": 2048,
    "data.name": "Clearhead's telephone keys",
    "data.licence": "MIT, as Clearhead itself",
    "train.label_smoothing": 0.0,
    "train.precision": "fp32",
    "train.lr": 0.005,
}

# --- hear

HEARD = 0.99  # exact match expected on the held-out strings at 10 dB, with these settings and this seed
NOISE = (5.0, 30.0)  # signal-to-noise ratio in training, in dB
HELD_OUT = {10: 500, 20: 200, 5: 200, 0: 200}  # recordings at each signal-to-noise ratio; the first is the one expected
REPEATS = 0.3  # repeated keys are the hardest to count, so training has more than held-out strings

# Almost no augmentation: at another speed a key sounds like its neighbour, and a mask hides keys. At this width bf16 is
# slower than fp32. The last weights count repeated keys better than those with the lowest loss on 120 recordings.
HEAR_SETTINGS = _SETTINGS | {
    "train.task": "transcribe",
    "model.dropout": 0.05,
    "model.augment": ("speed=0.02",),
    "train.steps": 2000,
    "train.best": NEWEST,
    "train.eval_every": 500,
    "train.save_every": 1000,
}


def run_hear_demo(out: Path) -> None:
    """Make recordings, train, score and transcribe into `out`, replacing an earlier demo.

    The subfolder `keys` contains the recordings as WAV files, and tables in the format that `clearhead train` reads.
    Raises TrainingError if the folder contains something else, or the exact match at 10 dB is below `HEARD`.
    """
    folder = DemoFolder(out, RECORDINGS, HEAR_SETTINGS)
    held_out = strings(max(HELD_OUT.values()), seed=0)
    training = strings(N_TRAINING, seed=1, repeats=REPEATS, without=held_out)
    folder.write(_noisy_files(training, held_out))
    _announce(training, held_out, out)
    folder.train("train.csv")
    app = cast(Transcriber, load(out))
    evaluations = {noise: app.evaluate(folder.path(f"{_name(noise)}.csv")) for noise in HELD_OUT}
    first = next(iter(HELD_OUT))
    app.save_evaluation(evaluations[first])
    _report(evaluations)
    _examples(evaluations[min(HELD_OUT)])
    folder.say_done()
    say("Transcribe some recordings, or look at what the model attends to:\n")
    one, two = (folder.path(f"{_name(first)}/000{number}.wav") for number in range(2))
    say(f"  {folder.command('transcribe', one, two)}\n  {folder.command('explain', one)}\n")
    expect("exact match", evaluations[first].scores.exact_match, HEARD)


def _name(noise: int) -> str:
    return f"held-out-{noise}dB"


def _noisy_files(training: Sequence[str], held_out: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield all recordings, and a table of paths and keys for each part."""
    yield from _part("train", training, recordings(training, 0, NOISE), ("path", "text"))
    for noise, count in HELD_OUT.items():
        texts = held_out[:count]
        yield from _part(_name(noise), texts, recordings(texts, 1 + noise, (noise, noise)), ("path", "text"))


def _report(evaluations: Mapping[int, Evaluation]) -> None:
    print("\nStrings of 3 to 10 keys that it never heard, written down without a mistake:")
    for noise, evaluation in evaluations.items():
        expected = f"   (expected: at least {HEARD})" if noise == next(iter(HELD_OUT)) else ""
        scores = evaluation.scores
        print(f"  {scores.exact_match:.4f}  of {len(evaluation.answers)} at {noise:>2} dB{expected}")
    print("(dB: power of a tone, compared with the white noise)")


def _examples(evaluation: Evaluation) -> None:
    """Print some transcripts in the loudest noise, and the keys."""
    print("\nFor example, in the loudest noise:")
    for source, answer, keys in list(zip(evaluation.sources, evaluation.answers, evaluation.references))[:5]:
        print(f"  {source}  {answer:<10}  {'right' if answer in keys else f'the keys were {keys[0]}'}")


# --- speak

SPOKEN = 0.95  # exact match expected on the held-out strings, with these settings and this seed
N_SPOKEN = 100  # held-out strings

SPEAK_SETTINGS = _SETTINGS | {
    "train.task": "speak",
    "model.n_mels": 64,
    "model.dropout": 0.0,
    "model.pre_norm": True,
    "data.vocab_size": 256,
    "decode.beam": 1,
    "train.steps": 400,
    "train.eval_every": 200,
    "train.save_every": 200,
}


def run_speak_demo(out: Path) -> None:
    """Make recordings, train, and speak into `out`, replacing an earlier demo.

    The subfolder `keys` contains the recordings as WAV files, a table in the format that `clearhead train` reads, and
    what the model speaks. Raises TrainingError if the folder contains something else, or if the tones are those of the
    text less often than `SPOKEN`.
    """
    folder = DemoFolder(out, RECORDINGS, SPEAK_SETTINGS)
    held_out = strings(N_SPOKEN, seed=0)
    training = strings(N_TRAINING, seed=1, without=held_out)
    folder.write(_part("train", training, (wav(press(text)) for text in training), ("text", "path")))
    _announce(training, held_out, out)
    folder.train("train.csv")
    app = cast(Speaker, load(out))
    spoken = [samples for samples, _ in app(held_out)]
    found = list(map(heard, spoken))
    rate = float(np.mean([one == other for one, other in zip(found, held_out)]))
    print("\nStrings of 3 to 10 keys that it never heard, spoken without a wrong tone:")
    print(f"  {rate:.4f}  of {len(held_out)}   (expected: at least {SPOKEN})")
    print("\nFor example, with the keys that formulas find in the sound:")
    for text, keys, samples in list(zip(held_out, found, spoken))[:5]:
        path = Path(folder.path(f"spoken-{text.replace('*', 'x')}.wav"))
        path.write_bytes(wav(samples / 32768))
        print(f"  {text:<10}  {keys:<10}  {path}")
    folder.say_done("the model")
    say("Let it speak other keys, or look at which key each sound comes from:\n")
    say(f"  {folder.command('speak', '357A', '--out', 'spoken.wav')}")
    say(f"  {folder.command('explain', '357A', '--alignment')}\n")
    expect("exact match", rate, SPOKEN)


# --- both


def _announce(training: Sequence[str], held_out: Sequence[str], out: Path) -> None:
    say(
        f"{len(training):,} recordings of telephone keys to train on, and {len(held_out):,} held-out strings of keys, "
        f"which never occur in training. Listen to those in {out / RECORDINGS}.\n"
    )


def _part(
    name: str, texts: Sequence[str], sounds: Iterable[bytes], columns: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield a recording of each text, and a table of texts and paths."""
    rows = [",".join(columns)]
    for number, (text, sound) in enumerate(zip(texts, sounds)):
        row = {"path": f"{name}/{number:04}.wav", "text": text}
        rows.append(",".join(row[it] for it in columns))
        yield row["path"], sound
    yield f"{name}.csv", "".join(f"{row}\n" for row in rows).encode()
