"""A model's predictions for a data set as a table: what was read, the correct answer, the model's, and its scores."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...readers.pairs import Pairs
from ..evaluation import Evaluation
from .cell_values import as_cell, as_json


def predictions(evaluation: Evaluation, data: Any) -> Iterator[dict[str, Any]]:
    """Yield the values of each row: line, source, gold, prediction and scores, of which the first ranks the answers.

    Pairs have a row for each line of the file that was used, other data one for each source. A source with several
    correct answers has a list of them. If the text itself is scored, there's neither a gold answer nor a prediction.

    Args:
        data: what was evaluated.
    """
    judged, scores = evaluation.judged, {name: values.tolist() for name, values in evaluation.judged.singly().items()}
    place_of = {source: place for place, source in enumerate(judged.sources)}
    if isinstance(data, Pairs) and judged.answers and all(source in place_of for source in data.sources):
        golds: Sequence[Any] = data.targets
        rows = zip(data.lines, map(place_of.__getitem__, data.sources), golds)
    else:
        golds = [it[0] if len(it) == 1 else list(it) for it in judged.references] or [None] * len(judged.sources)
        rows = zip(range(1, len(judged.sources) + 1), range(len(judged.sources)), golds)
    for line, place, gold in rows:
        answer = {"gold": gold, "prediction": judged.answers[place]} if judged.answers else {}
        of_scores = {name: values[place] for name, values in scores.items()}
        yield {"line": line, "source": judged.sources[place], **answer, **of_scores}


def as_table(rows: Iterator[Mapping[str, Any]], ending: str) -> str:
    """Return rows as JSON Lines if `ending` is ".jsonl", and otherwise as a TSV or CSV file with a header."""
    stream = io.StringIO()
    if ending == ".jsonl":
        stream.writelines(f"{as_json(dict(row))}\n" for row in rows)
        return stream.getvalue()
    writer = csv.writer(stream, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n")
    for number, row in enumerate(rows):
        writer.writerows([list(row)] if not number else [])
        writer.writerow([*map(as_cell, row.values())])
    return stream.getvalue()
