"""A model that answers questions from texts.

app = load("models/answers")
app("When did she leave?", text)               # a question gives an answer, a list a list
app.results(["When did she leave?"], text)     # with its place in the text, score and alternatives
app.explain("When did she leave?", text)       # with every step of attention
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, overload

from ..config import DecodeConfig
from ..errors import ConfigError, DataError
from ..inspection.promises.subject import Subject
from ..inspection.views.explanation import Explanation
from ..model.transformer import EncoderModel
from ..readers.questions import Paragraph, Question
from ..tasks.answer.passages import NOTHING, Passage
from ..tasks.answer.task import Answering
from .answers import Reading
from .app import ONE, App, as_text, as_texts
from .subjects import of_windows

_USED = ("beam", "n_best", "batch_tokens")  # settings of the search that change an answer, or how fast it comes


@dataclass(frozen=True)
class FoundAnswer(Passage):
    """The best answer to a question, and the `alternatives`, best first. Of the question, words that the model has
    never seen are `unknown`, and `cut` tokens at its end were too many to be read."""

    question: str
    alternatives: tuple[Passage, ...] = ()
    unknown: tuple[str, ...] = ()
    long: ClassVar[int] = 0  # whatever there is is read, window by window
    cut: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"format_version": 1, **asdict(self)}


class Answerer(App):
    """A question and a text to a passage of the text."""

    model: EncoderModel
    task: Answering

    @overload
    def __call__(self, question: str, context: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, question: Sequence[str], context: str, **decode: Any) -> list[str]: ...
    def __call__(self, question: str | Sequence[str], context: str, **decode: Any) -> str | list[str]:
        """The answer to a question from the text `context`, or a list for a list; "" where the text has none."""
        one = ONE | decode
        if isinstance(question, str):
            return self.results([question], context, **one)[0].text
        return [result.text for result in self.results(question, context, **one)]

    def results(self, questions: Sequence[str], context: str, **decode: Any) -> list[FoundAnswer]:
        """The full records, in the order of the questions. A blank question has a blank answer; a blank text is a
        DataError."""
        questions = as_texts(questions, "question")
        context = _as_context(context)
        search = self.decode_config(**decode)
        asked = tuple(Question("", text, ()) for text in questions if text.strip())
        answered = iter(self._answered(Paragraph(context, asked), search) if asked else ())
        return [next(answered) if text.strip() else FoundAnswer(**vars(NOTHING), question=text) for text in questions]

    def explain(self, question: str, context: str, **decode: Any) -> Explanation:
        """Answer one question, and record what happens when the model reads it with the text, or of a long text with
        that part in which it finds the answer. A blank question, or text, is a DataError."""
        from ..tasks.answer.views import explain_answer

        question, search = as_text(question, "question"), self.decode_config(**(ONE | decode))
        return explain_answer(self.task, self.model, question, _as_context(context), search)

    def reading(self, question: str) -> Reading:
        """What of a question the model cannot read as it should."""
        [asked] = (
            self.task.over([Paragraph(question, (Question("", question, ()),))]).asked if question.strip() else [None]
        )
        cut = 0 if asked is None else asked.cut  # which no text changes
        return Reading(tuple(self.tokenizers.source.unknown_words(question)), cut=cut)

    def _answered(self, paragraph: Paragraph, search: DecodeConfig) -> list[FoundAnswer]:
        held_out = self.task.over([paragraph])
        found, _ = self.task.read(self.model, held_out, search)
        answers = []
        for it, (best, *others) in zip(held_out.asked, found):
            text, place = it.question.text, (best.text, best.start, best.end, best.score)
            unknown = tuple(self.tokenizers.source.unknown_words(text))
            answers.append(FoundAnswer(*place, text, tuple(others), unknown, cut=it.cut))
        return answers

    def subject(self, data: Any = None, *, seed: int = 0) -> Subject:
        return of_windows(self, data, seed)

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """The model's settings of the search, with some replaced; a ConfigError where one would change nothing."""
        for name in changes:
            if name in DecodeConfig.__dataclass_fields__ and name not in _USED:
                raise ConfigError(
                    f"decode.{name} = {changes[name]} would change nothing: an answer is found, not written; "
                    f"expected {', '.join(f'decode.{it}' for it in _USED)}"
                )
        return super().decode_config(**changes)


def _as_context(context: Any) -> str:
    """The text that answers may stand in; a DataError where it is none."""
    if not isinstance(context, str):
        raise DataError(f"the text is a {type(context).__name__}; expected one str, in which answers may stand")
    if not context.strip():
        raise DataError("the text is blank; expected one in which answers may stand")
    return context
