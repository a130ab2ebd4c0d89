"""Questions about texts as the data of a task: read, divided by articles, chosen from and kept."""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Self

import numpy as np

from ...config import DataConfig
from ...data.forms import SAMPLED_BY, as_pairs
from ...data.question_split import QuestionSplit, split_questions
from ...errors import DataError
from ...readers.files import STDIN, Input, bytes_digest, expect_digest, inputs
from ...readers.questions import (
    Answer,
    Article,
    Paragraph,
    Question,
    QuestionCorpus,
    read_questions,
)
from ...readers.skipped import Report

_CHUNK = 256  # texts whose questions are cut into windows together


class QuestionSource:
    """Files of questions, which are opened to be read as often as wanted."""

    def __init__(self, paths: Sequence[str]) -> None:
        if list(paths).count(STDIN) > 1:
            raise DataError("standard input, -, was named twice; it is read to its end by the first of them")
        self._files = [file for path in paths for file in inputs(path)]
        self.report = Report(tuple(Input(path).name for path in paths))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()

    def digest(self) -> str:
        """SHA-256 of the bytes of all files."""
        return bytes_digest([self._files])

    def expect_digest(self, digest: str) -> None:
        """A DataError where the files hold other bytes by now than those of an earlier `digest`."""
        expect_digest([self._files], digest, self.report.paths)

    def read(self) -> QuestionCorpus:
        """All questions; a DataError where there is none to be had."""
        corpus = read_questions(self._files)
        corpus.report.paths = self.report.paths  # a folder, not each of its files
        self.report = corpus.report
        return corpus


@dataclass(frozen=True)
class Questions:
    """Questions to learn from, told apart from those that are held out."""

    source: QuestionSource
    split: QuestionSplit

    def __len__(self) -> int:
        return len(self.split.train)

    @property
    def note(self) -> str:
        """What was held out, in words."""
        return self.split.note

    @property
    def unanswerable(self) -> bool:
        """Whether the text has no answer to some of those that are learnt from."""
        return any(question.impossible for _, question in self.split.train)

    def held_out(self) -> QuestionCorpus:
        """Those of other articles."""
        return self.split.held_out

    def chunks(self) -> Iterator[QuestionCorpus]:
        """The questions of some texts at a time."""
        paragraphs = tuple(self.split.train.paragraphs())
        for i in range(0, len(paragraphs), _CHUNK):
            yield QuestionCorpus((Article("", paragraphs[i : i + _CHUNK]),), self.source.report)

    def texts(self) -> tuple[list[str], tuple[str, ...]]:
        """One side: every text once, and the questions."""
        contexts = dict.fromkeys(paragraph.context for paragraph in self.split.train.paragraphs())
        return [*contexts, *(question.text for _, question in self.split.train)], ()


class QuestionForm:
    """SQuAD's JSON, JSON lines, QAMR's tables."""

    holds: type = QuestionCorpus

    def open(self, paths: Sequence[str], data: DataConfig) -> QuestionSource:
        """Files, or folders of such."""
        return QuestionSource(paths)

    def read(self, paths: Sequence[str], data: DataConfig) -> QuestionCorpus:
        """All questions."""
        with self.open(paths, data) as source:
            return source.read()

    def divide(self, source: Any, share: float, seed: int) -> Questions:
        """No text stands on both sides, nor an article where these have titles."""
        return Questions(source, split_questions(source.read(), share, seed))

    def extent(self, data: Questions) -> tuple[int, str]:
        """By the letters that are read."""
        letters = sum(map(len, data.texts()[0]))
        return as_pairs(letters)

    def sample(self, data: QuestionCorpus, most: int, seed: int, by: str = SAMPLED_BY) -> tuple[QuestionCorpus, str]:
        """So many questions, drawn at random, in the order of the files."""
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

    def to_notes(self, data: QuestionCorpus) -> list[Any]:
        """Every article as lists in lists."""
        return [[article.title, [_to_note(it) for it in article.paragraphs]] for article in data.articles]

    def from_notes(self, notes: list[Any], report: Report) -> QuestionCorpus:
        """The inverse."""
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
