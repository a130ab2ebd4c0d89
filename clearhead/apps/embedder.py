"""App for encoders without a head.

app = load("models/minilm")
app("The match ended in a draw.")           # returns an array (D,) for one text, (N, D) for a list
app.explain("The match ended in a draw.")   # with every step of attention

Every app whose model has an encoder has `embed`, which this one uses.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..tasks.embed import TextEmbedding, reader_of
from .answers import Embedded, Reading
from .app import App, all_settings_but
from .inputs import as_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Embedder(App):
    """App that embeds texts."""

    task: TextEmbedding
    without_effect = all_settings_but("n_best", "batch_tokens", reason="an embedding isn't searched for")

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_tokens: int | None = None,
    ) -> "NDArray[np.float32]":
        """Return the embedding of one text (D,), or of each text in a list (N, D); see `embed`."""
        several = [texts] if isinstance(texts, str) else texts
        found = self.embed(several, pooling=pooling, normalize=normalize, batch_tokens=batch_tokens)
        return found[0] if isinstance(texts, str) else found

    def results(  # type: ignore[override]
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        batch_tokens: int | None = None,
    ) -> list[Embedded]:
        """Return each text with its embedding (D,).

        Args:
            texts: a list of N texts.
            pooling: "mean" of all positions but padding, or the "first" one (default: model.pooling).
            normalize: scale every vector to length 1 (default: model.normalize).
            batch_tokens: maximum number of tokens per batch (default: decode.batch_tokens).
        """
        found = self.embed(texts, pooling=pooling, normalize=normalize, batch_tokens=batch_tokens)
        return list(map(Embedded, texts, found))

    def reading(self, text: str) -> Reading:
        [_, [cut]] = reader_of(self.task).encode([as_text(text)])
        return Reading(tuple(self.tokenizers.source.unknown_words(text)), cut=cut)
