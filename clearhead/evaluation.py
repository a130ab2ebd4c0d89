"""The scores of a model on a file, how they came about, and the lines that tell most about it."""

from dataclasses import asdict, dataclass
from typing import Any

from .config import DecodeConfig
from .tasks.scores import Scores, sentence_chrf
from .tasks.translation import what_was_cut


@dataclass(frozen=True)
class Evaluation:
    """Scores, the lines that they were computed from, and how they came about: on which files, by which search."""

    scores: Scores
    data: list[str]
    decode: DecodeConfig
    weights: str | None  # the digest of those that were scored
    too_long: int  # pairs that perplexity and token accuracy leave out
    cut: int  # sources that are longer than the model can read, and were translated from their beginning
    sources: list[str]
    translations: list[str]
    references: list[list[str]]

    def lines(self, most: int = 10) -> dict[str, list[dict[str, Any]]]:
        """The `best`, `worst` and most `typical` sentences, at most so many of each, by their own chrF."""
        scored = sentence_chrf(self.translations, self.references)
        order = sorted(range(len(scored)), key=lambda i: -scored[i])
        middle = scored[order[len(order) // 2]]
        picked = {
            "best": order[:most],
            "worst": order[::-1][:most],
            "typical": sorted(order, key=lambda i: abs(scored[i] - middle))[:most],
        }
        return {name: [{**self._line(i), "chrf": scored[i]} for i in places] for name, places in picked.items()}

    def report(self) -> str:
        """A page of text: all scores, and the best, the worst and the most typical lines."""
        scores = self.scores
        rows = [
            f"{scores.sentences:,} sentences of {' + '.join(self.data)}",
            f"BLEU {scores.bleu:.2f}  {scores.bleu_signature}",
            f"chrF {scores.chrf:.2f}  {scores.chrf_signature}",
            f"exact match {scores.exact_match:.4f}",
        ]
        if scores.token_accuracy is not None:
            rows.append(f"token accuracy {scores.token_accuracy:.4f}")
        if scores.perplexity is not None:
            without = f", without the {self.too_long:,} longest pairs" if self.too_long else ""
            rows.append(f"perplexity {scores.perplexity:.2f}{without}")
        rows += [what_was_cut(self.cut)] if self.cut else []
        for name, lines in self.lines().items():
            rows += ["", f"The most {name}" if name == "typical" else f"The {name}"]
            for line in lines:
                rows += ["", f"chrF {line['chrf']:6.2f}  {line['source']}", f"       model  {line['translation']}"]
                rows += [f"   reference  {reference}" for reference in line["references"]]
        return "\n".join(rows) + "\n"

    def _line(self, place: int) -> dict[str, Any]:
        return {
            "source": self.sources[place],
            "translation": self.translations[place],
            "references": self.references[place],
        }

    def to_dict(self, examples: int = 10) -> dict[str, Any]:
        """The scores, what makes them reproducible, and some lines."""
        return {
            "format_version": 1,
            **self.scores.to_dict(),
            "data": self.data,
            "decode": {**asdict(self.decode), "suppress": list(self.decode.suppress)},
            "weights": self.weights,
            "too_long": self.too_long,
            "cut": self.cut,
            "examples": [self._line(place) for place in range(min(examples, len(self.sources)))],
        }
