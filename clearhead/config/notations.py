"""Parse the settings with special notation: `model.augment`, `model.rotary` and `train.adapter`."""

from typing import NamedTuple

from ..errors import ConfigError
from .values import require, spell

IMAGES, AUDIO = ("shift", "flip", "crop"), ("spec_augment", "speed")
OFF = {"shift": 0, "flip": False, "crop": 1.0, "spec_augment": 0.0, "speed": 0.0}  # values without an effect
_AUGMENTATIONS = "shift=PIXELS, flip, crop=SHARE (above 0, at most 1), spec_augment=SHARE or speed=SHARE (below 1)"


def augmentation(items: tuple[str, ...]) -> dict[str, float]:
    """Return the value of each augmentation. Those that aren't among the items, such as "shift=2", are off.

    Raises:
        ConfigError: an item has another form.
    """
    found: dict[str, float] = dict(OFF)
    for item in items:
        name, _, number = item.partition("=")
        try:
            value = True if item == "flip" else int(number) if name == "shift" else float(number)
        except ValueError:
            value = -1.0
        fits = (0 < value <= 1) if name == "crop" else value >= 0 and (value < 1 or name in ("shift", "flip"))
        if name not in OFF or not fits or (name == "flip" and item != name):
            what = f"model.augment={item!r} isn't an augmentation"
            raise ConfigError(what, expected=_AUGMENTATIONS, name="model.augment", value=items)
        found[name] = value
    return found


_FORMS = "BASE, BASE:linear:FACTOR, BASE:llama3:FACTOR:LOW:HIGH:LENGTH such as 500000:llama3:8:1:4:8192, or "
_FORMS += "BASE:yarn:FACTOR:SHORT:LONG"
_NUMBERS = {"none": 0, "linear": 1, "yarn": 3, "llama3": 4}


class RotaryWavelengths(NamedTuple):
    """The wavelengths of rotary positions.

    Attributes:
        base: their base.
        kind: what stretches them: none, linear, llama3 or yarn.
        scaling: the numbers of the scaling; their count determines its kind (see `stretched`).
    """

    base: float = 10_000.0
    kind: str = "none"
    scaling: tuple[float, ...] = ()

    def __str__(self) -> str:
        kind = [] if self.kind == "none" else [self.kind]
        base, *numbers = (int(it) if float(it).is_integer() else it for it in (self.base, *self.scaling))
        return ":".join(map(str, (base, *kind, *numbers)))


def read_rotary(text: str) -> RotaryWavelengths:
    """Return the wavelengths that the setting describes. Raise ConfigError if it has another form."""
    base, *stretching = text.split(":")
    kind, *parts = stretching or ["none"]
    try:
        found = RotaryWavelengths(float(base), kind, tuple(float(part) for part in parts))
    except ValueError:
        found = RotaryWavelengths(0.0)
    name, what = "model.rotary", "isn't a description of rotary positions"
    positive = found.base > 1 and all(0 < it < float("inf") for it in (found.base, *found.scaling))
    if not positive or len(found.scaling) != _NUMBERS.get(kind, -1) or stretching == ["none"]:
        raise ConfigError(f"{name}={text!r} {what}", expected=_FORMS, name=name, value=text)
    numbers = found.scaling
    require(kind != "llama3" or numbers[1] < numbers[2], name, text, "LOW below HIGH", what=what)
    require(kind != "yarn" or numbers[1] < numbers[2], name, text, "SHORT below LONG", what=what)
    return found


class LoraShape(NamedTuple):
    """The shape of an adapter.

    Attributes:
        rank: the rank of its updates, or None for the default.
        alpha: the updates are multiplied by alpha / rank. None is twice the rank.
        targets: the layers that it updates, or () for the default.
    """

    rank: int | None = None
    alpha: float | None = None
    targets: tuple[str, ...] = ()


def read_adapter(items: tuple[str, ...]) -> LoraShape | None:
    """Return the shape that the items of the setting describe, such as "lora" and "rank=8", or None without items.

    Raises:
        ConfigError: an item has another form.
    """
    if not items:
        return None
    kind, *more = items
    pairs = [item.partition("=")[::2] for item in more if "=" in item]
    values = dict(pairs)
    repeated = len(values) < len(pairs)
    try:
        rank = int(values.pop("rank")) if "rank" in values else None
        alpha = float(values.pop("alpha")) if "alpha" in values else None
    except ValueError:
        rank, alpha = 0, None
    positive = (rank is None or rank > 0) and (alpha is None or 0 < alpha < float("inf"))
    if kind != "lora" or values or repeated or not positive or "" in more:
        what, expected = f"train.adapter={spell(items)} isn't an adapter", "lora, or lora,rank=8,alpha=16,attention"
        raise ConfigError(what, expected=expected, name="train.adapter", value=items)
    return LoraShape(rank, alpha, tuple(item for item in more if "=" not in item))
