"""The kinds of media that tasks read: their default settings, those that the data suggest, and how a file is read."""

from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar

from ..config import Config
from ..config.front_geometry import image_positions, usual_patch_size
from ..config.values import require
from ..data.corpus import SpacedTexts
from ..data.media_encoding import AudioLoader, ImageLoader
from ..errors import DataError
from ..readers.media.audio import probe_audio
from ..readers.media.images import probe_image

_PROBED = 300  # files that decide the size of all
_LARGEST, _FASTEST = 64, 16_000  # defaults: pixels, and samples per second
_DEFAULTS = {"model.pre_norm": True, "model.feed_forward": "gelu"}


class Recordings:
    """Recordings, which the front end `frames` reads. Their positions are 40 ms long.

    Args:
        side: where a pair has the recording: 1 for its source, 2 for its target.
    """

    def __init__(self, side: int = 1) -> None:
        self.side = side

    defaults: ClassVar[Mapping[str, Any]] = {
        **_DEFAULTS,
        "model.front": "frames",
        "model.augment": ("spec_augment=0.2", "speed=0.1"),
    }

    def derived(self, config: Config) -> dict[str, Any]:
        """Return model.max_len for the longest recording at its slowest.

        Raises:
            ConfigError: the user's model.max_len is too small for any recording.
        """
        usual, fits = _slowest(config.data.max_len, config), self.longest(config)[0] >= 1
        expected, what = f"at least {_slowest(1, config)}, and by default {usual}", "is too small for a recording"
        given = config.is_users("model.max_len")
        require(fits or not given, "model.max_len", config.model.max_len, expected, what=what)
        return {"model.max_len": usual}

    def from_data(self, data: Any, config: Config) -> dict[str, Any]:
        """Return the most frequent sample rate of some recordings, at most 16,000, unless it's set already."""
        if config.model.sample_rate is not None:
            return {}
        rates = [info.sample_rate for info in _probed(data, probe_audio, self.side)]
        return {"model.sample_rate": min(max(set(rates), key=lambda it: (rates.count(it), it)), _FASTEST)}

    def seconds(self, data: Any) -> float:
        """Return the length of the longest of some recordings."""
        return max(info.n_samples / info.sample_rate for info in _probed(data, probe_audio, self.side))

    def longest(self, config: Config) -> tuple[int, str]:
        """Return the maximum positions of a recording that fits into the model even at its slowest, and the setting."""
        most = int((config.model.max_len - 1) * (1 - config.model.augmentation["speed"]) + 1e-6)
        fitting = most if _slowest(most, config) <= config.model.max_len else most - 1
        return min((config.data.max_len, "data.max_len"), (fitting, "model.max_len"))

    def loader(self, config: Config) -> AudioLoader:
        return AudioLoader(config.model.size("sample_rate"), self.longest(config)[0])


class Images:
    """Images, which the front end `patches` reads. Their positions follow from their size."""

    defaults: ClassVar[Mapping[str, Any]] = {
        **_DEFAULTS,
        "model.front": "patches",
        "model.positions": "sinusoidal_2d",
        "model.augment": ("shift=2",),
    }

    def derived(self, config: Config) -> dict[str, Any]:
        """Return nothing: the sizes depend on the data."""
        return {}

    def from_data(self, data: Any, config: Config) -> dict[str, Any]:
        """Return the size and the channels of images, the size of a patch, and the positions that these make.

        Raises:
            ConfigError: the user's data.batch_tokens is too small for one image.
        """
        model = config.model
        size, channels, begins = model.image_size, model.image_channels, model.pooling == "first"
        if size is None or channels is None:
            usual, colours = _image_size(data)
            size, channels = size or usual, channels or colours
        patch = model.patch_size or usual_patch_size(size)
        longest = image_positions(size, patch, class_token=begins)
        n_patches, more = image_positions(size, patch, class_token=False), " and a class token" * begins
        what = f"an image of {size} x {size} pixels, which is {n_patches:,} patches of {patch} x {patch}{more}"
        config.data.expect_room(longest, what, "set a larger model.patch_size to make fewer patches")
        found = {"image_size": size, "image_channels": channels, "patch_size": patch, "max_len": longest}
        return {f"model.{name}": value for name, value in found.items()} | {"data.max_len": longest}

    def longest(self, config: Config) -> tuple[int, str]:
        """Return the positions of every image, and the setting."""
        return config.model.max_len, "model.max_len"

    def loader(self, config: Config) -> ImageLoader:
        size, channels, patch = map(config.model.size, ("image_size", "image_channels", "patch_size"))
        return ImageLoader(size, channels, patch, config.model.pooling == "first")


def _slowest(n_positions: int, config: Config) -> int:
    """Return the positions that a recording may take once it's slowed down, which may be rounded up twice."""
    return int(n_positions / (1 - config.model.augmentation["speed"])) + 2


def _image_size(data: Any) -> tuple[int, int]:
    """Return the size of all images, if they're small squares of one size, or 64; and whether any has colours."""
    found = _probed(data, probe_image)
    shapes = {(it.height, it.width) for it in found}
    height, width = next(iter(shapes))
    same = len(shapes) == 1 and height == width and height <= _LARGEST
    return height if same else _LARGEST, max(it.channels for it in found)


def _probed(data: Any, probe: Any, side: int = 1) -> list[Any]:
    """Return the sizes of some files, spread evenly over the data. Raise the last error if none can be read."""
    found, last = list[Any](), None
    for name in SpacedTexts(data, _PROBED, itemgetter(side)):
        try:
            found.append(probe(name))
        except DataError as error:
            last = error
    if not found:
        raise last or DataError("there are no files to train on")
    return found
