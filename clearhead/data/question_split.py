"""Hold out some of the questions so that training and held-out questions share no context."""

from dataclasses import dataclass, replace

from ..readers.questions import Article, Paragraph, QuestionCorpus
from .split import FEWEST, spelling, split


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
        return f"nothing held out: only {counts[0]} distinct contexts, fewer than {FEWEST}"
    n_articles = len(held_out.articles)
    of = f", all of {n_articles:,} article{'s' * (n_articles != 1)}" if by_title else ""
    questions = f"{len(held_out):,} question{'s' * (len(held_out) != 1)}"
    return f"held out {questions}: {counts[1]:,} of {sum(counts):,} distinct contexts{of}"
