"""The answers of a task as values of a table."""

import json
import math
from typing import Any

from ...config.values import finite


def plain_value(value: Any) -> Any:
    """Return a value for JSON: of an array, the shortest decimals that give the same float32 numbers."""
    return [float(str(number)) for number in value] if hasattr(value, "dtype") else value


def as_json(value: Any) -> str:
    """Return a value as strict JSON, in which NaN and infinity are null."""
    return json.dumps(finite(plain_value(value)), ensure_ascii=False, allow_nan=False)


def as_cell(value: Any) -> str:
    """Return a value as the text of a cell, "" for None."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else ""
    return "" if value is None else as_json(value)
