"""App for text classification.

app = load("models/topics")
app("The match ended in a draw.")              # returns a str for one text, a list for several
app.results(["The match ended in a draw."])    # with the probabilities of all labels
app.explain("The match ended in a draw.")      # with every step of attention
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast, overload

import numpy as np

from ..config.task_spec import Column
from ..readers.column_roles import OF_PROBABILITY
from ..tasks.classify.multi_target import TargetClassification
from ..tasks.classify.regression import Regression
from ..tasks.classify.several import MultiLabelClassification
from ..tasks.classify.task import Classification
from .answers import Labelled, LabelSet, Numbered, Reading, TargetLabels
from .app import App, all_settings_but
from .inputs import as_source, as_sources, is_one_source

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation

_Found: TypeAlias = Labelled | LabelSet | TargetLabels | Numbered


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
        if isinstance(self.task, MultiLabelClassification):
            return {"label": Column("label")}
        if isinstance(self.task, Regression):
            return {"number": Column("number", "number")}
        if not isinstance(self.task, TargetClassification):
            return super().columns
        names = [it.name for it in self.task.targets]
        each = [
            {it: Column("labels", key=it), f"{it}{OF_PROBABILITY}": Column("probability", "number", it)} for it in names
        ]
        return {name: column for own in each for name, column in own.items()}

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> Any:
        """Return the most likely label of one text, or of each text in a list.

        A model that gives texts several labels returns a list of labels for each. A model with several targets returns
        a dictionary with the label of each, and a model of numbers a float.
        """
        one = is_one_source(text, self.task.modalities)
        results = self.results([cast(str, text)] if one else text, **decode)
        found = [_labels(it) for it in results]
        return found[0] if one else found

    def results(
        self, texts: Sequence[str], **decode: Any
    ) -> list[Labelled] | list[LabelSet] | list[TargetLabels] | list[Numbered]:
        """Label texts and return full records in the same order. Long texts are truncated."""
        texts = as_sources(texts, self.task.modalities)
        encoded, cut = self.task.reader.encode(texts)
        together = self.decode_config(**decode).batch_tokens
        found = self.task.log_probabilities(self.model, self.task.reader.joined(encoded), together)
        values = found if isinstance(self.task, Regression) else np.exp(found)
        return cast("list[Labelled]", [*map(self._result, texts, values.tolist(), cut)])

    def explain(self, text: str, **decode: Any) -> "Explanation":
        """Label a text and record the model's computation. A long text is truncated."""
        return self.task.explain(self.model, as_source(text, self.task.modalities), self.decode_config(**decode))

    def reading(self, text: str) -> Reading:
        [_, [cut]] = self.task.reader.encode([as_source(text, self.task.modalities)])
        return Reading(self.task.reader.unknown_words(text), cut=cut)

    def _result(self, text: str, probabilities: list[float], cut: int) -> _Found:
        unknown = self.task.reader.unknown_words(text)
        if isinstance(self.task, Regression):
            return Numbered(text, probabilities[0], unknown, cut=cut)
        if isinstance(self.task, TargetClassification):
            ranked = {it.name: _ranked(it.labels, probabilities[it.place]) for it in self.task.targets}
            labels = {name: next(iter(own)) for name, own in ranked.items()}
            p = {name: own[labels[name]] for name, own in ranked.items()}
            return TargetLabels(text, self.task.joined(labels.values()), labels, p, ranked, unknown, cut=cut)
        of_label = _ranked(self.labels, probabilities)
        if isinstance(self.task, MultiLabelClassification):
            chosen = self.task.chosen(probabilities)
            return LabelSet(text, self.task.separator.join(chosen), tuple(chosen), of_label, unknown, cut=cut)
        best = next(iter(of_label))
        return Labelled(text, best, of_label[best], of_label, unknown, cut=cut)


def _ranked(labels: Sequence[str], p: Sequence[float]) -> dict[str, float]:
    """Return the probability of each label, the highest first."""
    return dict(sorted(zip(labels, p), key=lambda it: -it[1]))


def _labels(found: _Found) -> Any:
    """Return what is said of a text."""
    if isinstance(found, LabelSet):
        return [*found.labels]
    if isinstance(found, Numbered):
        return found.number
    return dict(found.labels) if isinstance(found, TargetLabels) else found.label
