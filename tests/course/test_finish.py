import json
import shutil
from pathlib import Path

import pytest
import torch

from clearhead.course import finish as finishing
from clearhead.course import grade as grading
from clearhead.course import own_parts
from clearhead.course.finish import check_again, finish
from clearhead.course.grade import EXERCISES, Grade
from clearhead.demo.phrasebook import split
from clearhead.errors import DataError

SOLUTIONS = Path(__file__).parent / "solutions"
PASSED = [Grade(it.name, "passed", len(it.laws)) for it in EXERCISES]


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("course")
    for exercise in EXERCISES:
        shutil.copy(SOLUTIONS / f"{exercise.name}.py", folder)
    short = {"train.steps": 4, "train.warmup": 1, "train.eval_every": 4, "train.save_every": 4, "train.threads": 1}
    training, held_out = split()
    before = torch.get_default_dtype()
    with pytest.MonkeyPatch.context() as patch:
        torch.set_default_dtype(torch.float32)
        patch.setattr(finishing, "TRAINING", finishing.TRAINING | short)
        patch.setattr(finishing, "split", lambda: (training[:300], held_out[:4]))
        patch.setattr(finishing, "_SCORED", 4)
        path = folder / "finished.html"
        path.write_text(finish(folder, PASSED), encoding="utf-8")
    torch.set_default_dtype(before)
    return path


def card(page: Path) -> dict:
    return json.loads(finishing._CARD.search(page.read_text(encoding="utf-8"))[1])


def test_the_page_shows_a_model_of_the_students_functions_and_keeps_them(page: Path) -> None:
    found = card(page)
    assert found["exercises"]["step_01_attention"] == (SOLUTIONS / "step_01_attention.py").read_text(encoding="utf-8")
    assert len(found["answers"]) == 3 and found["held_out"] == 4
    config = json.loads((page.parent / "model" / "config.json").read_text(encoding="utf-8"))
    assert "clearhead.course.own_parts:Attention" in json.dumps(config)
    text = page.read_text(encoding="utf-8")
    assert "your translator" in text and "A finished course" in text and "sleeping" in text


def test_a_page_is_graded_again_by_the_functions_in_it(page: Path, monkeypatch) -> None:
    seen = {}

    def grade(folder: Path, exercise) -> Grade:
        seen[exercise.name] = (folder / f"{exercise.name}.py").read_text(encoding="utf-8")
        return Grade(exercise.name, "passed")

    monkeypatch.setattr(grading, "grade", grade)
    assert [it.status for it in check_again(page)] == ["passed"] * 10
    assert seen == card(page)["exercises"]


def test_a_page_with_another_function_fails(page: Path, tmp_path: Path, monkeypatch) -> None:
    changed = tmp_path / "changed.html"
    changed.write_text(page.read_text(encoding="utf-8").replace("/ math.sqrt(k.size(-1))", ""), encoding="utf-8")
    monkeypatch.setattr(grading, "EXERCISES", EXERCISES[:1])
    [first] = check_again(changed)
    assert first.status == "failed" and first.what == "with d_k = 4, the scores aren't divided at all"


@pytest.mark.parametrize("text", ["", "<body></body>", '<script type="application/json" id="course">{}</script>'])
def test_other_pages_have_no_card(text: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(text)
    with pytest.raises(DataError, match=r"has no card of a course|is empty"):
        check_again(tmp_path / "page.html")


def test_a_feed_forward_network_of_a_student_gets_tokens_alone(monkeypatch) -> None:
    shapes = []
    monkeypatch.setattr(own_parts, "_own", lambda *_: lambda x, *_: shapes.append(x.shape) or x)
    x = torch.randn(2, 3, 4)
    assert torch.equal(own_parts.FeedForward(4, 8)(x), x) and shapes == [(6, 4)]


def test_an_unfinished_course_has_no_page(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="9 of 10 exercises are done"):
        finish(tmp_path, [*PASSED[1:], Grade("step_01_attention", "to write")])
