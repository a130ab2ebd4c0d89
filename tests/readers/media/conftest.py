"""Images and recordings in files, good and bad."""

import wave
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("PIL")
pytest.importorskip("soundfile")
pytest.importorskip("soxr")


def write_wave(path: Path, samples: np.ndarray, rate: int = 8000) -> Path:
    """A 16-bit WAV file of samples from -1 to 1: (N,) or (N, channels)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).round().astype("<i2").tobytes())
    return path


def tone(frequency: float, seconds: float = 0.25, rate: int = 8000, volume: float = 0.5) -> np.ndarray:
    return volume * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate)


@pytest.fixture(name="write_wave")
def _write_wave():
    return write_wave


@pytest.fixture(name="tone")
def _tone():
    return tone


@pytest.fixture
def image(tmp_path: Path):
    """Save an array as an image in a folder, and return its path as a str."""
    from PIL import Image

    def save(name: str, pixels: np.ndarray | int = 7, **options: object) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        array = np.full((4, 4, 3), pixels, np.uint8) if isinstance(pixels, int) else pixels
        Image.fromarray(array).save(path, **options)
        return str(path)

    return save
