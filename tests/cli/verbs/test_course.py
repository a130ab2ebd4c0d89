import json
from pathlib import Path

import pytest

from clearhead.course.grade import EXERCISES, Grade

from ..conftest import Run

SOLUTIONS = Path(__file__).parents[2] / "course" / "solutions"


def test_the_first_call_writes_the_exercises_and_later_ones_grade_them(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    begun = run("course", folder)
    assert begun.code == 0 and begun.out == "" and begun.err.startswith(f"wrote 10 exercises to {folder}\n")
    assert {path.name for path in folder.iterdir()} == {f"{it.name}{end}" for it in EXERCISES for end in (".md", ".py")}
    name = EXERCISES[0].name
    source = (SOLUTIONS / f"{name}.py").read_text(encoding="utf-8")
    (folder / f"{name}.py").write_text(source.replace(" / math.sqrt(k.size(-1))", ""), encoding="utf-8")
    failed = run("course", folder)
    assert f"{name}     FAILED    Scores are divided by the square root of the width of a key" in failed.out
    assert "with d_k = 4, the scores aren't divided at all" in failed.out
    assert f"next: {folder / name}.py, explained in {folder / name}.md" in failed.err
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    (folder / f"{EXERCISES[4].name}.md").unlink()
    found = run("course", folder, "--json")
    grades = json.loads(found.out)["exercises"]
    assert [it["status"] for it in grades] == ["passed"] + ["to write"] * 9
    assert found.err == "" and (folder / f"{EXERCISES[4].name}.md").exists()
    page = (folder / "course.html").read_text(encoding="utf-8")
    assert "1 of 10 exercises are done." in page and "<caption>weights of 4 queries and 6 keys</caption>" in page
    assert f"{grades[0]['pictures']['weights of 4 queries and 6 keys'][0][0]:.2f}</td>" in page


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda path: path.write_text("hello"), " is a file\n  expected: a folder for the course\n"),
        (lambda path: (path.mkdir(), (path / "notes.txt").write_text("hello")), " has files, but no exercise\n"),
    ],
    ids=["a file", "another folder"],
)
def test_other_files_are_left_alone(run: Run, tmp_path: Path, make, said: str) -> None:
    make(tmp_path / "mine")
    before = sorted(tmp_path.rglob("*"))
    done = run("course", tmp_path / "mine")
    assert done.code == 1 and done.err.startswith(f"error: {tmp_path / 'mine'}{said}")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_needs_a_name(run: Run) -> None:
    assert "the name of the folder is empty" in run("course", "").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["verify"], "no page is given"),
        (["verify", "nowhere.html"], "nowhere.html doesn't exist"),
        (["one", "two"], "two is unexpected"),
        (["mine", "--finish", "page.txt"], "page.txt"),
        (["mine", "--break", "msak"], "there's no part 'msak' to remove"),
        (["mine", "--break", "mask", "--json"], "--break can't be combined"),
    ],
    ids=str,
)
def test_other_arguments_are_clear_errors(run: Run, tmp_path: Path, monkeypatch, arguments, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("course", *arguments)
    assert done.code != 0 and said in done.err and "internal" not in done.err
    assert list(tmp_path.iterdir()) == []


def test_the_next_step_of_a_done_course_is_to_finish_it(run: Run, tmp_path: Path, monkeypatch) -> None:
    passed = [Grade(it.name, "passed", len(it.laws)) for it in EXERCISES]
    monkeypatch.setattr("clearhead.course.grade.grade_all", lambda _: passed)
    run("course", tmp_path / "mine")
    said = f"next: clearhead course {tmp_path / 'mine'} --finish {tmp_path / 'mine' / 'finished.html'}\n"
    assert run("course", tmp_path / "mine").err.endswith(said)


def test_an_unfinished_course_cannot_be_finished(run: Run, tmp_path: Path) -> None:
    run("course", tmp_path / "mine")
    done = run("course", tmp_path / "mine", "--finish", tmp_path / "page.html")
    assert done.code == 1 and "0 of 10 exercises are done" in done.err and not (tmp_path / "page.html").exists()
