"""Extractive question answering: find the passage of a text that answers a question (Devlin et al. 2019, section 4.2).

An encoder reads the question with a window of the text, and scores every token as the start and as the end of the
answer. If a window lacks the answer, both positions are <s>.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ...config import TASKS, Config, DecodeConfig
from ...config.values import require
from ...decode.model_handle import ModelHandle, as_module
from ...errors import DataError
from ...readers.questions import Paragraph, Question, QuestionCorpus
from ...tokenization.ragged import IntArray, Ragged
from ...tokenization.source_and_target import Tokenizers
from ..base import EvaluationResult, Task, Units, needs_more, rotary_positions, search_settings_but
from ..source_reader import on_device, tokens_on_device
from .reading import QuestionForm, Questions
from .windows import (
    NO_ANSWER,
    AnsweringScores,
    HeldOutQuestions,
    Passage,
    QuestionEncoder,
    Scored,
    Window,
    WindowBatch,
    WindowCutter,
    Windows,
    best_spans,
    certainty,
    ranked,
    read_paragraph,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ...inspection.views.explanation import Explanation

_TWO_TYPES = 2  # token types: question and text, without a third for what they share
_LEAST = 16  # minimum tokens of a window


class QuestionAnswering(Task):
    """Answer questions with a passage of a text."""

    verb = "answer"
    form = QuestionForm()
    units = Units("windows", "tokens", "answer", "questions")
    title = "A question-answering model"
    training_data = "windows of questions and their texts"
    usage = '--context text.txt "a question"'
    required: ClassVar[dict[str, Any]] = {**TASKS["answer"].needs, "data.joint": True}
    defaults: ClassVar[dict[str, Any]] = {
        "data.max_len": 256,
        "model.pre_norm": True,
        "model.n_token_types": 3,
        "train.label_smoothing": 0.0,
        "train.best": "f1",
        "decode.beam": 20,
    }
    unused = (
        *("data.source_column", "data.target_column", "data.separator", "data.reverse", "model.pooling"),
        *search_settings_but("beam", "n_best", "batch_tokens"),
    )
    scores = ("loss", "exact_match", "f1")
    compared_by = ("f1", "exact_match")
    answers_text = False
    searches = False  # the beam is the number of passages that are ranked; the best one doesn't depend on it

    def __init__(self, tokenizers: Tokenizers, config: Config) -> None:
        super().__init__(tokenizers, config)
        longest, limit = self.longest
        what = "leaves no room for a text next to a question"
        require(longest >= _LEAST, limit, longest, f"at least {_LEAST}", what=what)
        types, what = config.model.n_token_types, "can't tell questions from texts"
        expected = "3 (question, text, and what they share), 2 (question and text) or 0"
        require(types != 1, "model.n_token_types", types, expected, what=what)

    @classmethod
    def derived(cls, config: Config) -> Mapping[str, Any]:
        """Return the settings for a model that reads one training window at a time, with rotary positions."""
        return {"model.max_len": config.data.max_len} | rotary_positions(config)

    @classmethod
    def from_data(cls, data: Any, config: Config) -> Mapping[str, Any]:
        return {"data.unanswerable": cast(Questions, data).unanswerable}

    @classmethod
    def texts(cls, data: Any) -> Sequence[str]:
        """Return each text once, and all questions."""
        contexts = dict.fromkeys(context for context, _ in data)
        return [*contexts, *(question.text for _, question in data)]

    @property
    def cutter(self) -> WindowCutter:
        """Cuts questions and texts into windows."""
        return WindowCutter(self.tokenizers.source, self.longest[0], self.config.model.n_separators)

    @property
    def encoder(self) -> QuestionEncoder:
        return QuestionEncoder(self.cutter, self.longest[1])

    def examples(self, sides: tuple[Ragged, Ragged]) -> Windows:
        return Windows(*sides)

    def hold_out(self, data: QuestionCorpus) -> HeldOutQuestions:
        """Prepare questions for scoring, each with all windows over its text."""
        return self.over(data.paragraphs())

    def over(self, paragraphs: Iterable[Paragraph]) -> HeldOutQuestions:
        """Return the questions of the paragraphs, each with all windows over its text."""
        cutter = self.cutter
        asked = [it for paragraph in paragraphs for it in read_paragraph(cutter, paragraph)]
        windows, of = list[Window](), list[int]()
        for number, it in enumerate(asked):
            windows += (own := cutter.windows(it.ids, it.text.ids))
            of += [number] * len(own)
        return HeldOutQuestions.over(asked, windows, of)

    def batch(self, examples: Windows, rows: IntArray) -> WindowBatch:
        """Return the tensors of the windows in these rows."""
        device, special, size = self.config.train.device, self.special, self.config.model.src_vocab_size
        tokens = tokens_on_device(examples.sources.padded(rows, special.pad), device, size, special.pad)
        answers = on_device(examples.targets.padded(rows, 0), device)
        ends = tokens == special.eos
        behind = ends.cumsum(1) - ends.long() > 0  # after the first </s>
        of_text = behind & ~ends & (tokens != special.pad)
        return WindowBatch(tokens, self._types(tokens, behind, of_text), of_text, answers)

    def _types(self, tokens: "Tensor", behind: "Tensor", of_text: "Tensor") -> "Tensor | None":
        """Return the token types. All tensors are (B, S).

        Tokens shared by question and text are often close to the answer (Chen et al. 2017, "exact match").
        """
        count, types = self.config.model.n_token_types, behind.long()
        if count > _TWO_TYPES:
            same = (tokens[:, :, None] == tokens[:, None, :]) & ~behind[:, None, :]
            types += same.any(-1) & of_text
        return types if count else None

    def loss(self, model: "nn.Module", examples: Windows, rows: IntArray, *, smoothing: float) -> "Tensor":
        """Return the cross-entropy of the first and the last position, summed over both and over the windows.

        Args:
            model: a model with a span head.
            examples: windows.
            rows: indices of the windows (B,).
            smoothing: amount of label smoothing, spread over the positions that an answer can have.
        """
        from ..loss import span_cross_entropy

        batch = self.batch(examples, rows)
        scores = model(batch.tokens, batch.types, at=batch.of_text)
        return span_cross_entropy(scores, batch.answers, smoothing=smoothing)

    def read(
        self, model: "nn.Module", held_out: HeldOutQuestions, search: DecodeConfig
    ) -> tuple[list[list[Passage]], float]:
        """Return the `n_best` answers to each question, or two for `certainty`, and the loss, summed over all windows.

        The `beam` best passages of each window are ranked. The result doesn't depend on which windows share a batch.

        Args:
            model: a torch module.
            held_out: the questions, with all windows over their texts.
            search: `beam`, `n_best` and `batch_tokens` are used.
        """
        import torch

        from ...model.transformer import evaluation
        from ..loss import span_cross_entropy

        spans: list[list[Scored]] = [[] for _ in held_out.asked]
        total, examples = 0.0, held_out.examples
        with evaluation(model), torch.inference_mode():
            for rows in examples.batches(search.batch_tokens).epoch(0):
                batch = self.batch(examples, rows)
                scores = model(batch.tokens, batch.types, at=batch.of_text)
                total += float(span_cross_entropy(scores, batch.answers))
                allowed = torch.from_numpy(held_out.visible(rows.tolist())).to(scores.device)
                for row, found in zip(rows.tolist(), best_spans(scores, allowed, search.beam)):
                    window, own = held_out.windows[row], spans[held_out.of[row]]
                    own += [(score, window.span(*place)) for score, place in found]
        may_lack, count = self.config.data.unanswerable, max(2, search.n_best)
        return [ranked(it.text, own, count, may_lack=may_lack) for it, own in zip(held_out.asked, spans)], total

    def explain(self, model: Any, text: str, decode: DecodeConfig, context: str = "") -> "Explanation":
        """Answer one question and record every step, in the window of the context with the answer.

        Args:
            model: a torch module.
            text: the question.
            decode: settings of the search.
            context: the text to find the answer in.

        Raises:
            ConfigError: there's no context.
            DataError: the question is blank.
        """
        from ...inspection.explaining import explain
        from ...inspection.record.forward_pass import Pass

        if not context:
            raise needs_more(self.verb)
        if not text.strip():
            raise DataError("the question is blank", expected="a question to explain", name="question", value=text)
        window, answer = self._best_window(model, text, context, decode)
        batch, source = self.batch(window.examples, np.arange(1)), self.tokenizers.source
        inputs = [it for it in (batch.tokens, batch.types) if it is not None]
        forward = Pass(model=model, inputs=inputs, pieces=self.tokenizers.pieces, at=batch.of_text,
                       hidden=self.special.unk)  # fmt: skip
        trace, span = forward.recorded(), NO_ANSWER
        if answer.text:
            of_text = on_device(window.visible([0]), self.config.train.device)
            [[(_, span), *_]] = best_spans(trace["head"].output, of_text, 1)
        explanation = explain(
            replace(forward, targets=span, said=[answer.text or "no answer"]),
            self.tokenizers,
            self.config,
            text,
            answer.text,
            {"score": answer.score},
            trace=trace,
            unknown=window.unknown(0, source),
        )
        found, places = span if answer.text else None, tuple(window.places(0))
        return replace(explanation, span=found, context=context, in_context=places)

    def _best_window(
        self, model: Any, question: str, context: str, search: DecodeConfig
    ) -> tuple[HeldOutQuestions, Passage]:
        """Return the window that contains the answer to a question, as separate data, and the answer."""
        from ...inspection.record.uncompiled import uncompiled

        held_out = self.over([Paragraph(context, (Question("", question, ()),))])
        windows = [HeldOutQuestions.over(held_out.asked, [window], [0]) for window in held_out.windows]
        with uncompiled(model):  # so that the recorded pass gives the same answer
            [[answer, *_]], _ = self.read(model, held_out, search)
            best = max(windows, key=lambda it: self.read(model, it, search)[0][0][0].score)
        return best, answer

    def evaluate(
        self, model: "ModelHandle | nn.Module", held_out: HeldOutQuestions, decode: DecodeConfig
    ) -> EvaluationResult:
        """Answer every question, and score the answers and the baselines.

        Args:
            model: a torch module or a handle of a loaded model.
            held_out: the questions, with all windows over their texts.
            decode: `beam` is the number of passages that are ranked.
        """
        found, total = self.read(as_module(model), held_out, decode)
        answers = [passages[0].text for passages in found]
        judged = held_out.scores(answers)
        scores = AnsweringScores(judged, total / (2 * len(held_out.windows)), held_out.baselines)
        values = {name: np.asarray(it.values, np.float64) for name, it in judged.estimates.items()}
        return EvaluationResult(
            scores,
            held_out.sources,
            answers,
            held_out.references,
            lambda: values,
            judged.of_kinds(),
            certainty=np.array([*map(certainty, found)]),
        )

    def numbers(self, scores: AnsweringScores) -> dict[str, float]:
        found = {name: it.mean for name, it in scores.answers.estimates.items()}
        return {"loss": scores.loss, **found}
