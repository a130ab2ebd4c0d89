"""Hold out some of the data so that no sentence, and no context of questions, is in both parts in any spelling."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..config.values import counted
from ..readers.questions import Article, Paragraph, QuestionCorpus

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
        note = f"nothing held out: only {counted(len(distinct), f'distinct {names[0]}')}, fewer than {FEWEST}"
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


# --- questions


@dataclass(frozen=True)
class QuestionSplit:
    """Training questions, held-out questions, and a note on their numbers."""

    train: QuestionCorpus
    held_out: QuestionCorpus
    note: str


def split_questions(corpus: QuestionCorpus, share: float, seed: int) -> QuestionSplit:
    """Hold out a share of the articles, or of the contexts if there are fewer than 20 titles.

    A context that occurs in several articles, even with a different spelling, counts as part of the first one. The
    choice depends on the seed and the titles or contexts, not on their order. With too few contexts, nothing is held
    out.

    Args:
        corpus: all questions with their contexts.
        share: fraction of the articles or contexts, at least 0 and below 1.
        seed: decides which ones are held out.
    """
    contexts = [spelling(paragraph.context) for paragraph in corpus.paragraphs()]
    titles = [article.title for article in corpus.articles for _ in article.paragraphs]
    first: dict[str, str] = {}
    groups = [first.setdefault(context, title or context) for context, title in zip(contexts, titles)]
    by_title = all(titles) and len({*map(spelling, groups)}) >= FEWEST
    keys = groups if by_title else contexts
    held = iter(split(keys, share, seed).held.tolist())
    sides: tuple[list[Article], list[Article]] = [], []
    for article in corpus.articles:
        parts: tuple[list[Paragraph], list[Paragraph]] = [], []
        for paragraph in article.paragraphs:
            parts[next(held)].append(paragraph)
        for side, part in zip(sides, parts):
            if part:
                side.append(replace(article, paragraphs=tuple(part)))
    train, held_out = (QuestionCorpus(tuple(side), corpus.report) for side in sides)
    return QuestionSplit(train, held_out, _note(train, held_out, share, by_title=by_title))


def _note(train: QuestionCorpus, held_out: QuestionCorpus, share: float, *, by_title: bool) -> str:
    if share == 0:
        return "nothing held out: data.split is 0"
    counts = [len({spelling(it.context) for it in side.paragraphs()}) for side in (train, held_out)]
    if not len(held_out):
        return f"nothing held out: only {counted(counts[0], 'distinct contexts')}, fewer than {FEWEST}"
    n_articles = len(held_out.articles)
    of = f", all of {n_articles:,} article{'s' * (n_articles != 1)}" if by_title else ""
    questions = f"{len(held_out):,} question{'s' * (len(held_out) != 1)}"
    return f"held out {questions}: {counts[1]:,} of {sum(counts):,} distinct contexts{of}"
