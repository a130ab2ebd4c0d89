"""Text to token ids and back, based on the `tokenizers` library. One file stores everything that the ids depend on.

There are four kinds of vocabulary: "word", "character", and the subwords of "bpe" (byte-pair encoding) and "unigram".
Subword vocabularies contain all 256 bytes, so they have no unknown words, and decode(encode(text)) == normalize(text)
for every text. For words and characters, this is also true if the text has no unknown tokens.

A text can't forge special tokens. "<" and a letter never share a piece, so "</s>" in a text becomes ordinary pieces,
and training can't learn a piece "</s>".
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import ClassVar, Literal, Self, cast

import tokenizers
from tokenizers import models

from ..config import DataConfig, DecodeConfig, SpecialTokens
from ..errors import ConfigError, DataError
from .learning import SPECIALS, learn_vocabulary, lone_surrogate, word_vocabulary
from .normalise import NEVER, Kind, Spelling

KINDS: dict[type, Literal["bpe", "unigram"] | None] = {
    models.BPE: "bpe",
    models.Unigram: "unigram",
    models.WordLevel: None,
}

_CHUNK = 8192  # texts passed to the library at once, to limit the memory of its encodings
_MOST = 200_000  # cached words; when it's full, the cache is cleared, and frequent words soon return
_LONG = 40  # longer words, such as sentences in languages without spaces, rarely repeat, and aren't cached
_UNLIKE = re.compile("[\x1c-\x1f]")  # whitespace in Python, but not in Unicode
_WINDOW = 16  # tokens that are decoded again, at least


class Tokenizer:
    """A vocabulary with its normalisation. Use `train` to create one."""

    is_foreign: ClassVar[bool] = False
    """True for another program's vocabulary."""
    specials: bool = False
    """True if names of special tokens in a text are read as these tokens."""
    say: Callable[[str], None] | None = None
    """Receives a warning about the first text of another program's model that names special tokens as plain text."""
    mask_name: str = "[MASK]"
    """How a text spells a masked token for `encode_masked`."""

    def __init__(self, backend: tokenizers.Tokenizer, special: SpecialTokens) -> None:
        self.special = special
        backend.encode_special_tokens = True  # "</s>" in a text is text; the file doesn't store this
        self._backend = backend
        self._encode: Callable[[Sequence[str]], list[list[int]]] = _WordEncoder(backend)
        # All kinds but characters prepend a space to the text, which `decode` removes.
        self.adds_space: bool = backend.normalizer.normalize_str("a") != "a"
        self.kind: Kind = KINDS[type(backend.model)] or ("word" if self.adds_space else "character")

    @classmethod
    def train(cls, texts: Iterable[str], data: DataConfig) -> Self:
        """Learn a vocabulary from texts. The same texts give the same vocabulary, with any number of threads.

        Args:
            texts: read once, or twice for unigram, which copies an iterator into a list.
            data: kind, size and normalisation. The vocabulary is smaller than `data.vocab_size` if the texts don't
                contain enough tokens.

        Raises:
            ConfigError: `data.vocab_size` has no room for the 256 bytes.
            DataError: the texts are empty, or not valid Unicode.
        """
        return cls(learn_vocabulary(texts, data), SpecialTokens())

    @classmethod
    def without_text(cls) -> Self:
        """Return the tokenizer of a model that neither reads nor writes text: it has the special tokens only."""
        return cls(word_vocabulary(()), SpecialTokens())

    def with_specials(self) -> "Tokenizer":
        """Return the tokenizer that reads the names of special tokens in a text as these tokens.

        Raises:
            ConfigError: it was trained here, so no text has contained one.
        """
        what = "specials=True has no effect: the model was trained here, and reads no special tokens in a text"
        expected = "a model imported from another program"
        raise ConfigError(what, expected=expected, fix="leave it out", name="specials", value=True)

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special tokens included."""
        return self._backend.get_vocab_size()

    def normalize(self, text: str) -> str:
        """Return the normalised text, which is what `decode` returns for its ids."""
        try:
            normalized: str = self._backend.normalizer.normalize_str(text)
        except UnicodeEncodeError as error:
            raise lone_surrogate(error) from error
        return normalized[1:] if self.adds_space else normalized

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens. Raise DataError if the text contains a lone surrogate."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores."""
        ids: list[list[int]] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = list(texts[start : start + _CHUNK])
            try:
                ids += self._encode(chunk)
            except TypeError:  # the library raises this for text that UTF-8 can't encode
                for text in chunk:
                    self.normalize(text)
                raise
        return ids

    def encode_masked(self, text: str) -> tuple[list[int], list[int]]:
        """Encode a text in which some tokens are masked, spelled as `mask_name`.

        A mask stands for a whole piece, and so for the space before it. Everywhere else, the spelling is text.

        Returns:
            The ids, and the indices of the masks in them. An unknown word can have the same id as a mask.
        """
        self.normalize(text)  # raises an error for a lone surrogate
        marked = text.replace(NEVER, "\ufffd").replace(self.mask_name, NEVER)
        *before, last = self._backend.normalizer.normalize_str(marked).split(NEVER)
        if self.adds_space:
            before = [part.removesuffix(" ") for part in before]
        ids, masks = list[int](), list[int]()
        for n, part in enumerate((*before, last)):
            if n:
                masks.append(len(ids))
                ids.append(cast(int, self.special.mask))
            ids += self._ids_of(part)
        return ids, masks

    def encode_after(self, before: str, text: str) -> list[int]:
        """Return the ids of a text that continues another one: without the space that a text begins with."""
        return self._ids_of(self.normalize(text))

    def _ids_of(self, text: str) -> list[int]:
        """Return the ids of a normalised text, without a space before it."""
        pieces = self._backend.pre_tokenizer.pre_tokenize_str(text)
        return [token.id for piece, _ in pieces for token in self._backend.model.tokenize(piece)]

    def encode_marked(self, texts: Sequence[str], names: Sequence[str] = ()) -> list[list[int]]:
        """Encode texts in which special tokens are written as a noncharacter and their names, `NEVER` + "<s>".

        Args:
            names: other added tokens of the vocabulary that are written so.
        """
        special = re.compile(f"{NEVER}({'|'.join(SPECIALS)})")
        parts = [special.split(text) for text in texts]  # texts and names in turn
        found = iter(self.encode_batch([part for each in parts for part in each[::2] if part]))
        return [
            [*chain(*(([SPECIALS.index(it)] if n % 2 else next(found)) for n, it in enumerate(each) if it))]
            for each in parts
        ]

    def name_of(self, i: int) -> str:
        """Return the name of a special token."""
        return SPECIALS[i]

    @property
    def special_names(self) -> Sequence[str]:
        """The names of all special tokens."""
        return SPECIALS

    @property
    def added_names(self) -> Sequence[str]:
        """The names of all tokens that a text is searched for before it's split."""
        return SPECIALS

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens. Incomplete characters become U+FFFD."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Decode many sequences, on all cores."""
        return self._backend.decode_batch([list(ids) for ids in batch], skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return tokens in printable form: "▁" for a space, escapes for unprintable and incomplete characters."""
        return [self._spelling.shown(i) for i in ids]

    def vocabulary(self) -> list[str]:
        """Return all tokens in the order of their ids, in the form that `pieces` returns."""
        return list(self._spelling.all_shown)

    def token_id(self, piece: str) -> int:
        """Return the id of a token in the form that `pieces` returns. Raise DataError if it isn't in the vocabulary."""
        if piece not in self._spelling.all_shown:
            what = f"the token {piece!r} isn't in the vocabulary"
            raise DataError(what, expected="a token as `translate --json` prints it", name="token", value=piece)
        return self._spelling.all_shown.index(piece)

    def suppressed(self, decode: DecodeConfig) -> list[int]:
        """Return the ids that are never generated with these settings.

        Raises:
            DataError: a token to suppress isn't in the vocabulary.
        """
        special = self.special.never_generated if decode.suppress_special else ()
        return [*(i for i in special if i < self.vocab_size), *map(self.token_id, decode.suppress)]

    def unknown_words(self, text: str) -> list[str]:
        """Return the distinct words (or characters) of a text that aren't in the vocabulary; none for subwords."""
        if self.kind in ("bpe", "unigram"):
            return []
        return self._unknown_parts(text)

    def _unknown_parts(self, text: str) -> list[str]:
        """Return the distinct parts of a text that become unknown tokens."""
        found = self.encoding(text)
        spans = [span for i, span in zip(found.ids, found.offsets) if i == self.special.unk]
        return list(dict.fromkeys(text[start:end].strip() or text[start:end] for start, end in spans))

    def encoding(self, text: str) -> tokenizers.Encoding:
        """Return the library's encoding. Its offsets aren't exact; `encode_with_offsets` returns exact ones."""
        self.normalize(text)  # raises a DataError where the next line would raise a TypeError
        return self._backend.encode(text, add_special_tokens=False)

    def to_json(self) -> str:
        """Return the content of a `tokenizers` file, which `from_json` reads."""
        return self._backend.to_str(pretty=True)

    @property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token's text inside a text, in the order of the ids; none for special tokens."""
        return self._spelling.token_bytes

    @cached_property
    def _spelling(self) -> Spelling:
        names = {i: token for token, i in self._backend.get_vocab().items()}
        return Spelling(self._backend, names, self.vocab_size, range(len(SPECIALS)))


class _WordEncoder:
    """Encodes texts as `backend` does, word by word, with a cache of known words.

    Splitting a text at whitespace doesn't change its tokens: normalisation folds whitespace to single spaces, and every
    piece starts with its space and ends before the next one. Only the compatibility form (NFKC) can create or join
    spaces.
    """

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        self._backend = backend
        self._known: dict[str, tuple[int, ...]] = {}  # tuples of ints, which the garbage collector skips
        normalize = backend.normalizer.normalize_str
        self._cuts = normalize("a \n\u3000b ") == " a b"  # True if it folds whitespace and prepends a space
        self._compatible = normalize("ﬁ") != " ﬁ"  # True for NFKC, which can turn other characters into spaces

    def __call__(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text; new words are encoded on all cores."""
        if not self._cuts:
            return self._encoded(texts)
        words = [self._words(text) for text in texts]
        new = set().union(*words).difference(self._known)
        if len(self._known) + len(new) > _MOST:
            self._known.clear()
            new = set().union(*words)
        listed = sorted(new)
        self._known.update(zip(listed, map(tuple, self._encoded(listed))))
        ids = self._known.__getitem__
        encoded = [list(chain.from_iterable(map(ids, found))) for found in words]
        for word in listed:
            if len(word) > _LONG:
                del self._known[word]
        return encoded

    def _words(self, text: str) -> list[str]:
        """Return what can be encoded separately: the words, or the whole text."""
        if _UNLIKE.search(text) or (self._compatible and not text.isascii()):
            return [text]
        return text.split()

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return [it.ids for it in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]


class StreamingDetokenizer:
    """Turns tokens into text, a few at a time.

    The joined results of `add` equal `Tokenizer.decode` of all tokens, except that an incomplete last character is held
    back. `decode` shows it as U+FFFD.

    Args:
        tokenizer: the tokenizer of the tokens.
        before: tokens before the first call of `add`, whose text isn't returned.
    """

    def __init__(self, tokenizer: Tokenizer, before: Iterable[int] = ()) -> None:
        self.tokenizer, self._decoder = tokenizer, codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = tokenizer.adds_space
        self.add(before)

    def add(self, ids: Iterable[int]) -> str:
        """Return the characters that these tokens complete."""
        token_bytes = self.tokenizer.token_bytes
        text = self._decoder.decode(b"".join([token_bytes[i] for i in ids]))
        if text and self._at_start:
            self._at_start, text = False, text.removeprefix(" ")
        return text

    def copy(self) -> Self:
        """Return an independent copy in the same state."""
        twin = type(self)(self.tokenizer)
        twin._decoder.setstate(self._decoder.getstate())
        twin._at_start = self._at_start
        return twin


class GrowingText:
    """The text of tokens as they come: after each token, what `decode` returns for all of them.

    Another program's decoder may treat the first and the last token in its own way, so the last ones are decoded
    again. Earlier ones are only left out where that doesn't change the text.

    Args:
        decode: returns the text of tokens.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode, self._ids = decode, list[int]()
        self._done, self._again = "", 0  # the text so far, and how many characters of it the tokens in `_ids` have

    def add(self, token: int) -> str:
        """Return the whole text. It ends with U+FFFD, and isn't final, if its last character is incomplete."""
        self._ids.append(token)
        text = self._done + self._decode(self._ids)[self._again :]
        if len(self._ids) > _WINDOW and len(self._ids) % _WINDOW == 0 and not text.endswith("\ufffd"):
            self._forget(text)
        return text

    def _forget(self, text: str) -> None:
        """Leave out all tokens but the last ones, if these have the same text alone."""
        last = self._ids[-_WINDOW:]
        shown = self._decode(last)
        if shown.strip() and text.endswith(shown.lstrip()):
            self._ids, self._done, self._again = last, text, len(shown)


def words_of(ids: Sequence[int], decode: Callable[[Sequence[int]], str]) -> list[int]:
    """Return the index of the word that each token belongs to. Words are separated by whitespace.

    Whitespace before the first word belongs to that word, other whitespace to the word before it. The ids must not
    include unknown tokens, which decoding skips. Answers never do; for other texts, use `offsets.word_indices`.
    """
    growing = GrowingText(decode)
    return [max(len(growing.add(token).split()) - 1, 0) for token in ids]
