"""A language model in use.

app = load("models/shakespeare")
app("To be, or not to be", chars=200)            # the text, and 200 characters more; a list for a list
for piece in app.pieces("To be, "): print(piece, end="")
app.explain("To be, ")                           # with every step of attention
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, overload

import torch

from ..answers import Reading
from ..decode.continuation import Continuation, Stream, Writer
from ..decode.ends import Ends
from ..decode.engines.text_engine import TextEngine
from ..errors import DataError
from ..inspection.contrast import Words
from ..inspection.explanation import Explanation
from ..inspection.flow import dimension_flow
from ..inspection.recorder import record
from ..inspection.search_tree import SearchTree
from ..model.transformer import Decoder, evaluation
from ..tasks.generation import Generation
from ..text.spelling import Spelling
from ..text.tokenizer import BOS, EOS, PAD
from .app import ONE, App, as_texts

_GOES_ON = 20  # tokens that a text goes on by, where nobody says


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
        return writer.stream(self._prompt(writer, text))

    def writer(self, *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any) -> Writer:
        """The model ready to go on with texts."""
        config = self.decode_config(**decode)
        engine = TextEngine(self.model, pad=PAD, max_len=self.config.model.max_len)
        return Writer(engine, self.tokenizers.target, config, ends=Ends(stop=stop, chars=chars))

    def explain(self, text: str = "", **decode: Any) -> Explanation:
        """Go on with a text, by twenty tokens at most where nobody says how many, and record what happens when the
        model reads it with what follows. A text that leaves no room in the model's block is a DataError."""
        block = self.config.model.max_len
        writer, target = self.writer(**(ONE | decode)), self.tokenizers.target
        prompt = self._prompt(writer, text) or [BOS]
        if not {"max_len", "max_extra"} & decode.keys():
            writer = self.writer(**(ONE | decode | {"max_len": max(min(_GOES_ON, block - len(prompt)), 1)}))
        if len(prompt) + writer.session.limit > block:
            raise DataError(
                f"the text of {len(prompt):,} tokens and {writer.session.limit:,} that follow it are more than the "
                f"{block:,} that the model reads at once (model.max_len); expected a shorter text, or a lower "
                "decode.max_len"
            )
        tree = SearchTree(lambda i: target.pieces([i])[0], lambda n: float(writer.session.rules.penalty(n)))
        with tree.watching(self.model):
            [hypotheses] = writer.session.answers([[] if prompt == [BOS] else prompt], tree.observe)
        best = hypotheses[0]
        said = [*prompt[1:], *best.ids, *([EOS] if best.finished else [])]
        inputs = [*prompt, *best.ids][: len(said)]
        with (
            evaluation(self.model),
            torch.inference_mode(),
            record(self.model, pieces={"decoder": target.pieces}) as trace,
        ):
            self.model(torch.tensor([inputs], device=self.config.train.device))
        following = Spelling(self.tokenizers.target, prompt).add(best.ids)
        pieces = target.pieces(said)
        words = Words(pieces, range(len(said)), said, target.pieces, lambda other, _: target.encode(other)[0])
        return Explanation(
            text=text,
            answer=text + following,
            values={"score": best.score, "log_probability": best.log_probability},
            tokens={"decoder": tuple(target.pieces(inputs))},
            outputs=tuple(pieces),
            said=tuple(said),
            flow=tuple(dimension_flow(self.model, target=(1, len(inputs)))),
            trace=trace,
            model=self.model,
            pieces=target.pieces,
            contrast=partial(words.contrast, self.model, trace),
            search=None if writer.session.diverse else tree.finish(hypotheses, target.decode),
        )

    def reading(self, text: str) -> Reading:
        """What of a text the model cannot read as it should."""
        return Reading(tuple(self.tokenizers.target.unknown_words(text)))

    def _prompt(self, writer: Writer, text: str) -> list[int]:
        if writer.session.config.unknown == "unk":
            return self.tokenizers.target.encode(text)
        return writer.prompt(text)
