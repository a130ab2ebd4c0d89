import ast
import sys
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "clearhead"
# From the ground up: a file imports only from its own floor and those below it.
FLOORS = [
    "errors", "config", "folder", "model", "tokenization", "readers", "data", "decode", "pictures", "inspection",
    "scoring", "tasks", "training", "apps", "exchange", "api", "estimator", "serving", "demo", "cli",
]  # fmt: skip
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))


def floor(parts: tuple[str, ...]) -> str:
    return parts[0].removesuffix(".py")


def imported_floors(path: Path) -> set[str]:
    """The floors of the package that a file imports from, wherever in the file."""
    here = ("clearhead", *path.relative_to(PACKAGE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            names = [(*module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        found |= {name[1] for name in names if name[0] == "clearhead" and len(name) > 1}
    return found - {"__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_its_own_floor_and_those_below(path: Path) -> None:
    own = floor(path.relative_to(PACKAGE).parts)
    allowed = FLOORS[: FLOORS.index(own) + 1]
    assert imported_floors(path) <= set(allowed)


def test_the_check_sees_imports_of_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "tasks").mkdir()
    path = tmp_path / "tasks" / "a.py"
    path.write_text(
        "from ..model.masks import x\nfrom .. import errors\nfrom . import b\nimport clearhead.training.run\n"
        "def f():\n    from clearhead.api import load\n    import torch, os.path\n"
    )
    assert imported_floors(path) == {"model", "errors", "tasks", "training", "api"}


def imported_files(path: Path) -> set[Path]:
    """The files that a file imports when it is imported itself, and those that it imports for its types alone."""
    here = path.relative_to(PACKAGE).parts[:-1]
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8")).body
    typing = [
        node
        for it in tree
        if isinstance(it, ast.If) and getattr(it.test, "id", "") == "TYPE_CHECKING"
        for node in it.body
    ]
    for node in (it for it in [*tree, *typing] if isinstance(it, ast.ImportFrom) and it.level):
        base = (*here[: len(here) - node.level + 1], *((node.module or "").split(".") if node.module else ()))
        for name in ("", *(alias.name for alias in node.names)):
            found.add(PACKAGE.joinpath(*base, name).with_suffix(".py"))
    return {it for it in found if it.exists()}


def test_no_two_files_import_each_other_however_long_the_way_round() -> None:
    above = {path: imported_files(path) for path in FILES}
    while free := [path for path, needs in above.items() if not needs & above.keys()]:
        for path in free:
            del above[path]
    assert not above


def test_no_room_is_crowded() -> None:
    rooms = Counter(under(path.parent) for path in FILES)
    assert {room: count for room, count in rooms.items() if count > 16 and room != "demo/vocabulary"} == {}


def test_no_two_modules_share_a_name_but_the_parts_of_parallel_tasks() -> None:
    parallel = {"task", "examples", "scores", "views", "reading"}
    names = Counter(path.stem for path in FILES if "tasks" not in path.parts or path.stem not in parallel)
    assert {name for name, count in names.items() if count > 1} <= {
        "answer",
        "classify",
        "generate",
        "registry",  # of tasks, of engines
        "summarize",
        "translate",
    }


def test_only_what_needs_torch_imports_it_at_the_top() -> None:
    light = [path for path in FILES if floor(path.relative_to(PACKAGE).parts) in ("errors", "config", "cli")]
    heavy = {"torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "rich", "matplotlib"}
    for path in light:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not heavy & {name.split(".")[0] for name in names}, path


def reached(path: Path) -> set[str]:
    """What a file of the model imports from outside the model and the standard library: floors, other libraries."""
    named = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            named.add((node.module or "").split(".")[0])
    return (named | imported_floors(path)) - sys.stdlib_module_names - {"clearhead", "model"}


@pytest.mark.parametrize("path", sorted((PACKAGE / "model").rglob("[!_]*.py")), ids=lambda path: path.stem)
def test_a_part_of_the_model_imports_torch_and_errors_and_only_what_chooses_and_joins_the_settings(path: Path) -> None:
    settings = (
        {"config"} if path.stem in ("assembly", "transformer", "module_choice", "restore", "frames") else set()
    )  # frames: sizes
    weights = {"folder"} if path.stem == "restore" else set()
    assert {"torch"} <= reached(path) <= {"torch", "errors"} | settings | weights


# --- one of each

TASKS = sorted((PACKAGE / "tasks").rglob("[!_]*.py"))


def calls(path: Path) -> set[str]:
    """The names of all that a file calls: `backward` of `loss.backward()`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            found.add(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""))
    return found


def classes(path: Path) -> dict[str, set[str]]:
    """The classes of a file, and by name what they are derived from."""
    nodes = (it for it in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(it, ast.ClassDef))
    return {node.name: {getattr(it, "attr", getattr(it, "id", "")) for it in node.bases} for node in nodes}


def under(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_there_is_one_trainer_whatever_is_learnt() -> None:
    assert {under(path) for path in FILES if "backward" in calls(path)} == {"training/update.py"}
    assert {under(path) for path in FILES if "Trainer" in calls(path)} == {"training/run.py"}
    assert {under(path) for path in FILES if "make_optimizer" in calls(path)} == {"training/update.py"}
    for path in TASKS:
        assert "training" not in imported_floors(path) and not calls(path) & {"backward", "step", "zero_grad"}, path


def test_there_is_one_search_whatever_is_searched_for() -> None:
    assert {under(path) for path in FILES if "beam_search" in calls(path)} == {"decode/session.py"}
    ranking = {under(path) for path in FILES if "topk" in calls(path)}  # of tokens; of passages; of fillings
    assert ranking == {
        *("decode/engines/torch_engine.py", "tasks/answer/passages.py", "tasks/fill/task.py"),
        *("inspection/views/lens.py", "inspection/page/page_data.py"),  # for the eye
    }
    assert not any("multinomial" in calls(path) for path in FILES), "tokens are drawn by the sampler, with its own seed"


def test_there_is_one_set_of_blocks_whatever_is_built_of_them() -> None:
    modules = {
        under(path): found for path in FILES if (found := [n for n, of in classes(path).items() if "Module" in of])
    }
    assert modules.pop("training/distributed/processes.py") == ["LossOf"]  # DDP takes only modules
    assert {name.split("/")[0] for name in modules} == {"model"}
    assert {name for names in modules.values() for name in names if "Block" in name} == {"EncoderBlock", "DecoderBlock"}
    theirs = {"Transformer", "MultiheadAttention", "TransformerEncoder", "TransformerDecoder", "LSTM", "GRU"}
    assert not any(theirs & calls(path) for path in FILES)
