"""App for masked language models.

app = load("models/book")
app("Paris is the [MASK] of France.")                    # returns a str for one text, a list for several
app.results(["Paris is the [MASK] of France."], top=5)   # with the most probable tokens for each mask
app.explain("Paris is the [MASK] of France.")            # with every step of attention
"""

from collections.abc import Sequence
from typing import Any, overload

from ..tasks.fill.fillings import Filled
from ..tasks.fill.task import Filling
from .answers import Reading
from .app import App, all_settings_but
from .inputs import as_text, as_texts, check_whole


class Filler(App):
    """App that fills the masks of texts."""

    task: Filling
    without_effect = all_settings_but(
        "n_best", "batch_tokens", "suppress", "suppress_special", reason="a mask is filled without a search"
    )

    @property
    def mask(self) -> str:
        """Spelling of a mask in a text, such as "[MASK]"."""
        return self.tokenizers.source.mask_name

    @overload
    def __call__(self, text: str, **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(self, text: str | Sequence[str], **decode: Any) -> str | list[str]:
        """Return one text, or each text of a list, with its masks filled by the most probable tokens."""
        if isinstance(text, str):
            return self.results([text], **decode)[0].filled
        return [result.filled for result in self.results(text, **decode)]

    def results(self, texts: Sequence[str], *, top: int = 1, **decode: Any) -> list[Filled]:
        """Fill the masks of texts and return full records in the same order. A blank text stays blank.

        Args:
            texts: texts with one or more masks.
            top: number of tokens to return for each mask.
            decode: search settings that override the model's, such as `suppress`.

        Raises:
            DataError: a text has no mask, or is too long for the model.
        """
        check_whole("top", top, 1)
        texts, search = as_texts(texts), self.decode_config(**decode)
        found = iter(self.task.fillings(self.loaded.handle, [it for it in texts if it.strip()], search, top))
        return [next(found) if text.strip() else Filled(text, text) for text in texts]

    def reading(self, text: str) -> Reading:
        """Return the unknown words in a text. Raise DataError if the text has no mask, or is too long."""
        if not as_text(text).strip():
            return Reading()
        self.task.read(text)
        return Reading(self.task.unknown_words(text))
