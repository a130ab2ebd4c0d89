"""Extractive question answering: where in a text the answer stands (Devlin et al. 2019, section 4.2).

An encoder reads the question with a window of the text, and gives every token a score as the first and one as the last
of the answer. Where a window does not have it, both are to be <s>.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...config import Config, DecodeConfig
from ...errors import ConfigError
from ...model.transformer import evaluation
from ...readers.questions import Paragraph, QuestionCorpus
from ...readers.skipped import Skipped
from ...scoring.answer_scores import AnswerScores, answer_scores, closest_sentence, closest_window, first_sentence
from ...scoring.significance import Comparison, compare_means
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.tokenizer import EOS, PAD, Tokenizers
from ..base import Judged, Units
from ..examples import Examples
from .passages import Passage, Scored, best_spans, ranked
from .windows import Asked, QuestionEncoder, Window, WindowCutter, read_paragraph

_MARKED = 2  # types of tokens without one for what question and text have in common
_LEAST = 16  # tokens of a window
_BASELINES = {"first_sentence": first_sentence, "closest_sentence": closest_sentence, "closest_window": closest_window}
_NONE = "no_answer"  # the baseline of who says always that there is none


@dataclass(frozen=True)
class Windows(Examples):
    """Windows as tokens, and of each the positions where its answer begins and ends: both are predicted."""

    given: ClassVar[int] = 0
    counts_sources: ClassVar[bool] = True


@dataclass(frozen=True)
class Batch:
    """Some windows: tokens (B, S), types (B, S), which tokens are of the text (B, S), and where the answers are (B, 2).

    The types are 0 for the question, 1 for the text, and 2 for what of it the question has, where the model knows so
    many; None where it has none.
    """

    tokens: Tensor
    types: Tensor | None
    of_text: Tensor
    answers: Tensor


@dataclass(frozen=True)
class HeldOutQuestions:
    """Questions to score on: each with its text, and all windows over that; `of` is the question of each window."""

    asked: list[Asked]
    windows: list[Window]
    of: list[int]
    too_long: list[Skipped]

    @cached_property
    def examples(self) -> Windows:
        """As tokens; a window in which the answer does not stand as a whole has none."""
        places = [window.positions(self.asked[i].answer) for window, i in zip(self.windows, self.of)]
        return Windows(Ragged([window.tokens for window in self.windows]), Ragged(places))

    def visible(self, rows: IntArray) -> NDArray[np.bool_]:
        """Where in these windows an answer may begin and end: at what is no white space of the text. -> (B, S)"""
        windows = [self.windows[row] for row in rows.tolist()]
        found = np.zeros((len(windows), max(len(window.tokens) for window in windows)), np.bool_)
        for line, window, row in zip(found, windows, rows.tolist()):
            text, part = self.asked[self.of[row]].text, slice(window.first, window.last + 1)
            line[window.begins : len(window.tokens) - 1] = np.less(text.starts[part], text.ends[part])
        return found

    @property
    def cut(self) -> int:
        """Questions of which only the beginning is read."""
        return sum(bool(it.cut) for it in self.asked)

    @property
    def sources(self) -> list[str]:
        """The questions."""
        return [it.question.text for it in self.asked]

    @property
    def references(self) -> list[list[str]]:
        """The answers that people gave to each, none where it has none."""
        return [[answer.text for answer in it.question.answers] for it in self.asked]

    def scores(self, answers: Sequence[str]) -> AnswerScores:
        """How good answers are, by the rules for data with unanswerable questions where there are some."""
        references = self.references
        return answer_scores(answers, references, unanswerable=not all(references))

    @cached_property
    def baselines(self) -> dict[str, dict[str, Any]]:
        """The scores of answers that need no model; where some questions have no answer, of saying so of all, too."""
        found = {} if all(self.references) else {_NONE: self.scores([""] * len(self.asked)).measures()}
        for name, answer in _BASELINES.items():
            said = [answer(it.text.text, it.question.text) for it in self.asked]
            found[name] = self.scores(said).measures()
        return found


@dataclass(frozen=True)
class AnsweringScores:
    """Exact match and F1, the loss of a window's two positions in nats, and the scores of what needs no model."""

    answers: AnswerScores
    loss: float
    baselines: dict[str, dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**self.answers.to_dict(), "loss": self.loss, "baselines": self.baselines}


class Answering:
    """What training and scoring need to know of the task."""

    units = Units("windows", "tokens", "answer", "questions")

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        self.tokenizers, self.config = tokenizers, config
        self.device = torch.device(config.train.device)
        longest, limit = self.longest
        if longest < _LEAST:
            raise ConfigError(
                f"{limit} = {longest} leaves no room for a text beside a question; expected at least {_LEAST} tokens"
            )
        if config.model.n_token_types == 1:
            raise ConfigError(
                "model.n_token_types = 1 tells nothing apart; expected 3, question, text and what they have in common, "
                "2 without that, or 0"
            )

    @property
    def longest(self) -> tuple[int, str]:
        """The tokens of a window, and the setting that says so."""
        return min((self.config.data.max_len, "data.max_len"), (self.config.model.max_len, "model.max_len"))

    @property
    def cutter(self) -> WindowCutter:
        """What cuts windows."""
        return WindowCutter(self.tokenizers.source, self.longest[0])

    @property
    def encoder(self) -> QuestionEncoder:
        """What makes windows of the questions to learn from."""
        return QuestionEncoder(self.cutter, self.longest[1])

    def examples(self, sides: tuple[Ragged, Ragged]) -> Windows:
        """What a store holds, as windows."""
        return Windows(*sides)

    def hold_out(self, data: QuestionCorpus) -> HeldOutQuestions:
        """Every question with all windows over its text."""
        return self.over(data.paragraphs())

    def over(self, paragraphs: Iterable[Paragraph]) -> HeldOutQuestions:
        cutter = self.cutter
        asked = [it for paragraph in paragraphs for it in read_paragraph(cutter, paragraph)]
        windows, of = list[Window](), list[int]()
        for number, it in enumerate(asked):
            windows += (own := cutter.windows(it.ids, it.text.ids))
            of += [number] * len(own)
        return HeldOutQuestions(asked, windows, of, [])

    def batch(self, examples: Windows, rows: IntArray) -> Batch:
        """The tensors of these windows."""
        tokens = torch.from_numpy(examples.sources.padded(rows, PAD)).to(self.device)
        answers = torch.from_numpy(examples.targets.padded(rows, PAD)).to(self.device)
        ends = tokens == EOS
        behind = ends.cumsum(1) - ends.long() > 0  # of the first </s>
        of_text = behind & ~ends & (tokens != PAD)
        return Batch(tokens, self._types(tokens, behind, of_text), of_text, answers)

    def _types(self, tokens: Tensor, behind: Tensor, of_text: Tensor) -> Tensor | None:
        """0 in the question, 1 in the text, and with three of them 2 where the text has a token of the question: what
        is looked for often stands near (Chen et al. 2017, "exact match"). All (B, S)"""
        count, types = self.config.model.n_token_types, behind.long()
        if count > _MARKED:
            same = (tokens[:, :, None] == tokens[:, None, :]) & ~behind[:, None, :]
            types += same.any(-1) & of_text
        return types if count else None

    def loss(self, model: nn.Module, examples: Windows, rows: IntArray, *, smoothing: float) -> Tensor:
        """Cross-entropy of the first and of the last token, summed over both and over the windows."""
        batch = self.batch(examples, rows)
        scores = model(batch.tokens, batch.types, at=batch.of_text)
        return place_loss(scores, batch.answers, smoothing=smoothing)

    def read(
        self, model: nn.Module, held_out: HeldOutQuestions, search: DecodeConfig
    ) -> tuple[list[list[Passage]], float]:
        """The `n_best` answers to each question, best first, and the loss, summed over all windows.

        Of each window the `beam` best are looked at. A window takes part in the search whatever the others are.
        """
        spans: list[list[Scored]] = [[] for _ in held_out.asked]
        total, examples = 0.0, held_out.examples
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(search.batch_tokens).epoch(0):
                batch = self.batch(examples, rows)
                scores = model(batch.tokens, batch.types, at=batch.of_text)
                total += float(place_loss(scores, batch.answers))
                allowed = torch.from_numpy(held_out.visible(rows)).to(self.device)
                for row, found in zip(rows.tolist(), best_spans(scores, allowed, search.beam)):
                    window, own = held_out.windows[row], spans[held_out.of[row]]
                    own += [(score, window.span(*place)) for score, place in found]
        may_lack, count = self.config.data.unanswerable, search.n_best
        return [ranked(it.text, own, count, may_lack=may_lack) for it, own in zip(held_out.asked, spans)], total

    def evaluate(self, model: nn.Module, held_out: HeldOutQuestions, decode: DecodeConfig) -> Judged:
        """Answer every question, and score the answers beside those that need no model."""
        found, total = self.read(model, held_out, decode)
        answers = [passages[0].text for passages in found]
        judged = held_out.scores(answers)
        scores = AnsweringScores(judged, total / (2 * len(held_out.windows)), held_out.baselines)
        values = {name: np.asarray(it.values, np.float64) for name, it in judged.estimates.items()}
        return Judged(scores, held_out.sources, answers, held_out.references, lambda: values, judged.of_kinds())

    def numbers(self, scores: AnsweringScores) -> dict[str, float]:
        """What the log keeps and the best weights may be chosen by."""
        found = {name: it.mean for name, it in scores.answers.estimates.items()}
        return {"loss": scores.loss, **found}

    def compare(self, systems: Sequence[tuple[str, Judged]]) -> Comparison:
        """Whether models answer better than the first of them, or were lucky: question by question."""
        names = ("exact_match", "f1")
        return Comparison(
            {name: compare_means([(system, it.singly()[name]) for system, it in systems]) for name in names}, {}
        )

    def expect_search(self, model: nn.Module) -> None:
        """Nothing is generated, so that every search can be."""


def place_loss(scores: Tensor, answers: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """The sum over windows, and over first and last token, of -sum_s q(s) log p(s), with p = softmax(scores).

    q gives 1 - smoothing to the answer's token, and spreads the rest over all tokens whose score is finite, that one
    among them. (B, S, 2), (B, 2) -> ()
    """
    log_p = scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(1)
    terms = (1 - smoothing) * log_p.gather(1, answers[:, None])[:, 0]
    if smoothing:
        barred = scores == -torch.inf
        terms = terms + smoothing * log_p.masked_fill(barred, 0.0).sum(1) / (~barred).sum(1)
    return -terms.sum()
