"""Where attention happens, and what one sees there."""

from collections.abc import Mapping
from types import MappingProxyType

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "encoder.self": "how each token that is read looks at the others",
        "decoder.self": "how each token of the output so far looks at those before it",
        "decoder.cross": "how each output token, while it is chosen, looks at the source",
    }
)
