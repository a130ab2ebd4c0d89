"""Read pictures as arrays of 8-bit pixels, resized to one size."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError
from .array_files import read_array, split_item

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
_MOST = 100_000_000  # pixels of a picture; more may be a decompression bomb
_ARRAY_TYPES = "a (H, W) or (H, W, C) array of 8-bit pixels"


class ImageSize(NamedTuple):
    """The size of a picture: pixels, and 1 channel for grey or 3 for colour."""

    height: int
    width: int
    channels: int


def probe_image(source: Any) -> ImageSize:
    """Return the size of a picture without reading its pixels.

    Raises:
        DataError: it isn't a picture.
    """
    if (array := _as_array(source)) is not None:
        return ImageSize(array.shape[0], array.shape[1], 1 if array.ndim == 2 or array.shape[2] == 1 else 3)
    with _Opened(source) as image:
        grey = image.mode in ("1", "L", "LA", "F") or image.mode.startswith("I")
        return ImageSize(image.height, image.width, 1 if grey else 3)


def read_image(source: Any, size: int, channels: int) -> NDArray[np.uint8]:
    """Read a picture and squeeze or stretch it to a square. -> (C, size, size)

    The first picture of an animation is read. Transparent parts become white, 16-bit greys become 8-bit ones.

    Args:
        source: a path, the name of an item in an array file, an array (H, W) or (H, W, C), or a Pillow image.
        size: height and width of the result.
        channels: 1 for grey, 3 for colour.

    Raises:
        DataError: it isn't a picture, is damaged, or has more than 100 million pixels.
    """
    array = _as_array(source)
    if array is not None and array.shape[:2] == (size, size) and array.ndim == 2 and channels == 1:
        return np.ascontiguousarray(array[None])
    if array is not None:
        return _finished(_image_module().fromarray(array if array.ndim == 2 else _squeezed(array)), size, channels)
    with _Opened(source) as image:
        try:
            image.load()
        except Exception as error:  # Pillow's decoders raise errors of many types
            raise DataError(f"{_name(source)} is damaged: {error}", name=_name(source)) from error
        return _finished(image, size, channels)


class _Opened:
    """A Pillow image, open inside the `with` block, whose size has been checked."""

    def __init__(self, source: Any) -> None:
        self.source, self.image = source, source

    def __enter__(self) -> "Image":
        module, name = _image_module(), _name(self.source)
        if isinstance(self.source, module.Image):
            return self.source
        if not Path(self.source).exists():
            raise DataError(f"{name} doesn't exist", expected="a picture", name=name)
        if not Path(self.source).is_file():
            raise DataError(f"{name} isn't a file", expected="a picture", name=name)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self.image = module.open(self.source)
        except (module.DecompressionBombWarning, module.DecompressionBombError) as error:
            raise _too_large(name) from error
        except Exception as error:
            if not Path(self.source).stat().st_size:
                raise DataError(f"{name} is empty", expected="a picture", name=name) from error
            raise DataError(
                f"{name} isn't a picture that Pillow can read", expected="PNG or JPEG", name=name
            ) from error
        if self.image.width * self.image.height > _MOST:
            self.image.close()
            raise _too_large(name)
        image: Image = self.image
        return image

    def __exit__(self, *_: object) -> None:
        if self.image is not self.source:
            self.image.close()


def _finished(image: "Image", size: int, channels: int) -> NDArray[np.uint8]:
    from PIL import ImageOps

    module = _image_module()
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I") or image.mode == "F":  # 16 or 32 bits, which `convert` would clip at 255
        values = np.asarray(image, np.float64)
        image = module.fromarray((values / (257 if values.max(initial=0) > 255 else 1)).clip(0, 255).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = module.new("RGBA", image.size, "white")
        image = module.alpha_composite(white, image)
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (size, size):
        image = image.resize((size, size), module.Resampling.BILINEAR)
    pixels = np.asarray(image, np.uint8)
    return pixels[None] if channels == 1 else np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _as_array(source: Any) -> NDArray[np.uint8] | None:
    """Return the pixels of an array or of an item in an array file; None for other sources."""
    if isinstance(source, str) and (item := split_item(source)) is not None:
        path, index = item
        array = read_array(path)
        if array.ndim < 3 or index >= len(array):
            raise DataError(
                f"{source} isn't a picture in an array of shape {array.shape}", expected="(N, H, W[, C])", name=source
            )
        source = array[index]
    if not isinstance(source, np.ndarray):
        return None
    if source.dtype != np.uint8 or source.ndim not in (2, 3) or 0 in source.shape:
        raise DataError(
            f"an array of shape {source.shape} and type {source.dtype} isn't a picture", expected=_ARRAY_TYPES
        )
    if source.ndim == 3 and source.shape[2] not in (1, 3, 4):
        raise DataError(f"an array of shape {source.shape} isn't a picture", expected=_ARRAY_TYPES)
    return source


def _squeezed(array: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return array[:, :, 0] if array.shape[2] == 1 else array


def _too_large(name: str) -> DataError:
    return DataError(f"{name} is too large", expected=f"at most {_MOST:,} pixels", name=name)


def _name(source: Any) -> str:
    return str(source) if isinstance(source, str | Path) else f"the {type(source).__name__}"


def _image_module() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError("reading pictures needs Pillow", fix="pip install 'clearhead[images]'") from error
    return Image
