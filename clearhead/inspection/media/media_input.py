"""The image or recording that a recorded pass has read, and where each position of the encoder lies in it."""

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...config.front_geometry import SUBSAMPLING, position_seconds
from ...errors import ConfigError
from ...model.fronts.frames import Frames
from ...model.fronts.patches import Patches
from ..record.forward_pass import Pass

_STRETCHES = 50  # parts of a recording to hide in turn, at most


@dataclass(frozen=True)
class ImageInput:
    """An image cut into patches.

    Attributes:
        pixels: from 0 to 255, (H, W, C).
        patch_size: height and width of a patch.
        first: positions before the first patch: 1 if there's a class token.
    """

    pixels: NDArray[np.float64]
    patch_size: int
    first: int

    noun: ClassVar[str] = "image"

    @property
    def across(self) -> int:
        """The patches in a row, and in a column."""
        return len(self.pixels) // self.patch_size

    @property
    def groups(self) -> list[list[int]]:
        """The positions to hide together: one patch each."""
        return [[self.first + number] for number in range(self.across**2)]

    def grid(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Arrange a value for each position in rows and columns, without the class token. (..., S) -> (..., R, R)"""
        return values[..., self.first :].reshape(*values.shape[:-1], self.across, self.across)

    def brightness(self) -> NDArray[np.float64]:
        """Return the mean brightness of each patch, from 0 to 1. -> (R, R)"""
        n, size = self.across, self.patch_size
        return self.pixels.mean(2).reshape(n, size, n, size).mean((1, 3)) / 255

    @property
    def names(self) -> tuple[str, ...]:
        """The place of each position in words, counted from 1: "top left", "row 2, column 5"."""
        last, middle = self.across - 1, self.across // 2
        known = {(row * last, column * last): f"{('top', 'bottom')[row]} {('left', 'right')[column]}"
                 for row in (0, 1) for column in (0, 1) if last}  # fmt: skip
        if self.across % 2 and last:
            known[middle, middle] = "centre"
        places = [divmod(number, self.across) for number in range(self.across**2)]
        found = [known.get((row, column), f"row {row + 1}, column {column + 1}") for row, column in places]
        return ("class token",) * self.first + tuple(found)

    def describe(self) -> str:
        last, size = self.across - 1, self.patch_size
        token = "a class token, then " if self.first else ""
        return f"{token}patches of {size} x {size} pixels, r0c0 to r{last}c{last}"


@dataclass(frozen=True)
class AudioInput:
    """A recording as the frames of a spectrogram.

    Attributes:
        spectrogram: the log-mel spectrogram, (T, M).
        n_positions: positions in the encoder, one for every four frames.
        step: seconds from one position to the next.
    """

    spectrogram: NDArray[np.float64]
    n_positions: int
    step: float

    noun: ClassVar[str] = "recording"

    @property
    def seconds(self) -> float:
        """The length of the recording."""
        return len(self.spectrogram) * self.step / SUBSAMPLING

    @property
    def groups(self) -> list[list[int]]:
        """The positions to hide together, in at most 50 stretches."""
        size = -(-self.n_positions // _STRETCHES)
        return [[*range(n, min(n + size, self.n_positions))] for n in range(0, self.n_positions, size)]

    @property
    def names(self) -> tuple[str, ...]:
        """The time in the middle of each position: "0.12 s"."""
        return tuple(f"{number * self.step:.2f} s" for number in range(self.n_positions))

    def describe(self) -> str:
        return f"positions of {1000 * self.step:.0f} ms, {self.seconds:.2f} seconds in all"


MediaInput: TypeAlias = ImageInput | AudioInput


def front_of(forward: Pass) -> Patches | Frames:
    """Return the front end of a pass. Raise ConfigError if it reads neither images nor audio."""
    front = forward.front
    if not isinstance(front, Patches | Frames):
        what = f"this view needs an image or a recording, and this model's front end is {type(front).__name__}"
        expected = "a model with the front end patches or frames"
        raise ConfigError(what, expected=expected, name="front", value=type(front).__name__)
    return front


def media_input(forward: Pass) -> MediaInput:
    """Return the image or recording that a pass reads. Raise ConfigError if the model reads neither."""
    front, inputs = front_of(forward), forward.inputs[0]
    if isinstance(front, Patches):
        pixels = inputs[0].permute(1, 2, 0).double().numpy(force=True)
        return ImageInput(pixels, front.patch_size, int(front.class_token is not None))
    spectrogram = front.spectrogram(inputs)[0].double().numpy(force=True)
    return AudioInput(spectrogram, len(forward.read), position_seconds(front.sample_rate))
