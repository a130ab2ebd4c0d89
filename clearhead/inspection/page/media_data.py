"""The image or recording that a model read, and where it looked, for the page."""

import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...config.front_geometry import position_seconds
from ...model.fronts.frames import Frames
from ...readers.media.audio import wav_bytes
from ...tokenization.codebook import Codebook
from ..media.media_explanation import MediaExplanation
from ..media.media_input import ImageInput, front_of
from ..media.occlusion import occluded_falls
from ..record.forward_pass import Pass
from .arrays import float_array, shades_array, weights_array


def media_data(explanation: MediaExplanation, forward: Pass) -> dict[str, Any]:
    """Return the input, each head's attention to its positions, rollout, and the drop of all scores when each part is
    hidden.

    Args:
        forward: the pass, of a classifier that of `each_label`.
    """
    place, read = explanation.main_place, explanation.input
    found: dict[str, Any] = {"place": place, "rows": list(explanation.rows(place))}
    if isinstance(read, ImageInput):
        picture = f"data:image/png;base64,{b64encode(png(read.pixels)).decode()}"
        found |= {"kind": "image", "picture": picture, "across": read.across, "first": read.first}
    else:
        samples, front = explanation.forward.inputs[0][0].numpy(force=True), front_of(explanation.forward)
        assert isinstance(front, Frames)
        found |= _audio(read.spectrogram, read.seconds, read.step, samples, front.sample_rate)
    if not explanation.without_weights:
        maps = [explanation.maps(place, layer) for layer in range(explanation.n_layers(place))]
        found |= {"maps": [weights_array(it) for it in maps], "rollout": weights_array(explanation.rollout(place))}
        names, groups = read.names, read.groups
        found["hidden"] = [names[it[0]] if len(it) == 1 else f"{names[it[0]]} to {names[it[-1]]}" for it in groups]
        falls = occluded_falls(forward, groups).T.numpy()
        found |= {"groups": [list(it) for it in groups], "falls": float_array(falls)}
    return found


def spoken_data(codebook: Codebook, ids: Sequence[int]) -> dict[str, Any]:
    """Return the sound of an answer's codes, each of which is a position in time."""
    patches, step = codebook.spectrogram(ids), position_seconds(codebook.sample_rate)
    frames = patches.reshape(-1, patches.shape[-1])
    found = _audio(frames, len(patches) * step, step, codebook.samples(ids), codebook.sample_rate)
    return found | {"names": [f"{n * step:.2f} s" for n in range(len(patches))]}


def _audio(
    spectrogram: NDArray[Any], seconds: float, step: float, samples: NDArray[np.int16], rate: int
) -> dict[str, Any]:
    low, high = spectrogram.min(), spectrogram.max()
    shades = shades_array((spectrogram - low) / max(high - low, 1e-9))
    sound = {"b64": b64encode(wav_bytes(samples, rate)).decode()}
    return {"kind": "audio", "step": step, "seconds": seconds, "spectrogram": shades, "sound": sound}


def png(pixels: NDArray[Any]) -> bytes:
    """Return a PNG image (ISO/IEC 15948) with these pixels, from 0 to 255. (H, W, 1 or 3)"""
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, which is none
    rows[:, 1:] = np.rint(pixels.clip(0, 255)).astype(np.uint8).reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
