"""Origins of setting values, and their precedence.

A run starts from the user's settings and fills in the rest in several steps. Each step records its own origin
and never replaces a value that has a stronger one. From weakest to strongest:

default    the value in the source code
preset     the model size, train.preset
data       the size and content of the training data
budget     the time limit, train.budget
machine    the speed and number of cores of this machine
task       the requirements and defaults of train.task
family     the published model that train.preset names, such as gpt2
model      the trained model named by train.init_from
user       the command line, a configuration file or a call
unknown    a model folder written before origins were recorded
"""

from collections.abc import Mapping
from typing import Literal, get_args

from .values import spell

Origin = Literal["default", "preset", "data", "budget", "machine", "task", "family", "model", "user", "unknown"]
Origins = Mapping[str, Origin]  # of the settings whose origin isn't "default", by dotted name

_STRENGTH: dict[str, int] = {origin: rank for rank, origin in enumerate(get_args(Origin))}


def may_replace(new: Origin, old: Origin) -> bool:
    """Return whether a value with origin `new` may replace one with origin `old`: True unless `old` is stronger."""
    return _STRENGTH[new] >= _STRENGTH[old]


def is_origin(value: object) -> bool:
    """Return whether `value` is the name of an origin."""
    return isinstance(value, str) and value in _STRENGTH


def render_sources(by_origin: Mapping[Origin, Mapping[str, object]]) -> str:
    """Return a table of settings grouped by origin, with one row for each origin."""
    labels: dict[Origin, str] = {"user": "you", "model": "train.init_from", "unknown": "not recorded"}
    rows = []
    for origin, values in by_origin.items():
        row = ", ".join(f"{name}={spell(value)}" for name, value in values.items())
        rows.append(f"{labels.get(origin, origin):<16}{row}")
    return "\n".join(rows)
