"""App for question answering.

app = load("models/answers")
app("When did she leave?", text)               # returns a str for one question, a list for several
app.results(["When did she leave?"], text)     # with positions in the text, scores and alternatives
app.explain("When did she leave?", text)       # with every step of attention
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, overload

from ..config import DecodeConfig
from ..errors import DataError
from ..readers.questions import Paragraph, Question
from ..tasks.answer.task import QuestionAnswering
from ..tasks.answer.windows import NOTHING, Passage, certainty
from ..tasks.examples import Record
from .answers import Reading
from .app import ONE, App, all_settings_but
from .inputs import as_text, as_texts

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation


@dataclass(frozen=True)
class FoundAnswer(Record, Passage):
    """The best answer to a question.

    Attributes:
        alternatives: other passages, best first.
        unknown: words of the question that aren't in the vocabulary.
        long: always 0, because long texts are read window by window.
        cut: number of tokens cut off the end of a question that's too long for the model.
        confidence: the F1 that such answers had on validation data; None if that wasn't measured.
    """

    question: str
    alternatives: tuple[Passage, ...] = ()
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0
    cut: int = 0
    confidence: float | None = None


class Answerer(App):
    """App that answers questions with passages of a text."""

    task: QuestionAnswering
    without_effect = all_settings_but(
        "beam", "n_best", "batch_tokens", reason="an answer is found in the text, not generated"
    )

    @overload
    def __call__(self, question: str, context: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, question: Sequence[str], context: str, **decode: Any) -> list[str]: ...
    def __call__(self, question: str | Sequence[str], context: str, **decode: Any) -> str | list[str]:
        """Answer one question or a list of them from `context`. The answer is "" if `context` doesn't contain one."""
        one = ONE | decode
        if isinstance(question, str):
            return self.results([question], context, **one)[0].text
        return [result.text for result in self.results(question, context, **one)]

    def results(  # type: ignore[override]
        self, questions: Sequence[str], context: str, **decode: Any
    ) -> list[FoundAnswer]:
        """Answer questions and return full records in the same order. A blank question gets a blank answer.

        Args:
            questions: a list of N questions.
            context: the text to find all the answers in, of any length.
            decode: search settings that override the model's, such as `n_best`.

        Raises:
            DataError: the context is blank.
        """
        questions, context = as_texts(questions, "question"), _as_context(context)
        search = self.decode_config(**decode)
        asked = tuple(Question("", text, ()) for text in questions if text.strip())
        answered = iter(self._answered([Paragraph(context, asked)], search) if asked else ())
        return [next(answered) if text.strip() else FoundAnswer(**vars(NOTHING), question=text) for text in questions]

    def explain(self, question: str, context: str, **decode: Any) -> "Explanation":
        """Answer a question and record the model's computation.

        If the context is long, only the window with the best answer is recorded.

        Args:
            question: one question.
            context: the text to find its answer in.
            decode: search settings that override the model's.

        Raises:
            DataError: the question or the context is blank.
        """
        question, search = as_text(question, "question"), self.decode_config(**(ONE | decode))
        return self.task.explain(self.model, question, search, _as_context(context))

    def reading(self, question: str) -> Reading:
        if not as_text(question, "question").strip():
            return Reading(tuple(self.tokenizers.source.unknown_words(question)))
        [asked] = self.task.over([Paragraph(question, (Question("", question, ()),))]).asked
        return Reading(tuple(self.tokenizers.source.unknown_words(question)), cut=asked.cut)

    def row_results(self, rows: Sequence[Sequence[str]], **decode: Any) -> list[FoundAnswer]:
        """Return a record of the answer to each row, a question and the text to find its answer in."""
        texts = [
            Paragraph(context, tuple(Question("", question, ()) for question, _ in of_text))
            for context, of_text in groupby(rows, key=itemgetter(1))
        ]
        return self._answered(texts, self.decode_config(**(ONE | decode)))

    def _answered(self, paragraphs: Sequence[Paragraph], search: DecodeConfig) -> list[FoundAnswer]:
        held_out = self.task.over(paragraphs)
        found, _ = self.task.read(self.model, held_out, search)
        answers = []
        for it, passages in zip(held_out.asked, found):
            best, *others = passages[: search.n_best]
            text, place = it.question.text, (best.text, best.start, best.end, best.score)
            unknown = tuple(self.tokenizers.source.unknown_words(text))
            confidence = self.confidence(certainty(passages)) if self.confidence else None
            answers.append(FoundAnswer(*place, text, tuple(others), unknown, cut=it.cut, confidence=confidence))
        return answers


def _as_context(context: Any) -> str:
    """Return `context`. Raise DataError if it's blank or isn't a str."""
    context = as_text(context, "context")
    if not context.strip():
        raise DataError("the context is blank", expected="a text to find answers in", name="context", value=context)
    return context
