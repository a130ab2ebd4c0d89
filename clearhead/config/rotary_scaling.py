"""Stretching of rotary positions, so that a model reads texts longer than those it was trained on."""

from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from .setting import require

_FORMS = "none, linear:FACTOR or llama3:FACTOR:LOW:HIGH:LENGTH, such as llama3:8:1:4:8192"
_PARTS = {"linear": 1, "llama3": 4}


@dataclass(frozen=True)
class RotaryScaling:
    """A parsed `model.rotary_scaling`.

    Attributes:
        kind: linear divides all frequencies by `factor` (Chen et al. 2023). llama3 leaves wavelengths below
            `length / high` alone, divides the frequencies of those above `length / low`, and blends between them.
        factor: how much longer texts get.
        low, high: see `kind`.
        length: the context length before stretching, in tokens.
    """

    kind: Literal["none", "linear", "llama3"]
    factor: float = 1.0
    low: float = 1.0
    high: float = 1.0
    length: float = 1.0

    @classmethod
    def parse(cls, text: str) -> "RotaryScaling":
        """Read the setting. Raise ConfigError if it has another form."""
        kind, *parts = text.split(":")
        if kind == "none" and not parts:
            return cls("none")
        try:
            numbers = [float(part) for part in parts]
        except ValueError:
            numbers = []
        name, what = "model.rotary_scaling", "isn't a scaling of rotary positions"
        if kind not in _PARTS or len(numbers) != _PARTS[kind] or not all(0 < it < float("inf") for it in numbers):
            raise ConfigError(f"{name}={text!r} {what}", expected=_FORMS, name=name, value=text)
        found = cls("linear" if kind == "linear" else "llama3", *numbers)
        ordered = kind == "linear" or found.low < found.high
        require(ordered, name, text, "LOW below HIGH", what=what)
        return found

    def __str__(self) -> str:
        numbers = (self.factor, self.low, self.high, self.length)[: _PARTS.get(self.kind, 0)]
        return ":".join((self.kind, *(f"{it:g}" for it in numbers)))
