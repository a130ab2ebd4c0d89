"""All exercises, in the paper's order, the folder that a student works in, the grades, and a page of them.

An exercise is graded in a separate process, since a student's code may loop, exit or print.
"""

import importlib
import json
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import torch

from ..errors import DataError
from ..folder.atomic import write_file
from ..pictures.plain_page import document
from . import laws_of_attention, laws_of_blocks, laws_of_stacks
from .laws import REPEATED, Broken, Exercise, Law, Watched, Work, all_shown, name_of

EXERCISES: Sequence[Exercise] = (
    *laws_of_attention.EXERCISES,
    *laws_of_blocks.EXERCISES,
    *laws_of_stacks.EXERCISES,
)
SECONDS = 60.0  # for an exercise
_WIDTH = 22  # of the names of exercises
_AT_ONCE = 2  # processes that grade

Status = Literal["passed", "failed", "to write"]
Matrix = list[list[float]]


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


@dataclass(frozen=True)
class Grade:
    """The result of an exercise.

    Attributes:
        name: the name of the exercise.
        status: whether all laws hold, one is broken, or a function isn't written yet.
        laws: how many laws hold.
        law: the first law that's broken, or "".
        what: how it's broken, or what isn't written.
        inputs: the smallest inputs that break it, as text.
        pictures: numbers of the student's own functions to draw, by title.
    """

    name: str
    status: Status
    laws: int = 0
    law: str = ""
    what: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Matrix] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def render(self) -> str:
        """Return lines for a terminal: the status, and what to look at."""
        if self.status != "failed":
            return f"{self.name:<{_WIDTH}}{self.status:<10}{self.what or f'{self.laws} laws hold'}"
        lines = [f"{self.name:<{_WIDTH}}{'FAILED':<10}{self.law or 'the file works'}", self.what]
        lines += [f"{name} = {value}" for name, value in self.inputs.items()]
        return f"\n{' ' * _WIDTH}".join(lines)


def grade(folder: Path, exercise: Exercise, seconds: float = SECONDS) -> Grade:
    """Test the laws of an exercise with the functions in a folder.

    The functions run with the rights of the caller. A starter without changes needs no process.

    Args:
        folder: the folder that the student works in.
        exercise: an element of `EXERCISES`.
        seconds: the time after which an exercise has failed.
    """
    path = folder / f"{exercise.name}.py"
    if not path.exists():
        return Grade(exercise.name, "to write", what=f"{path} is missing")
    if path.read_text(encoding="utf-8", errors="replace") == starter(exercise):
        return Grade(exercise.name, "to write", what=", ".join(exercise.functions))
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "grade.json"
        command = [sys.executable, "-P", "-m", __name__, str(folder.resolve()), exercise.name, str(report)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return Grade(exercise.name, "failed", what=f"it takes more than {seconds:.0f} seconds: does a loop end?")
        if not report.exists():
            said = done.stderr.decode(errors="replace").strip().splitlines()
            last = f": {said[-1]}" if said else ""
            return Grade(exercise.name, "failed", what=f"Python ended with the exit status {done.returncode}{last}")
        return Grade(**json.loads(report.read_text(encoding="utf-8")))


def grade_all(folder: Path) -> list[Grade]:
    """Grade every exercise. One that fails and uses an earlier one that fails, too, says so."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        grades = list(pool.map(lambda it: grade(folder, it), EXERCISES))
    failed = [it.name for it in grades if it.status == "failed"]
    return [replace(it, what=it.what + _earlier(folder, it.name, failed)) for it in grades]


def _earlier(folder: Path, name: str, failed: Sequence[str]) -> str:
    """Return a remark on the first failed exercise that a failed one imports, or ""."""
    if name not in failed:
        return ""
    text = (folder / f"{name}.py").read_text(encoding="utf-8", errors="replace")
    used = re.findall(r"^\s*(?:from|import)\s+(step_\w+)", text, re.MULTILINE)
    first = next((it for it in failed if it in used), None)
    return f" (it uses {first}, which fails, too: correct that first)" if first else ""


def graded(exercise: Exercise, load: Callable[[], Work]) -> Grade:
    """Test all laws in this process, up to the first one that's broken."""
    held, law, work, test = 0, "", None, None
    try:
        work = Watched(load())
        missing = [name for name in exercise.functions if not callable(getattr(work, name, None))]
        if missing:
            raise Broken(f"there's no function {missing[0]}")
        for test in exercise.laws:
            law = name_of(test)
            test(work)
            held += 1
        law = ""
        pictures = {title: matrix.tolist() for title, matrix in exercise.picture(work).items()}
    except NotImplementedError as error:
        return Grade(exercise.name, "to write", what=_place(error, exercise.name)[1])
    except Broken as broken:
        inputs, what = broken.inputs or all_shown(work.inputs if work else {}), broken.what
        if law and not broken.law and _holds(test, load):
            broken.law, what = REPEATED, f"{what} after other calls, but not before them: what's kept between calls?"
        return Grade(exercise.name, "failed", held, broken.law or law, what, inputs)
    except SyntaxError as error:
        return Grade(exercise.name, "failed", what=f"line {error.lineno or 1} of {exercise.name}.py: {error.msg}")
    except Exception as error:
        file, function, line = _place(error, exercise.name)
        at = f"in line {line} of {file}, in {function}: " if function else ""
        inputs = all_shown(work.inputs if work else {})
        return Grade(exercise.name, "failed", held, law, f"{at}{type(error).__name__}: {error}", inputs)
    return Grade(exercise.name, "passed", held, pictures=pictures)


def _holds(law: Law | None, load: Callable[[], Work]) -> bool:
    """Return whether a law holds if nothing was called before."""
    try:
        if law:
            law(Watched(load()))
    except Exception:
        return False
    return True


def _place(error: BaseException, name: str) -> tuple[str, str, int | None]:
    """Return the student's file that an error comes from (this exercise's if it's involved), its function and line."""
    frames = [it for it in traceback.extract_tb(error.__traceback__) if Path(it.filename).name.startswith("step_")]
    own = [it for it in frames if Path(it.filename).stem == name] or frames
    frame = frames[-1] if isinstance(error, NotImplementedError) and frames else own[-1] if own else None
    return ("", "", None) if frame is None else (Path(frame.filename).name, frame.name, frame.lineno)


# --- the page


def course_page(grades: Sequence[Grade]) -> str:
    """Return the page of a course as HTML."""
    done = sum(it.status == "passed" for it in grades)
    entries = "".join(
        f'<li><a href="#{it.name}">{_title(it.name)}</a> <span class="{it.status}">{it.status}</span></li>'
        for it in grades
    )
    sections = "".join(_section(it) for it in grades)
    done_of = f"<p>{done} of {len(grades)} exercises are done.</p>"
    return document("Attention, step by step", f"{done_of}<nav><ol>{entries}</ol></nav>{sections}")


def _title(name: str) -> str:
    return escape(name.split("_", 2)[2].replace("_", " ").capitalize())


def _section(grade: Grade) -> str:
    exercise = next(it for it in EXERCISES if it.name == grade.name)
    text = re.sub(r"^```.*?^```$", "", lesson(exercise), flags=re.DOTALL | re.MULTILINE)
    result = f'<p class="{grade.status}">{escape(_sentence(grade))}</p>'
    pictures = "".join(number_table(title, matrix) for title, matrix in grade.pictures.items())
    return f'<section id="{grade.name}">{_to_html(text)}{result}{pictures}</section>'


def _sentence(grade: Grade) -> str:
    if grade.status == "passed":
        return f"Your functions obey all {grade.laws} laws. These are their numbers:"
    if grade.status == "to write":
        return f"To write: {grade.what or grade.name}"
    inputs = "; ".join(f"{name} = {value}" for name, value in grade.inputs.items())
    law = f"Law: {grade.law}. " if grade.law else ""
    return f"{law}Your functions: {grade.what}{f' ({inputs})' if inputs else ''}."


def _to_html(text: str) -> str:
    """Turn the small part of Markdown that lessons use into HTML."""
    found = []
    for block in filter(None, (it.strip("\n") for it in text.split("\n\n"))):
        if block.startswith("# "):
            found.append(f"<h2>{escape(block[2:])}</h2>")
        elif block.startswith("    "):
            found.append(f"<pre>{escape(re.sub(r'^    ', '', block, flags=re.MULTILINE))}</pre>")
        else:
            words = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(block))
            words = re.sub(r"`(.+?)`", r"<code>\1</code>", words)
            found.append(f"<p>{words}</p>")
    return "".join(found)


def number_table(title: str, matrix: Matrix) -> str:
    """Return a matrix as a table, whose cells are blue for positive and red for negative numbers."""
    largest = max((abs(it) for row in matrix for it in row if it == it), default=0.0) or 1.0
    rows = "".join(f"<tr>{''.join(_cell(it, largest) for it in row)}</tr>" for row in matrix)
    return f"<table><caption>{escape(title)}</caption>{rows}</table>"


def _cell(number: float, largest: float) -> str:
    if number != number:  # NaN: nothing is there
        return "<td></td>"
    colour = "64,128,255" if number >= 0 else "255,96,80"
    return f'<td style="background:rgba({colour},{abs(number) / largest * 0.6:.2f})">{number:.2f}</td>'


# --- the process of an exercise


def _main(arguments: Sequence[str]) -> None:
    """Grade in this process: arguments are the folder, the name of the exercise and the file to write."""
    folder, name, report = arguments
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.path.insert(0, folder)
    exercise = next(it for it in EXERCISES if it.name == name)

    def load() -> Work:
        sys.modules.pop(name, None)  # nothing is kept from an earlier load
        return importlib.import_module(name)

    found = graded(exercise, load).to_dict()
    Path(report).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    _main(sys.argv[1:])
