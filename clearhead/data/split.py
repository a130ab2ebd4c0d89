"""Hold out some of the data so that no sentence is in both parts, not even with a different spelling."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEWEST, _MOST = 20, 10_000  # minimum number of distinct sources to split, and maximum number to hold out
_BYTES = 16  # digest size; collisions among billions of sentences are very unlikely


@dataclass(frozen=True)
class Split:
    """A mask of the held-out pairs, and a note on their number."""

    held: NDArray[np.bool_]
    note: str


def split(
    sources: Iterable[str],
    share: float,
    seed: int,
    names: tuple[str, str] = ("sources", "translations"),
    item: str = "pair",
) -> Split:
    """Hold out a share of the distinct sources, 10,000 at most, with all their pairs.

    Sources that differ only in case, whitespace or punctuation count as one. The choice depends on the seed and the set
    of sources, not on their order. With fewer than 20 distinct sources, nothing is held out. Each source takes 17 bytes
    of memory.

    Args:
        sources: the source of each pair.
        share: fraction of the distinct sources, at least 0 and below 1.
        seed: decides which ones are held out.
        names: plural names of sources and targets, for the note.
        item: the noun for an example, for the note.
    """
    if share == 0:
        return Split(np.zeros(sum(1 for _ in sources), np.bool_), "nothing held out: data.split is 0")
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
    of = f"{size:,} of {len(distinct):,} distinct {names[0]}, with all their {names[1] if item == 'pair' else 'copies'}"
    n_pairs = int(held.sum())
    note = f"held out {n_pairs:,} {item}{'s' * (n_pairs != 1)}: {of}"
    if size < asked:
        note += f"; a share of {share:g} would be {asked:,}, and {_MOST:,} are enough"
    return Split(held, note)


def n_repeated(texts: Iterable[str], training: Iterable[str]) -> int:
    """Return how many of the texts are also in the training data, apart from case, whitespace and punctuation."""
    keys = [spelling(text) for text in texts]
    wanted = set(keys)
    seen = {key for text in training if (key := spelling(text)) in wanted}
    return sum(key in seen for key in keys)


def spelling(text: str) -> str:
    """Return a key that's equal for texts that differ only in case, whitespace or punctuation."""
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKC", folded)
    return re.sub(r"[\W_]+", "", folded) or folded


def _digest(seed: int, key: str) -> bytes:
    return hashlib.blake2b(f"{seed} {key}".encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
