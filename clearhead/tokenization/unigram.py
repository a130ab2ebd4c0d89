"""Training of a unigram vocabulary (Kudo 2018), the same on every machine.

The library's own trainer adds up floating-point numbers in the order of a hash table and of its threads, so that it
gives another vocabulary each time. Here every sum is one of whole numbers: each word counts through its single best
segmentation (hard expectation-maximisation). The library still does the segmenting.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tokenizers
from tokenizers import models, trainers

from .normalise import BYTES

_SEEDS = 4  # candidates for each piece that is wanted
_KEPT = 0.75  # of the candidates, after each round
_ROUNDS = 2  # of counting and scoring between two prunings
_LONGEST = 48  # letters of a candidate
_UNSEEN = 0.5  # the count of a piece that no segmentation uses

Scores = dict[str, float]  # log-probability of each piece


def train_unigram(texts: Iterable[str], pipeline: tokenizers.Tokenizer, size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, the likeliest first; all bytes among them.

    The texts are read twice. `pipeline` normalises and splits.

    Candidates are the pieces of a larger BPE vocabulary; round after round, those go
    that the likelihood of the texts misses least.
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
    """How often the texts hold each word, as bytes written in letters."""
    counts: Counter[str] = Counter()
    for text in texts:
        pieces = pipeline.pre_tokenizer.pre_tokenize_str(pipeline.normalizer.normalize_str(text))
        counts.update([piece for piece, _ in pieces])
    return dict(sorted(counts.items()))


def _model(scores: Scores) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(models.Unigram(list(scores.items())))


def _count_pieces(model: tokenizers.Tokenizer, words: Mapping[str, int]) -> Counter[str]:
    """How often each piece stands in the best segmentation of all words."""
    encodings = model.encode_batch_fast(list(words), add_special_tokens=False)
    counts = np.zeros(model.get_vocab_size(), dtype=np.int64)
    for encoding, times in zip(encodings, words.values()):
        np.add.at(counts, encoding.ids, times)
    return Counter({piece: int(counts[i]) for piece, i in model.get_vocab().items()})


def _score(pieces: Sequence[str], counts: Mapping[str, int]) -> Scores:
    """The log-probabilities by which these counts are likeliest, rounded so that a file gives them back exactly."""
    total = math.log(max(1, sum(counts[piece] for piece in pieces)))
    return {piece: round(math.log(counts[piece] or _UNSEEN) - total, 6) for piece in pieces}


def _prune(scores: Scores, counts: Mapping[str, int], size: int) -> Scores:
    """The `size` pieces whose going would cost the likelihood most, and in any case the bytes."""
    cost = {piece: counts[piece] * (score - _without(piece, scores)) for piece, score in scores.items()}
    cost |= dict.fromkeys(BYTES, math.inf)
    kept = set(sorted(cost, key=lambda piece: (-cost[piece], piece))[:size])
    return {piece: score for piece, score in scores.items() if piece in kept}


def _without(piece: str, scores: Scores) -> float:
    """The log-probability of the best segmentation of `piece` into other pieces."""
    best = [0.0] + [-math.inf] * len(piece)  # best[end]: of the piece's first `end` letters
    for end in range(1, len(piece) + 1):
        for start in range(end):
            part = piece[start:end]
            if part != piece and part in scores:
                best[end] = max(best[end], best[start] + scores[part])
    return best[-1]
