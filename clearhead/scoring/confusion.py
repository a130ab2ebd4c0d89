"""Which labels are taken for which: as a table for a terminal, and as a picture."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ..pictures.figures import confusion_matrix
from ..readers.lines import shown
from .class_scores import ClassScores

_WIDE = 12  # labels that a table has room for
_PAIRS = 10  # of labels that are confused, named where there are more
_NAME, _DRAWN = 20, 16  # letters of a label, and of one in a picture
_COLUMNS = 53  # of a terminal, beside precision, recall and F1


def confusion_table(scores: ClassScores) -> str:
    """How often each label was taken for which, a row a label; of many labels those that are confused most.

    Where the names of the columns would take more than a terminal has, they are the numbers of the rows.
    """
    names = short_names([it.label for it in scores.classes], _NAME)
    if len(names) > _WIDE:
        return _most_confused(scores, names)
    heads, least = names, 5
    if max(map(len, names)) + sum(max(len(name), least) + 2 for name in names) > _COLUMNS:
        heads, least = [str(number) for number in range(1, len(names) + 1)], 3
        names = [f"{number:>2} {name}" for number, name in zip(heads, names)]
    counts = [[f"{count:,}" for count in row] for row in scores.confusion.tolist()]
    widths = [max(len(heads[c]), least, *(len(row[c]) for row in counts)) for c in range(len(names))]
    first = max(len("right label"), *map(len, names))
    rows = [f"{'right label':<{first}}  " + "  ".join(f"{name:>{width}}" for name, width in zip(heads, widths))]
    rows[0] += "  precision  recall      F1"
    for name, row, it in zip(names, counts, scores.classes):
        cells = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths))
        rows.append(f"{name:<{first}}  {cells}  {it.precision:>9.4f}  {it.recall:.4f}  {it.f1:.4f}")
    return "\n".join(rows)


def _most_confused(scores: ClassScores, names: list[str]) -> str:
    """The pairs of labels with the most texts, and how many of the right label's texts these are."""
    found = [
        (count, right, taken)
        for right, row in enumerate(scores.confusion.tolist())
        for taken, count in enumerate(row)
        if count and right != taken
    ]
    found = sorted(found, key=lambda it: (-it[0], it[1:]))[:_PAIRS]
    if not found:
        return f"none of the {len(names):,} labels is taken for another"
    first, second = (max(11, *(len(names[it[side]]) for it in found)) for side in (1, 2))
    rows = [f"{'right label':<{first}}  {'taken for':<{second}}  texts      of"]
    for count, right, taken in found:
        of = scores.classes[right].support
        rows.append(f"{names[right]:<{first}}  {names[taken]:<{second}}  {count:>5,}  {of:>6,}")
    return "\n".join(rows)


def short_names(labels: Sequence[str], most: int) -> list[str]:
    """Labels on one line, with at most so many letters; those that would look alike then lose their middle instead of
    their end."""
    whole = [shown(label, len(label))[1:-1] for label in labels]
    cut = [text if len(text) <= most else text[: most - 1] + "…" for text in whole]
    alike, half = Counter(cut), most // 2
    return [it if alike[it] == 1 else f"{text[: half - 1]}…{text[half - most :]}" for it, text in zip(cut, whole)]


def draw_confusion(scores: ClassScores, folder: Path) -> None:
    """Draw the confusion matrix into `confusion.png` of a folder."""
    labels = [it.label for it in scores.classes]
    confusion_matrix(scores.confusion, short_names(labels, _DRAWN), folder / "confusion.png")
