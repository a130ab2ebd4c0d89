"""A language model in use.

app = load("models/shakespeare")
app("To be, or not to be", chars=200)            # the text, and 200 characters more; a list for a list
for piece in app.pieces("To be, "): print(piece, end="")
app.explain("To be, ")                           # with every step of attention
"""

from collections.abc import Sequence
from typing import Any, overload

from ..decode.continuation import Continuation, Stream, TextGenerator
from ..decode.stopping import StoppingCriteria
from ..inspection.promises.subject import Subject
from ..inspection.views.explanation import Explanation
from ..model.transformer import Decoder
from ..tasks.generate.task import Generation
from .answers import Reading
from .app import ONE, App, as_text, as_texts
from .subjects import of_text


class LanguageModel(App):
    """A text goes on."""

    model: Decoder
    task: Generation

    @overload
    def __call__(self, text: str = "", **options: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **options: Any) -> list[str]: ...
    def __call__(
        self, text: str | Sequence[str] = "", *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> str | list[str]:
        """The text and what follows it, or a list for a list: `chars` characters exactly, or until one of the texts of
        `stop` would come, the model ends it, or decode.max_len tokens are there. Settings of `decode` may follow:
        sample=False."""
        texts = [text] if isinstance(text, str) else text
        found = self.continuations(texts, chars=chars, stop=stop, **(ONE | decode))
        whole = [begun + best.text for begun, (best, *_) in zip(texts, found)]
        return whole[0] if isinstance(text, str) else whole

    def continuations(
        self, texts: Sequence[str], *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> list[list[Continuation]]:
        """What follows each text, best first, as full records."""
        texts = as_texts(texts)
        writer = self.writer(chars=chars, stop=stop, **decode)
        return writer.continuations([self._prompt(writer, text) for text in texts])

    def pieces(self, text: str = "", *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any) -> Stream:
        """What follows a text, in pieces, each as soon as it is known; `continuation` of it is then the record."""
        one = ONE | decode
        if not self.decode_config(**one).sample and "beam" not in decode:
            one["beam"] = 1  # what is said is never taken back
        writer = self.writer(chars=chars, stop=stop, **one)
        return writer.stream(self._prompt(writer, as_text(text)))

    def writer(self, *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any) -> TextGenerator:
        """The model ready to go on with texts."""
        config = self.decode_config(**decode)
        return self.task.generator(self.model, config, StoppingCriteria(stop=stop, chars=chars))

    def explain(self, text: str = "", **decode: Any) -> Explanation:
        """Go on with a text, by twenty tokens at most unless `max_len` or `max_extra` says so, and record what happens
        when the model reads it with what follows. A text that leaves no room in the model's block is a DataError."""
        if "max_len" not in decode and "max_extra" in decode:
            decode["max_len"] = decode["max_extra"]
        return self.task.explain(self.model, as_text(text), self.decode_config(**(ONE | decode)))

    def reading(self, text: str) -> Reading:
        """What of a text the model cannot read as it should."""
        return Reading(tuple(self.tokenizers.target.unknown_words(text)))

    def subject(self, data: Any = None, *, seed: int = 0) -> Subject:
        return of_text(self, data, seed)

    def _prompt(self, writer: TextGenerator, text: str) -> list[int]:
        if writer.session.config.unknown == "unk":
            return self.tokenizers.target.encode(text)
        return writer.prompt(text)
