"""The examples run, and what they print is what the equations say."""

import importlib
import json
import math
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from clearhead.errors import DataError

EXAMPLES = Path(__file__).parents[1] / "clearhead" / "examples"


def printed(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def corner(text: str, title: str) -> torch.Tensor:
    """The 3 x 3 numbers below a title."""
    lines = text[text.index(title) :].splitlines()[2:5]
    return torch.tensor([[float(number) for number in line.split()] for line in lines])


def test_the_steps_of_attention_are_those_of_the_equation(capsys) -> None:
    text = printed("attention_steps", capsys)
    torch.manual_seed(42)
    q, k, v = (torch.randn(2, 1, 4, 8) for _ in range(3))
    scores = torch.einsum("bhtk,bhsk->bhts", q, k)
    future = torch.ones(4, 4).triu(1).bool()
    barred = (scores / math.sqrt(8)).masked_fill(future, -math.inf)
    weights = barred.exp() / barred.exp().sum(-1, keepdim=True)
    expected = {"1. Q K^T": scores, "2. divided by": scores / math.sqrt(8), "3. masked": barred}
    expected |= {"4. softmax": weights, "5. times V": weights @ v}
    for title, values in expected.items():
        torch.testing.assert_close(corner(text, title), values[0, 0, :3, :3], atol=6e-5, rtol=0)
    assert "sqrt(8) = 2.83" in text and "the first row sums to 1.0000" in text
    assert re.findall(r"shape (\(.*?\))", text) == ["(2, 1, 4, 4)"] * 4 + ["(2, 1, 4, 8)"]
    assert float(re.search(r"differs by at most (.+)\.$", text.strip())[1]) < 1e-6


def test_the_cat_on_the_mat_is_a_table_of_six_words_and_says_how_to_read_it(capsys) -> None:
    text = printed("cat_on_the_mat", capsys)
    table = text.split("\n\n")[1].splitlines()
    words = ["The", "cat", "sat", "on", "the", "mat"]
    assert table[0].split() == words and [line.split()[0] for line in table[1:]] == words
    rows = [[float(number) for number in line.split()[1:]] for line in table[1:]]
    assert all(len(row) == 6 and sum(row) == pytest.approx(1, abs=0.03) for row in rows)
    most = max(range(6), key=lambda n: rows[1][n])
    assert f"'cat' looks most at {words[most]!r} (word {most}), with {rows[1][most]:.0%} of its attention" in text


def test_the_causal_mask_says_who_sees_whom(capsys) -> None:
    text = printed("causal_mask", capsys)
    for query in range(4):
        seen = list(range(query + 1))
        assert f"token {query} sees {', '.join(map(str, seen))}\n" in text
        row = re.search(rf"^query {query} +([01 ]+)$", text, flags=re.MULTILINE)[1].split()
        assert row == ["1" if key in seen else "0" for key in range(4)]


def test_the_shapes_of_multi_head_attention(capsys) -> None:
    text = printed("multi_head_shapes", capsys)
    shapes = re.findall(r"(\(\d.*\))$", text, flags=re.MULTILINE)
    whole, split = "(2, 10, 512)", "(2, 8, 10, 64)"
    assert shapes == [whole, whole, split, "(2, 8, 10, 10)", split, whole, whole]
    assert float(re.search(r"differs by at most (.+)\.$", text.strip())[1]) < 1e-5


def test_a_translator_of_letters_trains_and_answers(tmp_path: Path, capsys) -> None:
    example = runpy.run_path(str(EXAMPLES / "english_french_characters.py"))
    pairs = example["load"](100)
    assert len(pairs) == 100 and all(max(map(len, pair)) <= 28 for pair in pairs)
    numbers = example["vocabulary"](pairs)
    assert sorted(numbers.values()) == list(range(3, 3 + len(numbers)))
    net = example["model"](numbers)
    history = example["train"](net, pairs, numbers, epochs=4)
    assert len(history) == 4 * 2 and sum(history[-2:]) < 0.8 * sum(history[:2])
    example["figure"](history, tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(DataError, match=r"'ß' is not among the \d+ letters of training"):
        example["predict"](net, "ß", numbers)


@pytest.mark.slow
def test_what_is_learnt_by_heart_is_predicted_letter_by_letter() -> None:
    example = runpy.run_path(str(EXAMPLES / "english_french_characters.py"))
    pairs = example["load"](4)
    numbers = example["vocabulary"](pairs)
    net = example["model"](numbers)
    history = example["train"](net, pairs, numbers, epochs=150)
    assert history[-1] < 0.1
    assert [example["predict"](net, english, numbers) for english, _ in pairs] == [french for _, french in pairs]


def test_the_whole_of_the_translator_of_letters_says_what_it_does(tmp_path: Path, capsys) -> None:
    example = runpy.run_path(str(EXAMPLES / "english_french_characters.py"))
    example["main"](50, 1, tmp_path / "new" / "loss.png")
    first, epoch, drawn, *said = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"50 pairs, \d+ letters, 6\d\d,\d{3} parameters", first)
    assert re.fullmatch(r"epoch 1: loss \d\.\d{3}", epoch)
    assert drawn == f"the loss is drawn in {tmp_path / 'new' / 'loss.png'}"
    assert (tmp_path / "new" / "loss.png").read_bytes().startswith(b"\x89PNG")
    asked = ["He is sleeping.", "She is singing.", "I am hungry.", "The cat is black.", "We are reading."]
    assert [line[:20].rstrip() for line in said] == asked


def test_the_translator_of_letters_learns_from_a_file_and_shows_its_licence(tmp_path: Path, capsys) -> None:
    example = runpy.run_path(str(EXAMPLES / "english_french_characters.py"))
    credit = "CC-BY 2.0 (France) Attribution: tatoeba.org #{n} (CM) & #{n} (sacredceltic)"
    rows = [f"Go {n}.\tVa {n} !\t{credit.format(n=n)}\n" for n in range(70)]
    (tmp_path / "fra.txt").write_text("".join([*rows, f"{'long ' * 20}\tlong\t{credit}\n"]), encoding="utf-8")
    example["main"](None, 1, tmp_path / "loss.png", str(tmp_path / "fra.txt"))
    report, *said = capsys.readouterr().out.splitlines()
    assert report.startswith(f"{tmp_path / 'fra.txt'}: TSV") and "71 of 71 lines used" in report
    assert "  licence: CC-BY 2.0 (France); source: tatoeba.org" in said
    assert any(line.startswith("70 pairs, ") for line in said) and said[-1].startswith("Go ")


def test_an_attention_of_one_s_own_learns_to_sort_and_one_that_leaks_cannot_write(monkeypatch, capsys) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "own_attention", raising=False)
    importlib.import_module("own_attention").main(100)
    pattern = r"^(\w+) +loss (\S+), (\d+)% of 200 lists sorted correctly; the first:\n +(.*) -> (.*)$"
    linear, leaky = re.findall(pattern, capsys.readouterr().out, flags=re.MULTILINE)
    assert (linear[0], leaky[0]) == ("LinearAttention", "LeakyAttention")
    assert float(linear[1]) < 0.3 and float(leaky[1]) < 0.5  # of log(10) = 2.3: by its loss nobody could tell
    assert int(linear[2]) > 70 and int(leaky[2]) < 20
    assert leaky[4].split() != sorted(leaky[3].split())


def code_cells(name: str) -> list[dict[str, Any]]:
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed_by(cells: list[dict[str, Any]]) -> str:
    return "".join("".join(output.get("text", [])) for cell in cells for output in cell["outputs"])


@pytest.fixture
def in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if IPython were there, which shows pictures."""
    ipython: Any = ModuleType("IPython")
    ipython.version_info = (9, 0)  # which matplotlib looks at
    display: Any = ModuleType("IPython.display")
    display.Image = lambda data, **_: data
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)


@pytest.mark.parametrize(("name", "pictures"), [("english_french_characters", 2), ("paper_walkthrough", 5)])
def test_a_notebook_was_run_from_its_top_to_its_end(name: str, pictures: int) -> None:
    cells = code_cells(name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"stream", "execute_result"}
    assert {output.get("name", "stdout") for output in outputs} == {"stdout"}
    assert sum("image/png" in output.get("data", {}) for output in outputs) == pictures
    assert (EXAMPLES / f"{name}.ipynb").stat().st_size < 1.5e6


def test_the_translator_of_letters_had_learnt_to_translate() -> None:
    said = printed_by(code_cells("english_french_characters"))
    assert re.search(r"^He is sleeping\. +Il dort\.$", said, flags=re.MULTILINE)


@pytest.mark.usefixtures("in_a_notebook")
def test_the_notebook_of_letters_runs(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "path", [str(EXAMPLES), *sys.path])
    monkeypatch.delitem(sys.modules, "english_french_characters", raising=False)
    example = importlib.import_module("english_french_characters")
    monkeypatch.setattr(example.load, "__defaults__", (100, None))
    monkeypatch.setattr(example.train, "__defaults__", (1,))
    values: dict[str, Any] = {}
    for cell in code_cells("english_french_characters"):
        exec("".join(cell["source"]), values)
    assert "100 pairs" in (said := capsys.readouterr().out) and "encoder.0.self" in said
    assert len(values["history"]) == 2


def test_the_walk_through_the_paper_ends_in_a_model_that_translates_and_keeps_its_promises() -> None:
    said = printed_by(code_cells("paper_walkthrough"))
    assert int(re.search(r"^(\d+) of 200 sentences right", said, flags=re.MULTILINE)[1]) > 150
    bounds = re.findall(r"^(\S.{20,}?) +(\S+)  within (\S+)$", said, flags=re.MULTILINE)
    assert len(bounds) > 15 and all(float(difference) <= float(bound) for _, difference, bound in bounds)


SHORTER = {  # the same walk with less to learn, after which nobody knows what the model says
    "PAIRS, STEPS = 15_000, 500": "PAIRS, STEPS = 300, 25",
    'explanation.why("chat", "chien")': "explanation.why()",
}


@pytest.mark.usefixtures("in_a_notebook")
def test_the_walk_through_the_paper_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    source = "\n".join("".join(cell["source"]) for cell in code_cells("paper_walkthrough"))
    for whole, short in SHORTER.items():
        assert source.count(whole) == 1
        source = source.replace(whole, short)
    values: dict[str, Any] = {}
    exec(source, values)
    assert values["found"].passed and len(values["film"].frames) == 6
    assert values["app"]._repr_html_().startswith("<p><b>Translator</b>")
    assert "of 200 sentences right, word for word" in capsys.readouterr().out
    drawn = {"positions.png", "schedule.png", "cross.png", "film.png", "model"}
    assert drawn <= {it.name for it in (tmp_path / "runs" / "walkthrough").iterdir()}
