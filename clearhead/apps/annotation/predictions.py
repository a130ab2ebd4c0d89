"""A model's predictions for a data set as a table: what was read, the correct answer, the model's, and its scores."""

import csv
import io
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...readers.pairs import Pairs
from ..evaluation import Evaluation
from .table_file import as_cell, as_json


def predictions(evaluation: Evaluation, data: Any) -> Iterator[dict[str, Any]]:
    """Yield the values of each row: line, source, gold, prediction and scores, of which the first ranks the answers.

    Pairs have a row for each line of the file that was used, other data one for each source. A source with several
    correct answers has a list of them. If the text itself is scored, there's neither a gold answer nor a prediction. A
    source that couldn't be read has a prediction and scores of None.

    Args:
        data: what was evaluated.
    """
    judged, scores = evaluation.judged, {name: values.tolist() for name, values in evaluation.judged.singly().items()}
    if isinstance(data, Pairs) and judged.answers:
        rows: Any = zip(data.lines, data.sources, data.targets, _places(data.sources, judged.sources))
    else:
        golds: list[Any] = [it[0] if len(it) == 1 else list(it) for it in judged.references]
        golds = golds or [None] * len(judged.sources)
        rows = ((place + 1, source, golds[place], place) for place, source in enumerate(judged.sources))
    for line, source, gold, place in rows:
        answer = {"gold": gold, "prediction": _at(place, judged.answers)} if judged.answers else {}
        yield {"line": line, "source": source, **answer, **{name: _at(place, it) for name, it in scores.items()}}


def _places(sources: Sequence[str], judged: Sequence[str]) -> Iterator[int | None]:
    """Yield the place of each source among those that were judged: all of them in order, or distinct ones."""
    places = defaultdict[str, deque[int]](deque)
    for place, source in enumerate(judged):
        places[source].append(place)
    for source in sources:
        found = places[source]
        yield found.popleft() if len(found) > 1 else found[0] if found else None


def _at(place: int | None, values: Sequence[Any]) -> Any:
    return None if place is None else values[place]


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
