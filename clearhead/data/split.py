"""A part of the data held out such that no sentence of it is trained on, not even in another spelling."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST, _MOST = 20, 10_000  # distinct sources that a split needs, and that it holds out: more measure no better
_BYTES = 16  # of a digest: two of billions of sentences do not share one


@dataclass(frozen=True)
class Split:
    """Of each pair, in their order, whether it is held out; and that in words."""

    held: NDArray[np.bool_]
    note: str


def split(
    sources: Iterable[str], share: float, seed: int, names: tuple[str, str] = ("sources", "translations")
) -> Split:
    """Hold out `share` of the distinct sources, 10,000 at most, with all their pairs; in memory one takes 17 bytes.

    Sources that differ only in case, white space or punctuation count as one and stay on one side.
    The choice depends on the seed and the set of sources, not on their order. Too few sources: nothing is held out.
    `names` are those of the two sides, for the words.
    """
    if share == 0:
        return Split(np.zeros(sum(1 for _ in sources), np.bool_), "nothing held out: no share is asked for")
    packed = bytearray()
    for source in sources:
        packed += _digest(seed, spelling(source))
    digests = np.frombuffer(packed, f"S{_BYTES}")
    distinct = np.unique(digests)
    if len(distinct) < FEWEST:
        note = f"nothing held out: only {len(distinct)} distinct {names[0]}, fewer than {FEWEST}"
        return Split(np.zeros(len(digests), np.bool_), note)
    asked = min(max(1, round(share * len(distinct))), len(distinct) - 1)
    size = min(asked, _MOST)
    held = digests <= distinct[size - 1]
    of = f"{size:,} of {len(distinct):,} distinct {names[0]}, with all their {names[1]}"
    n_pairs = int(held.sum())
    note = f"held out {n_pairs:,} pair{'s' * (n_pairs != 1)}: {of}"
    if size < asked:
        note += f"; a share of {share:g} would be {asked:,}, and {_MOST:,} are enough"
    return Split(held, note)


def spelling(text: str) -> str:
    """What two texts have in common that differ only in case, white space or punctuation."""
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded)
    return re.sub(r"[\W_]+", "", folded) or folded


def _digest(seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{seed} {key}".encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
