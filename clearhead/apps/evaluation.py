"""Result of an evaluation: scores, answers, and everything needed to reproduce them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..config import Config, DecodeConfig
from ..data.corpus import Corpus
from ..decode.registry import with_one_engine
from ..errors import DataError
from ..loading import LoadedModel
from ..readers.lines import one_line
from ..readers.lines import shown as text_shown
from ..readers.pairs import Pairs
from ..readers.skipped import UNREADABLE, Report, Skipped
from ..scoring import score_labels
from ..tasks.base import EvaluationResult, Task
from .inputs import nothing_readable

_MOST = 100 << 20  # maximum bytes of training files to look for repeated texts in
_WIDTH = 400  # maximum number of characters to show of a text in a report


@dataclass(frozen=True)
class Evaluation:
    """A model's answers to a data set, with their scores.

    Args:
        data: names of the data files.
        weights: the SHA-256 of the weights file.
        too_long: number of examples skipped in perplexity and token accuracy.
        cut: number of sources truncated because they're too long for the model.
        answer: the noun for an answer, such as "translation".
        unread: rows on the files that couldn't be read and aren't scored.
        seen: a note if the data repeats the training data.
        engine: the decoding engine that was used, or None if the model doesn't decode.
    """

    judged: EvaluationResult
    data: list[str]
    decode: DecodeConfig
    weights: str | None
    too_long: int
    cut: int
    answer: str = "translation"
    unread: str = ""
    seen: str = ""
    engine: str | None = None

    @property
    def scores(self) -> Any:
        """All scores, as a record specific to the task."""
        return self.judged.scores

    @property
    def sources(self) -> Sequence[str]:
        """The distinct sources."""
        return self.judged.sources

    @property
    def answers(self) -> Sequence[str]:
        """The model's output for each source."""
        return self.judged.answers

    @property
    def references(self) -> Sequence[Sequence[str]]:
        """The correct answers for each source."""
        return self.judged.references

    def lines(self, most: int = 10) -> dict[str, list[dict[str, Any]]]:
        """Return the `best`, `worst` and most `typical` answers, at most `most` of each."""
        name, scored = self._singly
        better = 1 if score_labels.LABELS[name].lower else -1
        order = sorted(range(len(scored)), key=lambda i: better * scored[i])
        middle = scored[order[len(order) // 2]]
        picked = {
            "best": order[:most],
            "worst": order[::-1][:most],
            "typical": sorted(order, key=lambda i: abs(scored[i] - middle))[:most],
        }
        return {kind: [{**self._line(i), name: scored[i]} for i in places] for kind, places in picked.items()}

    @cached_property
    def _singly(self) -> tuple[str, list[float]]:
        """The name and the values of the score that ranks individual answers."""
        name, values = next(iter(self.judged.singly().items()))
        return name, values.tolist()

    def report(self) -> str:
        """Return a text report of all scores and the best, worst and most typical answers."""
        values = self.scores.to_dict()
        rows = [f"{score_labels.count_of(values)} of {' + '.join(self.data)}"]
        rows += [f"{name} {number}  {note}" for name, number, note in score_labels.rows(values, self.too_long)]
        rows += [f"engine {self.engine}, {self.decode.precision}"] if self.engine else []
        rows += [
            *score_labels.more_lines(values),
            *([score_labels.what_was_cut(self.cut, score_labels.count(values)[0])] if self.cut else []),
        ]
        rows += [note for note in (self.unread, self.seen) if note]
        rows += ["", self.judged.details] if self.judged.details else []
        name, _ = self._singly
        label = score_labels.LABELS[name]
        for kind, lines in self.lines().items():
            rows += ["", f"The most {kind}" if kind == "typical" else f"The {kind}"]
            for line in lines:
                source = one_line(line["source"]) if self.answers else text_shown(line["source"], _WIDTH)
                rows += ["", f"{label.name} {label.number(line[name]):>6}  {source}"]
                rows += [f"       model  {one_line(line[self.answer])}".rstrip()] if self.answer in line else []
                rows += [f"   reference  {one_line(it)}" for it in line.get("references", ())]
        return "\n".join(rows) + "\n"

    def _line(self, place: int) -> dict[str, Any]:
        if not self.answers:
            return {"source": self.sources[place]}
        return {
            "source": self.sources[place],
            self.answer: self.answers[place],
            "references": list(self.references[place]),
        }

    def to_dict(self, examples: int = 10) -> dict[str, Any]:
        """Return the scores, everything needed to reproduce them, and some examples, as plain values for JSON."""
        return {
            "format_version": 1,
            **self.scores.to_dict(),
            "data": self.data,
            "engine": self.engine,
            "precision": self.decode.precision if self.engine else None,
            "decode": {**asdict(self.decode), "suppress": list(self.decode.suppress)},
            "weights": self.weights,
            "too_long": self.too_long,
            "cut": self.cut,
            "examples": [self._line(place) for place in range(min(examples, len(self.answers)))],
        }


def evaluate(loaded: LoadedModel, read: Any, search: DecodeConfig) -> Evaluation:
    """Answer the examples that `inputs.read_data` returned, and score the answers.

    Args:
        loaded: the model, with its tokenizers and task.
        read: the examples.
        search: search settings. With `decode.engine="auto"`, one engine is chosen for all answers.

    Raises:
        DataError: none of its images or recordings can be read.
    """
    task = loaded.task
    held_out, seen = task.hold_out(read), seen_in_training(task, loaded.config, read)
    files = [str(path) for path in read.report.paths]
    unread = tuple(it for it in held_out.too_long if it.reason == UNREADABLE)
    if unread and not held_out.sources:
        raise nothing_readable(files, task.units.sources, unread)
    engine, used = None, search
    if task.searches and loaded.config.model.topology != "encoder-only":
        used = with_one_engine(loaded.handle, search)
        engine = used.engine
    judged = task.evaluate(loaded.handle, held_out, used)
    counts, unread_rows = (
        (len(held_out.too_long) - len(unread), held_out.cut),
        _rows_of(task, unread, read.report.width),
    )
    return Evaluation(
        judged, files, search, loaded.weights_digest, *counts, task.units.answer, unread_rows, seen, engine
    )


def _rows_of(task: Task, unread: Sequence[Skipped], width: int) -> str:
    """Return rows on the images or recordings that couldn't be read, which aren't scored."""
    report = Report((), item="file", width=width)
    for it in unread:
        report.skip(it.line, f"{task.units.sources} {it.reason}", it.text)
    return "\n".join(report.skipped_rows())


def seen_in_training(task: Task, config: Config, read: Any) -> str:
    """Return a note if data are the training data, or repeat texts of it, else "".

    The training data is recognised by its digest. Single texts are looked for if its files are still where they were.

    Args:
        task: the model's task, whose reader opens the data.
        config: the model's settings, with the digest and the paths of its training data.
        read: the result of `inputs.read_data`.
    """
    data, form = config.data, task.form
    with suppress(DataError, OSError):
        if data.digest and _are_files(read.report.paths):
            with form.open(read.report.paths, data) as source:
                if source.digest() == data.digest:
                    return "this is the training data, so the scores don't show how the model does on new data"
        if not data.digest or not isinstance(read, Pairs) or data.modality != "text" or not _are_files(data.train):
            return ""
        if _size(data.train) > _MOST:
            return ""
        with form.open(data.train, data) as source:
            if source.digest() != data.digest:
                return ""
            corpus = form.divide(source, 0.0 if data.valid else data.split, config.train.seed)
            return corpus.repeats(read, "test") if isinstance(corpus, Corpus) else ""
    return ""


def _are_files(paths: tuple[str, ...]) -> bool:
    return bool(paths) and all(Path(it).is_file() or Path(it).is_dir() for it in paths)


def _size(paths: tuple[str, ...]) -> int:
    files = (file for it in map(Path, paths) for file in (it.rglob("*") if it.is_dir() else [it]))
    return sum(file.stat().st_size for file in files if file.is_file())
