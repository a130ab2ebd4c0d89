import importlib.util
import sys
import types
from pathlib import Path

import pytest
import torch

from clearhead.course import grade as grading
from clearhead.course.grade import EXERCISES, Grade, grade, grade_all, graded, starter
from clearhead.course.laws import REPEATED, UNCHANGED, Exercise, name_of

HERE = Path(__file__).parent
SOLUTIONS, LINE_1 = HERE / "solutions", "in line 1 of step_02_mask.py"


def mutants() -> dict[str, list[tuple[str, str, str | None]]]:
    spec = importlib.util.spec_from_file_location("mutants", HERE / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MUTANTS


def grade_source(exercise: Exercise, source: str) -> Grade:
    """Grade a file in this process, next to right solutions of the earlier exercises."""

    def load() -> types.ModuleType:
        module = types.ModuleType(exercise.name)
        exec(compile(source, f"{exercise.name}.py", "exec"), vars(module))
        return module

    return graded(exercise, load)


@pytest.fixture
def solutions(monkeypatch):
    monkeypatch.syspath_prepend(str(SOLUTIONS))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield SOLUTIONS
    torch.set_default_dtype(before)
    for name in [name for name in sys.modules if name.startswith("step_")]:
        del sys.modules[name]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda it: it.name)
def test_a_right_solution_obeys_all_laws(exercise: Exercise, solutions: Path) -> None:
    found = grade_source(exercise, (solutions / f"{exercise.name}.py").read_text())
    assert (found.status, found.laws) == ("passed", len(exercise.laws)), found.render()
    assert found.pictures and all(matrix and matrix[0] for matrix in found.pictures.values())


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda it: it.name)
def test_a_wrong_solution_breaks_the_law_that_it_should(exercise: Exercise, solutions: Path) -> None:
    source, wrong = (solutions / f"{exercise.name}.py").read_text(), []
    for right, mutation, law in mutants()[exercise.name]:
        assert right in source
        found = grade_source(exercise, source.replace(right, mutation, 1))
        names = {name_of(it): it.__name__ for it in exercise.laws} | {UNCHANGED: "UNCHANGED", REPEATED: "REPEATED"}
        named = names.get(found.law, found.law) if found.status == "failed" else None
        if named != law or (law and not found.what):
            wrong.append((mutation, law, named, found.what))
    assert not wrong


def test_there_are_a_hundred_wrong_solutions() -> None:
    assert sum(law is not None for every in mutants().values() for _, _, law in every) >= 100


def test_the_leak_of_a_mask_is_named_with_the_smallest_input(solutions: Path) -> None:
    source = (solutions / "step_02_mask.py").read_text().replace("<= places[:, None]", "<= places[:, None] + 1")
    found = grade_source(EXERCISES[1], source)
    assert found.what == "query 0 sees key 1: the future leaks"
    assert found.inputs == {"n": "2", "mask": "[[True, True], [True, True]]"}


# --- in a process of its own


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def causal_mask(n)\n", "line 1 of step_02_mask.py: expected ':'"),
        ("def masked_softmax(x, mask): ...\n", "there's no function causal_mask"),
        ("def causal_mask(n):\n    return n.x\ndef masked_softmax(): ...\ndef masked_attention(): ...\n",
         "in line 2 of step_02_mask.py, in causal_mask: AttributeError: 'int' object has no attribute 'x'"),
        ("import os\nos._exit(3)\n", "Python ended with the exit status 3"),
        ("while True: pass\n", "it takes more than 6 seconds: does a loop end?"),
        ("raise NotImplementedError\n", None),
        ("import nowhere\n", f"{LINE_1}, in <module>: ModuleNotFoundError: No module named 'nowhere'"),
    ],
    ids=["syntax", "missing", "error", "exit", "endless", "to write", "import"],
)  # fmt: skip
def test_a_file_that_does_not_work_is_reported(source: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "step_02_mask.py").write_text(source)
    found = grade(tmp_path, EXERCISES[1], seconds=6 if "while" in source else 60)
    assert found.status == ("failed" if said else "to write")
    assert said is None or found.what == said


def test_an_error_of_syntax_without_a_line_is_in_the_first_one() -> None:
    def load() -> None:
        raise SyntaxError("source code string cannot contain null bytes")

    assert graded(EXERCISES[1], load).what.startswith("line 1 of step_02_mask.py: source code")


def test_a_mistake_in_an_earlier_exercise_is_blamed_where_it_is(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(grading, "EXERCISES", (*EXERCISES[:2], EXERCISES[4]))
    for each in SOLUTIONS.glob("*.py"):
        (tmp_path / each.name).write_text(each.read_text())
    first = tmp_path / "step_01_attention.py"
    first.write_text(first.read_text().replace("def softmax(", "def softmax(x): return x.nothing\ndef other("))
    grades = {it.name: it for it in grade_all(tmp_path)}
    assert [name for name, it in grades.items() if it.status == "failed"][:2] == [first.stem, "step_02_mask"]
    assert grades[first.stem].what.startswith("in line ") and "it uses" not in grades[first.stem].what
    later = grades["step_02_mask"].what
    assert later.endswith(f" (it uses {first.stem}, which fails, too: correct that first)")
    assert grades["step_05_positions"].status == "passed"


def test_prints_of_a_student_are_no_answer(tmp_path: Path) -> None:
    source = (SOLUTIONS / "step_07_feed_forward.py").read_text()
    (tmp_path / "step_07_feed_forward.py").write_text(f"print('hello')\n{source}")
    assert grade(tmp_path, EXERCISES[6]).status == "passed"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda it: it.name)
def test_a_starter_names_every_function_that_is_to_be_written(exercise: Exercise, monkeypatch, tmp_path) -> None:
    for each in EXERCISES:
        (tmp_path / f"{each.name}.py").write_text(starter(each))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = grade_source(exercise, starter(exercise))
    assert found.status == "to write" and found.what
    for name in [name for name in sys.modules if name.startswith("step_")]:
        del sys.modules[name]
