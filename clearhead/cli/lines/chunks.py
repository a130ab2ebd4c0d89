"""Chunks of lines, the work of a worker process."""

import sys
from collections.abc import Sequence
from typing import Any

from .printed import Place

CAN_FORK = sys.platform == "linux"  # macOS can, too, but its libraries don't survive it


class Chunk:
    """Lines that are answered together.

    Args:
        places: the lines.
        rows: their indices in the group.
        group: the group that they belong to.
        deaths: how many workers have died of them.
    """

    def __init__(self, places: Sequence[Place], rows: Sequence[int], group: Any, deaths: int = 0) -> None:
        self.places, self.rows, self.group, self.deaths = places, rows, group, deaths

    def halves(self) -> "list[Chunk]":
        """Return the lines as two chunks, or as one if there's a single line, after another death."""
        middle = (len(self.rows) + 1) // 2
        parts = [part for part in (slice(None, middle), slice(middle, None)) if self.rows[part]]
        return [Chunk(self.places[part], self.rows[part], self.group, self.deaths + 1) for part in parts]
