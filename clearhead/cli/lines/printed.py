"""Lines of input with their locations, and the lines of output that answer them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..input_lines import Line

Place: TypeAlias = tuple[str, Line]  # the location of a text, for messages, and the text


@dataclass(frozen=True)
class Printed:
    """The line of output for one line of input.

    Attributes:
        text: the line, without its end.
        notes: messages for stderr.
        failed: whether it contains no answer.
    """

    text: str
    notes: tuple[str, ...] = ()
    failed: bool = False


Answer: TypeAlias = Callable[[Sequence[Place]], list[Printed]]
