"""Which labels are taken for which: as a table for a terminal, and as a picture."""

from pathlib import Path
from typing import Any

from ..figures import confusion_matrix
from ..text.lines import shown
from .class_scores import ClassScores

_WIDE = 12  # labels that a table has room for
_PAIRS = 10  # of labels that are confused, named where there are more
_NAME = 20  # letters of a label


def confusion_table(scores: ClassScores) -> str:
    """How often each label was taken for which, a row a label; of many labels those that are confused most."""
    names = [_short(it.label) for it in scores.classes]
    if len(names) > _WIDE:
        return _most_confused(scores, names)
    counts = [[f"{count:,}" for count in row] for row in scores.confusion.tolist()]
    widths = [max(len(names[c]), 5, *(len(row[c]) for row in counts)) for c in range(len(names))]
    first = max(len("right label"), *map(len, names))
    rows = [f"{'right label':<{first}}  " + "  ".join(f"{name:>{width}}" for name, width in zip(names, widths))]
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


def _short(label: str) -> str:
    """A label as `shown` shows it, without quotes."""
    text = shown(label)[1:-1]
    return text if len(text) <= _NAME else text[: _NAME - 1] + "…"


def draw_confusion(scores: Any, folder: Path) -> None:
    """Draw `confusion.png` into a folder, of `LabelScores`."""
    confusion, labels = scores.scores.confusion, [it.label for it in scores.scores.classes]
    confusion_matrix(confusion, labels, folder / "confusion.png")
