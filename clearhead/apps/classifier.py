"""A classifier in use.

app = load("models/topics")
app("The match ended in a draw.")              # a label for a text, a list for a list
app.results(["The match ended in a draw."])    # with the probabilities of all labels
app.explain("The match ended in a draw.")      # with every step of attention
"""

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from ..config import DecodeConfig
from ..errors import ConfigError
from ..inspection.promises.subject import Subject
from ..inspection.views.explanation import Explanation
from ..model.transformer import EncoderModel
from ..tasks.classify.task import Classification
from ..tokenization.ragged import Ragged
from .answers import Labelled, Reading
from .app import App, as_text, as_texts
from .subjects import of_labels

_IN_USE = ("n_best", "batch_tokens")  # of the settings of a search: how much is read together; one answer is all


class Classifier(App):
    """A text to a label, as the training data write it."""

    model: EncoderModel
    task: Classification

    @property
    def labels(self) -> tuple[str, ...]:
        """All that there are, in the order of the alphabet."""
        return self.task.labels

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> str | list[str]:
        """The likeliest label: a text gives a label, a list a list."""
        if isinstance(text, str):
            return self.results([text], **decode)[0].label
        return [result.label for result in self.results(text, **decode)]

    def results(self, texts: Sequence[str], **decode: Any) -> list[Labelled]:
        """The full records, in the order of the texts. A blank text, too, has the label that the model finds likeliest;
        of a long one the beginning is read."""
        texts = as_texts(texts)
        tokens, cut = self.task.encoder.tokens(texts)
        together = self.decode_config(**decode).batch_tokens
        found = np.exp(self.task.log_probabilities(self.model, Ragged(tokens), together))
        return [self._result(*each) for each in zip(texts, found.tolist(), cut)]

    def explain(self, text: str, **decode: Any) -> Explanation:
        """Label one text, and record what happens when the model reads it; of a long one the beginning is read."""
        return self.task.explain(self.model, as_text(text), self.decode_config(**decode))

    def reading(self, text: str) -> Reading:
        """What of a text the model cannot read as it should; the records say the same."""
        [_, [cut]] = self.task.encoder.tokens([text])
        return Reading(tuple(self.tokenizers.source.unknown_words(text)), cut=cut)

    def _result(self, text: str, probabilities: list[float], cut: int) -> Labelled:
        order = sorted(range(len(self.labels)), key=lambda number: -probabilities[number])
        of_label = {self.labels[number]: probabilities[number] for number in order}
        unknown = tuple(self.tokenizers.source.unknown_words(text))
        best = self.labels[order[0]]
        return Labelled(text, best, of_label[best], of_label, unknown, cut=cut)

    def subject(self, data: Any = None, *, seed: int = 0) -> Subject:
        return of_labels(self, data, seed)

    def decode_config(self, **changes: Any) -> DecodeConfig:
        """A ConfigError for every setting of a search, of which there is none, but for how much is read together."""
        for name in changes:
            if name not in _IN_USE:
                raise ConfigError(
                    f"decode.{name} = {changes[name]} would change nothing: a label is not searched for; "
                    f"expected no decode.{name}"
                )
        return super().decode_config(**changes)
