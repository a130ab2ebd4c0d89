"""Read sounds as 16-bit samples of one channel, converted to one sample rate."""

import wave
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError

SUFFIXES = frozenset((".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf"))
_LOUDEST = 32767  # -32768 marks padding


class SoundInfo(NamedTuple):
    """The length of a sound in samples per channel, its sample rate and its channels."""

    n_samples: int
    sample_rate: int
    channels: int


def probe_sound(source: Any) -> SoundInfo:
    """Return the size of a sound without reading its samples.

    Raises:
        DataError: it isn't a sound.
    """
    if isinstance(source, tuple):
        samples, rate = _checked_array(source)
        return SoundInfo(len(samples), rate, 1 if samples.ndim == 1 else samples.shape[1])
    _expect_file(source)
    if (library := _soundfile()) is None:
        with _plain_wave(source) as file:
            return SoundInfo(file.getnframes(), file.getframerate(), file.getnchannels())
    try:
        info = library.info(str(source))
    except Exception as error:
        raise _unreadable(source, error) from error
    return SoundInfo(info.frames, info.samplerate, info.channels)


def read_sound(source: Any, sample_rate: int, most: int | None = None) -> tuple[NDArray[np.int16], int]:
    """Read a sound: channels are averaged, and samples converted to a rate. -> (N,), and the samples that were cut

    Args:
        source: a path, or a tuple of samples (N,) or (N, channels) and their rate.
        sample_rate: samples per second of the result.
        most: read at most about this many samples of the result; the rest is cut.

    Raises:
        DataError: it isn't a sound, is damaged, or has no samples.
    """
    info = probe_sound(source)
    name = _name(source)
    if not info.n_samples:
        raise DataError(f"{name} has no samples", expected="a sound", name=name)
    length = -(-info.n_samples * sample_rate // info.sample_rate)
    wanted = info.n_samples if most is None or length <= most else -(-most * info.sample_rate // sample_rate)
    samples = _samples(source, wanted)
    if not len(samples):
        raise DataError(f"{name} is damaged: it has no samples", name=name)
    if not np.isfinite(samples).all():
        raise DataError(f"{name} is damaged: it has samples that aren't numbers", name=name)
    mono = samples if samples.ndim == 1 else samples.mean(1)
    if info.sample_rate != sample_rate:
        mono = _resampled(mono, info.sample_rate, sample_rate)
    whole = (mono * 32768).round().clip(-_LOUDEST, _LOUDEST).astype(np.int16)
    whole = whole if most is None else whole[:most]
    return whole, max(0, length - most) if most is not None else 0


def _samples(source: Any, wanted: int) -> NDArray[np.float32]:
    """Return the first samples, from -1 to 1. -> (N,) or (N, channels)"""
    if isinstance(source, tuple):
        samples = _checked_array(source)[0][:wanted]
        return samples.astype(np.float32) / np.float32(32768 if samples.dtype == np.int16 else 1)
    if (library := _soundfile()) is None:
        with _plain_wave(source) as file:
            content, channels = file.readframes(wanted), file.getnchannels()
        return np.frombuffer(content, "<i2").reshape(-1, channels).astype(np.float32) / np.float32(32768)
    try:
        found: NDArray[np.float32] = library.read(str(source), frames=wanted, dtype="float32")[0]
    except Exception as error:
        raise _unreadable(source, error) from error
    return found


def _resampled(samples: NDArray[np.float32], before: int, after: int) -> NDArray[np.float32]:
    try:
        import soxr
    except ImportError as error:
        raise DataError(
            f"converting sounds from {before:,} to {after:,} samples per second needs soxr",
            fix="pip install 'clearhead[audio]'",
        ) from error
    found: NDArray[np.float32] = soxr.resample(samples, before, after)
    return found


def _soundfile() -> Any:
    """Return the soundfile library, or None if it isn't installed: then only plain WAV files can be read."""
    try:
        import soundfile
    except (ImportError, OSError):
        return None
    return soundfile


def _plain_wave(source: Any) -> wave.Wave_read:
    """Open a 16-bit WAV file without soundfile."""
    name = _name(source)
    try:
        file = wave.open(str(source), "rb")  # noqa: SIM115 - the caller closes it
    except (wave.Error, EOFError, OSError) as error:
        raise DataError(
            f"{name} can't be read without soundfile: {error}", fix="pip install 'clearhead[audio]'", name=name
        ) from error
    if file.getsampwidth() != 2:
        file.close()
        raise DataError(
            f"{name} has {8 * file.getsampwidth()}-bit samples, which need soundfile",
            fix="pip install 'clearhead[audio]'",
            name=name,
        )
    return file


def _checked_array(source: tuple[Any, ...]) -> tuple[NDArray[Any], int]:
    if len(source) == 2 and isinstance(source[0], np.ndarray) and isinstance(source[1], int) and source[1] > 0:
        samples, rate = source
        if samples.ndim in (1, 2) and (samples.dtype == np.int16 or samples.dtype.kind == "f"):
            return samples, rate
    raise DataError(
        "the tuple isn't a sound", expected="(samples, sample rate): an array (N,) or (N, channels), int16 or float"
    )


def _expect_file(source: Any) -> None:
    if not isinstance(source, str | Path):
        raise DataError(
            f"a {type(source).__name__} isn't a sound", expected="a path, or a tuple of samples and their rate"
        )
    path, name = Path(source), str(source)
    if not path.exists():
        raise DataError(f"{name} doesn't exist", expected="a sound", name=name)
    if not path.is_file():
        raise DataError(f"{name} isn't a file", expected="a sound", name=name)
    if not path.stat().st_size:
        raise DataError(f"{name} is empty", expected="a sound", name=name)


def _unreadable(source: Any, error: Exception) -> DataError:
    name = _name(source)
    return DataError(f"{name} can't be read as a sound: {error}", expected="WAV, FLAC, OGG or MP3", name=name)


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else "the sound"
