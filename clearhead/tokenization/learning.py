"""Learn a vocabulary from texts: byte-pair encoding, unigram, words or characters."""

from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import models, trainers

from ..config import DataConfig
from ..errors import ConfigError, DataError
from .normalise import BYTES, text_pipeline
from .unigram import train_unigram

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # the first tokens of a new vocabulary, in the order of `SpecialTokens`

_UNKNOWN = SPECIALS.index("<unk>")
_SUBWORDS = 4000  # default of data.vocab_size for subwords; words and characters have no limit


def learn_vocabulary(texts: Iterable[str], data: DataConfig) -> tokenizers.Tokenizer:
    """Return the library's tokenizer with a vocabulary learned from texts. See `Tokenizer.train`."""
    backend = text_pipeline(data)
    try:
        if data.tokenizer == "unigram":
            size = _size(data) - len(SPECIALS)
            readable_twice = list(texts) if isinstance(texts, Iterator) else texts
            pieces = train_unigram(readable_twice, text_pipeline(data), size)
            backend.model = models.Unigram([(special, 0.0) for special in SPECIALS] + pieces, _UNKNOWN)
            backend.add_special_tokens(list(SPECIALS))
        else:
            if data.tokenizer != "bpe":
                backend.model = models.WordLevel(unk_token=SPECIALS[_UNKNOWN])
            backend.train_from_iterator(texts, _trainer(data))
    except UnicodeEncodeError as error:
        raise lone_surrogate(error) from error
    if backend.get_vocab_size() == len(SPECIALS):
        raise DataError(
            f"the training texts are empty, so data.tokenizer={data.tokenizer!r} can't learn a vocabulary",
            expected="at least one word",
            name="data.tokenizer",
            value=data.tokenizer,
        )
    return backend


def empty_vocabulary() -> tokenizers.Tokenizer:
    """Return the library's tokenizer with the special tokens only."""
    backend = text_pipeline(DataConfig(tokenizer="word"))
    backend.model = models.WordLevel({special: i for i, special in enumerate(SPECIALS)}, SPECIALS[_UNKNOWN])
    backend.add_special_tokens(list(SPECIALS))
    return backend


def _trainer(data: DataConfig) -> trainers.Trainer:
    specials = list(SPECIALS)
    if data.tokenizer == "bpe":
        return trainers.BpeTrainer(
            vocab_size=_size(data),
            min_frequency=2,  # a pair seen once doesn't generalise
            special_tokens=specials,
            initial_alphabet=list(BYTES),
            show_progress=False,
        )
    return trainers.WordLevelTrainer(
        vocab_size=_size(data), min_frequency=1, special_tokens=specials, show_progress=False
    )


def _size(data: DataConfig) -> int:
    """Return the maximum size of the vocabulary, special tokens included."""
    if data.tokenizer in ("word", "character"):
        return data.vocab_size or 2**31
    size, least = data.vocab_size or _SUBWORDS, len(SPECIALS) + len(BYTES)
    if size < least:
        raise ConfigError(
            f"data.vocab_size={size} is too small for data.tokenizer={data.tokenizer!r}",
            expected=f"at least {least}, for {len(SPECIALS)} special tokens and the {len(BYTES)} bytes",
            fix="raise data.vocab_size, or set data.tokenizer='character'",
            name="data.vocab_size",
            value=size,
        )
    return size


def lone_surrogate(error: UnicodeEncodeError) -> DataError:
    """Return the error for a text that UTF-8 can't encode."""
    code = f"U+{ord(error.object[error.start]):04X}"
    text = ascii(error.object[max(0, error.start - 20) : error.start + 20])
    return DataError(
        f"the text {text} contains {code}, a lone surrogate, which UTF-8 can't encode",
        expected="valid Unicode",
        name="text",
        value=error.object,
    )
