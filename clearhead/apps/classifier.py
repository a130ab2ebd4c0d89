"""App for text classification.

app = load("models/topics")
app("The match ended in a draw.")              # returns a str for one text, a list for several
app.results(["The match ended in a draw."])    # with the probabilities of all labels
app.explain("The match ended in a draw.")      # with every step of attention
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np

from ..config.task_spec import Column
from ..tasks.classify.several import MultiLabelClassification
from ..tasks.classify.task import Classification
from .answers import Labelled, LabelSet, Reading
from .app import App, all_settings_but
from .inputs import as_source, as_sources, is_one_source

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation


class Classifier(App):
    """App that labels texts."""

    task: Classification
    without_effect = all_settings_but("n_best", "batch_tokens", reason="a classifier doesn't search")

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels, in alphabetical order."""
        return self.task.labels

    @property
    def columns(self) -> Mapping[str, Column]:
        return {"label": Column("label")} if isinstance(self.task, MultiLabelClassification) else super().columns

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> Any:
        """Return the most likely label of one text, or of each text in a list.

        A model that gives texts several labels returns a list of labels for each.
        """
        one = is_one_source(text, self.task.modalities)
        results = self.results([cast(str, text)] if one else text, **decode)
        found = [[*it.labels] if isinstance(it, LabelSet) else it.label for it in results]
        return found[0] if one else found

    def results(self, texts: Sequence[str], **decode: Any) -> list[Labelled] | list[LabelSet]:
        """Label texts and return full records in the same order. Long texts are truncated."""
        texts = as_sources(texts, self.task.modalities)
        encoded, cut = self.task.reader.encode(texts)
        together = self.decode_config(**decode).batch_tokens
        found = np.exp(self.task.log_probabilities(self.model, self.task.reader.joined(encoded), together))
        return cast("list[Labelled] | list[LabelSet]", [*map(self._result, texts, found.tolist(), cut)])

    def explain(self, text: str, **decode: Any) -> "Explanation":
        """Label a text and record the model's computation. A long text is truncated."""
        return self.task.explain(self.model, as_source(text, self.task.modalities), self.decode_config(**decode))

    def reading(self, text: str) -> Reading:
        [_, [cut]] = self.task.reader.encode([as_source(text, self.task.modalities)])
        return Reading(self.task.reader.unknown_words(text), cut=cut)

    def _result(self, text: str, probabilities: list[float], cut: int) -> Labelled | LabelSet:
        order = sorted(range(len(self.labels)), key=lambda number: -probabilities[number])
        of_label = {self.labels[number]: probabilities[number] for number in order}
        unknown = self.task.reader.unknown_words(text)
        if isinstance(self.task, MultiLabelClassification):
            labels = self.task.chosen(probabilities)
            return LabelSet(text, self.task.separator.join(labels), tuple(labels), of_label, unknown, cut=cut)
        best = self.labels[order[0]]
        return Labelled(text, best, of_label[best], of_label, unknown, cut=cut)
