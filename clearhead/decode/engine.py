"""What an engine is: anything that answers `prefill`, `step` and `select`.

Axes: B live sentences, W beams of each, k candidates of a beam.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from .rules import FloatArray, IntArray


class Decoding(Protocol):
    """A batch under way in an engine: B sources in order, each with the same number W of beams (1 after `prefill`)."""

    def step(self, tokens: IntArray, k: int, also: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Append a token to every beam; log-probabilities and ids of its k likeliest successors, in any order.

        (B, W) -> (B, W, k), (B, W, k); fewer than k where the vocabulary is smaller. `also` (B,) asks for one more
        successor, of every beam of a sentence, which stands in the last column.
        """

    def select(self, sources: IntArray, beams: IntArray) -> None:
        """Keep these sources, in ascending order; beam w of the i-th of them becomes what its beam `beams[i, w]` was.

        (B',), (B', W')
        """


class Engine(Protocol):
    """A model as search sees it."""

    def prefill(self, sources: Sequence[Sequence[int]], steps: int) -> AbstractContextManager[Decoding]:
        """Read B sources, whatever their lengths, to be decoded for at most `steps` steps inside the `with` block."""


class WindowEngine(Engine, Protocol):
    """A model that goes on with texts, which may be longer than what it reads at once.

    Its `prefill` is given each text without the last token, which is the first that `step` is given.
    """

    @property
    def max_len(self) -> int:
        """The most tokens that it reads at once."""

    @property
    def beyond(self) -> str:
        """In words, for people: how a longer text is read."""
