"""Read images as arrays of 8-bit pixels, resized to one size."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError, DataError
from ...folder.archive import display_name
from .array_files import read_item, split_item
from .media_files import expect_file

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # whatever the name says; others may run programs
MOST_PIXELS = 100_000_000  # of an image; more may be a decompression bomb
_SIDEWAYS = (5, 6, 7, 8)  # orientations in EXIF data that exchange height and width
_16_BITS = ("PNG", "PPM")  # formats whose integers have at most 16 bits, though Pillow may keep them in 32
_ORIENTATION = 0x0112  # the key of the orientation
_ARRAY = "8-bit pixels, as a uint8 array of shape (H, W), (H, W, 1), (H, W, 3) or (H, W, 4)"


class ImageSize(NamedTuple):
    """The size of an image: pixels, and 1 channel for grey or 3 for colour."""

    height: int
    width: int
    channels: int


def probe_image(source: Any) -> ImageSize:
    """Return the size of an image without reading its pixels. Raise DataError if it isn't an image, or is too large."""
    if (array := _as_array(source)) is not None:
        return ImageSize(array.shape[0], array.shape[1], 1 if array.ndim == 2 or array.shape[2] == 1 else 3)
    with _opened(source) as image:
        grey = image.mode in ("1", "L", "LA") or image.mode.startswith("I")
        sides = (image.height, image.width)
        # Pillow would decode a PNG file to look for its EXIF data
        sideways = image.format != "PNG" and image.getexif().get(_ORIENTATION) in _SIDEWAYS
        height, width = reversed(sides) if sideways else sides
        return ImageSize(height, width, 1 if grey else 3)


def read_image(source: Any, size: int, channels: int) -> NDArray[np.uint8]:
    """Read an image and squeeze or stretch it to a square. -> (C, size, size)

    It's turned as its EXIF data say. The first image of an animation is read. Transparent parts become white, and
    16-bit values are scaled to 8 bits.

    Args:
        source: a path, the name of an item in an array file, an array (H, W) or (H, W, C), or a Pillow image.
        size: height and width of the result.
        channels: 1 for grey, 3 for colour.

    Raises:
        DataError: it isn't an image, is damaged, or has more than 100 million pixels.
        ConfigError: Pillow isn't installed.
    """
    array = _as_array(source)
    if array is not None and array.shape[:2] == (size, size) and array.ndim == 2 and channels == 1:
        return np.ascontiguousarray(array[None])  # needs no Pillow
    if array is not None:
        array = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
        return _finished(_pillow().fromarray(np.ascontiguousarray(array)), size, channels)
    with _opened(source) as image:
        if image is not source:
            image.draft(None, (2 * size, 2 * size))  # decode a large JPEG at a lower resolution, which is faster
        return _finished(image, size, channels)


def pixels_of(image: Any) -> NDArray[np.uint8]:
    """Return all pixels of a Pillow image, grey or in colour. -> (H, W) or (H, W, 3)

    Raises:
        DataError: it's damaged, or too large.
    """
    with _opened(image):
        plain = _plain(image)
        return np.asarray(plain.convert("L" if plain.mode in ("1", "L") else "RGB"), np.uint8)


def is_image(value: Any) -> bool:
    """Return whether a value is a Pillow image. Pillow isn't imported for that."""
    return any(it.__module__ == "PIL.Image" and it.__name__ == "Image" for it in type(value).__mro__)


@contextmanager
def _opened(source: Any) -> "Iterator[Image]":
    """Open an image and check its size. Errors of Pillow's decoders inside the block become a DataError."""
    name = _name(source)
    image = source if is_image(source) else _open(source, name)
    try:
        if image.width * image.height > MOST_PIXELS:
            raise _too_large(name)
        try:
            yield image
        except (DataError, ConfigError):
            raise
        except Exception as error:  # the decoders raise errors of many types
            what = f"{name} can't be read as an image: {error}"
            raise DataError(what, expected="a complete image", name=name) from error
    finally:
        if image is not source:
            image.close()


def _open(source: Any, name: str) -> "Image":
    if not isinstance(source, str | Path):
        what = f"a value of type {type(source).__name__} isn't an image"
        raise DataError(what, expected="a path, a Pillow image, or a uint8 array", value=source)
    module = _pillow()
    expect_file(str(source), "an image file")
    _silence(module.DecompressionBombWarning)
    try:
        image: Image = module.open(source, formats=_FORMATS)
    except (module.DecompressionBombWarning, module.DecompressionBombError) as error:
        raise _too_large(name) from error
    except Exception as error:
        raise DataError(
            f"{name} isn't an image", expected=f"{', '.join(_FORMATS[:-1])} or {_FORMATS[-1]}", name=name
        ) from error
    return image


def _silence(kind: type[Warning]) -> None:
    """Ignore Pillow's warning about many pixels, since `_opened` checks them. It comes from several threads, which
    `warnings.catch_warnings` doesn't support."""
    if not any(it[2] is kind for it in warnings.filters):
        warnings.filterwarnings("ignore", category=kind)


def _finished(image: "Image", size: int, channels: int) -> NDArray[np.uint8]:
    image = _plain(image).convert("L" if channels == 1 else "RGB")
    if image.size != (size, size):
        image = image.resize((size, size), _pillow().Resampling.BILINEAR)
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _plain(image: "Image") -> "Image":
    """Return an image turned upright, with 8 bits a channel, on white."""
    from PIL import ImageOps

    module, has_16_bits = _pillow(), image.mode.startswith("I;16") or image.format in _16_BITS
    image = ImageOps.exif_transpose(image)
    if image.mode == "F" or (image.mode.startswith("I") and not has_16_bits):
        kind = "floating-point" if image.mode == "F" else "32-bit"
        raise ValueError(f"its pixels are {kind} numbers, whose range is unknown; convert them to 8 bits")
    if image.mode.startswith("I"):  # 16 bits, which `convert` would clip at 255
        values = np.asarray(image).astype(np.int64).clip(0, 65535)
        return module.fromarray(((values + 128) // 257).astype(np.uint8))
    if image.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        return module.alpha_composite(module.new("RGBA", image.size, "white"), image).convert("RGB")
    return image


def _as_array(source: Any) -> NDArray[np.uint8] | None:
    """Return the pixels of an array or of an item in an array file; None for other sources."""
    name = "the array"
    if isinstance(source, str) and split_item(source) is not None:
        name, source = source, read_item(source)
    return checked_pixels(source, name) if isinstance(source, np.ndarray) else None


def checked_pixels(array: NDArray[Any], name: str = "the array") -> NDArray[np.uint8]:
    """Return an array that is one image. Raise DataError if it has another shape or type."""
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if array.dtype == np.uint8 and fits and array.size:
        return array
    fix = ""
    if fits and array.dtype.kind in "fbiu" and array.dtype != np.uint8:
        fix = "convert it: from 0 to 1, (255 * x).round().astype(np.uint8); from 0 to 255, x.astype(np.uint8)"
    what = f"{name} has shape {array.shape} and type {array.dtype}"
    raise DataError(what, expected=_ARRAY, fix=fix, name=name, value=array.shape)


def _too_large(name: str) -> DataError:
    what = f"{name} has more than {MOST_PIXELS:,} pixels"
    return DataError(what, expected=f"at most {MOST_PIXELS:,} pixels", name=name)


def _name(source: Any) -> str:
    return display_name(source) if isinstance(source, str | Path) else "the image"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ConfigError("reading images needs Pillow", fix="install it: pip install pillow", name="pillow") from error
    return Image
