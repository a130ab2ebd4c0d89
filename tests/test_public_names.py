import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead
import clearhead.api
from clearhead.cli.entry import VERBS

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "rich", "matplotlib"}
NAMES = [
    "App",
    "ClearheadError",
    "Config",
    "ConfigError",
    "DataConfig",
    "DataError",
    "DecodeConfig",
    "Evaluation",
    "ModelConfig",
    "ModelError",
    "Result",
    "Task",
    "TrainConfig",
    "TrainingError",
    "__version__",
    "build",
    "load",
    "preset",
    "published",
    "read_pairs",
    "train",
]


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after some code."""
    script = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}}, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_the_public_names_are_these_and_sorted() -> None:
    assert clearhead.__all__ == NAMES
    assert dir(clearhead) == sorted(NAMES)
    assert sorted(NAMES) == NAMES


def test_every_public_name_is_there() -> None:
    for name in NAMES:
        assert getattr(clearhead, name) is not None


def test_another_name_is_an_attribute_error_that_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'clearhead' has no attribute 'lod'"):
        clearhead.lod  # noqa: B018


def test_loading_a_model_imports_only_what_it_needs() -> None:
    code = "import clearhead.api\nloaded = [it for it in sys.modules if it.startswith('clearhead.apps.')]\n"
    found = modules_after(f"{code}print(*loaded, file=sys.stderr)")
    assert not found & {"torch", "multiprocessing", "tomllib", "statistics", "concurrent", "sacrebleu"}
    apps = {it for it in found if it.startswith("clearhead.apps.")}
    assert apps == {"clearhead.apps.inputs"}
    assert clearhead.api.Answerer.__name__ == "Answerer"
    with pytest.raises(AttributeError, match=r"module 'clearhead\.api' has no attribute 'Answer'"):
        clearhead.api.Answer  # noqa: B018


def test_the_version_is_that_of_the_distribution_the_citation_and_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "clearhead.version.__version__"}
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    released = re.search(r"^date-released: (.+)$", citation, re.MULTILINE)[1]
    assert f"\nversion: {clearhead.__version__}\n" in citation
    assert f"\n## {clearhead.__version__} - {released}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_importing_the_package_and_its_command_line_imports_nothing_heavy() -> None:
    code = "import clearhead, clearhead.cli\nclearhead.Config, clearhead.preset, clearhead.ModelError"
    assert not HEAVY & modules_after(code)


def test_the_help_of_every_verb_imports_nothing_heavy() -> None:
    verbs = list(VERBS)
    code = f"from clearhead.cli import main\nfor verb in {verbs}: main([verb, '--help'])\nmain(['--help'])"
    assert not HEAVY & modules_after(code)


def test_the_front_door_the_apps_a_model_on_a_cpu_and_settings_are_there_without_torch(model_folder: Path) -> None:
    apps = "translator", "language_model", "classifier", "answerer"
    code = "\n".join(f"import clearhead.apps.{name}" for name in apps)
    code += f"""
import clearhead.api
app = clearhead.load({str(model_folder)!r}, device='cpu')
assert app.reading('I am hungry.').cut == 0 and app.decode_config(beam=1).beam == 1
handle = app.loaded.handle
assert handle.config.d_model == 16 and handle.device == 'cpu' and len(handle.weights()) > 9
from clearhead.cli import main
assert main(['train', '--print-config', '--task', 'translate']) == 0"""
    assert not {"torch", "matplotlib", "rich"} & modules_after(code)


def test_train_can_be_called_whatever_was_imported_before() -> None:
    from clearhead.training import run

    assert run.__name__ == "clearhead.training.run"
    with pytest.raises(clearhead.ConfigError, match=r"data\.train names no file"):
        clearhead.train(clearhead.Config(), "nowhere")
    from clearhead import train

    with pytest.raises(clearhead.ConfigError, match=r"data\.train names no file"):
        train(clearhead.Config(), "nowhere")


def public_functions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from public_functions(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield prefix + node.name, node


def test_public_functions_with_three_or_more_arguments_describe_them() -> None:
    found, lacking = 0, []
    for path in sorted((ROOT / "clearhead").rglob("*.py")):
        for name, node in public_functions(ast.parse(path.read_text(encoding="utf-8")).body):
            of = node.args
            names = {it.arg for it in (*of.posonlyargs, *of.args, *of.kwonlyargs)} - {"self", "cls"}
            found += len(names) >= 3
            if len(names) >= 3 and "\nArgs:\n" not in (ast.get_docstring(node) or ""):
                lacking.append(f"{path.relative_to(ROOT)}: {name}")
    assert found > 400
    assert not lacking, "no Args section in the docstring of\n  " + "\n  ".join(lacking)
