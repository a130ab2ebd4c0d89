"""App for language models.

app = load("models/shakespeare")
app("To be, or not to be", chars=200)            # returns the text and 200 more characters
for piece in app.pieces("To be, "): print(piece, end="")
app.chat([{"role": "user", "content": "Hello!"}])   # answers, if the model has a chat template
app.explain("To be, ")                           # with every step of attention
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from ..decode.continuation import Continuation, StoppingCriteria, TextGenerator, no_template
from ..decode.writer import TextStream
from ..tasks.generate.task import Generation
from ..tokenization.chat_template import Messages
from .answers import Reading
from .app import ONE, App
from .inputs import as_messages, as_text, as_texts, as_token_ids
from .token_scores import CompletionWriter

if TYPE_CHECKING:
    from ..inspection.views.explanation import Explanation


class LanguageModel(App):
    """App that continues texts."""

    task: Generation
    without_effect = dict.fromkeys(
        ("max_ratio", "min_ratio"),
        "a continuation has no source to compare its length with; set decode.max_len or decode.min_len",
    )

    @overload
    def __call__(self, text: str = "", **decode: Any) -> str: ...
    @overload
    def __call__(self, text: Sequence[str], **decode: Any) -> list[str]: ...
    def __call__(
        self, text: str | Sequence[str] = "", *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> str | list[str]:
        """Continue one text or a list of texts. Each is returned together with its continuation.

        Args:
            chars: add exactly this many characters (default: stop at the model's end token or decode.max_len tokens).
            stop: stop before any of these strings.
            decode: search settings that override the model's, such as `sample=False`.
        """
        texts = [text] if isinstance(text, str) else as_texts(text)
        found = self.continuations(texts, chars=chars, stop=stop, **(ONE | decode))
        whole = [prompt + best.text for prompt, (best, *_) in zip(texts, found)]
        return whole[0] if isinstance(text, str) else whole

    def results(
        self, texts: Sequence[str], *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> list[Continuation]:
        """Return the best continuation of each text as a full record.

        Args:
            texts: the beginnings, one per continuation.
            chars: add exactly this many characters (default: stop at the model's end token or decode.max_len tokens).
            stop: stop before any of these strings.
            decode: search settings that override the model's, such as `sample=False`.
        """
        return [best for best, *_ in self.continuations(texts, chars=chars, stop=stop, **(ONE | decode))]

    def continuations(
        self, texts: Sequence[str | Messages], *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> list[list[Continuation]]:
        """Return the continuations of each text, or the answers to each conversation, as full records, best first.

        Args:
            texts: the beginnings, or conversations as lists of messages.
            chars: add exactly this many characters (default: stop at the model's end token or decode.max_len tokens).
            stop: stop before any of these strings.
            decode: search settings that override the model's, such as `sample=False`.
        """
        chats = isinstance(texts, list) and any(isinstance(it, list) for it in texts)
        texts = [_as_prompt(it) for it in texts] if chats else as_texts(texts)
        writer = self.writer(chars=chars, stop=stop, **decode)
        return writer.records(writer.read(texts))

    def pieces(
        self, text: str = "", *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any
    ) -> TextStream:
        """Stream the continuation of a text piece by piece. After that, `.continuation` is the full record.

        Args:
            text: the beginning (default: an empty text).
            chars: add exactly this many characters (default: stop at the model's end token or decode.max_len tokens).
            stop: stop before any of these strings.
            decode: search settings that override the model's, such as `sample=False`.
        """
        return self._streamed(as_text(text), chars=chars, stop=stop, **decode)

    def _streamed(self, text: str | Messages, **options: Any) -> TextStream:
        decode = {name: it for name, it in options.items() if name not in ("chars", "stop")}
        one = ONE | options
        if not self.decode_config(**(ONE | decode)).sample and "beam" not in decode:
            one["beam"] = 1  # beam search could revise pieces that were already yielded
        writer = self.writer(**one)
        return writer.pieces(*writer.read([text]))

    def chat(self, messages: Messages, *, stop: Sequence[str] = (), **decode: Any) -> str:
        """Return the answer to a conversation, in the form of the model's chat template.

        Args:
            messages: dicts with a "role" (such as "user") and a "content", the oldest first.
            stop: stop before any of these strings.
            decode: search settings that override the model's. Unless `max_len` is one of them, an answer can be as long
                as the context window.

        Raises:
            ConfigError: the model has no chat template.
            DataError: the messages are malformed, or the template can't express them.
        """
        writer = self.writer(**self.answering(stop=stop, **(ONE | decode)))
        return writer.records(writer.read([as_messages(messages)]))[0][0].text

    def chat_pieces(self, messages: Messages, *, stop: Sequence[str] = (), **decode: Any) -> TextStream:
        """Stream the answer to a conversation piece by piece. After that, `.continuation` is the full record.

        Args:
            messages: dicts with a "role" and a "content", the oldest first.
            stop: stop before any of these strings.
            decode: search settings that override the model's. By default, each token is the most likely one.
        """
        return self._streamed(as_messages(messages), **self.answering(stop=stop, **decode))

    def answering(self, *, stop: Sequence[str] = (), **decode: Any) -> dict[str, Any]:
        """Return options of `writer` for answers: without another limit, they end where the chat template ends them.

        Raises:
            ConfigError: the model has no chat template.
        """
        if self.task.chat is None:
            raise no_template()
        _, end = self.task.chat.stop
        return {"max_len": self.config.model.max_len} | decode | {"stop": (*stop, *([end] if end else []))}

    def writer(self, *, chars: int | None = None, stop: Sequence[str] = (), **decode: Any) -> TextGenerator:
        """Return a writer of continuations, which grows texts token by token.

        Args:
            chars: add exactly this many characters (default: stop at the model's end token or decode.max_len tokens).
            stop: stop before any of these strings.
            decode: search settings that override the model's.
        """
        config = self.decode_config(**decode)
        return self.task.generator(self.loaded.handle, config, StoppingCriteria(stop=stop, chars=chars))

    def completion_writer(
        self, *, top: int | None, echo: bool, writes: bool, stop: Sequence[str] = (), **decode: Any
    ) -> CompletionWriter:
        """Return a writer of continuations with the scores of their tokens.

        Args:
            top: number of alternatives per token; None means no scores.
            echo: also score the tokens of the prompt.
            writes: False if nothing is added to the prompt.
            stop: stop before any of these strings.
            decode: search settings that override the model's, such as `sample=False`.
        """
        return CompletionWriter(self.writer(stop=stop, **decode), top=top, echo=echo, writes=writes)

    def explain(self, text: str | Messages = "", *, prefix: Sequence[int] = (), **decode: Any) -> "Explanation":
        """Continue a text, or answer a conversation, and record the model's computation.

        By default, at most twenty tokens are added.

        Args:
            prefix: ids of tokens that the continuation starts with.

        Raises:
            DataError: the text fills the model's context window.
        """
        if "max_len" not in decode and "max_extra" in decode:
            decode["max_len"] = decode["max_extra"]
        begin = as_token_ids(prefix, self.tokenizers.target.vocab_size)
        return self.task.explain(self.model, _as_prompt(text), self.decode_config(**(ONE | decode)), begin)

    def reading(self, text: str) -> Reading:
        """Return the unknown words in a text. Nothing is ever cut off."""
        return Reading(tuple(self.tokenizers.target.unknown_words(as_text(text))))


def _as_prompt(text: Any) -> str | Messages:
    return as_messages(text) if isinstance(text, list) else as_text(text)
