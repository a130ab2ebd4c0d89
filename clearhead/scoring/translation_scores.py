"""Scores of translations: pure functions over texts and token counts.

Every sentence has a list of one or more references. Their number may differ between sentences.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ..errors import DataError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

References = Sequence[Sequence[str]]  # a list of references for every sentence


class CorpusScore(NamedTuple):
    """A score from 0 to 100, with sacrebleu's signature to reproduce it."""

    score: float
    signature: str


@dataclass(frozen=True)
class TokenCounts:
    """Sums over the target tokens of a corpus, with teacher forcing. Add the counts of several batches with `+`."""

    tokens: int = 0
    correct: int = 0  # tokens whose most likely prediction is correct
    negative_log_likelihood: float = 0.0  # natural logarithm, without label smoothing

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            self.tokens + other.tokens,
            self.correct + other.correct,
            self.negative_log_likelihood + other.negative_log_likelihood,
        )

    @property
    def accuracy(self) -> float:
        """The share of correct tokens, from 0 to 1."""
        return self.correct / self._at_least_one()

    @property
    def perplexity(self) -> float:
        """The exponential of the mean negative log-likelihood; inf if it overflows."""
        mean = self.negative_log_likelihood / self._at_least_one()
        try:
            return math.exp(mean)
        except OverflowError:
            return math.inf

    def _at_least_one(self) -> int:
        if self.tokens < 1:
            raise DataError("there are no tokens to score", expected="at least one token", value=self.tokens)
        return self.tokens


@dataclass(frozen=True, kw_only=True)
class Scores:
    """All scores of translations. BLEU and chrF are from 0 to 100, shares from 0 to 1."""

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact_match: float
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without scores that weren't measured."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def score(hypotheses: Sequence[str], references: References, counts: TokenCounts | None = None) -> Scores:
    """Return all scores of a corpus. Raise DataError if there are no sentences, or a sentence has no reference.

    Args:
        hypotheses: the N translations.
        references: at least one reference for each of them (N).
        counts: sums over the target tokens (default: no token accuracy and no perplexity).
    """
    bleu_score, chrf_score = bleu(hypotheses, references), chrf(hypotheses, references)
    return Scores(
        sentences=len(hypotheses),
        bleu=bleu_score.score,
        bleu_signature=bleu_score.signature,
        chrf=chrf_score.score,
        chrf_signature=chrf_score.signature,
        exact_match=exact_match(hypotheses, references),
        token_accuracy=counts.accuracy if counts else None,
        perplexity=counts.perplexity if counts else None,
    )


def bleu(hypotheses: Sequence[str], references: References) -> CorpusScore:
    """Return cased corpus BLEU (Papineni et al. 2002) with sacrebleu's 13a tokenization, as papers report it."""
    from sacrebleu.metrics.bleu import BLEU

    return _corpus_score(BLEU(force=True), hypotheses, references)  # force: don't warn about text that looks tokenized


def chrf(hypotheses: Sequence[str], references: References) -> CorpusScore:
    """Return corpus chrF2 (Popović 2015): the F-score of character n-grams up to 6, with recall weighted twice."""
    from sacrebleu.metrics.chrf import CHRF

    return _corpus_score(CHRF(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """Return the share of hypotheses that equal a reference, after NFC and whitespace normalization."""
    check(hypotheses, references)
    hits = sum(_folded(text) in map(_folded, texts) for text, texts in zip(hypotheses, references))
    return hits / len(hypotheses)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def sentence_chrf(hypotheses: Sequence[str], references: References) -> list[float]:
    """Return chrF2 of each sentence, from 0 to 100, to rank sentences."""
    from sacrebleu.metrics.chrf import CHRF

    check(hypotheses, references)
    metric = CHRF()
    return [float(metric.sentence_score(text, list(texts)).score) for text, texts in zip(hypotheses, references)]


def columns(references: References) -> Sequence[Sequence[str]]:
    """Transpose references for sacrebleu: the first of every sentence, then the second; None where one is missing."""
    most = max(map(len, references))
    by_number = [[texts[n] if n < len(texts) else None for texts in references] for n in range(most)]
    return cast(Sequence[Sequence[str]], by_number)  # sacrebleu's type hints lack None


def _corpus_score(metric: "Metric", hypotheses: Sequence[str], references: References) -> CorpusScore:
    check(hypotheses, references)
    result = metric.corpus_score(hypotheses, columns(references))
    return CorpusScore(min(float(result.score), 100.0), str(metric.get_signature()))  # rounding can exceed 100


def check(hypotheses: Sequence[str], references: References) -> None:
    """Raise a DataError unless every sentence has a hypothesis and at least one reference."""
    if not hypotheses:
        raise DataError("there are no hypotheses to score", expected="at least one", name="hypotheses")
    if len(hypotheses) != len(references):
        what = f"there are {len(hypotheses)} hypotheses, but references for {len(references)} sentences"
        raise DataError(what, expected="the same number of both", name="hypotheses", value=len(hypotheses))
    for number, texts in enumerate(references, start=1):
        if isinstance(texts, str):
            what = f"the references of sentence {number} are a single text, {texts!r}"
            raise DataError(what, expected="a list of texts", name="references", value=texts, line=number)
        if not texts:
            what = f"sentence {number} has no reference"
            raise DataError(what, fix="leave the sentence out, or add one", name="references", line=number)
