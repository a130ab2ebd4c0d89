"""The documents say what is so: their commands run, and the files, functions and tests that they name exist."""

import ast
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.cli import main
from clearhead.cli.reference import reference
from clearhead.model.positions import POSITIONS, Positions

from .conftest import make_questions

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "clearhead"
README = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = (
    "--train.steps=2 --train.warmup=1 --model.d_model=16 --model.n_heads=2 --model.d_ff=16 --model.n_encoder_layers=1 "
    "--model.n_decoder_layers=1 --data.vocab_size=300 --threads 1"
)


def blocks(text: str, language: str = "") -> list[str]:
    """The code blocks of a language; without one, those that name none."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [code for named, code in found if named == language]


def names(path: Path) -> set[str]:
    """What a file defines at its top: functions, classes with their methods and settings, constants."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in itertools.chain(tree.body, *inside):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path: Path) -> None:
    lines = "".join(f"The number is {n}.\tLe nombre est {n}.\n" for n in range(40))
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    (tmp_path / "other-pairs.tsv").write_text("I am here.\tJe suis ici.\n", encoding="utf-8")
    (tmp_path / "book.txt").write_text("The number is 3.\n\nThe end.\n", encoding="utf-8")
    commands = [line for block in blocks(README) for line in block.splitlines() if "clearhead" in line]
    assert len(commands) >= 6
    for command in commands:
        called = command.replace(".venv/bin/clearhead", f"{sys.executable} -m clearhead")
        assert called != command, f"a command that the reader cannot call as it stands: {command}"
        if " train " in command:
            called += f" {TINY}"
        done = subprocess.run(called, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    assert len((tmp_path / "translated.txt").read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize(
    "page", ["ablate", "data", "decoding", "explaining", "model", "own-parts", "scoring", "training", "verify"]
)
def test_the_commands_and_the_python_of_a_page_run(
    page: str, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    for name in ("en-fr", "other"):
        shutil.copytree(model_folder, tmp_path / "models" / name)
    lines = "".join(f"The number is {n}.\tLe nombre est {n}.\n" for n in range(40))
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    (tmp_path / "pairs.csv").write_text("id\tenglish\tfrench\n".replace("\t", ",") + "".join(
        f"{n},{line}\n".replace("\t", ",") for n, line in enumerate(lines.splitlines())), encoding="utf-8")  # fmt: skip
    (tmp_path / "more.txt").write_text("There is no number.\nIl n'y en a pas.\n", encoding="utf-8")
    for side, name in enumerate(("text.en", "text.fr")):
        (tmp_path / name).write_text("".join(f"{line.split(chr(9))[side]}\n" for line in lines.splitlines()))
    for name in ("own_attention.py", "own_parts.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    monkeypatch.setitem(POSITIONS, "near", Positions)  # what a page adds is gone afterwards
    for name in ("second.fr", "third.fr"):
        shutil.copy(tmp_path / "text.fr", tmp_path / name)
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks(text) for line in block.splitlines()]
    assert commands and all(re.match(r"(cat \S+ \| )?clearhead ", command) for command in commands)
    for command in commands:
        called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1)
        if " train " in command:
            called = called.replace("models/en-fr", "models/mine")
            called = called.replace("--budget 15m", "") + f" {TINY}"  # the next test takes its time
        done = subprocess.run(called, shell=True, capture_output=True, text=True, timeout=300)
        wrote = done.stdout or any(it in command for it in (" train ", " --png ", " --gif "))
        assert done.returncode == 0 and wrote, f"{command}\n{done.stderr}"
    for block in blocks(text, "python"):
        exec(compile(block, page, "exec"), {})


def test_what_the_questions_that_everybody_asks_name_runs_or_is_there(
    word_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = [(ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in ("questions", "for-children")]
    demo = tmp_path / "runs" / "demo"
    shutil.copytree(word_model_folder, demo)
    (demo / "phrasebook").mkdir()
    (demo / "phrasebook" / "held-out.tsv").write_text("The number is 3.\tLe nombre est 3.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = clearhead.load(demo)("The black cat is sleeping.").split()[0]  # a model of random weights says no "noir"
    place = "--layer 1 --head 1"  # nor has it two layers
    commands = [line for page in pages for block in blocks(page) for line in block.splitlines()]
    assert len(commands) == 7
    for command in commands:
        words = shlex.split(command.replace("--why noir", f"--why {said}").replace(place, "--layer 0 --head 1"))
        assert words[0] == "clearhead" and main(words[1:]) == 0, command
    for block in blocks(pages[0], "python"):
        exec(compile(block, "questions.md", "exec"), {})
    for script in re.findall(r"`python (benchmarks/\w+\.py)", pages[0]):
        assert (ROOT / script).exists(), script
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", pages[0]):
        assert (ROOT / "docs" / link).exists(), link


def test_the_page_of_answering_runs(answer_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "tasks" / "answer.md").read_text(encoding="utf-8")
    shutil.copytree(answer_folder, tmp_path / "models" / "answers")
    for name, seed in (("questions.json", 0), ("more-questions.json", 1)):
        (tmp_path / name).write_text(json.dumps(make_questions(30, seed, lacking=True)), encoding="utf-8")
    (tmp_path / "article.txt").write_text("Ann and two owls and New York and June.", encoding="utf-8")
    (tmp_path / "asked.txt").write_text("Where was it?\nWhen was it?\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks(text) for line in block.splitlines()]
    assert len(commands) == 6
    for command in commands:
        called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1)
        if " train " in command:
            called = called.replace("models/answers", "models/mine") + f" {TINY}"
        done = subprocess.run(called, shell=True, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and (done.stdout or " train " in command), f"{command}\n{done.stderr}"
    for block in blocks(text, "python"):
        exec(compile(block, "answer", "exec"), {})


def test_the_commands_and_the_python_of_the_page_on_labels_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    text = (ROOT / "docs" / "tasks" / "classify.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    lines = [f"Match number {n} ended.\t{('sport', 'trade')[n % 2]}\n" for n in range(40)]
    for name in ("texts.tsv", "test.tsv"):
        Path(name).write_text("".join(lines), encoding="utf-8")
    Path("texts.csv").write_text("topic,author,body\n" + "".join(f"a{n % 2},me,text {n}\n" for n in range(40)))
    Path("new.txt").write_text("One line.\n\nAnother.\n", encoding="utf-8")
    commands = [line for block in blocks(text) for line in block.splitlines()]
    assert len(commands) == 8 and all(command.startswith("clearhead ") for command in commands)
    for command in commands:
        called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1)
        done = subprocess.run(
            called + f" {TINY}" * (" train " in command), shell=True, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0 and (done.stdout or " train " in command), f"{command}\n{done.stderr}"
        if not Path("models/other").exists():
            shutil.copytree("models/topics", "models/other")
    for block in blocks(text, "python"):
        exec(compile(block, "classify.md", "exec"), {})


def test_the_commands_and_the_python_of_the_page_on_summaries_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "tasks" / "summarize.md").read_text(encoding="utf-8")
    rows = [f'{n},"Ann: The number is {n}.\nBob: I see, it is {n}, not {n + 1}.",It is {n}.' for n in range(60)]
    (tmp_path / "dialogues.csv").write_text("\n".join(["id,dialogue,summary", *rows]), encoding="utf-8")
    for name in ("meeting.txt", "documents.txt"):
        (tmp_path / name).write_text("Ann: The number is 3.\nBob: I see.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks(text) for line in block.splitlines()]
    commands += re.findall(r"`(clearhead .*?)`", text)
    assert len(commands) == 7 and "clearhead train" in commands[0]
    for command in commands:
        called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1)
        called += f" {TINY}" * (" train " in command)
        done = subprocess.run(called, shell=True, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        if " train " in command:
            assert (tmp_path / "models" / "minutes" / "loss.png").exists()
            shutil.copytree(tmp_path / "models" / "minutes", tmp_path / "models" / "other")
    assert (tmp_path / "attention.png").exists()
    for block in blocks(text, "python"):
        exec(compile(block, "summarize.md", "exec"), {})


@pytest.mark.slow
def test_the_command_with_a_budget_runs_with_a_shorter_one(tmp_path: Path) -> None:
    lines = "".join(f"The number is {n}.\tLe nombre est {n}.\n" for n in range(400))
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    [command] = [line for block in blocks(text) for line in block.splitlines() if "--budget" in line]
    called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1).replace("--budget 15m", "--budget 45s")
    done = subprocess.run(
        f"{called} --data.vocab_size=300 --threads 1", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0 and "--budget 45s" in called, f"{command}\n{done.stderr}"
    assert (tmp_path / "models" / "quick" / "model.safetensors").exists()


def test_the_reference_of_the_command_line_is_that_of_the_parsers() -> None:
    written = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert written == reference(), "make docs writes it anew"


def test_the_python_of_the_readme_runs(word_model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in blocks(README, "python"):
        exec(compile(block.replace("runs/demo", str(word_model_folder)), "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_the_make_targets_and_files_that_the_readme_names_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"^make ([\w-]+)", README, flags=re.MULTILINE)) <= targets
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / link).exists(), link


def test_every_file_and_function_and_test_that_the_map_of_the_paper_names_exists() -> None:
    table = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    rows = [line.split("|")[3:5] for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 15
    for code, test in rows:
        defined: set[str] = set()
        for file in re.findall(r"`([\w/]+\.py)`", code):
            defined |= names(PACKAGE / file)
        for name in re.findall(r"`([A-Za-z]\w+)`", code):
            assert name in defined, f"{name} is not defined in the files of its row: {code}"
        for file in re.findall(r"`([\w/]+\.py)", test):
            assert (ROOT / "tests" / file).exists(), file
        for file, name in re.findall(r"`([\w/]+\.py)::(\w+)`", test):
            assert name in names(ROOT / "tests" / file), f"{file}::{name}"


def test_nothing_speaks_of_the_place_where_it_was_made() -> None:
    folders = ("benchmarks", "clearhead", "configs", "docs", "examples", "tests")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    assert len(files) > 100
    for path in [*files, ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"]:
        if path != ROOT / "tests" / "conftest.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\.\./" + r"shared|/wo" + r"rk/", text), path


def test_the_commands_and_the_python_of_the_page_on_running_text_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "tasks" / "generate.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    story = "Once upon a time there was a number, and it was {}.\nThe end!\n"
    for name in ("story.txt", "other-story.txt", "beginning.txt", "sources/deep/a.py", "sources/b.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("".join(story.format(n) for n in range(100)), encoding="utf-8")
    commands = [line for block in blocks(text) for line in block.splitlines()]
    assert len(commands) == 12 and all(re.match(r"(cat \S+ \| )?clearhead ", command) for command in commands)
    for command in sorted(commands, key=lambda command: " train " not in command):
        called = command.replace("clearhead ", f"{sys.executable} -m clearhead ", 1)
        called += f" {TINY}" * (" train " in command)
        done = subprocess.run(called, shell=True, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0 and (done.stdout or " train " in command), f"{command}\n{done.stderr}"
        if not Path("models/other").exists():
            shutil.copytree("models/story", "models/other")
    for block in blocks(text, "python"):
        exec(compile(block, "generate.md", "exec"), {})
