"""Read audio as 16-bit samples of one channel, converted to one sample rate."""

import io
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, DataError
from ...folder.archive import display_name
from .media_files import expect_file

_LOUDEST = 32767  # -32768 marks padding
_RATES = range(1_000, 1_000_001)  # samples per second; other rates are those of damaged files
_CANCELLED = 0.02  # share of the power of independent channels below which they cancel each other
_BLOCK = 1 << 16  # samples per channel read at once, so that a file with many channels needs little memory
_FORMATS = "WAV, FLAC, OGG or MP3"
_ARRAY = "(samples, rate): an array (N,) or (N, channels), int16 or float from -1 to 1, and samples per second"
_INSTALL = "install it: pip install soundfile soxr"


class AudioInfo(NamedTuple):
    """The length of a recording in samples per channel, its sample rate and its channels."""

    n_samples: int
    sample_rate: int
    channels: int


def probe_audio(source: Any) -> AudioInfo:
    """Return the size of a recording without reading its samples.

    Raises:
        DataError: it isn't audio.
        ConfigError: reading it needs soundfile, which isn't installed.
    """
    if isinstance(source, tuple):
        samples, rate = checked_samples(source)
        return AudioInfo(len(samples), rate, 1 if samples.ndim == 1 else samples.shape[1])
    with _opened(source) as file:
        return file.info


def read_audio(source: Any, sample_rate: int, most: int | None = None) -> tuple[NDArray[np.int16], int]:
    """Read a recording: channels are averaged, and samples converted to a rate. -> (N,), and the samples that were cut

    Floating-point samples beyond -1 and 1 are clipped. A file that ends early is read as far as it goes.

    Args:
        source: a path, or a tuple of samples (N,) or (N, channels) and their rate.
        sample_rate: samples per second of the result.
        most: read at most about this many samples of the result; the rest is cut.

    Raises:
        DataError: it isn't audio, is damaged, or has no samples.
        ConfigError: reading or converting it needs soundfile or soxr, which isn't installed.
    """
    info, name = probe_audio(source), _name(source)
    length = -(-info.n_samples * sample_rate // info.sample_rate)
    wanted = info.n_samples if most is None or length <= most else -(-most * info.sample_rate // sample_rate)
    mono = _mono(source, wanted, name)
    is_complete = len(mono) == wanted  # a file may end before its header says
    if not len(mono):
        raise DataError(f"{name} has no samples", expected="an audio file with samples", name=name)
    if info.sample_rate != sample_rate:
        mono = _resampled(mono, info.sample_rate, sample_rate)
    whole = as_int16(mono) if most is None else as_int16(mono)[:most]
    if not len(whole):  # a few samples at a high rate
        raise DataError(f"{name} is too short", expected=f"a sample at {sample_rate:,} per second", name=name)
    return whole, max(0, length - most) if most is not None and is_complete else 0


def wav_bytes(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return a WAV file of 16-bit samples, (N,) or (N, channels)."""
    file = io.BytesIO()
    with wave.open(file, "wb") as recording:
        recording.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        recording.setsampwidth(2)
        recording.setframerate(rate)
        recording.writeframes(samples.astype("<i2").tobytes())
    return file.getvalue()


def as_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Convert samples from -1 to 1 to 16 bits. What lies beyond is clipped."""
    return (samples * 32768).round().clip(-_LOUDEST, _LOUDEST).astype(np.int16)


def checked_samples(source: tuple[Any, ...], name: str = "the tuple") -> tuple[NDArray[Any], int]:
    """Return samples and rate of a recording in memory. Raise DataError if the tuple isn't audio."""
    samples, rate = source if len(source) == 2 else (None, None)
    if not (isinstance(samples, np.ndarray) and samples.ndim in (1, 2) and isinstance(rate, int | np.integer)):
        raise DataError(f"{name} isn't audio", expected=_ARRAY, name=name)
    if samples.dtype != np.int16 and samples.dtype.kind != "f":
        raise DataError(f"{name} has samples of type {samples.dtype}", expected=_ARRAY, name=name)
    _expect_rate(int(rate), name)
    return samples, int(rate)


def _mono(source: Any, wanted: int, name: str) -> NDArray[np.float32]:
    """Return the mean of all channels in the first samples, from -1 to 1. -> (N,)"""
    means, power, n_channels = [np.empty(0, np.float32)], 0.0, 1
    for block in _blocks(source, wanted):
        if not np.isfinite(block).all():
            raise DataError(
                f"{name} is damaged: it has samples that aren't numbers", expected="finite samples", name=name
            )
        means.append(block.mean(1).astype(np.float32, copy=False))
        n_channels = block.shape[1]
        power += float(np.square(block, dtype=np.float64).sum()) / n_channels
    mono = np.concatenate(means)
    # Independent channels keep 1 / n of their power in the mean, and so does a single one among silent ones.
    if float(np.square(mono, dtype=np.float64).sum()) < _CANCELLED / n_channels * power:
        what = f"the channels of {name} cancel each other, so their mean is nearly silent"
        fix = "keep one channel, for example with: sox in.wav out.wav remix 1"
        raise DataError(what, expected="channels in phase, or one channel", fix=fix, name=name)
    return mono


def _blocks(source: Any, wanted: int) -> Iterator[NDArray[Any]]:
    """Yield the first samples of a recording, from -1 to 1. -> each (N, channels)"""
    if isinstance(source, tuple):
        samples = checked_samples(source)[0][:wanted]
        samples = samples if samples.dtype != np.int16 else samples.astype(np.float32) / np.float32(32768)
        yield samples[:, None] if samples.ndim == 1 else samples
        return
    missing = wanted
    with _opened(source) as file:
        while missing > 0 and len(block := file.read(min(missing, _BLOCK))):
            yield block
            missing -= len(block)


def _resampled(samples: NDArray[np.float32], before: int, after: int) -> NDArray[np.float32]:
    try:
        import soxr
    except ImportError as error:
        what = f"converting audio from {before:,} to {after:,} samples per second needs soxr"
        raise ConfigError(what, fix=_INSTALL, name="soxr") from error
    return soxr.resample(samples, before, after)


# --- files


class _AudioFile(NamedTuple):
    """An open file. `read` returns the next samples of each channel, from -1 to 1. -> (N, channels)"""

    info: AudioInfo
    read: Callable[[int], NDArray[np.float32]]


def _read_wave(file: wave.Wave_read, n: int) -> NDArray[np.float32]:
    content, channels = file.readframes(n), file.getnchannels()
    n_whole = len(content) // (2 * channels) * channels
    return np.frombuffer(content, "<i2", n_whole).reshape(-1, channels).astype(np.float32) / np.float32(32768)


@contextmanager
def _opened(source: Any) -> Iterator[_AudioFile]:
    """Open an audio file and check its header. Errors of the decoders inside the block become a DataError."""
    if not isinstance(source, str | Path):
        what = f"a value of type {type(source).__name__} isn't audio"
        raise DataError(what, expected=f"a path, or {_ARRAY}", value=source)
    name, library = _name(source), _soundfile()
    expect_file(str(source), "an audio file")
    if library is None:
        with _plain_wave(str(source), name) as plain:
            info = AudioInfo(plain.getnframes(), plain.getframerate(), plain.getnchannels())
            yield _checked(_AudioFile(info, partial(_read_wave, plain)), name)
        return
    try:
        with library.SoundFile(str(source)) as file:
            info = AudioInfo(file.frames, file.samplerate, file.channels)
            yield _checked(_AudioFile(info, partial(file.read, dtype="float32", always_2d=True)), name)
    except DataError:
        raise
    except Exception as error:  # the decoders raise errors of several types
        why = getattr(error, "error_string", error)  # without the path
        raise DataError(f"{name} can't be read as audio: {why}", expected=_FORMATS, name=name) from error


def _checked(file: _AudioFile, name: str) -> _AudioFile:
    if not file.info.n_samples:
        raise DataError(f"{name} has no samples", expected="an audio file with samples", name=name)
    _expect_rate(file.info.sample_rate, name)
    return file


def _soundfile() -> Any:
    """Return the soundfile library, or None if it isn't installed: then only plain WAV files can be read."""
    try:
        import soundfile
    except (ImportError, OSError):
        return None
    return soundfile


def _plain_wave(path: str, name: str) -> wave.Wave_read:
    """Open a 16-bit WAV file without soundfile. All other files need it; broken files look like those."""
    why = "it isn't a plain WAV file"
    try:
        file = wave.open(path, "rb")  # noqa: SIM115 - the caller closes it
        if file.getsampwidth() == 2:
            return file
        why = f"it has {8 * file.getsampwidth()}-bit samples"
        file.close()
    except (wave.Error, EOFError):
        pass
    except OSError as error:
        raise DataError(f"{name} can't be read: {error.strerror}", name=name) from error
    raise ConfigError(f"reading {name} needs soundfile: {why}", fix=_INSTALL, name="soundfile", value=name)


def _expect_rate(rate: int, name: str) -> None:
    if rate not in _RATES:
        expected = f"{_RATES[0]:,} to {_RATES[-1]:,} samples per second"
        raise DataError(f"{name} has {rate:,} samples per second", expected=expected, name=name, value=rate)


def _name(source: Any) -> str:
    return display_name(source) if isinstance(source, str | Path) else "the recording"
