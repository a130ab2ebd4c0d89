"""Images of every kind become 8-bit pixels of one size, and what isn't an image is an error."""

import builtins
import struct
import tracemalloc
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest

from clearhead.errors import ConfigError, DataError
from clearhead.readers.media.images import ImageSize, pixels_of, probe_image, read_image

Image = pytest.importorskip("PIL.Image")


def fails(source: object) -> DataError:
    with pytest.raises(DataError) as caught:
        read_image(source, 4, 1)
    assert caught.value.expected
    return caught.value


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int) -> bytes:
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")) + chunk(b"IEND", b"")


def test_colours_and_greys_are_kept(image) -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    assert np.array_equal(read_image(image("a.png", pixels), 4, 3), pixels.transpose(2, 0, 1))
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4)
    assert np.array_equal(read_image(image("b.png", grey), 4, 1)[0], grey)
    assert np.array_equal(read_image(image("b.png", grey), 4, 3), np.stack([grey] * 3))
    assert probe_image(image("c.png", np.zeros((3, 5, 3), np.uint8))) == ImageSize(3, 5, 3)
    assert probe_image(image("d.png", np.zeros((3, 5), np.uint8))) == ImageSize(3, 5, 1)


def test_16_bits_are_scaled_and_not_clipped(image) -> None:
    values = np.array([[0, 257, 1000], [32768, 65534, 65535], [100, 200, 300]], np.uint16)
    expected = np.round(values / 257).astype(np.uint8)
    assert np.array_equal(read_image(image("a.png", values), 3, 1)[0], expected)
    dark = np.full((3, 3), 200, np.uint16)  # the scale doesn't depend on the values
    assert set(read_image(image("b.png", dark), 3, 1).ravel()) == {1}


def test_a_palette_and_its_transparency_and_that_of_rgba_become_colours_on_white(tmp_path: Path) -> None:
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([10, 20, 30, 200, 0, 0])
    palette.save(tmp_path / "p.png")
    assert read_image(str(tmp_path / "p.png"), 4, 3)[:, 0, 0].tolist() == [10, 20, 30]
    palette.save(tmp_path / "t.png", transparency=0)
    assert read_image(str(tmp_path / "t.png"), 4, 3)[:, 0, 0].tolist() == [255, 255, 255]
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("RGBA", (4, 4), (0, 0, 0, 128)).save(tmp_path / "half.png")
    Image.new("LA", (4, 4), (0, 128)).save(tmp_path / "la.png")
    assert set(read_image(str(tmp_path / "clear.png"), 4, 1).ravel()) == {255}
    assert set(read_image(str(tmp_path / "half.png"), 4, 1).ravel()) == {127}
    assert set(read_image(str(tmp_path / "la.png"), 4, 1).ravel()) == {127}


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg")
    red, green, blue = read_image(str(tmp_path / "a.jpg"), 8, 3)[:, 4, 4]
    assert red > 200 and green < 50 and blue < 50


def test_a_image_is_turned_as_its_exif_data_say(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16), np.uint8)
    pixels[:, :8] = 255  # the left half is white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise by a quarter
    Image.fromarray(pixels).save(tmp_path / "a.jpg", exif=exif, quality=100)
    assert probe_image(str(tmp_path / "a.jpg")) == ImageSize(16, 8, 1)
    found = read_image(str(tmp_path / "a.jpg"), 8, 1)[0]
    assert found[0].min() > 200 and found[-1].max() < 50  # the upper half is white


@pytest.mark.parametrize("name", ["a.gif", "a.png"])
def test_the_first_image_of_an_animation_is_read(tmp_path: Path, name: str) -> None:
    frames = [Image.new("L", (4, 4), value) for value in (255, 0, 100)]
    frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
    assert set(read_image(str(tmp_path / name), 4, 1).ravel()) == {255}


def test_one_pixel_is_enough(image) -> None:
    assert set(read_image(image("a.png", np.full((1, 1), 9, np.uint8)), 4, 1).ravel()) == {9}


def test_the_content_counts_and_not_the_name(image, tmp_path: Path) -> None:
    Path(image("a.png", 9)).rename(tmp_path / "a.jpg")
    assert set(read_image(str(tmp_path / "a.jpg"), 4, 3).ravel()) == {9}


def test_a_huge_image_is_rejected_without_memory(tmp_path: Path) -> None:
    read_image(np.zeros((4, 4), np.uint8), 4, 1)
    tracemalloc.start()
    for width, height in ((40_000, 40_000), (10_001, 10_000)):
        (tmp_path / "a.png").write_bytes(png(width, height))
        assert "100,000,000" in fails(str(tmp_path / "a.png")).expected
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_pillow_s_warning_about_many_pixels_is_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        path.write_bytes(png(9_900, 10_000))
        assert probe_image(str(path)) == ImageSize(10_000, 9_900, 1)
        path.write_bytes(png(12_000, 12_000))
        assert "more than" in fails(str(path)).what
    assert not shown


@pytest.mark.parametrize("content", [b"", b"hello", b"\x89PNG\r\n\x1a\n", png(4, 4)[:40], b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_files_that_are_no_images(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.png").write_bytes(content)
    assert fails(str(tmp_path / "a.png")).name == str(tmp_path / "a.png")


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.gif", "a.bmp", "a.tiff", "a.webp"])
def test_a_truncated_image_is_an_error(image, tmp_path: Path, name: str) -> None:
    path = Path(image(name, np.random.default_rng(0).integers(0, 256, (40, 40, 3)).astype(np.uint8)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    fails(str(path))


def test_what_is_no_file(tmp_path: Path) -> None:
    fails(str(tmp_path / "missing.png"))
    fails(str(tmp_path))
    fails(3)
    fails(None)


def test_floating_point_pixels_have_no_known_range(tmp_path: Path) -> None:
    Image.new("F", (4, 4), 0.5).save(tmp_path / "a.tiff")
    fails(str(tmp_path / "a.tiff"))


def test_32_bit_pixels_have_no_known_range(tmp_path: Path) -> None:
    for name, most in (("a.tif", 255), ("b.tif", 1 << 24)):
        Image.fromarray(np.linspace(0, most, 16, dtype=np.int32).reshape(4, 4)).save(tmp_path / name)
        with pytest.raises(DataError) as caught:
            read_image(str(tmp_path / name), 4, 1)
        assert "32-bit" in caught.value.what


def test_16_bits_have_a_known_range_in_every_format(tmp_path: Path) -> None:
    values = np.linspace(0, 65535, 16).astype(np.uint16).reshape(4, 4)
    for name in ("a.png", "a.tif", "a.pgm"):
        Image.fromarray(values).save(tmp_path / name)
        np.testing.assert_array_equal(read_image(str(tmp_path / name), 4, 1)[0], (values.astype(int) + 128) // 257)


def test_arrays(tmp_path: Path) -> None:
    grey = np.arange(16, dtype=np.uint8).reshape(4, 4)
    for array in (grey, grey[:, :, None], np.stack([grey] * 3, -1)):
        assert np.array_equal(read_image(array, 4, 1)[0], grey)
    assert read_image(np.zeros((9, 5, 4), np.uint8), 4, 3).min() == 255  # nothing but transparency
    for array in (grey.astype(float), grey.astype(np.int64), grey > 3):
        assert "uint8" in fails(array).fix
    for shape in ((4,), (4, 4, 2), (0, 4), (4, 4, 3, 1)):
        assert fails(np.zeros(shape, np.uint8)).value == shape


def test_pillow_images_and_their_files_are_the_same(image) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3)).astype(np.uint8)
    path = image("a.png", pixels)
    with Image.open(path) as opened:
        assert np.array_equal(read_image(opened, 4, 3), read_image(path, 4, 3))
        assert np.array_equal(pixels_of(opened), pixels)


def test_without_pillow_there_is_one_clear_error(monkeypatch, image) -> None:
    path, real = image("a.png"), builtins.__import__

    def missing(name: str, *rest: object) -> object:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ConfigError) as caught:  # a DataError would skip one file after another
        read_image(path, 4, 1)
    assert caught.value.name == "pillow" and "pip install pillow" in caught.value.fix
    assert read_image(np.zeros((4, 4), np.uint8), 4, 1).shape == (1, 4, 4)
