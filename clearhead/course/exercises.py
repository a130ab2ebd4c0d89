"""All exercises, in the paper's order, and the folder that a student works in."""

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from ..errors import DataError
from ..folder.atomic import write_file
from . import laws_of_attention, laws_of_blocks, laws_of_stacks
from .laws import Exercise

EXERCISES: Sequence[Exercise] = (
    *laws_of_attention.EXERCISES,
    *laws_of_blocks.EXERCISES,
    *laws_of_stacks.EXERCISES,
)


def lesson(exercise: Exercise) -> str:
    """Return the page that explains an exercise, in Markdown. It ends with the file to complete."""
    return (files(__package__) / "lessons" / f"{exercise.name}.md").read_text(encoding="utf-8")


def starter(exercise: Exercise) -> str:
    """Return the file to complete: the last block of code in the lesson."""
    blocks: list[str] = re.findall(r"^```python\n(.*?)^```$", lesson(exercise), re.DOTALL | re.MULTILINE)
    return blocks[-1]


def open_course(folder: Path) -> bool:
    """Write the lessons and starters that a folder lacks, and return whether all of them were missing.

    Raises:
        DataError: it's a file, or a folder with other files.
    """
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder} is a file", expected="a folder for the course", name=str(folder))
    places = {folder / f"{it.name}.py": starter(it) for it in EXERCISES}
    is_new = not any(path.exists() for path in places)
    if is_new and folder.exists() and any(folder.iterdir()):
        what, fix = f"{folder} has files, but no exercise", "name another folder"
        raise DataError(what, expected="a new or empty folder, or that of a course", fix=fix, name=str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in places.items():
        if not path.exists():
            write_file(path, text.encode())
    for exercise in EXERCISES:
        page = folder / f"{exercise.name}.md"
        if not page.exists():
            write_file(page, lesson(exercise).partition("```python")[0].rstrip().encode() + b"\n")
    return is_new
