"""Questions about texts, with the places of their answers: articles of paragraphs of questions, whatever file has them.

A place is a number of code points from the beginning of the context, and the answer stands there letter by letter;
questions of which that is not so are counted and shown, and left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from ..errors import DataError
from .files import Input, inputs
from .question_formats import Entry, is_table, read_json, read_qamr
from .skipped import Report


@dataclass(frozen=True)
class Answer:
    """A text, and where in the context it begins."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Behind its last character."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Question:
    """A question and its answers, which are several where several people were asked; none if it is impossible."""

    id: str
    text: str
    answers: tuple[Answer, ...]
    number: int = field(default=0, compare=False)  # from 1 in the files, those that are left out included

    @property
    def impossible(self) -> bool:
        """Whether the context has no answer."""
        return not self.answers


@dataclass(frozen=True)
class Paragraph:
    """A context, and what is asked about it."""

    context: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Article:
    """Paragraphs that belong together; the title is "" where the file gives none."""

    title: str
    paragraphs: tuple[Paragraph, ...]


@dataclass(frozen=True)
class QuestionCorpus:
    """Articles in the order of the files, and what was not used of these."""

    articles: tuple[Article, ...]
    report: Report

    def __len__(self) -> int:
        return sum(len(paragraph.questions) for paragraph in self.paragraphs())

    def __iter__(self) -> Iterator[tuple[str, Question]]:
        """Each question with its context."""
        for paragraph in self.paragraphs():
            for question in paragraph.questions:
                yield paragraph.context, question

    def paragraphs(self) -> Iterator[Paragraph]:
        """Those of all articles."""
        for article in self.articles:
            yield from article.paragraphs


def read_questions(paths: Sequence[str | Path | Input]) -> QuestionCorpus:
    """The questions of files, or of the files of folders: SQuAD (1.1 and 2.0), JSON lines, or the two tables of QAMR.

    All are in memory. An Input stays open, to be read again. A DataError where a file is none of these or damaged, and
    where no question can be used.
    """
    if not paths:
        raise DataError("no file of questions is named; expected one at least")
    files = [file for path in paths for file in inputs(path)]
    report = Report(tuple(it.name if isinstance(it, Input) else Input(it).name for it in paths))
    report.unit, report.item = "questions", "question"
    used, forms = _Used(report), []
    with ExitStack() as open_files:
        for file in files:
            if file not in paths:
                open_files.enter_context(closing(file))
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
        raise DataError(f"no usable question in {' and '.join(report.paths)}\n  {report}")
    return QuestionCorpus(articles, report)


class _Used:
    """The entries that can be used, in order; the others go to the report."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._found: list[tuple[str, str, Question]] = []  # title, context
        self._ids: Counter[str] = Counter()
        self._answer_faults: Counter[str] = Counter()
        self._repeated = 0

    def add(self, name: str, entries: Iterable[Entry]) -> None:
        """Those of one file."""
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
        """The answers that stand in the context, and what is wrong with the others."""
        answers, faults = [], [*entry.answer_faults]
        for text, start in entry.answers:
            place = entry.context.find(text) if start is None else start
            if not text.strip():
                faults.append("empty answer")
            elif place < 0 or not entry.context.startswith(text, place):
                faults.append(
                    "answer that is not in the context" if start is None else "answer that is not at its place"
                )
            else:
                self._repeated += start is None and entry.context.find(text, place + 1) >= 0
                answers.append(Answer(text, place))
        return answers, faults

    def articles(self) -> tuple[Article, ...]:
        """What stands below one title, and there below one context, without anything else between, belongs together."""
        articles = []
        for title, of_title in groupby(self._found, key=lambda it: it[0]):
            by_context = groupby(of_title, key=lambda it: it[1])
            paragraphs = (Paragraph(context, tuple(it[2] for it in found)) for context, found in by_context)
            articles.append(Article(title, tuple(paragraphs)))
        return tuple(articles)

    def notes(self) -> list[str]:
        """What is to be known of those that are used."""
        notes = [
            f"left out {count:,} answers of questions that have others: {why}"
            for why, count in self._answer_faults.items()
        ]
        if self._repeated:
            notes.append(f"{self._repeated:,} answers stand several times in their context: the first place is taken")
        if again := sum(count - 1 for count in self._ids.values()):
            notes.append(f"{again:,} questions have an id that another one has: they may be there twice")
        return notes


def _fault(entry: Entry) -> str | None:
    """Why a question cannot be used, whatever its answers, or None."""
    if not entry.context.strip():
        return "no context"
    if not entry.question.strip():
        return "no question"
    text = "".join((entry.context, entry.question, *(text for text, _ in entry.answers)))
    if "\0" in text:
        return "NUL character"
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        return "half of a surrogate pair"
    return "is_impossible, and an answer" if entry.impossible and entry.answers else None
