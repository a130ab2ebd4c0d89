"""A question, and as much of its text beside it as the model reads at once: windows, in which the answer is looked for.

<s> question </s> a part of the text </s>

Windows of one text overlap by a half, so that an answer of up to half a window stands in one of them as a whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...data.encoding import Encoded
from ...readers.questions import Paragraph, Question, QuestionCorpus
from ...readers.skipped import Skipped
from ...tokenization.offsets import TokensWithOffsets, encode_with_offsets
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import BOS, EOS, UNK, Tokenizer

_NAMED = 3  # of the words that the vocabulary lacks
_LACKS = "questions with words or characters that the vocabulary lacks; these are learnt as <unk>"

ANSWER_TOKENS = 30  # the most that an answer has
_NOT_GIVEN = (
    f"questions with answers of more than {ANSWER_TOKENS} tokens, the most that an answer has; "
    "these are learnt, and only a part of such a one can be given"
)

Span = tuple[int, int]  # the first and the last of some tokens
NO_ANSWER = (0, 0)  # the positions that stand for it: those of <s>


@dataclass(frozen=True)
class Window:
    """The tokens of a window. At the position `begins` stands token `first` of the text."""

    tokens: list[int]
    begins: int
    first: int

    @property
    def last(self) -> int:
        """The last token of the text that is in the window."""
        return self.first + len(self.tokens) - self.begins - 2

    def positions(self, answer: Span | None) -> Span:
        """Where these tokens of the text stand in the window; `NO_ANSWER` where not all of them do, or for None."""
        if answer is None or answer[0] < self.first or answer[1] > self.last:
            return NO_ANSWER
        shift = self.begins - self.first
        return answer[0] + shift, answer[1] + shift

    def span(self, start: int, end: int) -> Span:
        """The inverse: which tokens of the text stand at these positions."""
        shift = self.first - self.begins
        return start + shift, end + shift


@dataclass(frozen=True)
class WindowCutter:
    """Cuts questions and texts into windows of at most `longest` tokens, a third of them for the question."""

    tokenizer: Tokenizer
    longest: int

    @property
    def longest_question(self) -> int:
        """Tokens of a question that are read."""
        return self.longest // 3

    def question(self, ids: Sequence[int]) -> tuple[list[int], int]:
        """What is read of a question, and how many tokens at its end are not."""
        read = list(ids[: self.longest_question])
        return read, len(ids) - len(read)

    def windows(self, question: Sequence[int], text: Sequence[int]) -> list[Window]:
        """All windows over a text, in order; every two neighbours have half of the room in common, or more."""
        room = self._room(question)
        step, rest = max(room // 2, 1), max(len(text) - room, 0)
        return [self._at(min(first, rest), question, text) for first in range(0, rest + step, step)]

    def lessons(self, question: Sequence[int], text: Sequence[int], answer: Span | None, draw: int) -> list[Window]:
        """The windows to learn from: those with the answer, and one of those without, which the number `draw` chooses.

        None at all where there is an answer, and no window has room for it.
        """
        windows = self.windows(question, text)
        having = [window for window in windows if window.positions(answer) != NO_ANSWER]
        if answer is not None and not having:
            if answer[1] - answer[0] >= (room := self._room(question)):
                return []
            having = [self._at(min(answer[0], len(text) - room), question, text)]
        others = [window for window in windows if window.positions(answer) == NO_ANSWER]
        return having + ([others[draw % len(others)]] if others else [])

    def _room(self, question: Sequence[int]) -> int:
        return self.longest - len(question) - 3  # <s> and two </s>

    def _at(self, first: int, question: Sequence[int], text: Sequence[int]) -> Window:
        part = text[first : first + self._room(question)]
        return Window([BOS, *question, EOS, *part, EOS], len(question) + 2, first)


@dataclass(frozen=True)
class Asked:
    """A question beside its text, both as tokens; the text is that of all questions about it."""

    question: Question
    ids: list[int]
    text: TokensWithOffsets
    cut: int  # tokens of the question that are not read

    @property
    def answer(self) -> Span | None:
        """Which tokens of the text have the first answer; None where there is none."""
        answers = self.question.answers
        return self.text.tokens_of(answers[0].start, answers[0].end) if answers else None

    @property
    def too_long_to_give(self) -> bool:
        """Whether that is longer than any answer that is given."""
        return self.answer is not None and self.answer[1] - self.answer[0] >= ANSWER_TOKENS


def read_paragraph(cutter: WindowCutter, paragraph: Paragraph) -> list[Asked]:
    """All questions about a text, whose tokens are found once."""
    text = encode_with_offsets(cutter.tokenizer, paragraph.context)
    found = cutter.tokenizer.encode_batch([question.text for question in paragraph.questions])
    asked = []
    for question, ids in zip(paragraph.questions, found):
        read, cut = cutter.question(ids)
        asked.append(Asked(question, read, text, cut))
    return asked


@dataclass(frozen=True)
class QuestionEncoder:
    """Cuts questions into the windows that are learnt from; `limit` is the setting that says how long these are."""

    cutter: WindowCutter
    limit: str

    def __call__(self, corpus: QuestionCorpus) -> Encoded:
        """Of each window the tokens, and the two positions where its answer begins and ends."""
        tokens, places = list[list[int]](), list[Span]()
        skipped, unknown, cut = list[Skipped](), list[Skipped](), list[Skipped]()
        for paragraph in corpus.paragraphs():
            for asked in read_paragraph(self.cutter, paragraph):
                question = asked.question
                windows = self.cutter.lessons(asked.ids, asked.text.ids, asked.answer, question.number)
                tokens += [window.tokens for window in windows]
                places += [window.positions(asked.answer) for window in windows]
                if not windows:
                    skipped.append(Skipped(question.number, self._too_short, question.text))
                if asked.cut:
                    cut.append(Skipped(question.number, self._too_long, question.text))
                unknown += self._lacking(asked)
                if windows and asked.too_long_to_give:
                    unknown.append(Skipped(question.number, _NOT_GIVEN, question.answers[0].text))
        return Encoded(Ragged(tokens), Ragged(places), [*range(len(tokens))], skipped, unknown, cut)

    def each(self, chunks: Iterable[QuestionCorpus], count: int, processes: int) -> Iterator[Encoded]:
        """Of each chunk, in this process."""
        yield from map(self, chunks)

    @property
    def _too_long(self) -> str:
        return f"with questions of more than {self.cutter.longest_question} tokens, a third of {self.limit}"

    @property
    def _too_short(self) -> str:
        return f"for answers that {self.cutter.longest} tokens ({self.limit}) have no room for"

    def _lacking(self, asked: Asked) -> list[Skipped]:
        """That a question has words which the vocabulary lacks, if it has."""
        words = self.cutter.tokenizer.unknown_words(asked.question.text) if UNK in asked.ids else []
        return [Skipped(asked.question.number, _LACKS, ", ".join(words[:_NAMED]))] if words else []
