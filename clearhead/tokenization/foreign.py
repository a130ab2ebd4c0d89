"""Tokenizers of other programs: any `tokenizers` file, such as WordPiece, byte-level BPE, or SentencePiece's models.

The ids of a text are those of the file itself, without the special tokens that its template adds. A text can't forge
special tokens, unless its reader asks for that: their names are changed to ones that no text contains, before the
library reads the file.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import tokenizers

from ..config import SpecialTokens
from ..errors import DataError, ModelError
from .backend import PanicError, as_exceptions, open_backend
from .learning import lone_surrogate
from .normalise import NEVER, Kind, Spelling
from .tokenizer import Tokenizer

_Found = TypeVar("_Found")

_KINDS: dict[str, Kind] = {"BPE": "bpe", "Unigram": "unigram", "WordLevel": "word", "WordPiece": "wordpiece"}
_SPACE = "▁"  # SentencePiece's mark of a space
_SHOWN = 10  # unknown words that a message lists


class ForeignTokenizer(Tokenizer):
    """A tokenizer from another program's file.

    Args:
        content: the same, parsed.
        special: the ids of its special tokens.
        size: the number of tokens that the model has. Ids that the file lacks have a name and no text.
        specials: whether the names of special tokens in a text stand for these tokens.

    Raises:
        Exception: the library can't use the file.
    """

    is_foreign = True

    def __init__(
        self, text: str, content: dict[str, Any], special: SpecialTokens, size: int = 0, *, specials: bool = False
    ) -> None:
        self.special, self.specials, self._text = special, specials, text
        self._names = _names(content)
        self._marked: dict[tuple[str, ...], tokenizers.Tokenizer] = {}
        self._added = [it["content"] for it in content["added_tokens"]]
        added = {it["id"]: it["content"] for it in content["added_tokens"] if it["special"]}
        self._hidden, self._forgeable = special.ids | added.keys(), sorted(added.values(), key=len, reverse=True)
        new = {} if specials else {self._names[i]: NEVER + self._names[i] for i in self._hidden if i in self._names}
        renamed = _renamed(content, new)
        self._backend = open_backend(json.dumps(renamed), renamed)
        self._backend.encode_special_tokens = not specials
        self.kind = _KINDS[type(self._backend.model).__name__]
        if special.unk is not None or self.kind != "word":
            with as_exceptions():
                self._backend.encode(NEVER)  # so that a wrong name of the unknown token shows here
        self._marks = _marks_spaces(self._backend)
        self._size = max([size, *(i + 1 for i in self._names)])
        self._encode = self._encoded
        self._spelling = Spelling(self._backend, self._names, self._size, self._hidden, _types(content["decoder"]))

    def with_specials(self) -> "ForeignTokenizer":
        return ForeignTokenizer(self._text, json.loads(self._text), self.special, self._size, specials=True)

    def _warn(self, texts: Iterable[str]) -> None:
        """Name the special tokens in the first text that contains some."""
        for text in texts if self.say and self._forgeable else ():
            if self.say and (found := list(dict.fromkeys(self._forgery.findall(text)))):
                names = ", ".join(found[:_SHOWN])
                how = "to read special tokens, add --special-tokens (in Python: specials=True)"
                self.say(f"the text contains {names}, read as plain text; {how}")
                self.say = None

    @cached_property
    def _forgery(self) -> re.Pattern[str]:
        """The name of a special token in a text."""
        return re.compile("|".join(map(re.escape, self._forgeable)))

    def _ask(self, library: Callable[[Any], _Found], question: Any) -> _Found:
        """Return the library's answer. Raise ModelError if it panics, as it does if a pattern backtracks too long."""
        try:
            with as_exceptions():
                return library(question)
        except PanicError as error:
            what = f"the model's tokenizer.json can't be used for this text: {error}"
            expected, fix = "a tokenizer with simpler patterns", "use another text or another model"
            raise ModelError(what, expected=expected, fix=fix, name="tokenizer.json") from error

    @property
    def mask_name(self) -> str:  # type: ignore[override]
        """Spelling of a masked token in a text: the token's name in the file, such as <mask>; "" if there's none."""
        mask = self.special.mask
        return "" if mask is None else self._names.get(mask, f"<{mask}>")

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special tokens and ids without a token included."""
        return self._size

    @cached_property
    def adds_space(self) -> bool:  # type: ignore[override]
        """True if decoding removes a space from the start of a text."""
        words = (i for i, spelling in enumerate(self.token_bytes) if spelling[:1] == b" " and spelling.strip())
        first = next(words, None)
        return first is not None and not self.decode([first]).startswith(" ")

    def normalize(self, text: str) -> str:
        """Return the normalised text. Decoding its ids may space it differently."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise lone_surrogate(error) from error
        if self._backend.normalizer is None:
            return text
        found: str = self._ask(self._backend.normalizer.normalize_str, text)
        return found.replace(NEVER, "").replace(_SPACE, " ").removeprefix(" ") if self._marks else found

    def encode_masked(self, text: str) -> tuple[list[int], list[int]]:
        """Encode a text with masks. The file decides whether a mask includes the spaces around it."""
        self.normalize(text)
        self._warn([text.replace(self.mask_name, "")])
        marked = text.replace(NEVER, "\ufffd").replace(self.mask_name, self._mask_mark)
        encode = partial(self._masking.encode, add_special_tokens=False)
        ids: list[int] = self._ask(encode, marked).ids
        return ids, [place for place, i in enumerate(ids) if i == self.special.mask]

    @cached_property
    def _masking(self) -> tokenizers.Tokenizer:
        """The library's tokenizer, which also recognises its own names of special tokens, such as NEVER + "<mask>"."""
        found = tokenizers.Tokenizer.from_str(self._backend.to_str())
        name = self._mask_mark
        if name not in {it.content for it in found.get_added_tokens_decoder().values()}:
            found.add_special_tokens([name])
        return found

    def encode_after(self, before: str, text: str) -> list[int]:
        """Return the ids of a text that continues another one: if possible, only the ids that it adds."""
        head, whole = self.encode_batch([before, before + text])
        return whole[len(head) :] if whole[: len(head)] == head else self.encode(text)

    def encode_marked(self, texts: Sequence[str], names: Sequence[str] = ()) -> list[list[int]]:
        """Encode texts in which special tokens are written as a noncharacter and their names."""
        encode = partial(self._marking(tuple(names)).encode_batch_fast, add_special_tokens=False)
        for text in texts:
            self.normalize(text)  # raises an error for a lone surrogate
        return [it.ids for it in self._ask(encode, list(texts))]

    def _marking(self, names: tuple[str, ...]) -> tokenizers.Tokenizer:
        """Return the library's tokenizer, in which special tokens and these ones have names that no text contains."""
        if names not in self._marked:
            new = {name: NEVER + name for name in (*self.special_names, *names)}
            renamed = _renamed(json.loads(self._text), new)
            self._marked[names] = open_backend(json.dumps(renamed), renamed)
        return self._marked[names]

    def name_of(self, i: int) -> str:
        return self._names[i]

    @property
    def special_names(self) -> Sequence[str]:
        return [self._names[i] for i in sorted(self._hidden) if i in self._names]

    @property
    def added_names(self) -> Sequence[str]:
        return self._added

    @property
    def _mask_mark(self) -> str:
        """The library's own name of the mask."""
        return self.mask_name if self.specials else NEVER + self.mask_name

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        return self._ask(self._backend.decode_batch, [[i for i in ids if i not in self._hidden] for ids in batch])

    def unknown_words(self, text: str) -> list[str]:
        """Return the distinct parts of a text that aren't in the vocabulary."""
        if self.special.unk is None and self.kind == "word":
            splitter, normal = self._backend.pre_tokenizer, self.normalize(text)
            parts = [part for part, _ in self._ask(splitter.pre_tokenize_str, normal)] if splitter else [normal]
            return [part for part in dict.fromkeys(parts) if self._backend.token_to_id(part) is None]
        if self.special.unk is None or self.special.unk not in self.encode(text):
            return []
        return self._unknown_parts(text)

    def encoding(self, text: str) -> tokenizers.Encoding:
        self.normalize(text)
        self._warn([text])
        return self._ask(partial(self._backend.encode, add_special_tokens=False), text)

    def to_json(self) -> str:
        """Return the content of the file, unchanged."""
        return self._text

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        encode = partial(self._backend.encode_batch_fast, add_special_tokens=False)
        self._warn(texts)
        try:
            return [it.ids for it in self._ask(encode, list(texts))]
        except (TypeError, ModelError):
            raise
        except Exception as error:  # the library raises no narrower type
            missing = list(dict.fromkeys(part for text in texts for part in self.unknown_words(text)))
            if not missing:
                raise
            what = f"the model's vocabulary lacks {', '.join(map(repr, missing[:_SHOWN]))}"
            expected = "words of its training text, since it has no token for unknown words"
            raise DataError(what, expected=expected, name="text", value=missing) from error


def _names(content: dict[str, Any]) -> dict[int, str]:
    """Return the token of each id."""
    vocab = content["model"]["vocab"]
    listed = enumerate(name for name, _ in vocab) if isinstance(vocab, list) else ((i, it) for it, i in vocab.items())
    return dict(listed) | {it["id"]: it["content"] for it in content["added_tokens"]}


def _renamed(content: dict[str, Any], new: Mapping[str, str]) -> dict[str, Any]:
    """Return the file's content with new names for some tokens, and without truncation, padding and template."""
    model = dict(content["model"])
    if isinstance(model["vocab"], list):
        model["vocab"] = [[new.get(name, name), score] for name, score in model["vocab"]]
    else:
        model["vocab"] = {new.get(name, name): i for name, i in model["vocab"].items()}
    if isinstance(model.get("unk_token"), str):
        model["unk_token"] = new.get(model["unk_token"], model["unk_token"])
    added = [{**it, "content": new.get(it["content"], it["content"])} for it in content["added_tokens"]]
    unused = dict.fromkeys(("truncation", "padding", "post_processor"))
    return {**content, **unused, "added_tokens": added, "model": model}


def _types(step: dict[str, Any] | None) -> set[str]:
    """Return the types of a step of the pipeline, and of the steps inside it."""
    inner = (step or {}).get("decoders", ())
    return {(step or {}).get("type", "")}.union(*map(_types, inner))


def _marks_spaces(backend: tokenizers.Tokenizer) -> bool:
    """Return whether the normaliser writes spaces as SentencePiece does."""
    return backend.normalizer is not None and _SPACE in backend.normalizer.normalize_str("a b")
