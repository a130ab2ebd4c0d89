"""The confusion matrix as a table for the terminal, and as a picture."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..pictures.figures import confusion_matrix
from ..readers.lines import shown
from .class_scores import ClassScores

_WIDE = 12  # maximum number of labels in a table
_PAIRS = 10  # confused pairs to list if there are more labels than that
_NAME, _DRAWN = 20, 16  # characters of a label in a table, and in a picture
_HEADING = "correct label"
_COLUMNS = 53  # left in an 80-column terminal, next to precision, recall and F1


def confusion_table(scores: ClassScores) -> str:
    """Return a table with a row for each correct label, or the most confused pairs if there are many labels.

    If the column names are too wide for a terminal, the columns are numbered instead.
    """
    names = short_names([it.label for it in scores.classes], _NAME)
    if len(names) > _WIDE:
        return _most_confused(scores, names)
    heads, least = names, 5
    if max(len(_HEADING), *map(len, names)) + sum(max(len(name), least) + 2 for name in names) > _COLUMNS:
        heads, least = [str(number) for number in range(1, len(names) + 1)], 3
        names = [f"{number:>2} {name}" for number, name in zip(heads, names)]
    counts = [[f"{count:,}" for count in row] for row in scores.confusion.tolist()]
    widths = [max(len(heads[c]), least, *(len(row[c]) for row in counts)) for c in range(len(names))]
    first = max(len(_HEADING), *map(len, names))
    rows = [f"{_HEADING:<{first}}  " + "  ".join(f"{name:>{width}}" for name, width in zip(heads, widths))]
    rows[0] += "  precision  recall      F1"
    for name, row, it in zip(names, counts, scores.classes):
        cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths))
        rows.append(f"{name:<{first}}  {cells}  {it.precision:>9.4f}  {it.recall:.4f}  {it.f1:.4f}")
    return "\n".join(rows)


def _most_confused(scores: ClassScores, names: list[str]) -> str:
    """Return the most confused pairs of labels, with their number and the total for the correct label."""
    found = [
        (count, right, taken)
        for right, row in enumerate(scores.confusion.tolist())
        for taken, count in enumerate(row)
        if count and right != taken
    ]
    found = sorted(found, key=lambda it: (-it[0], it[1:]))[:_PAIRS]
    if not found:
        return f"none of the {len(names):,} labels is ever confused with another"
    first, second = (max(len(_HEADING), *(len(names[it[side]]) for it in found)) for side in (1, 2))
    rows = [f"{_HEADING:<{first}}  {'predicted':<{second}}  count      of"]
    for count, right, taken in found:
        of = scores.classes[right].support
        rows.append(f"{names[right]:<{first}}  {names[taken]:<{second}}  {count:>5,}  {of:>6,}")
    return "\n".join(rows)


def short_names(labels: Sequence[str], most: int) -> list[str]:
    """Shorten labels to `most` characters on one line. Labels that would become identical are cut in the middle."""
    whole = [shown(label, len(label))[1:-1] for label in labels]
    cut = [text if len(text) <= most else text[: most - 1] + "…" for text in whole]
    alike, half = Counter(cut), most // 2
    return [it if alike[it] == 1 else f"{text[: half - 1]}…{text[half - most :]}" for it, text in zip(cut, whole)]


def draw_confusion(scores: ClassScores, folder: Path) -> None:
    """Save a picture of the confusion matrix as `confusion.png` in a folder."""
    labels = [it.label for it in scores.classes]
    confusion_matrix(scores.confusion, short_names(labels, _DRAWN), folder / "confusion.png")
