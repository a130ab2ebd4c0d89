"""Images and recordings in memory become files that read the same."""

from pathlib import Path

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.data.forms import IMAGES, TRANSCRIPTS
from clearhead.errors import DataError
from clearhead.readers.media.audio import read_audio
from clearhead.readers.media.images import read_image
from clearhead.readers.media.media_in_memory import with_whole_paths, write_media
from clearhead.readers.media.media_source import MediaSource
from clearhead.readers.source import as_paths

Image = pytest.importorskip("PIL.Image")
DICE = np.random.default_rng(0)
GREY, COLOUR = DICE.integers(0, 256, (5, 4, 4)).astype(np.uint8), DICE.integers(0, 256, (5, 4, 6, 3)).astype(np.uint8)


def read(data: object, folder: Path) -> list[tuple[np.ndarray, str]]:
    manifest = write_media(data, folder)
    assert manifest is not None
    with MediaSource(manifest, DataConfig(), IMAGES, "image") as source:
        return [(read_image(name, 4, 3), label) for _, name, label in source]


@pytest.mark.parametrize(
    "data",
    [
        (GREY, list("abcab")),
        (COLOUR, np.array([0, 1, 2, 0, 1])),
        (list(COLOUR), list("abcab")),
        list(zip([*GREY[:2], *COLOUR[2:]], list("abcab"))),
        [[Image.fromarray(it), label] for it, label in zip(COLOUR, "abcab")],
        [(GREY[0][:, :, None], 0), (COLOUR[1], 1)],
    ],
)
def test_images(tmp_path: Path, data: object) -> None:
    expected = list(zip(*data)) if isinstance(data, tuple) else data
    for (pixels, label), (source, target) in zip(read(data, tmp_path), expected, strict=True):
        assert np.array_equal(pixels, read_image(source, 4, 3)) and label == str(target)


def test_paths_may_be_among_them(tmp_path: Path, image, monkeypatch) -> None:
    image("a.png", 9)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    found = read([("a.png", "x"), (GREY[0], "y")], tmp_path / "files")
    assert [label for _, label in found] == ["x", "y"] and set(found[0][0].ravel()) == {9}


def test_recordings(tmp_path: Path, tone) -> None:
    audio = [
        tone(440),
        tone(300).astype(np.float32),
        (tone(200) * 9000).astype(np.int16),
        np.stack([tone(99)] * 2, 1),
    ]
    manifest = write_media([((it, 8000), "said") for it in audio], tmp_path)
    with MediaSource(manifest, DataConfig(), TRANSCRIPTS, "audio") as source:
        for (_, name, said), samples in zip(source, audio, strict=True):
            assert said == "said"
            assert np.abs(read_audio(name, 8000)[0] - read_audio((samples, 8000), 8000)[0]).max() <= 1


def test_texts_and_paths_are_left_alone(tmp_path: Path) -> None:
    for data in ("a.tsv", Path("a.tsv"), [], [("a", "b")], ["a.en", "a.fr"], [{"text": "a"}], np.array(["a"])):
        assert write_media(data, tmp_path) is None
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "data",
    [
        (GREY, list("abc")),
        (GREY, "abcde"),
        (GREY.astype(float), list("abcab")),
        [(GREY[0], "a"), GREY[1]],
        [(GREY[0], "a"), (3, "b")],
        [(GREY[0], None)],
        [(GREY[0], 0.5)],
        [(GREY[0].astype(np.int64), "a")],
        [((np.zeros(0), 8000), "a")],
        [((np.array([np.nan]), 8000), "a")],
        [((np.zeros(9), 0), "a")],
        [((np.zeros(9, np.int32), 8000), "a")],
    ],
)
def test_what_is_wrong_is_a_clear_error(tmp_path: Path, data: object) -> None:
    with pytest.raises(DataError) as caught:
        write_media(data, tmp_path)
    assert caught.value.expected and caught.value.name


def test_relative_paths_become_whole_ones(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    [rows] = as_paths([("x/a.png", "cat"), ("a text", "un texte")])
    first, second = with_whole_paths(rows).decode().splitlines()
    assert str(tmp_path / "x" / "a.png") in first and "a text" in second and str(tmp_path) not in second
