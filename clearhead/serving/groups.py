"""Inputs that are answered together."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..errors import ClearheadError
from .waiting_rows import OnPiece


class Group(Protocol):
    """Inputs with the same work that are being answered. Only the thread of a `Batcher` uses it."""

    def __len__(self) -> int: ...

    def has_room(self) -> bool:
        """Return whether another input may join now."""

    def add(self, value: Any, on_piece: OnPiece | None) -> int:
        """Let an input join, and return its number. Raise ClearheadError if it can't be read.

        Args:
            value: the input.
            on_piece: called with each piece of the answer.
        """

    def drop(self, number: int) -> None:
        """Give up an input."""

    def step(self) -> list[tuple[int, Any]]:
        """Compute for a while, and return the numbers and answers, or exceptions, of those that are done."""

    def close(self) -> None:
        """Give up all inputs."""


class AtOnce:
    """A group whose inputs are all answered in one step.

    Args:
        run: returns the answers to some inputs, in the same order.
        most: maximum number of inputs at a time.
    """

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], *, most: int) -> None:
        self._run, self._most, self._next = run, most, 0
        self._inputs: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self._inputs)

    def has_room(self) -> bool:
        """Return whether another input may join now."""
        return len(self._inputs) < self._most

    def add(self, value: Any, on_piece: OnPiece | None) -> int:
        """Let an input join, and return its number. There are no pieces."""
        self._next += 1
        self._inputs[self._next] = value
        return self._next

    def drop(self, number: int) -> None:
        """Give up an input."""
        self._inputs.pop(number, None)

    def step(self) -> list[tuple[int, Any]]:
        """Answer all inputs. One that can't be answered fails no other."""
        inputs, self._inputs = self._inputs, {}
        return list(zip(inputs, self._answers(list(inputs.values())), strict=True))

    def _answers(self, inputs: list[Any]) -> list[Any]:
        try:
            return list(self._run(inputs))
        except ClearheadError as error:
            if len(inputs) == 1:
                return [error]
            return [answer for value in inputs for answer in self._answers([value])]

    def close(self) -> None:
        """Give up all inputs."""
        self._inputs.clear()
