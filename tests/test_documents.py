"""The documents say what is so: their commands run, and the files, functions and tests that they name exist."""

import ast
import importlib.util
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import clearhead
from clearhead.cli import main
from clearhead.cli.reference import reference
from clearhead.model.positions import POSITIONS, Positions
from tests.builders import make_questions, write_wave

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


class Page:
    """A page of the documentation, run as a reader would: its commands in order, then its Python."""

    def __init__(self, path: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.text, self.path, self.capsys = (ROOT / path).read_text(encoding="utf-8"), path, capsys
        self.settings = TINY  # of a short training
        self.commands = [line for block in blocks(self.text) for line in block.splitlines() if "clearhead" in line]

    def run(self, changes: Mapping[str, str] | None = None) -> None:
        """Run everything; `changes` are replaced in the commands, and training is short."""
        for command in self.commands:
            for old, new in (changes or {}).items():
                command = command.replace(old, new)
            self.command(command + f" {self.settings}" * (" train " in command))
            made = re.search(r" train .*--out (models/\S+)", command)
            if made and not Path("models/other").exists():
                shutil.copytree(made[1], "models/other")
        for block in blocks(self.text, "python"):
            exec(compile(block, self.path, "exec"), {})

    def command(self, command: str) -> None:
        """Run a command; a shell runs only those with a pipe or a redirection."""
        if set("|<>") & set(command):
            called = re.sub(r"(\.venv/bin/)?clearhead ", f"{sys.executable} -m clearhead ", command, count=1)
            done = subprocess.run(called, shell=True, capture_output=True, text=True, timeout=300)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            program, *words = shlex.split(command)
            assert program.removeprefix(".venv/bin/") == "clearhead", command
            code, (out, err) = main(words), self.capsys.readouterr()
        assert code == 0, f"{command}\n{err}"
        silent = (" train ", " example ", " --png ", " --html ", " --gif ", " --out ", " > ")
        assert out or any(it in command for it in silent), f"{command} prints nothing"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder with two files of pairs; the process is left as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("clearhead.training.run.keep_freed_memory", lambda: True)
    monkeypatch.setattr("clearhead.training.run.loss_curve", lambda *_: None)  # drawn for the pages of tests/tutorials
    Path("pairs.tsv").write_text(LINES, encoding="utf-8")
    Path("other-pairs.tsv").write_text("I am here.\tJe suis ici.\n", encoding="utf-8")
    threads, generator = torch.get_num_threads(), torch.random.get_rng_state()
    yield tmp_path
    torch.set_num_threads(threads)
    torch.random.set_rng_state(generator)


LINES = "".join(f"The number is {n}.\tLe nombre est {n}.\n" for n in range(40))
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    "name",
    [
        "ablate",
        "check",
        "data",
        "decoding",
        "errors",
        "explaining",
        "family",
        "model",
        "own-parts",
        "scoring",
        "training",
        "verify",
    ],
)
def test_a_page_runs(
    name: str, model_folder: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    for folder in ("en-fr", "other"):
        shutil.copytree(model_folder, f"models/{folder}")
    rows = [f"{n},{line}".replace("\t", ",") for n, line in enumerate(LINES.splitlines())]
    Path("pairs.csv").write_text("\n".join(["id,english,french", *rows]) + "\n", encoding="utf-8")
    Path("more.txt").write_text("There is no number.\nIl n'y en a pas.\n", encoding="utf-8")
    for column, files in enumerate((["text.en"], ["text.fr", "second.fr", "third.fr"])):
        for file in files:
            Path(file).write_text("".join(f"{line.split(chr(9))[column]}\n" for line in LINES.splitlines()))
    Path("book.txt").write_text("".join(f"The number is {n}.\n" for n in range(400)), encoding="utf-8")
    monkeypatch.setitem(POSITIONS, "near", Positions)  # what a page adds is gone afterwards
    page = Page(f"docs/{name}.md", capsys)
    assert page.commands or name == "errors"
    page.run({"--out models/en-fr": "--out models/mine", "--budget 15m": ""})  # the next test takes its time


def test_the_common_questions_run(
    here: Path, word_model_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    shutil.copytree(word_model_folder, "runs/demo")
    Path("runs/demo/phrasebook").mkdir()
    Path("runs/demo/phrasebook/held-out.tsv").write_text("The number is 3.\tLe nombre est 3.\n", encoding="utf-8")
    answer = clearhead.load("runs/demo")("The black cat is sleeping.").split()[0]  # random weights don't say "noir"
    for name in ("questions", "for-children"):
        page = Page(f"docs/{name}.md", capsys)
        assert page.commands
        page.run({"--why noir": f"--why {answer}", "--layer 1 --head 1": "--layer 0 --head 1"})
        for script in re.findall(r"`python (benchmarks/\w+\.py)", page.text):
            assert (ROOT / script).exists(), script


def test_the_page_on_answering_runs(here: Path, answer_folder: Path, capsys: Capture) -> None:
    shutil.copytree(answer_folder, "models/answers")
    for name, seed in (("questions.json", 0), ("more-questions.json", 1)):
        Path(name).write_text(json.dumps(make_questions(30, seed, lacking=True)), encoding="utf-8")
    Path("article.txt").write_text("Ann and two owls and New York and June.", encoding="utf-8")
    Path("asked.txt").write_text("Where was it?\nWhen was it?\n", encoding="utf-8")
    Page("docs/tasks/answer.md", capsys).run({"--out models/answers": "--out models/mine"})


def test_the_page_on_classification_runs(here: Path, capsys: Capture) -> None:
    pytest.importorskip("sklearn")
    lines = [f"Match number {n} ended.\t{('sport', 'trade')[n % 2]}\n" for n in range(40)]
    for name in ("texts.tsv", "test.tsv"):
        Path(name).write_text("".join(lines), encoding="utf-8")
    Path("texts.csv").write_text("topic,author,body\n" + "".join(f"a{n % 2},me,text {n}\n" for n in range(40)))
    Path("new.txt").write_text("One line.\n\nAnother.\n", encoding="utf-8")
    rows = [f"{n},Ticket number {n}.,{('login', 'refund')[n % 2]},{('low', 'high')[n % 3 // 2]}" for n in range(40)]
    Path("tickets.csv").write_text("\n".join(["id,text,queue,priority", *rows]), encoding="utf-8")
    Path("new.csv").write_text("id,text\n1,One line.\n", encoding="utf-8")
    rows = [f"Ticket number {n}.,{n % 5 + 0.5}" for n in range(40)]
    Path("reviews.csv").write_text("\n".join(["review,stars", *rows]), encoding="utf-8")
    tickets = [{"text": f"Ticket number {n}.", "labels": ["refund", "login"][: n % 3]} for n in range(40)]
    Path("tickets.jsonl").write_text("\n".join(map(json.dumps, tickets)), encoding="utf-8")
    flags = [f"Ticket number {n}.,{n % 2},{n % 3 // 2},1" for n in range(40)]
    Path("flags.csv").write_text("\n".join(["text,billing,refund,login", *flags]), encoding="utf-8")
    Page("docs/tasks/classify.md", capsys).run()
    assert (
        Path("answered.csv").read_text().startswith("id,text,queue,queue_probability,priority,priority_probability\n")
    )


def test_the_page_on_tables_runs(here: Path, model_folder: Path, capsys: Capture) -> None:
    from tests.serving.small_models import make

    make(here / "models" / "topics", "classify")
    shutil.copytree(model_folder, "models/en-fr")
    Path("tickets.csv").write_text("id,subject,body\n17,Refund,It was empty\n", encoding="utf-8")
    Path("products.csv").write_text("id,description\n17,She sings.\n", encoding="utf-8")
    Path("test.tsv").write_text("It was empty\tcold\nIt was late\twarm\n", encoding="utf-8")
    Page("docs/tables.md", capsys).run()
    assert Path("labelled.csv").read_text(encoding="utf-8").startswith("id,subject,body,label,probability\n17,Refund,")


def test_the_page_on_summaries_runs(here: Path, capsys: Capture) -> None:
    rows = [f'{n},"Ann: The number is {n}.\nBob: I see, it is {n}, not {n + 1}.",It is {n}.' for n in range(60)]
    Path("dialogues.csv").write_text("\n".join(["id,dialogue,summary", *rows]), encoding="utf-8")
    for name in ("meeting.txt", "documents.txt"):
        Path(name).write_text("Ann: The number is 3.\nBob: I see.\n", encoding="utf-8")
    Page("docs/tasks/summarize.md", capsys).run()
    assert Path("models/minutes/metrics.jsonl").exists()


def test_the_page_on_images_runs(here: Path, capsys: Capture) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 255, (30, 12, 12, 3)).astype(np.uint8)
    np.save("images.npy", pixels)
    np.save("labels.npy", np.arange(30) % 2)
    for n, one in enumerate(pixels):
        path = Path("animals", ("cat", "dog")[n % 2], f"{n}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(one).save(path)
    shutil.copy("animals/cat/0.png", "cat.png")
    rows = [f"{path.as_posix()},{path.parent.name}" for path in sorted(Path("animals").rglob("*.png"))]
    Path("animals.csv").write_text("\n".join(["path,label", *rows]) + "\n")
    page = Page("docs/tasks/see.md", capsys)
    page.settings = TINY.replace("--data.vocab_size=300 ", "")
    page.run()
    assert Path("occlusion.png").exists()


def test_the_page_on_audio_runs(here: Path, capsys: Capture) -> None:
    pytest.importorskip("soxr")  # the page converts sample rates
    rows = ["path,text"]
    for n in range(24):
        path = Path("words", ("yes", "no")[n % 2], f"{n}.wav")
        write_wave(path, 0.3 * np.sin(np.arange(4000 + 100 * n) * (0.2 + 0.3 * (n % 2))))
        rows.append(f"{path.as_posix()},{path.parent.name}")
    Path("calls.csv").write_text("\n".join(rows) + "\n")
    for n, name in enumerate(("one.wav", "two.wav")):
        shutil.copy(f"words/{('yes', 'no')[n]}/{n}.wav", name)
    page = Page("docs/tasks/hear.md", capsys)
    page.settings = TINY.replace("--data.vocab_size=300 ", "")
    changes = {"transcribe models/calls": "transcribe models/calls --min-len 2",
               "--alignment": "--alignment --min-len 2"}  # a model of two steps may say nothing  # fmt: skip
    page.run(changes)
    assert Path("timings.png").exists()


def test_the_page_on_speech_runs(here: Path, capsys: Capture) -> None:
    rows = ["text,voice,path"]
    for n in range(30):
        write_wave(Path(f"{n}.wav"), 0.3 * np.sin(np.arange(2000 + 100 * n) * (0.2 + 0.02 * n)))
        rows.append(f"{n // 7} {n % 7} 5,{'theo' if n % 2 else 'anna'},{n}.wav")
    Path("strings.csv").write_text("\n".join(rows) + "\n")
    Path("texts.txt").write_text("3 5 7\n1 2\n")
    page = Page("docs/tasks/speak.md", capsys)
    page.settings = TINY.replace("--data.vocab_size=300", "--decode.max_len=6")
    page.command(f"clearhead train strings.csv --task transcribe --out models/calls {page.settings}")
    page.run()
    assert Path("spoken/0002.wav").exists() and Path("spoken.wav").exists()


def test_the_page_on_running_text_runs(here: Path, capsys: Capture) -> None:
    story = "Once upon a time there was a number, and it was {}.\nThe end!\n"
    for name in ("story.txt", "other-story.txt", "beginning.txt", "sources/deep/a.py", "sources/b.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("".join(story.format(n) for n in range(100)), encoding="utf-8")
    hello = [{"role": "user", "content": "Hello!"}]
    answer = {"role": "assistant", "content": "Good day."}
    Path("chats.jsonl").write_text(json.dumps({"messages": [*hello, answer]}) + "\n")
    Path("questions.jsonl").write_text(json.dumps(hello) + "\n")
    page = Page("docs/tasks/generate.md", capsys)
    page.commands.sort(key=lambda command: " train " not in command)
    page.run()


def test_the_pages_on_masks_and_embeddings_run(here: Path, capsys: Capture) -> None:
    story = "Paris is the big capital of France, and number {} is here.\n"
    for name in ("book.txt", "other-book.txt"):
        Path(name).write_text("".join(story.format(n) for n in range(100)), encoding="utf-8")
    Path("texts.tsv").write_text("".join(f"Number {n} is here.\t{('one', 'two')[n % 2]}\n" for n in range(40)))
    Path("texts.txt").write_text("Paris is [MASK].\n", encoding="utf-8")
    Page("docs/tasks/fill.md", capsys).run()
    Page("docs/tasks/embed.md", capsys).run({"--out models/topics": "--out models/more"})
    assert np.load("vectors.npy").shape == (1, 16)


def test_every_link_of_every_page_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


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
    assert written == reference(), "make docs updates it"


def test_the_make_targets_that_the_readme_names_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)", README)) <= targets


def test_every_file_and_function_and_test_that_the_map_of_the_paper_names_exists() -> None:
    table = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in table.splitlines() if re.match(r"\| (?!there|paper)", line)]
    assert len(rows) > 50
    for *_, code, test in (row if len(row) == 4 else [*row, ""] for row in rows):  # of the map, and of other names
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
    folders = ("benchmarks", "clearhead", "docs", "tests", "tools")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".md", ".toml")
    ]
    assert len(files) > 100
    for path in [*files, ROOT / "README.md", ROOT / "Makefile", ROOT / "pyproject.toml"]:
        if path != ROOT / "tests" / "conftest.py":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\.\./" + r"shared|/wo" + r"rk/", text), path


def section(title: str) -> str:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert f"## {title}\n" in text
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_walk_through_adds_a_position_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    code, entry, test = blocks(section("Add a position scheme"), "python")
    known = {"torch": torch, "nn": torch.nn, "Tensor": torch.Tensor, "Positions": Positions}
    exec(code, known)
    for name, kind in eval(f"{{{entry}}}", known).items():
        monkeypatch.setitem(POSITIONS, name, kind)
    exec(test, known)
    known[re.findall(r"def (test_\w+)", test)[0]]()
    shape = {"src_vocab_size": 9, "tgt_vocab_size": 9, "d_model": 8, "n_heads": 2, "d_ff": 8}
    model = clearhead.build(clearhead.ModelConfig(positions="distance", **shape))
    assert model(torch.tensor([[4, 5]]), torch.tensor([[1, 4, 5]])).shape == (1, 3, 9)


def test_the_walk_through_shows_the_task_that_a_test_trains() -> None:
    [code] = blocks(section("Add a task"), "python")
    assert code in (ROOT / "tests" / "tasks" / "reverse_task.py").read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """A script of the documents as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def test_the_pictures_and_the_table_of_the_families_are_drawn_from_the_code() -> None:
    module, page = script("draw_families"), (ROOT / "docs" / "family.md").read_text(encoding="utf-8")
    for name in module.models():
        assert module.draw(name) == module.picture(name).read_text(encoding="utf-8"), "`python docs/draw_families.py`"
        assert page.count(f"](images/family-{name}.svg)") == 1
    assert module.with_table(page) == page and "| parameters | 63,082,496 | 124,439,808 |" in page


def test_the_picture_of_the_rooms_is_drawn_from_the_code() -> None:
    module = script("draw_rooms")
    assert module.draw() == module.PICTURE.read_text(encoding="utf-8"), "`python docs/draw_rooms.py` updates it"
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert set(module.rooms()) <= set(re.findall(r"`(\w+)`", page))
