"""How a translator, or an app like it, reads its inputs and records their answers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..config import DecodeConfig
from ..decode.beams import Hypothesis
from ..decode.model_handle import ModelHandle
from ..decode.writer import Grow, Read, Writer
from ..readers.lines import one_line
from ..tasks.sequences import Sequences
from ..tokenization.detokenize import GrowingText
from .answers import BriefResult, Reading, Result, ScoredAnswer


class SequenceWriter(Writer[Result]):
    """Writes the targets of sources.

    Args:
        task: the task, with the tokenizers.
        model: handle of the model.
        search: search settings.
        prefix: text that every answer starts with.
    """

    def __init__(self, task: Sequences, model: ModelHandle, search: DecodeConfig, prefix: str = "") -> None:
        self._task, self.session, self.prefix = task, task.session(model, search), task.prefix(prefix)

    def read(self, texts: Sequence[Any]) -> list[Read]:
        """Encode sources. A blank text gets a blank answer."""
        return read_sources(self._task, texts)

    def grow(self, read: Read) -> Grow:
        """Return a function that turns tokens into text. It holds back an incomplete character.

        It holds back everything if the task has its own way to make a text of tokens, since more tokens could change
        how that begins.
        """
        if type(self._task).text is not Sequences.text:
            return lambda token: ""
        growing, settled = GrowingText(self._task.tokenizers.target.decode), ""

        def add(token: int) -> str:
            nonlocal settled
            text = one_line(growing.add(token))
            settled = settled if text.endswith("\ufffd") else text
            return settled

        return add

    def record(self, read: Read, answers: Sequence[Hypothesis]) -> Result:
        """Return the record of a source."""
        if not answers:
            return Result("", 0.0, 0.0, (), (), read.text)
        best, *others = map(self._answer, answers)
        return Result(**vars(best), source=read.text, alternatives=tuple(others), **vars(reading_of(self._task, read)))

    def brief(self, read: Read, answers: Sequence[Hypothesis]) -> BriefResult:
        """Return a record without scores."""
        text = self._task.text(answers[0].ids) if answers else ""
        return BriefResult(**vars(reading_of(self._task, read)), text=text)

    def best(self, record: Result) -> Result:
        """Return the record, which contains the best answer."""
        return record

    def _answer(self, answer: Hypothesis) -> ScoredAnswer:
        text, pieces = self._task.text(answer.ids), tuple(self._task.tokenizers.target.pieces(answer.ids))
        return ScoredAnswer(text, answer.score, answer.log_probability, pieces, answer.token_log_probabilities)


def read_sources(task: Sequences, texts: Sequence[Any]) -> list[Read]:
    """Encode the sources that aren't blank texts."""
    filled = [text for text in texts if not _is_blank(text)]
    encoded = iter(zip(*task.reader.for_search(filled)))
    return [Read(text, writes=False) if _is_blank(text) else Read(text, *next(encoded)) for text in texts]


def reading_of(task: Sequences, read: Read) -> Reading:
    """Return the problems with a source."""
    if not read.writes:
        return Reading()
    length = int(task.reader.positions(np.array([len(read.source)]))[0]) + read.cut
    return Reading(task.reader.unknown_words(read.text), length if length > task.config.data.max_len else 0, read.cut)


def _is_blank(text: Any) -> bool:
    """Return whether a source is a text of spaces only."""
    return isinstance(text, str) and not text.strip()
