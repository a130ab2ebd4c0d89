"""Deterministic training of a unigram vocabulary (Kudo 2018).

The library's trainer sums floating-point numbers in an order that depends on a hash table and its threads, so its
result varies. This one sums only integers: each word counts with its single best segmentation (hard
expectation-maximisation). The library still does the segmentation.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import models, trainers

from .normalise import BYTES

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
            counts = _count_pieces(_model(scores), words)
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


def _model(scores: Scores) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(models.Unigram(list(scores.items())))


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
