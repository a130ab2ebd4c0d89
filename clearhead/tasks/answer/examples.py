"""Training windows, held-out questions and scores."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...scoring.answer_scores import AnswerScores, answer_scores, closest_sentence, closest_window, first_sentence
from ...tokenization.offsets import unknown_texts
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import Examples, HeldOut
from .windows import Asked, Window

if TYPE_CHECKING:
    from torch import Tensor


_BASELINES = {"first_sentence": first_sentence, "closest_sentence": closest_sentence, "closest_window": closest_window}
_NO_ANSWER = "no_answer"  # the baseline that never answers


@dataclass(frozen=True)
class Windows(Examples):
    """Tokenized windows. The targets are the first and last position of each answer."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True


@dataclass(frozen=True)
class WindowBatch:
    """A padded batch of B windows.

    Args:
        tokens: tokens (B, S).
        types: token types (B, S): 0 for the question, 1 for the text and, in a model with three types, 2 for tokens of
            the text that also occur in the question. None in a model without token types.
        of_text: True for tokens of the text (B, S).
        answers: the first and last position of each answer (B, 2).
    """

    tokens: "Tensor"
    types: "Tensor | None"
    of_text: "Tensor"
    answers: "Tensor"


@dataclass(frozen=True)
class HeldOutQuestions(HeldOut):
    """Held-out questions for scoring.

    Args:
        asked: each question with its text.
        windows: all windows over the texts.
        of: the index of the question that each window belongs to.
    """

    asked: list[Asked] = field(kw_only=True)
    windows: list[Window] = field(kw_only=True)
    of: list[int] = field(kw_only=True)

    @classmethod
    def over(cls, asked: list[Asked], windows: list[Window], of: list[int]) -> Self:
        """Return questions with windows over their texts. A window without the complete answer has no answer."""
        places = [window.positions(asked[i].answer) for window, i in zip(windows, of)]
        examples = Windows(Ragged([window.tokens for window in windows]), Ragged(places))
        n_cut, questions = sum(bool(it.cut) for it in asked), [it.question for it in asked]
        references = [[answer.text for answer in it.answers] for it in questions]
        return cls(examples, [], n_cut, [it.text for it in questions], references, asked=asked, windows=windows, of=of)

    def visible(self, rows: Sequence[int]) -> NDArray[np.bool_]:
        """Mark where an answer may begin or end: at tokens of the text that aren't whitespace. -> (B, S)"""
        windows = [self.windows[row] for row in rows]
        found = np.zeros((len(windows), max(len(window.tokens) for window in windows)), np.bool_)
        for line, window, row in zip(found, windows, rows):
            text, part = self.asked[self.of[row]].text, slice(window.first, window.last + 1)
            line[window.begins : len(window.tokens) - 1] = np.less(text.starts[part], text.ends[part])
        return found

    def places(self, row: int) -> list[tuple[int, int] | None]:
        """Return where the token at each position of a window is in the text; None where no answer begins or ends."""
        window, text = self.windows[row], self.asked[self.of[row]].text
        shift = window.first - window.begins
        visible = self.visible([row])[0].tolist()
        return [(text.starts[n + shift], text.ends[n + shift]) if it else None for n, it in enumerate(visible)]

    def unknown(self, row: int, tokenizer: Tokenizer) -> list[str]:
        """Return the original text of each unknown token of a window, in the question first."""
        asked, window, unk = self.asked[self.of[row]], self.windows[row], tokenizer.special.unk
        text, part = asked.text, slice(window.first, window.last + 1)
        placed = zip(text.ids[part], text.starts[part], text.ends[part])
        found = unknown_texts(tokenizer, asked.question.text)[: sum(i == unk for i in asked.ids)]
        return found + [text.text[start:end] for i, start, end in placed if i == unk]

    def scores(self, answers: Sequence[str]) -> AnswerScores:
        """Score answers, following SQuAD v2 if some questions have no answer."""
        return answer_scores(answers, self.references, unanswerable=not all(self.references))

    @cached_property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """The scores of simple baselines. If some questions have no answer, never answering is one of them."""
        found = {} if all(self.references) else {_NO_ANSWER: self.scores([""] * len(self.asked)).measures()}
        for name, answer in _BASELINES.items():
            said = [answer(it.text.text, it.question.text) for it in self.asked]
            found[name] = self.scores(said).measures()
        return found


@dataclass(frozen=True)
class AnsweringScores:
    """Exact match and F1, the loss per position in nats, and the scores of baselines."""

    answers: AnswerScores
    loss: float
    baselines: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        return {**self.answers.to_dict(), "loss": self.loss, "baselines": self.baselines}
