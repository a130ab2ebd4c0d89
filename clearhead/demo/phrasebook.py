"""The demo's English-French phrasebook: sentences from a small grammar, their split, and everyday sentences.

`python -m clearhead.demo.phrasebook --sample 200 --seed 1` prints tab-separated sample pairs.
"""

import argparse
import bz2
import hashlib
import random
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

FILE = Path(__file__).with_name("phrasebook.tsv.bz2")  # English, French, lemmas; made by tools/phrasebook
_EVERYDAY = Path(__file__).with_name("everyday.tsv")  # English, French; written by hand

# A pair of content words can be held out if it makes up at most one in twenty uses of each word.
_LEANS = 20
_SHARE = 45  # one in this many such pairs is held out
_SEEN = 20  # minimum number of training sentences with each word of a held-out sentence


@dataclass(frozen=True, slots=True)
class Phrase:
    """A sentence in both languages; `content` are the lemmas of its English content words."""

    english: str
    french: str
    content: tuple[str, ...]


def phrases() -> list[Phrase]:
    """Return every sentence of the grammar in a fixed order. No English sentence occurs twice."""
    return list(_phrases())


def everyday() -> list[Phrase]:
    """Return greetings and other everyday sentences, which have no content words and are never held out.

    Each is also spelled without its capital, without its final mark, and without both, since people type it like this.
    """
    found: dict[str, str] = {}
    for line in _EVERYDAY.read_text(encoding="utf-8").splitlines():
        english, french = line.split("\t")
        for text in (english, english.rstrip(".!?")):
            found.setdefault(text, french)
            found.setdefault(text[0].lower() + text[1:], french)
    return [Phrase(english, french, ()) for english, french in found.items()]


def split(seed: int = 0) -> tuple[list[Phrase], list[Phrase]]:
    """Return training and held-out sentences.

    Each held-out sentence has two content words that never occur together in training.
    """
    everything = _phrases()
    withheld = withheld_pairs(everything, seed)
    train: list[Phrase] = []
    held_out: list[Phrase] = []
    for phrase in everything:
        (train if withheld.isdisjoint(pairs(phrase)) else held_out).append(phrase)
    seen = Counter(word for phrase in train for word in words(phrase))
    return train, [phrase for phrase in held_out if all(seen[word] >= _SEEN for word in words(phrase))]


def withheld_pairs(everything: Iterable[Phrase], seed: int) -> set[tuple[str, str]]:
    """Return the pairs of lemmas that mustn't occur together in training, chosen by a digest of pair and seed."""
    alone: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for phrase in everything:
        alone.update(set(phrase.content))
        together.update(pairs(phrase))
    return {
        pair
        for pair, count in together.items()
        if count * _LEANS <= min(alone[pair[0]], alone[pair[1]]) and _digest(pair, seed) % _SHARE == 0
    }


def pairs(phrase: Phrase) -> set[tuple[str, str]]:
    """Return the pairs of different lemmas in a sentence, each in alphabetical order."""
    return set(combinations(sorted(set(phrase.content)), 2))


def words(phrase: Phrase) -> set[tuple[str, str]]:
    """Return (language, word) for the words of both sides, without punctuation."""
    sides = (("en", phrase.english), ("fr", phrase.french))
    return {(side, word) for side, text in sides for word in (each.strip(".,?!") for each in text.split()) if word}


def _digest(pair: tuple[str, str], seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}\t{pair[0]}\t{pair[1]}".encode()).digest()[:8])


@cache
def _phrases() -> tuple[Phrase, ...]:
    rows = (line.split("\t") for line in bz2.decompress(FILE.read_bytes()).decode().splitlines())
    return tuple(Phrase(english, french, tuple(filter(None, lemmas.split(",")))) for english, french, lemmas in rows)


def main(arguments: list[str] | None = None) -> None:
    """Print a seeded sample."""
    parser = argparse.ArgumentParser(prog="python -m clearhead.demo.phrasebook", description=__doc__)
    parser.add_argument("--sample", type=int, default=200, metavar="N", help="number of pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the sample (default: %(default)s)")
    given = parser.parse_args(arguments)
    everything = phrases()
    for phrase in random.Random(given.seed).sample(everything, min(max(given.sample, 0), len(everything))):
        sys.stdout.write(f"{phrase.english}\t{phrase.french}\n")


if __name__ == "__main__":
    main()
