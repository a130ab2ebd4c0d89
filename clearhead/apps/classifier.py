"""App for text classification.

app = load("models/topics")
app("The match ended in a draw.")              # returns a str for one text, a list for several
app.results(["The match ended in a draw."])    # with the probabilities of all labels
app.explain("The match ended in a draw.")      # with every step of attention
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast, overload

from ..tasks.classify.records import ClassRecord
from ..tasks.classify.task import Classification
from .answers import Reading
from .app import App, all_settings_but
from .inputs import as_source, as_sources, is_blank, is_one_source

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
        found = [it.answer for it in results]
        return found[0] if one else found

    def results(self, texts: Sequence[str], **decode: Any) -> list[ClassRecord]:
        """Label texts and return full records in the same order. Long texts are truncated."""
        texts, reader = as_sources(texts, self.task.modalities), self.task.reader
        encoded, cut = reader.encode(texts)
        together = self.decode_config(**decode).batch_tokens
        scores = self.task.log_probabilities(self.model, reader.joined(encoded), together)
        found = [*map(self.task.record, texts, scores, map(reader.unknown_words, texts), cut)]
        certainty = self.task.certainty(scores)
        if self.confidence is None or certainty is None:
            return found
        each: Any = zip(found, certainty.tolist())
        return [it if is_blank(it.text) else replace(it, confidence=self.confidence(own)) for it, own in each]

    def explain(self, text: str, **decode: Any) -> "Explanation":
        """Label a text and record the model's computation. A long text is truncated."""
        return self.task.explain(self.model, as_source(text, self.task.modalities), self.decode_config(**decode))

    def reading(self, text: str) -> Reading:
        [_, [cut]] = self.task.reader.encode([as_source(text, self.task.modalities)])
        return Reading(self.task.reader.unknown_words(text), cut=cut)
