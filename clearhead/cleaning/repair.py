"""Undo faults that can be undone with certainty: swapped sides, shifted targets and wrong decoding."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from .text_faults import restored

SWAPPED, SHIFTED, ENCODING = "swapped", "shifted", "encoding"


def repaired(
    part: Sequence[tuple[int, str, str]], faults: Mapping[int, Collection[str]], partners: Mapping[int, int]
) -> dict[int, tuple[str, str]]:
    """Return the repaired source and target of each example that can be repaired, by its index.

    A shifted source gets the target that it belongs to, unless another source claims it, too. The result may have
    other faults.

    Args:
        part: the line, source and target of each example.
        faults: the kinds of faults of each faulty example.
        partners: the examples that have the targets of shifted ones.
    """
    claims = Counter(partners.values())
    free = {place for place, kinds in faults.items() if not {SHIFTED, "mismatched"}.isdisjoint(kinds)}
    found = dict[int, tuple[str, str]]()
    for place, kinds in faults.items():
        _, source, target = part[place]
        if SHIFTED in kinds:
            partner = partners.get(place)
            if partner not in free or claims[partner] > 1:
                continue
            target = part[partner][2]
        elif SWAPPED in kinds:
            source, target = target, source
        elif ENCODING not in kinds:
            continue
        pair = restored(source), restored(target)
        if pair != part[place][1:]:
            found[place] = pair
    return found
