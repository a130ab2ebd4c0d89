"""Lines of input with their locations, the lines of output that answer them, and chunks of lines for a worker."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..input_lines import Place

CAN_FORK = sys.platform == "linux"  # macOS can, too, but its libraries don't survive it


@dataclass(frozen=True)
class Printed:
    """The line of output for one line of input, `notes` for stderr, and whether it `failed`: it contains no answer.

    An answer that the model isn't confident of can be `rejected`. For a row of a table, `cells` are the values of its
    new columns.
    """

    text: str
    notes: tuple[str, ...] = ()
    failed: bool = False
    cells: tuple[Any, ...] = ()
    rejected: bool = False


Answer: TypeAlias = Callable[[Sequence[Place]], list[Printed]]


@dataclass(frozen=True)
class Chunk:
    """Lines that are answered together, their indices in their group, and how many workers they have killed."""

    places: Sequence[Place]
    rows: Sequence[int]
    group: Any
    deaths: int = 0

    def halves(self) -> "list[Chunk]":
        """Return the lines as two chunks, or as one if there's a single line, after another death."""
        middle = (len(self.rows) + 1) // 2
        parts = [part for part in (slice(None, middle), slice(middle, None)) if self.rows[part]]
        return [Chunk(self.places[part], self.rows[part], self.group, self.deaths + 1) for part in parts]
