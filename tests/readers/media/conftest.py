"""Images and recordings in files, good and bad."""

from pathlib import Path

import numpy as np
import pytest

from tests.builders import tone, write_wave

pytest.importorskip("PIL")
pytest.importorskip("soundfile")
pytest.importorskip("soxr")


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
