"""Questions about texts, with the positions of their answers, grouped by article and paragraph.

A position is a number of code points from the start of the context. Questions whose answer isn't at its position are
skipped and reported.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ..errors import DataError
from .files import inputs
from .lines import has_surrogate
from .question_formats import Entry, is_table, read_json, read_qamr
from .skipped import Report
from .source import Source, as_paths


@dataclass(frozen=True)
class Answer:
    """The text of an answer, and its position in the context."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after the last character."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question with its answers, one per annotator, or none if it's unanswerable."""

    id: str
    text: str
    answers: tuple[Answer, ...]
    number: int = field(default=0, compare=False)  # 1-based, counting skipped questions too

    @property
    def impossible(self) -> bool:
        """True if the context has no answer."""
        return not self.answers


@dataclass(frozen=True)
class Paragraph:
    """A context with the questions about it."""

    context: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Article:
    """Paragraphs with a common title, which may be ""."""

    title: str
    paragraphs: tuple[Paragraph, ...]


@dataclass(frozen=True)
class QuestionCorpus:
    """Articles in the order of the files, and a report of what wasn't used."""

    articles: tuple[Article, ...]
    report: Report

    def __len__(self) -> int:
        return sum(len(paragraph.questions) for paragraph in self.paragraphs())

    def __iter__(self) -> Iterator[tuple[str, Question]]:
        """Yield each question with its context."""
        for paragraph in self.paragraphs():
            for question in paragraph.questions:
                yield paragraph.context, question

    def paragraphs(self) -> Iterator[Paragraph]:
        for article in self.articles:
            yield from article.paragraphs


def read_questions(data_or_paths: Any) -> QuestionCorpus:
    """Read questions into memory from SQuAD (1.1 and 2.0), JSON Lines, or the two tables of QAMR.

    Args:
        data_or_paths: files or folders, or rows in memory (see `as_paths`). An Input isn't closed.

    Raises:
        DataError: a file has another format or is damaged, or no question is usable.
    """
    paths = as_paths(data_or_paths)
    if not paths:
        raise DataError("no file of questions was given", expected="at least one")
    files = [file for path in paths for file in inputs(path)]
    with Source(paths, [[file for file in files if file not in paths]]) as source:
        report = source.report
        report.unit, report.item = "questions", "question"
        used, forms = _Used(report), []
        tables = [file for file in files if is_table(file)]
        for file in files:
            if file not in tables:
                form, entries = read_json(file)
                forms.append(form)
                used.add(file.name, entries)
        if tables:
            forms.append("QAMR")
            used.add(" + ".join(table.name for table in tables), read_qamr(tables))
    if len(report.files) == 1:
        report.files.clear()
    articles = used.articles()
    n_contexts = sum(len(article.paragraphs) for article in articles)
    of = f"{len(articles):,} article{'s' * (len(articles) != 1)}"
    report.form = f"{', '.join(dict.fromkeys(forms))}, {n_contexts:,} contexts of {of}"
    report.notes += used.notes()
    if not articles:
        name = " and ".join(report.paths)
        raise DataError(f"no usable question in {name}\n  {report}", name=name, value=report.skipped)
    return QuestionCorpus(articles, report)


class _Used:
    """Collects usable entries in order, and reports the others."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._found: list[tuple[str, str, Question]] = []  # title, context
        self._ids: Counter[str] = Counter()
        self._answer_faults: Counter[str] = Counter()
        self._repeated = 0

    def add(self, name: str, entries: Iterable[Entry]) -> None:
        report = self._report
        report.files.append((name, report.lines))
        for entry in entries:
            report.lines += 1
            reason = entry.fault or _fault(entry)
            text = entry.text
            answers, faults = ([], []) if reason or entry.impossible else self._placed(entry)
            if not reason and not answers and not entry.impossible:
                reason = faults[0] if faults else "no answer"
                text = f"{entry.question} {entry.claimed}".rstrip()
            if reason:
                report.skip(report.lines, reason, text)
                continue
            report.used += 1
            self._answer_faults.update(faults)
            name = entry.id or str(report.lines)
            self._ids[name] += 1
            question = Question(name, entry.question, tuple(answers), report.lines)
            self._found.append((entry.title, entry.context, question))

    def _placed(self, entry: Entry) -> tuple[list[Answer], list[str]]:
        """Return the answers found in the context, and the faults of the others."""
        answers, faults = [], [*entry.answer_faults]
        for text, start in entry.answers:
            place = entry.context.find(text) if start is None else start
            if not text.strip():
                faults.append("empty answer")
            elif place < 0 or not entry.context.startswith(text, place):
                faults.append("answer not in the context" if start is None else "answer not at its position")
            else:
                self._repeated += start is None and entry.context.find(text, place + 1) >= 0
                answers.append(Answer(text, place))
        return answers, faults

    def articles(self) -> tuple[Article, ...]:
        """Group consecutive entries with the same title and context."""
        articles = []
        for title, of_title in groupby(self._found, key=lambda it: it[0]):
            by_context = groupby(of_title, key=lambda it: it[1])
            paragraphs = (Paragraph(context, tuple(it[2] for it in found)) for context, found in by_context)
            articles.append(Article(title, tuple(paragraphs)))
        return tuple(articles)

    def notes(self) -> list[str]:
        notes = [
            f"skipped {_answers(count)} of questions that have others: {why}"
            for why, count in self._answer_faults.items()
        ]
        if self._repeated:
            notes.append(f"{_answers(self._repeated)} found several times in the context: the first position is used")
        if again := sum(count - 1 for count in self._ids.values()):
            notes.append(f"{again:,} question{'s' * (again != 1)} with the id of another one, possibly duplicates")
        return notes


def _answers(count: int) -> str:
    return f"{count:,} answer{'s' * (count != 1)}"


def _fault(entry: Entry) -> str | None:
    """Return the reason why a question is unusable regardless of its answers, or None."""
    if not entry.context.strip():
        return "no context"
    if not entry.question.strip():
        return "no question"
    text = "".join((entry.context, entry.question, *(text for text, _ in entry.answers)))
    if "\0" in text:
        return "NUL character"
    if has_surrogate(text):
        return "half of a surrogate pair"
    return "is_impossible is true, but there's an answer" if entry.impossible and entry.answers else None
