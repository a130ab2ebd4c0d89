"""How good translations are: pure functions over lists of texts, and over counts of tokens.

References are lists: any number of them a sentence, at least one, and not the same number for every sentence.
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
    """A score between 0 and 100, and sacrebleu's signature, with which others can reproduce it."""

    score: float
    signature: str


@dataclass(frozen=True)
class TokenCounts:
    """Sums over the target tokens of a corpus, teacher-forced; counts of parts of it are added with `+`."""

    tokens: int = 0
    correct: int = 0  # the likeliest token was the right one
    negative_log_likelihood: float = 0.0  # natural logarithm, without label smoothing

    def __add__(self, other: "TokenCounts") -> "TokenCounts":
        return TokenCounts(
            self.tokens + other.tokens,
            self.correct + other.correct,
            self.negative_log_likelihood + other.negative_log_likelihood,
        )

    @property
    def accuracy(self) -> float:
        """Share of right tokens, 0 to 1; without any token a DataError."""
        return self.correct / self._at_least_one()

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood, at least 1 (inf beyond what a float holds)."""
        mean = self.negative_log_likelihood / self._at_least_one()
        try:
            return math.exp(mean)
        except OverflowError:
            return math.inf

    def _at_least_one(self) -> int:
        if self.tokens < 1:
            raise DataError(f"token accuracy and perplexity of {self.tokens} tokens; expected at least 1")
        return self.tokens


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Everything that `evaluate` reports. `bleu` and `chrf` are between 0 and 100, shares between 0 and 1."""

    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact_match: float
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what was not measured is left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def score(hypotheses: Sequence[str], references: References, counts: TokenCounts | None = None) -> Scores:
    """All scores of a corpus; no sentences, or one without a reference, is a DataError."""
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
    """Corpus BLEU (Papineni et al. 2002), cased, sacrebleu's 13a tokens: the figure to compare with others'."""
    from sacrebleu.metrics.bleu import BLEU

    return _corpus_score(BLEU(force=True), hypotheses, references)  # force: no advice about tokens, the text is plain


def chrf(hypotheses: Sequence[str], references: References) -> CorpusScore:
    """Corpus chrF2 (Popović 2015): F-score of character n-grams up to 6, recall counting twice as much."""
    from sacrebleu.metrics.chrf import CHRF

    return _corpus_score(CHRF(), hypotheses, references)


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """Share of hypotheses that equal one of their references, but for Unicode form (NFC) and kinds of white space."""
    check(hypotheses, references)
    hits = sum(_folded(text) in map(_folded, texts) for text, texts in zip(hypotheses, references))
    return hits / len(hypotheses)


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def sentence_chrf(hypotheses: Sequence[str], references: References) -> list[float]:
    """chrF2 of each sentence, 0 to 100: to find the best and the worst of them."""
    from sacrebleu.metrics.chrf import CHRF

    check(hypotheses, references)
    metric = CHRF()
    return [float(metric.sentence_score(text, list(texts)).score) for text, texts in zip(hypotheses, references)]


def columns(references: References) -> Sequence[Sequence[str]]:
    """As sacrebleu wants them: every sentence's first reference, then every sentence's second; None: there is none."""
    most = max(map(len, references))
    by_number = [[texts[n] if n < len(texts) else None for texts in references] for n in range(most)]
    return cast(Sequence[Sequence[str]], by_number)  # its types forget None


def _corpus_score(metric: "Metric", hypotheses: Sequence[str], references: References) -> CorpusScore:
    check(hypotheses, references)
    result = metric.corpus_score(hypotheses, columns(references))
    return CorpusScore(min(float(result.score), 100.0), str(metric.get_signature()))  # rounding may exceed 100


def check(hypotheses: Sequence[str], references: References) -> None:
    """Raise a DataError unless there is a hypothesis for each sentence, and a reference at least."""
    if not hypotheses:
        raise DataError("there is nothing to score: no hypotheses; expected at least one")
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses cannot be scored against references of {len(references)} sentences; "
            "expected as many of both"
        )
    for number, texts in enumerate(references, start=1):
        if isinstance(texts, str):
            raise DataError(f"the references of sentence {number} are one text, {texts!r}; expected a list of texts")
        if not texts:
            raise DataError(f"sentence {number} has no reference; expected at least one: leave the sentence out")
