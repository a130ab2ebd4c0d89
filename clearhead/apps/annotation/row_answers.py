"""What every app inherits to answer the rows of tables."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...config import TASKS, Config

if TYPE_CHECKING:
    from ...tasks.base import Task


class RowAnswers(ABC):
    """Answers rows, each of which has the texts of one or more columns."""

    task: "Task"

    @property
    @abstractmethod
    def config(self) -> Config:
        """The settings of the model."""

    @abstractmethod
    def results(self, texts: Sequence[Any], **decode: Any) -> Sequence[Any]:
        """Return a record of the answer to each text, in order."""

    @property
    def inputs(self) -> Sequence[str]:
        """The inputs of the task. If there are several, each is a column of a table."""
        spec = TASKS.get(self.config.train.task or "translate")
        return spec.needed if spec and len(spec.needed) > 1 else ("text",)

    @property
    def columns(self) -> Mapping[str, str]:
        """The new columns of an answered table, with the fields of a record that they contain."""
        spec = TASKS.get(self.config.train.task or "translate")
        return spec.columns if spec and spec.columns else {self.task.units.answer: "text"}

    def row_results(self, rows: Sequence[Sequence[str]], **decode: Any) -> Sequence[Any]:
        """Return a record of the answer to each row, in order. No text is blank."""
        return self.results([text for (text,) in rows], **decode)
