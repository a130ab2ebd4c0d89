"""Read `model.rotary_scaling`, which stretches rotary positions for texts longer than those in training."""

from ..errors import ConfigError
from .setting import require

_FORMS = "none, linear:FACTOR, llama3:FACTOR:LOW:HIGH:LENGTH such as llama3:8:1:4:8192, or yarn:FACTOR:SHORT:LONG"
_NUMBERS = {"none": 0, "linear": 1, "yarn": 3, "llama3": 4}


def rotary_scaling(text: str) -> tuple[float, ...]:
    """Return the numbers of the setting, which `Rotary` takes. Their count is that of the kind: see `stretched`.

    Raises:
        ConfigError: the setting has another form.
    """
    kind, *parts = text.split(":")
    try:
        numbers = tuple(float(part) for part in parts)
    except ValueError:
        numbers = (0.0,)
    name, what = "model.rotary_scaling", "isn't a scaling of rotary positions"
    if len(numbers) != _NUMBERS.get(kind, -1) or not all(0 < it < float("inf") for it in numbers):
        raise ConfigError(f"{name}={text!r} {what}", expected=_FORMS, name=name, value=text)
    require(kind != "llama3" or numbers[1] < numbers[2], name, text, "LOW below HIGH", what=what)
    require(kind != "yarn" or numbers[1] < numbers[2], name, text, "SHORT below LONG", what=what)
    return numbers
