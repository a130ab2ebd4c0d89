from pathlib import Path

import pytest

from ..conftest import Run


@pytest.mark.parametrize(("words", "name"), [
    (("--to", "onnx"), "--out"), (("--out", "x"), "--to"),
])  # fmt: skip
def test_format_and_folder_must_be_given(run: Run, model_folder: Path, words, name) -> None:
    done = run("export", model_folder, *words)
    assert done.code == 2 and name in done.err


def test_a_page_is_one_file(run: Run, model_folder: Path, tmp_path: Path) -> None:
    done = run("export", model_folder, "--to", "page", "--out", tmp_path / "page.html", "--precision", "int8")
    assert (done.code, done.out) == (0, "") and f"wrote {tmp_path / 'page.html'}" in done.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"export {model_folder.name} --to page --out page.html --precision int8" in page
    done = run("export", model_folder, "--to", "page", "--out", tmp_path / "page.html")
    assert done.code == 1 and "page.html exists" in done.err and "--out" in done.err


def test_a_folder_with_files_is_left_alone(run: Run, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = run("export", model_folder, "--to", "onnx", "--out", tmp_path)
    assert done.code == 1 and "notes.txt" in done.err and "--out" in done.err
    assert [it.name for it in tmp_path.iterdir()] == ["notes.txt"]
