"""Audio of every kind becomes 16-bit samples of one channel, and what isn't audio is an error."""

import builtins
import struct
from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import ConfigError, DataError
from clearhead.readers.media.audio import AudioInfo, probe_audio, read_audio

soundfile = pytest.importorskip("soundfile")
pytest.importorskip("soxr")


def fails(source: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read_audio(source, 8000)
    assert caught.value.expected
    return caught.value


def samples_of(path: Path) -> np.ndarray:
    return read_audio(str(path), 8000)[0] / 32768


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "PCM_U8"])
def test_every_width_gives_the_same_samples(tmp_path: Path, tone, subtype: str) -> None:
    soundfile.write(tmp_path / "a.wav", tone(440), 8000, subtype=subtype)
    assert np.abs(samples_of(tmp_path / "a.wav") - tone(440)).max() < (0.01 if subtype == "PCM_U8" else 1e-4)


@pytest.mark.parametrize("name", ["a.flac", "a.ogg", "a.mp3", "a.aiff", "a.au"])
def test_other_formats(tmp_path: Path, tone, name: str) -> None:
    try:
        soundfile.write(tmp_path / name, tone(440, 0.5), 8000)
    except (RuntimeError, ValueError, TypeError):
        pytest.skip(f"this soundfile can't write {name}")
    found = samples_of(tmp_path / name)[:4000]
    assert strongest(found, 8000) == pytest.approx(440, abs=4) and 0.3 < np.abs(found).max() < 0.7


def strongest(samples: np.ndarray, rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples))
    return float(spectrum.argmax() * rate / len(samples))


@pytest.mark.parametrize("rate", [4000, 11025, 16000, 22050, 44100, 48000, 192000])
def test_a_sine_stays_a_sine_at_any_rate(tmp_path: Path, tone, write_wave, rate: int) -> None:
    path = write_wave(tmp_path / "a.wav", tone(440, 0.5, rate), rate)
    found, expected = samples_of(path), tone(440, 0.5)
    assert abs(len(found) - len(expected)) <= 1
    inner = slice(400, 3600)  # a filter has edges
    assert np.abs(found[inner] - expected[inner]).max() < 0.01


def test_channels_are_averaged(tmp_path: Path, write_wave) -> None:
    channels = np.stack([np.full(100, 0.1 * i) for i in range(8)], axis=1)
    assert samples_of(write_wave(tmp_path / "a.wav", channels)) == pytest.approx(0.35, abs=1e-3)
    assert probe_audio(str(tmp_path / "a.wav")) == AudioInfo(100, 8000, 8)


def test_floats_beyond_1_are_clipped_and_what_is_no_number_is_damage(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([0.0, 2.0, -3.0, 0.5]), 8000, subtype="FLOAT")
    assert read_audio(str(tmp_path / "a.wav"), 8000)[0].tolist() == [0, 32767, -32767, 16384]
    for value in (np.nan, np.inf):
        soundfile.write(tmp_path / "b.wav", np.array([0.0, value]), 8000, subtype="FLOAT")
        assert fails(str(tmp_path / "b.wav")).name == str(tmp_path / "b.wav")


@pytest.mark.parametrize("tail", [0.0, 0.003])
def test_channels_that_cancel_each_other_are_not_silence(tmp_path: Path, tone, write_wave, tail: float) -> None:
    left = tone(440)
    path = write_wave(tmp_path / "a.wav", np.stack([left, -left + tail], 1))
    for source in (str(path), (np.stack([left, -left + tail], 1), 8000)):
        with pytest.raises(DataError) as caught:
            read_audio(source, 8000)
        assert caught.value.fix and caught.value.expected


def test_one_channel_among_silent_ones_and_silence_can_be_read(tone) -> None:
    left = tone(440)
    alone = np.stack([left, *[0 * left] * 31], 1)
    np.testing.assert_allclose(read_audio((alone, 8000), 8000)[0] / 32768, left / 32, atol=1e-4)
    assert not read_audio((np.zeros((800, 2)), 8000), 8000)[0].any()


@pytest.mark.filterwarnings("error")
def test_damaged_samples_leave_no_warning_of_numpy(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([[0.1, np.inf], [0.2, -np.inf], [np.nan, 0]]), 8000, subtype="FLOAT")
    with pytest.raises(DataError):
        read_audio(str(tmp_path / "a.wav"), 8000)


def test_only_the_beginning_of_a_long_recording_is_read(tmp_path: Path, tone, write_wave) -> None:
    path = str(write_wave(tmp_path / "a.wav", tone(440, 1.0)))
    whole, none = read_audio(path, 8000)
    first, cut = read_audio(path, 8000, 3000)
    assert none == 0 and cut == 5000 and np.array_equal(first, whole[:3000])


def test_a_recording_that_ends_early_is_read_as_far_as_it_goes(tmp_path: Path, tone, write_wave) -> None:
    path = write_wave(tmp_path / "a.wav", tone(440, 1.0))
    path.write_bytes(path.read_bytes()[: 44 + 2 * 1000])
    found, cut = read_audio(str(path), 8000, 4000)
    assert len(found) == 1000 and cut == 0


def test_a_header_that_lies_about_its_size(tmp_path: Path, tone, write_wave) -> None:
    path = write_wave(tmp_path / "a.wav", tone(440))
    content = bytearray(path.read_bytes())
    content[40:44] = struct.pack("<I", 0xFFFFFFF0)  # as programs write it that don't know the length yet
    path.write_bytes(content)
    assert len(read_audio(str(path), 8000, 100_000)[0]) == 2000
    content[24:28] = struct.pack("<I", 1)  # a sample a second
    path.write_bytes(content)
    assert fails(str(path)).value == 1


@pytest.mark.parametrize("content", [b"", b"hello", b"RIFF", b"RIFF\x24\0\0\0WAVEfmt ", b"\xff\xfb" * 10, b"fLaC" * 9])
def test_files_that_are_no_recordings(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    assert fails(str(tmp_path / "a.wav")).name == str(tmp_path / "a.wav")


def test_a_recording_without_samples(tmp_path: Path, write_wave) -> None:
    fails(str(write_wave(tmp_path / "a.wav", np.empty(0))))
    fails((np.empty(0, np.float32), 8000))


def test_samples_in_memory() -> None:
    half = np.full(10, 0.5, np.float32)
    assert read_audio((half, 8000), 8000)[0].tolist() == [16384] * 10
    assert read_audio((np.full(10, 5, np.int16), np.int64(8000)), 8000)[0].tolist() == [5] * 10
    assert read_audio((np.stack([half, 0 * half], 1), 8000), 8000)[0].tolist() == [8192] * 10
    for wrong in ((half.astype(np.int32), 8000), (half, 0), (half, "8000"), (half[None, None], 8000), (half,)):
        fails(wrong)
    for wrong in (3, None, half):
        fails(wrong)


def test_what_is_no_file(tmp_path: Path) -> None:
    fails(str(tmp_path / "missing.wav"))
    fails(str(tmp_path))


@pytest.mark.parametrize("library", ["soundfile", "soxr"])
def test_without_a_library_there_is_one_clear_error(
    monkeypatch, tmp_path: Path, tone, write_wave, library: str
) -> None:
    plain, real = write_wave(tmp_path / "a.wav", tone(440)), builtins.__import__
    soundfile.write(tmp_path / "b.wav", tone(440, rate=16000), 16000, subtype="PCM_24" if library != "soxr" else None)

    def missing(name: str, *rest: object) -> object:
        if name == library:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert len(read_audio(str(plain), 8000)[0]) == 2000
    with pytest.raises(ConfigError) as caught:  # a DataError would skip one file after another
        read_audio(str(tmp_path / "b.wav"), 8000)
    assert caught.value.name == library and "pip install soundfile soxr" in caught.value.fix
