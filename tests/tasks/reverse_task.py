"""A custom task as you'd write it: say the words of a text in reverse. It trains on plain text, one example a line."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from clearhead.config import DataConfig
from clearhead.data.forms import PairForm
from clearhead.readers.column_roles import SENTENCES
from clearhead.readers.pairs import Pairs
from clearhead.readers.skipped import Report
from clearhead.scoring.translation_scores import TokenCounts, exact_match
from clearhead.tasks.base import EvaluationResult, Units
from clearhead.tasks.examples import HeldOut
from clearhead.tasks.sequences import Sequences, token_numbers


class Lines:  # of text files, each with its words in reverse
    roles = SENTENCES

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths, self.report = [*map(Path, paths)], Report(tuple(paths), "text, one example a line")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[tuple[int, str, str]]:
        lines = [line for path in self.paths for line in path.read_text("utf-8").splitlines()]
        self.report.lines = self.report.used = len(lines)
        yield from ((number, line, " ".join(line.split()[::-1])) for number, line in enumerate(lines, 1))

    def digest(self) -> str:
        return hashlib.sha256(b"".join(path.read_bytes() for path in self.paths)).hexdigest()

    def expect_digest(self, digest: str) -> None:
        assert self.digest() == digest


class LineForm(PairForm):
    def open(self, paths: Sequence[str], data: DataConfig) -> Any:
        return Lines(paths)

    def read(self, paths: Sequence[str], data: DataConfig) -> Pairs:
        return Pairs.of(lines := Lines(paths), lines.report)


@dataclass(frozen=True)
class Scores:
    texts: int
    exact_match: float
    token_accuracy: float | None = None
    perplexity: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


class Reversal(Sequences):
    verb = "reverse"
    form = LineForm(SENTENCES)
    units = Units("texts", "target tokens", "reversal", "texts")
    required = {"model.topology": "encoder-decoder"}  # noqa: RUF012
    scores = ("loss", "token_accuracy", "exact_match")
    compared_by = ("exact_match",)

    def judge(self, held_out: HeldOut, answers: Sequence[str], counts: TokenCounts | None) -> EvaluationResult:
        right = np.array([exact_match([it], [texts]) for it, texts in zip(answers, held_out.references)])
        tokens = (counts.accuracy, counts.perplexity) if counts else ()
        scores = Scores(len(answers), float(right.mean()), *tokens)
        return EvaluationResult(scores, held_out.sources, answers, held_out.references, lambda: {"exact_match": right})

    def numbers(self, scores: Scores) -> dict[str, float]:
        return {"exact_match": scores.exact_match} | token_numbers(scores)
