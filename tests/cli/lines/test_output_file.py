"""A file of answers that is continued after a kill, without losing or doubling a line."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.cli.input_lines import Line, Place
from clearhead.cli.lines.output_file import OutputFile
from clearhead.errors import DataError

RUN = {"verb": "translate", "model": "6e34", "settings": "{}"}


def groups(*sizes: int, changed: int = 0) -> list[list[Place]]:
    lines = [("", Line(number, "other" if number == changed else f"é {number}")) for number in range(1, sum(sizes) + 1)]
    return [[lines.pop(0) for _ in range(size)] for size in sizes]


def opened(path: Path, *, resume: bool = True, **changed: str) -> OutputFile:
    clock = iter(range(1000))
    return OutputFile(path, RUN | changed, resume=resume, clock=lambda: next(clock))  # every group is recorded


def written(file: OutputFile, given: list[list[Place]], most: int = 99, *, finish: bool = False) -> None:
    """Answer at most so many groups, as a process that is killed after them."""
    with file:
        for _, group in zip(range(most), file.unanswered(iter(given))):
            file.write(group, [line.text.upper() for _, line in group])
        if finish:
            file.finish()


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    path = tmp_path / "out.txt"
    written(opened(path, resume=False), groups(3, 4, 5), most=2)
    return path


@pytest.mark.parametrize("more", [b"", b"\xc3", b"half a li", b"a line\nand ha"])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (12,), (1,) * 12, (5, 7)])
def test_what_follows_the_record_is_cut_off_and_written_again(begun: Path, more: bytes, sizes: tuple[int, ...]) -> None:
    with begun.open("ab") as file:
        file.write(more)
    written(opened(begun), groups(*sizes), finish=True)
    assert begun.read_text(encoding="utf-8") == "".join(f"É {number}\n" for number in range(1, 13))
    assert [it.name for it in begun.parent.iterdir()] == ["out.txt"]


def test_resume_begins_a_file_that_does_not_exist_in_a_folder_that_does_not(tmp_path: Path) -> None:
    written(opened(tmp_path / "new" / "new.txt"), groups(2), finish=True)
    assert (tmp_path / "new" / "new.txt").read_text(encoding="utf-8") == "É 1\nÉ 2\n"


def test_a_run_killed_before_its_first_line_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("an older file")
    written(opened(path, resume=False), [])
    written(opened(path), groups(1))
    assert path.read_text(encoding="utf-8") == "É 1\n"


def fault(path: Path, given: list[list[Place]] | None = None, **changed: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        written(opened(path, **changed), given or groups(3, 4, 5))
    assert caught.value.name == str(path) and "delete" in caught.value.fix
    return caught.value


@pytest.mark.parametrize("name", RUN)
def test_another_model_or_setting_is_an_error(begun: Path, name: str) -> None:
    assert fault(begun, **{name: "other"}).what == f"the {name} changed after {begun} was begun"


def test_a_changed_input_is_an_error(begun: Path) -> None:
    assert "line 1 to 7 of the input changed" in fault(begun, groups(12, changed=7)).what
    assert "only 5 lines" in fault(begun, groups(5)).what
    written(opened(begun), groups(12, changed=8))  # not answered before
    assert begun.read_text(encoding="utf-8").splitlines()[7] == "OTHER"


def test_an_unfinished_run_is_not_overwritten(begun: Path) -> None:
    before = begun.read_bytes()
    assert "--resume" in fault(begun, resume=False).fix
    assert begun.read_bytes() == before


def test_a_complete_file_stays_as_it_is(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(opened(begun), groups(3, 4, 5), finish=True)
    before = begun.read_bytes()
    written(opened(begun), groups(12), finish=True)
    assert begun.read_bytes() == before and [it.name for it in begun.parent.iterdir()] == ["out.txt"]
    assert capsys.readouterr().err == f"{begun} is complete: 12 lines\n"
    error = fault(begun, groups(13))
    assert error.value == 12 and "12 lines, the input has 13" in error.what and begun.read_bytes() == before


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"lines": "x", "bytes": 1, "input": "", "run": {}}'])
def test_a_damaged_record_is_an_error(begun: Path, content: str) -> None:
    begun.with_name("out.txt.progress").write_text(content)
    assert "is damaged" in fault(begun).what


def test_a_file_shorter_than_its_record_is_an_error(begun: Path) -> None:
    begun.write_text("x")
    assert "has 1 bytes, but out.txt.progress counts" in fault(begun).what


def test_the_record_counts_what_is_in_the_file(begun: Path) -> None:
    record = json.loads(begun.with_name("out.txt.progress").read_bytes())
    assert (record["format_version"], record["lines"], record["bytes"]) == (1, 7, begun.stat().st_size)
