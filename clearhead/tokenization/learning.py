"""Learn a vocabulary from texts: byte-pair encoding, unigram, words or characters."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import models, trainers

from ..config import DataConfig
from ..errors import ConfigError, DataError
from .normalise import BYTES, SPACE, text_pipeline

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
        what = f"the training texts are empty, so data.tokenizer={data.tokenizer!r} can't learn a vocabulary"
        raise DataError(what, expected="at least one word", name="data.tokenizer", value=data.tokenizer)
    return backend


def word_vocabulary(words: Iterable[str]) -> tokenizers.Tokenizer:
    """Return the library's tokenizer with the special tokens and these ASCII words, in this order."""
    backend = text_pipeline(DataConfig(tokenizer="word"))
    tokens = [*SPECIALS, *(f"{SPACE}{word}" for word in words)]
    backend.model = models.WordLevel({token: i for i, token in enumerate(tokens)}, SPECIALS[_UNKNOWN])
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
        what = f"data.vocab_size={size} is too small for data.tokenizer={data.tokenizer!r}"
        expected = f"at least {least}, for {len(SPECIALS)} special tokens and the {len(BYTES)} bytes"
        fix = "raise data.vocab_size, or set data.tokenizer='character'"
        raise ConfigError(what, expected=expected, fix=fix, name="data.vocab_size", value=size)
    return size


def lone_surrogate(error: UnicodeEncodeError) -> DataError:
    """Return the error for a text that UTF-8 can't encode."""
    code = f"U+{ord(error.object[error.start]):04X}"
    text = ascii(error.object[max(0, error.start - 20) : error.start + 20])
    what = f"the text {text} contains {code}, a lone surrogate, which UTF-8 can't encode"
    return DataError(what, expected="valid Unicode", name="text", value=error.object)


# --- unigram vocabularies (Kudo 2018)
#
# The library's trainer sums floating-point numbers in an order that depends on a hash table and its threads, so its
# result varies. This one sums only integers: each word counts with its single best segmentation (hard
# expectation-maximisation). The library still does the segmentation.

_SEEDS = 4  # initial candidates per piece of the final vocabulary
_KEPT = 0.75  # share of the candidates kept in each pruning
_ROUNDS = 2  # EM iterations between two prunings
_LONGEST = 48  # maximum bytes of a candidate
_UNSEEN = 0.5  # count of a piece that no segmentation uses

Scores = dict[str, float]  # log-probability of each piece


def train_unigram(texts: Iterable[str], pipeline: tokenizers.Tokenizer, size: int) -> list[tuple[str, float]]:
    """Return pieces with their log-probabilities, most likely first. All 256 bytes are included.

    Candidates are the pieces of a larger BPE vocabulary. Each round prunes those that contribute least to the
    likelihood of the texts.

    Args:
        texts: read twice.
        pipeline: normalises and splits the texts; its model is replaced.
        size: maximum number of pieces, at least 256.
    """
    words = _count_words(texts, pipeline)
    trainer = trainers.BpeTrainer(
        vocab_size=_SEEDS * size,
        min_frequency=2,
        max_token_length=_LONGEST,
        initial_alphabet=list(BYTES),
        show_progress=False,
    )
    pipeline.model = models.BPE()
    pipeline.train_from_iterator(texts, trainer)
    seeds = sorted(pipeline.get_vocab())
    scores = _score(seeds, _count_pieces(tokenizers.Tokenizer(pipeline.model), words))
    while True:
        for _ in range(_ROUNDS):
            counts = _count_pieces(tokenizers.Tokenizer(models.Unigram([*scores.items()])), words)
            scores = _score(list(scores), counts)
        if len(scores) <= size:
            return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        scores = _prune(scores, counts, max(size, int(_KEPT * len(scores))))


def _count_words(texts: Iterable[str], pipeline: tokenizers.Tokenizer) -> dict[str, int]:
    """Count each word, written in the byte alphabet."""
    counts: Counter[str] = Counter()
    for text in texts:
        pieces = pipeline.pre_tokenizer.pre_tokenize_str(pipeline.normalizer.normalize_str(text))
        counts.update([piece for piece, _ in pieces])
    return dict(sorted(counts.items()))


def _count_pieces(model: tokenizers.Tokenizer, words: Mapping[str, int]) -> Counter[str]:
    """Count each piece in the best segmentations of all words."""
    encodings = model.encode_batch_fast(list(words), add_special_tokens=False)
    counts = np.zeros(model.get_vocab_size(), dtype=np.int64)
    for encoding, times in zip(encodings, words.values()):
        np.add.at(counts, encoding.ids, times)
    return Counter({piece: int(counts[i]) for piece, i in model.get_vocab().items()})


def _score(pieces: Sequence[str], counts: Mapping[str, int]) -> Scores:
    """Return the maximum-likelihood log-probabilities for these counts, rounded so that a file stores them exactly."""
    total = math.log(max(1, sum(counts[piece] for piece in pieces)))
    return {piece: round(math.log(counts[piece] or _UNSEEN) - total, 6) for piece in pieces}


def _prune(scores: Scores, counts: Mapping[str, int], size: int) -> Scores:
    """Keep `size` pieces: all bytes, and the pieces whose removal would reduce the likelihood most."""
    cost = {piece: counts[piece] * (score - _without(piece, scores)) for piece, score in scores.items()}
    cost |= dict.fromkeys(BYTES, math.inf)
    kept = set(sorted(cost, key=lambda piece: (-cost[piece], piece))[:size])
    return {piece: score for piece, score in scores.items() if piece in kept}


def _without(piece: str, scores: Scores) -> float:
    """Return the log-probability of the best segmentation of `piece` into other pieces."""
    best = [0.0] + [-math.inf] * len(piece)  # best[end] covers piece[:end]
    for end in range(1, len(piece) + 1):
        for start in range(end):
            part = piece[start:end]
            if part != piece and part in scores:
                best[end] = max(best[end], best[start] + scores[part])
    return best[-1]
