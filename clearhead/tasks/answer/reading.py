"""Questions about texts: read from files, split by article, sampled and stored."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from ...config import DataConfig
from ...data.forms import SAMPLED_BY, as_pairs
from ...data.split import QuestionSplit, split_questions
from ...readers.files import inputs
from ...readers.questions import Answer, Article, Paragraph, Question, QuestionCorpus, read_questions
from ...readers.skipped import Report
from ...readers.source import Source, as_paths

_CHUNK = 256  # texts whose questions are tokenized together


class QuestionSource(Source):
    """Files of questions, which can be read repeatedly."""

    def __init__(self, data_or_paths: Any) -> None:
        paths = as_paths(data_or_paths)
        super().__init__(paths, [[file for path in paths for file in inputs(path)]])

    def read(self) -> QuestionCorpus:
        """Return all questions. Raise DataError if there are none."""
        corpus = read_questions(self.sides[0])
        corpus.report.paths = self.report.paths  # a folder, not each of its files
        self.report = corpus.report
        return corpus


@dataclass(frozen=True)
class Questions:
    """Training questions, without the held-out ones."""

    source: QuestionSource
    split: QuestionSplit

    def __len__(self) -> int:
        return len(self.split.train)

    @property
    def note(self) -> str:
        return self.split.note

    @property
    def unanswerable(self) -> bool:
        """True if some training questions have no answer."""
        return any(question.impossible for _, question in self.split.train)

    def held_out(self) -> QuestionCorpus:
        """Return the held-out questions, which come from other articles."""
        return self.split.held_out

    def chunks(self) -> Iterator[QuestionCorpus]:
        paragraphs = tuple(self.split.train.paragraphs())
        for i in range(0, len(paragraphs), _CHUNK):
            yield QuestionCorpus((Article("", paragraphs[i : i + _CHUNK]),), self.source.report)

    def texts(self) -> tuple[list[str], tuple[str, ...]]:
        """Return the distinct texts and all questions as sources. There are no targets."""
        contexts = dict.fromkeys(paragraph.context for paragraph in self.split.train.paragraphs())
        return [*contexts, *(question.text for _, question in self.split.train)], ()


class QuestionForm:
    """Questions in SQuAD's JSON, in JSON lines, or in QAMR's tables."""

    holds: type = QuestionCorpus

    def open(self, paths: Any, data: DataConfig) -> QuestionSource:
        return QuestionSource(paths)

    def read(self, paths: Any, data: DataConfig) -> QuestionCorpus:
        with self.open(paths, data) as source:
            return source.read()

    def divide(self, source: Any, share: float, seed: int) -> Questions:
        """Split the questions so that no text is in both parts, and no article either if the articles have titles.

        Args:
            source: a `QuestionSource`.
            share: share of the questions to hold out, from 0 to 1.
            seed: picks the texts that are held out.
        """
        return Questions(source, split_questions(source.read(), share, seed))

    def extent(self, data: Questions) -> tuple[int, str]:
        letters = sum(map(len, data.texts()[0]))
        return as_pairs(letters)

    def sample(self, data: QuestionCorpus, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[QuestionCorpus, str]:
        """Return up to `most` questions, drawn at random but in file order, and a note on the sample ("" for all).

        Args:
            data: the questions.
            most: maximum number of questions.
            seed: picks the questions.
            by: the setting that `most` comes from, for the note.
        """
        if len(data) <= most:
            return data, ""
        drawn = np.zeros(len(data), np.bool_)
        drawn[np.random.default_rng(seed).choice(len(data), most, replace=False)] = True
        keep = iter(drawn.tolist())
        articles = []
        for article in data.articles:
            chosen = [
                Paragraph(it.context, tuple(question for question in it.questions if next(keep)))
                for it in article.paragraphs
            ]
            articles.append(Article(article.title, tuple(it for it in chosen if it.questions)))
        said = f"{most:,} of {len(data):,} questions, drawn at random ({by})"
        return QuestionCorpus(tuple(it for it in articles if it.paragraphs), data.report), said

    def preview(self, data: QuestionCorpus) -> Iterator[dict[str, str]]:
        for context, question in data:
            answers = " | ".join(answer.text for answer in question.answers)
            yield {"context": context, "question": question.text, "answer": answers or "(none)"}

    def to_notes(self, data: QuestionCorpus) -> list[Any]:
        return [[article.title, [_to_note(it) for it in article.paragraphs]] for article in data.articles]

    def from_notes(self, notes: list[Any], report: Report) -> QuestionCorpus:
        articles = (Article(title, tuple(map(_from_note, paragraphs))) for title, paragraphs in notes)
        return QuestionCorpus(tuple(articles), report)


def _to_note(paragraph: Paragraph) -> list[Any]:
    return [paragraph.context, [astuple(question) for question in paragraph.questions]]


def _from_note(note: list[Any]) -> Paragraph:
    context, asked = note
    questions = [
        Question(name, text, tuple(Answer(*it) for it in answers), number) for name, text, answers, number in asked
    ]
    return Paragraph(context, tuple(questions))
