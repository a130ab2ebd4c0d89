"""Text to token ids and back, over the `tokenizers` library; everything that decides an id lies in one file.

Four kinds of vocabulary: of "word"s, of "character"s, or of the pieces of words that "bpe" (byte-pair encoding) or
"unigram" find. The last two hold all 256 bytes, so that nothing is unknown to them, and
decode(encode(text)) == normalize(text) for every text; with the first two the same, where no piece is unknown.

The special tokens cannot be forged: no split leaves "<" and a letter in one piece, so text that spells "</s>" becomes
ordinary pieces, and no piece that is learnt can be called "</s>".
"""

import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self

import tokenizers
from tokenizers import models, trainers

from ..config import DataConfig
from ..errors import ConfigError, DataError, ModelError
from .normalise import BYTES, Kind, readable, spelled, text_pipeline
from .unigram import train_unigram
from .word_ids import WordEncoder

PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")

_SUBWORDS = 4000  # where data.vocab_size says nothing; words and characters are then all taken
_KINDS: dict[type, Literal["bpe", "unigram"] | None] = {
    models.BPE: "bpe",
    models.Unigram: "unigram",
    models.WordLevel: None,
}

_CHUNK = 8192  # texts handed to the library together: bounds the memory of its encodings


class Tokenizer:
    """One vocabulary with its normalisation. Make one with `train`; ids 0 to 3 are PAD, BOS, EOS and UNK."""

    def __init__(self, backend: tokenizers.Tokenizer) -> None:
        backend.encode_special_tokens = True  # "</s>" in a text is text; the library does not keep this in the file
        self._backend, self._encode = backend, WordEncoder(backend)
        # whether a text begins with a space more, which `decode` takes away; of all kinds, only characters have none
        self.space_in_front: bool = backend.normalizer.normalize_str("a") != "a"
        self.kind: Kind = _KINDS[type(backend.model)] or ("word" if self.space_in_front else "character")

    @classmethod
    def train(cls, texts: Iterable[str], data: DataConfig) -> Self:
        """Learn the vocabulary of `texts`; the same texts give the same vocabulary, whatever the machine's threads.

        They are not kept, but for an iterator that unigram wants to read twice.

        There may be fewer tokens than `data.vocab_size` where the texts hold no more. A ConfigError where it is too
        small for the 256 bytes, a DataError where the texts hold nothing.
        """
        backend = text_pipeline(data)
        try:
            if data.tokenizer == "unigram":
                size = _size(data) - len(SPECIALS)
                again = list(texts) if isinstance(texts, Iterator) else texts
                pieces = train_unigram(again, text_pipeline(data), size)
                backend.model = models.Unigram([(special, 0.0) for special in SPECIALS] + pieces, UNK)
                backend.add_special_tokens(list(SPECIALS))
            else:
                if data.tokenizer != "bpe":
                    backend.model = models.WordLevel(unk_token=SPECIALS[UNK])
                backend.train_from_iterator(texts, _trainer(data))
        except UnicodeEncodeError as error:
            raise _half_a_character(error) from error
        if backend.get_vocab_size() == len(SPECIALS):
            raise DataError(
                f"there is no text to take a vocabulary of kind {data.tokenizer!r} from; expected a word at least"
            )
        return cls(backend)

    @property
    def vocab_size(self) -> int:
        """The number of tokens, special ones included."""
        return self._backend.get_vocab_size()

    def normalize(self, text: str) -> str:
        """`text` as the tokenizer sees it: what decoding its ids gives back."""
        try:
            normalized: str = self._backend.normalizer.normalize_str(text)
        except UnicodeEncodeError as error:
            raise _half_a_character(error) from error
        return normalized[1:] if self.space_in_front else normalized

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without special tokens around them. Half a surrogate pair in it is a DataError."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts, with all cores."""
        ids: list[list[int]] = []
        for start in range(0, len(texts), _CHUNK):
            chunk = list(texts[start : start + _CHUNK])
            try:
                ids += self._encode(chunk)
            except TypeError:  # this is what the library makes of text that is no UTF-8
                for text in chunk:
                    self.normalize(text)
                raise
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`; special tokens have none. Bytes that make no whole character become U+FFFD."""
        return self._backend.decode(list(ids), skip_special_tokens=True)

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """`decode` for many, with all cores."""
        return self._backend.decode_batch([list(ids) for ids in batch], skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Each token as a table shows it: "▁" for a space, escapes for part of a character and what does not print."""
        return [self._readable[i] for i in ids]

    def words(self) -> list[str]:
        """The whole vocabulary in the order of the ids, each token as `pieces` shows it."""
        return list(self._readable)

    def token(self, piece: str) -> int:
        """The id of a token by what `pieces` shows; a piece that is no token is a DataError."""
        if piece not in self._readable:
            raise DataError(f"{piece!r} is no token of the vocabulary; expected one as `translate --json` writes them")
        return self._readable.index(piece)

    def unknown_words(self, text: str) -> list[str]:
        """The words (or characters) of `text` that are not in the vocabulary, each once; never any for subwords."""
        if self.kind in ("bpe", "unigram"):
            return []
        encoding = self.encoding(text)
        spans = [span for i, span in zip(encoding.ids, encoding.offsets) if i == UNK]
        return list(dict.fromkeys(text[start:end].strip() or text[start:end] for start, end in spans))

    def word_numbers(self, text: str) -> list[int]:
        """The word of `text`, counted from 0, that each of its tokens belongs to; words are what white space separates.

        A token that is unknown has its place, too. White space before the first word belongs to it, and any other to
        the word before.
        """
        return [max(len(text[:end].split()) - 1, 0) for _, end in self.encoding(text).offsets]

    def encoding(self, text: str) -> tokenizers.Encoding:
        """The tokens with the library's idea of their places in `text`; that of `places.py` is exact."""
        self.normalize(text)  # refuses what the next line would call a TypeError
        return self._backend.encode(text, add_special_tokens=False)

    def to_json(self) -> str:
        """The text of a `tokenizers` file; `from_json` reads it back to the same tokenizer."""
        return self._backend.to_str(pretty=True)

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Self:
        """The inverse of `to_json`; a file that is damaged or another program's is a ModelError that names `origin`."""
        try:
            backend = tokenizers.Tokenizer.from_str(text)
            backend.encode("\U0010ffff")  # no vocabulary has this: a wrong name for <unk> would show only here
        except Exception as error:  # the library has no narrower type
            raise ModelError(
                f"{origin} is damaged or no tokenizer ({error}); expected the file that training wrote"
            ) from error
        found = [backend.id_to_token(i) for i in range(len(SPECIALS))]
        if found != list(SPECIALS):
            raise ModelError(
                f"{origin} is another program's tokenizer: its first tokens are {', '.join(map(str, found))}; "
                f"expected {', '.join(SPECIALS)}"
            )
        steps = (backend.normalizer, backend.pre_tokenizer, backend.decoder)
        gaps = set(range(len(SPECIALS) + 1, backend.get_vocab_size())) - set(backend.get_vocab().values())
        if None in steps or gaps or type(backend.model) not in _KINDS:
            raise ModelError(
                f"{origin} lacks a part of its pipeline or vocabulary; expected the file that training wrote"
            )
        return cls(backend)

    @cached_property
    def token_bytes(self) -> list[bytes]:
        """The bytes that each token adds to a text, in the order of the ids; special tokens add none."""
        return [*(b"" for _ in SPECIALS), *map(spelled, self._learnt())]

    @cached_property
    def _readable(self) -> list[str]:
        return [*SPECIALS, *map(readable, self._learnt())]

    def _learnt(self) -> list[str]:
        tokens = sorted(self._backend.get_vocab().items(), key=lambda item: item[1])
        return [token for token, _ in tokens[len(SPECIALS) :]]


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of a model's two sides; one and the same object where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether both sides have one vocabulary."""
        return self.source is self.target

    def to_json(self) -> str:
        """The text of one file: a `tokenizers` file if joint, else {"source": ..., "target": ...} of such."""
        if self.joint:
            return self.source.to_json()
        return f'{{"source": {self.source.to_json()},\n"target": {self.target.to_json()}}}'

    @classmethod
    def from_json(cls, text: str, *, origin: str) -> Self:
        """The inverse of `to_json`; a text that is damaged or another program's is a ModelError that names `origin`."""
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ModelError(f"{origin} is damaged: it is not JSON; expected the file that training wrote") from error
        if isinstance(content, dict) and content.keys() == {"source", "target"}:
            source, target = (
                Tokenizer.from_json(json.dumps(content[side]), origin=f"{origin} ({side})")
                for side in ("source", "target")
            )
            return cls(source, target)
        one = Tokenizer.from_json(text, origin=origin)
        return cls(one, one)


@dataclass(frozen=True)
class _Joint(Iterable[str]):
    """Both sides one after the other, as often as they are wanted."""

    sources: Iterable[str]
    targets: Iterable[str]

    def __iter__(self) -> Iterator[str]:
        return itertools.chain(self.sources, self.targets)


def train_tokenizers(sources: Iterable[str], targets: Iterable[str], data: DataConfig) -> Tokenizers:
    """One vocabulary over both sides, or one a side, as `data.joint` says. The texts are not kept."""
    if data.joint:
        one = Tokenizer.train(_Joint(sources, targets), data)
        return Tokenizers(one, one)
    return Tokenizers(Tokenizer.train(sources, data), Tokenizer.train(targets, data))


def _trainer(data: DataConfig) -> trainers.Trainer:
    specials = list(SPECIALS)
    if data.tokenizer == "bpe":
        return trainers.BpeTrainer(
            vocab_size=_size(data),
            min_frequency=2,  # what is seen once is no habit of the language
            special_tokens=specials,
            initial_alphabet=list(BYTES),
            show_progress=False,
        )
    return trainers.WordLevelTrainer(
        vocab_size=_size(data), min_frequency=1, special_tokens=specials, show_progress=False
    )


def _size(data: DataConfig) -> int:
    """The most tokens of the vocabulary, special ones included."""
    if data.tokenizer in ("word", "character"):
        return data.vocab_size or 2**31
    size, least = data.vocab_size or _SUBWORDS, len(SPECIALS) + len(BYTES)
    if size < least:
        raise ConfigError(
            f"data.vocab_size = {size} is too small for data.tokenizer = {data.tokenizer!r}; expected at least {least} "
            f"({len(SPECIALS)} special tokens and the {len(BYTES)} bytes), or data.tokenizer = 'character'"
        )
    return size


def _half_a_character(error: UnicodeEncodeError) -> DataError:
    code = f"U+{ord(error.object[error.start]):04X}"
    text = ascii(error.object[max(0, error.start - 20) : error.start + 20])
    return DataError(
        f"the text {text} holds {code}, half of a surrogate pair, which UTF-8 cannot write; expected whole characters"
    )
