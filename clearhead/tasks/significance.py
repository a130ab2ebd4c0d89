"""Whether one system is better than another, or was lucky: the paired bootstrap (Koehn 2004), by sacrebleu."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import DataError
from .scores import References, check, columns

_SAMPLES = 1000
_SEED = ("SACREBLEU_SEED", "12345")  # the variable that sacrebleu takes it from, and its own default


@dataclass(frozen=True)
class Compared:
    """A system's score, its mean over resampled corpora with half of their 95% interval, and a p.

    p = (1 + the number of resampled corpora with |difference| - mean |difference| > |measured difference|) / 1001, the
    differences being those to the first system, which has none. It counts one tail: that of a two-sided test is about
    twice as large.
    """

    system: str
    score: float
    mean: float
    interval: float
    p_value: float | None


@dataclass(frozen=True)
class Comparison:
    """Systems on the same sentences, by BLEU and by chrF, with sacrebleu's signatures."""

    bleu: list[Compared]
    chrf: list[Compared]
    bleu_signature: str
    chrf_signature: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def paired_bootstrap(systems: Sequence[tuple[str, Sequence[str]]], references: References) -> Comparison:
    """Compare the translations of several systems, named and in the same order, with those of the first.

    Sentences are drawn a thousand times with replacement, the same for all systems, by a seed that is always the same.
    Fewer than two systems, and translations that do not match the references in number, are a DataError.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise DataError(f"{len(systems)} systems cannot be compared; expected at least two")
    for _, translations in systems:
        check(translations, references)
    named: list[tuple[str, Sequence[str]]] = [(name, list(translations)) for name, translations in systems]
    metrics = {"BLEU": BLEU(force=True), "chrF": CHRF()}
    with _fixed_seed():
        signatures, scores = PairedTest(named, metrics, columns(references), test_type="bs", n_samples=_SAMPLES)()
    by_metric = {name[:4].lower(): name for name in scores if name != "System"}  # chrF2 is called so

    def compared(metric: str) -> list[Compared]:
        results: Any = scores[by_metric[metric]]  # its types mix these with the systems' names
        return [
            Compared(name, float(it.score), float(it.mean), float(it.ci), _p_value(it, results[0]))
            for (name, _), it in zip(systems, results)
        ]

    return Comparison(
        compared("bleu"), compared("chrf"), str(signatures[by_metric["bleu"]]), str(signatures[by_metric["chrf"]])
    )


def _p_value(it: Any, first: Any) -> float | None:
    """sacrebleu's, but for a system that scores as the first does on every corpus: it would be 1 / 1001."""
    if it.p_value is None:
        return None
    alike = (it.score, it.mean, it.ci) == (first.score, first.mean, first.ci)
    return 1.0 if alike else float(it.p_value)


@contextmanager
def _fixed_seed() -> Iterator[None]:
    """sacrebleu has no argument for its seed: the environment names one for as long as this lasts."""
    name, seed = _SEED
    before = os.environ.get(name)
    os.environ[name] = seed
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
