"""Windows: a question with the part of its text that the model reads at once.

<s> question </s> a part of the text </s>

Windows of one text overlap by half, so any answer of up to half a window fits into one of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...data.encoding import Encoded
from ...readers.questions import Paragraph, Question, QuestionCorpus
from ...readers.skipped import Skipped
from ...scoring.answer_scores import AnswerScores, answer_scores, closest_sentence, closest_window, first_sentence
from ...tokenization.offsets import TokensWithOffsets, encode_with_offsets, unknown_texts
from ...tokenization.ragged import Ragged
from ...tokenization.tokenizer import Tokenizer
from ..examples import ExampleEncoder, Examples, HeldOut

if TYPE_CHECKING:
    from torch import Tensor


ANSWER_TOKENS = 30  # maximum number of tokens in an answer
_NOT_GIVEN = (
    f"questions with answers of more than {ANSWER_TOKENS} tokens; "
    "they're used in training, but the model only returns answers up to that length"
)

_BASELINES = {"first_sentence": first_sentence, "closest_sentence": closest_sentence, "closest_window": closest_window}
_NO_ANSWER = "no_answer"  # the baseline that never answers

Span = tuple[int, int]  # the first and the last token
NO_ANSWER = (0, 0)  # the positions of <s>


@dataclass(frozen=True)
class Window:
    """The tokens of a window. The token at position `begins` is token `first` of the text."""

    tokens: list[int]
    begins: int
    first: int

    @property
    def last(self) -> int:
        """Index in the text of the window's last token."""
        return self.first + len(self.tokens) - self.begins - 2

    def positions(self, answer: Span | None) -> Span:
        """Return the positions of an answer in the window; `NO_ANSWER` if it's None or not fully inside."""
        if answer is None or answer[0] < self.first or answer[1] > self.last:
            return NO_ANSWER
        shift = self.begins - self.first
        return answer[0] + shift, answer[1] + shift

    def span(self, start: int, end: int) -> Span:
        """Convert positions in the window to tokens of the text: the inverse of `positions`."""
        shift = self.first - self.begins
        return start + shift, end + shift


@dataclass(frozen=True)
class WindowCutter:
    """Cuts questions and texts into windows of up to `longest` tokens. A question takes up to a third of a window.

    `separators` is the number of </s> between a question and its text.
    """

    tokenizer: Tokenizer
    longest: int
    separators: int = 1

    @property
    def longest_question(self) -> int:
        """Maximum number of tokens in a question. Longer questions are truncated."""
        return self.longest // 3

    def question(self, ids: Sequence[int]) -> tuple[list[int], int]:
        """Truncate a question. Also return the number of tokens that were cut off."""
        read = list(ids[: self.longest_question])
        return read, len(ids) - len(read)

    def windows(self, question: Sequence[int], text: Sequence[int]) -> list[Window]:
        """Return all windows over a text, in order. Adjacent windows share at least half of their text."""
        room = self._room(question)
        step, rest = max(room // 2, 1), max(len(text) - room, 0)
        return [self._at(min(first, rest), question, text) for first in range(0, rest + step, step)]

    def training_windows(
        self, question: Sequence[int], text: Sequence[int], answer: Span | None, draw: int
    ) -> list[Window]:
        """Return the windows to train on: all that contain the answer, and one that doesn't, picked by `draw`.

        If the answer is too long for any window, return none.

        Args:
            question: token ids of the question.
            text: token ids of the text.
            answer: indices of the answer's first and last token in the text, or None if it has no answer.
            draw: any number from 0. Its remainder picks the window.
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
        return self.longest - len(question) - 2 - self.separators  # <s>, </s> and the separators

    def _at(self, first: int, question: Sequence[int], text: Sequence[int]) -> Window:
        part, special = text[first : first + self._room(question)], self.tokenizer.special
        before = [special.bos, *question, *[special.eos] * self.separators]
        return Window([*before, *part, special.eos], len(before), first)


@dataclass(frozen=True)
class Asked:
    """A tokenized question with its tokenized text, which all questions about the text share."""

    question: Question
    ids: list[int]
    text: TokensWithOffsets
    cut: int  # tokens cut off from the question

    @property
    def answer(self) -> Span | None:
        """First and last token of the first answer, or None if there is no answer."""
        answers = self.question.answers
        return self.text.tokens_of(answers[0].start, answers[0].end) if answers else None

    @property
    def too_long_to_return(self) -> bool:
        """True if the answer is longer than any that the model returns."""
        return self.answer is not None and self.answer[1] - self.answer[0] >= ANSWER_TOKENS


def read_paragraph(cutter: WindowCutter, paragraph: Paragraph) -> list[Asked]:
    """Tokenize a text, and all questions about it."""
    text = encode_with_offsets(cutter.tokenizer, paragraph.context)
    found = map(cutter.question, cutter.tokenizer.encode_batch([question.text for question in paragraph.questions]))
    return [Asked(question, ids, text, cut) for question, (ids, cut) in zip(paragraph.questions, found)]


@dataclass(frozen=True)
class QuestionEncoder(ExampleEncoder):
    """Encodes questions as training windows. `limit` names the setting that limits their length."""

    cutter: WindowCutter
    limit: str

    def __call__(self, corpus: QuestionCorpus) -> Encoded:
        """Return the windows of all questions, with the first and last position of each answer."""
        too_long = f"with questions longer than {self.cutter.longest_question} tokens, a third of {self.limit}"
        too_short = f"with answers that don't fit into {self.cutter.longest} tokens ({self.limit})"
        tokenizer, tokens, places = self.cutter.tokenizer, list[list[int]](), list[Span]()
        skipped, unknown, cut = list[Skipped](), list[Skipped](), list[Skipped]()
        for paragraph in corpus.paragraphs():
            for asked in read_paragraph(self.cutter, paragraph):
                question = asked.question
                windows = self.cutter.training_windows(asked.ids, asked.text.ids, asked.answer, question.number)
                tokens += [window.tokens for window in windows]
                places += [window.positions(asked.answer) for window in windows]
                if not windows:
                    skipped.append(Skipped(question.number, too_short, question.text))
                if asked.cut:
                    cut.append(Skipped(question.number, too_long, question.text))
                if tokenizer.special.unk in asked.ids and (words := tokenizer.unknown_words(question.text)):
                    unknown.append(Skipped.with_unknown(question.number, "questions", words))
                if windows and asked.too_long_to_return:
                    unknown.append(Skipped(question.number, _NOT_GIVEN, question.answers[0].text))
        return Encoded(Ragged(tokens), Ragged(places), [*range(len(tokens))], skipped, unknown, cut)


@dataclass(frozen=True)
class Passage:
    """An answer, text[start:end], counted in code points. Without an answer, `text` is "" and there are no offsets."""

    text: str
    start: int | None
    end: int | None
    score: float


NOTHING = Passage("", None, None, 0.0)


Scored = tuple[float, Span]


def best_spans(scores: "Tensor", allowed: "Tensor", count: int, longest: int = ANSWER_TOKENS) -> list[list[Scored]]:
    """Return the top-scoring spans of each window, best first. (B, S, 2), (B, S) -> B lists

    Args:
        scores: the logit of each position as the start and as the end of an answer.
        allowed: True for positions where a span may begin or end.
        count: maximum number of spans per window.
        longest: maximum number of tokens in a span.
    """
    import torch
    from torch.nn import functional as F

    barred = scores.masked_fill(~allowed[..., None], -torch.inf)
    ends = F.pad(barred[..., 1], (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)  # (B, S, L): from each start
    of_spans = barred[..., 0, None] + ends - scores[:, 0].sum(-1)[:, None, None]
    values, places = of_spans.flatten(1).topk(min(count, of_spans[0].numel()))
    found = []
    for row in zip(values.tolist(), places.tolist()):
        spans = ((value, *divmod(place, longest)) for value, place in zip(*row) if value > -torch.inf)
        found.append([(value, (start, start + more)) for value, start, more in spans])
    return found


def certainty(passages: Sequence[Passage]) -> float:
    """Return by how much the best passage scores higher than no answer, or no answer than the best passage.

    Args:
        passages: the two best or more, as `ranked` returns them.
    """
    best, *others = passages
    return best.score if best.text or not others else -others[0].score


def ranked(text: TokensWithOffsets, spans: Iterable[Scored], count: int, *, may_lack: bool) -> list[Passage]:
    """Return distinct passages of a text, best first.

    Args:
        text: maps token spans to characters.
        spans: scores and token spans of the text. A passage has the score of its best span.
        count: maximum number of passages.
        may_lack: whether no answer is a candidate, too. It's the only passage if there are no spans.
    """
    best: dict[tuple[int, int], float] = {}
    for score, span in spans:
        place = text.span_of(*span)
        best[place] = max(score, best.get(place, score))
    found = [Passage(text.text[start:end], start, end, score) for (start, end), score in best.items()]
    found += [NOTHING] if may_lack or not found else []
    return sorted(found, key=lambda it: (-it.score, it.start or 0, it.end or 0))[:count]


# --- training windows, held-out questions and scores ------------------------------------------------------------------


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
        """Return questions with windows over their texts. A window without the complete answer has no answer.

        Args:
            asked: the questions.
            windows: all windows of the first question, then those of the next one.
            of: index of the question that each window belongs to.
        """
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
