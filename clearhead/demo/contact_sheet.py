"""Many small grey images in one PNG file, written without an imaging library."""

import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_GAP = 2  # pixels between two images


def contact_sheet(rows: Sequence[NDArray[np.uint8]]) -> bytes:
    """Return a PNG file with rows of images of one size: each row is (N, H, W)."""
    edge = ((0, 0), (0, _GAP), (0, _GAP))
    strips = [np.concatenate(list(np.pad(row, edge, constant_values=255)), 1) for row in rows]
    return png(np.concatenate(strips)[:-_GAP, :-_GAP])


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a grey image (H, W) as a PNG file (ISO/IEC 15948)."""
    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits, grey, not interlaced
    lines = np.pad(pixels, ((0, 0), (1, 0)))  # each line begins with the number of its filter: 0, none
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
