"""Results as JSON; what is said beside them is the business of `messages`."""

import json
from typing import Any

from ..config.values import finite


def to_json(value: Any) -> str:
    """JSON on one line, whose numbers every reader knows: NaN and infinity are null.

    Letters stay letters, but U+0085, U+2028 and U+2029 are escaped, which some readers take for the end of a line.
    """
    text = json.dumps(finite(value), ensure_ascii=False, allow_nan=False)
    return text.translate({code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)})
