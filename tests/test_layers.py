import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from clearhead.config import TASKS

PACKAGE = Path(__file__).parents[1] / "clearhead"
# From the ground up: a file imports only from its own floor and those below it.
FLOORS = [
    "errors", "version", "config", "folder", "model", "tokenization", "readers", "data", "decode", "pictures",
    "inspection", "scoring", "tasks", "cleaning", "training", "loading", "exchange", "apps", "api", "estimator",
    "serving", "demo", "course", "cli",
]  # fmt: skip
# What the registry of tasks imports when it's asked: the class that each declaration names.
TASK_CLASSES = {
    ("clearhead", "tasks", *name.partition(":")[0].split("."), "*")
    for spec in TASKS.values()
    for name in (spec.task, *spec.variants.values())
}


@dataclass(frozen=True)
class Source:
    """What a file of the package names: modules by their dotted parts, functions, classes with their bases."""

    imports: frozenset[tuple[str, ...]]  # wherever in the file, by a statement or as a string
    at_the_top: frozenset[tuple[str, ...]]
    calls: frozenset[str]  # `backward` of `loss.backward()`
    classes: Mapping[str, set[str]] = field(default_factory=dict)


def imported(node: ast.AST, here: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The modules, or names of modules, that a node imports in a file of the folder `here`."""
    if isinstance(node, ast.ImportFrom):
        base = (
            (*here[: len(here) - node.level + 1], *filter(None, (node.module or "").split("."))) if node.level else ()
        )
        base = base or tuple((node.module or "").split("."))
        yield from ((*base, alias.name) for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (tuple(alias.name.split(".")) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        for package, module in re.findall(r"^(clearhead|)((?:\.\w+)+)(?::\w+)?$", node.value):
            yield (*(("clearhead",) if package else here), *module[1:].split("."), "*")


def read(path: Path) -> Source:
    tree, here = ast.parse(path.read_text(encoding="utf-8")), ("clearhead", *path.relative_to(PACKAGE).parts[:-1])
    imports = {*TASK_CLASSES} if path == PACKAGE / "tasks" / "registry.py" else set[tuple[str, ...]]()
    calls, classes = set(), {}
    for node in ast.walk(tree):
        imports.update(imported(node, here))
        if isinstance(node, ast.Call):
            calls.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = {getattr(base, "attr", getattr(base, "id", "")) for base in node.bases}
    top = frozenset(name for node in tree.body for name in imported(node, here))
    return Source(frozenset(imports), top, frozenset(calls), classes)


@cache
def sources() -> dict[str, Source]:
    """Every file of the package but those that only join or re-export others, parsed once."""
    paths = (path for path in sorted(PACKAGE.rglob("*.py")) if path.name != "__main__.py")
    paths = (path for path in paths if path.parent != PACKAGE / "examples")  # to copy, not to import
    return {path.relative_to(PACKAGE).as_posix(): read(path) for path in paths if path != PACKAGE / "__init__.py"}


def modules() -> dict[str, Source]:
    return {path: source for path, source in sources().items() if not path.endswith("__init__.py")}


def floor(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def floors(source: Source) -> set[str]:
    """The floors of the package that a file imports from."""
    return {name[1] for name in source.imports if name[0] == "clearhead" and len(name) > 1} & {*FLOORS}


def imported_files(source: Source) -> set[str]:
    """The files that a file imports: `from .a import b` names a file b of a package a, a package b, or a file a."""
    found = set()
    for _, *parts in (name for name in source.imports if name[0] == "clearhead"):
        whole, parent = "/".join(parts), "/".join(parts[:-1])
        names = (f"{whole}.py", f"{whole}/__init__.py", f"{parent}.py", f"{parent}/__init__.py")
        found |= {*[name for name in names if name in sources()][:1]}
    return found


def test_a_file_imports_only_from_its_own_floor_and_those_below() -> None:
    above = {path: {*FLOORS[FLOORS.index(floor(path)) + 1 :]} for path in sources()}
    rising = {path: floors(source) & above[path] for path, source in sources().items()}
    assert {path: found for path, found in rising.items() if found} == {}


def test_the_registry_of_tasks_imports_what_the_declarations_name() -> None:
    assert len(TASK_CLASSES & sources()["tasks/registry.py"].imports) == len(TASK_CLASSES) > len(TASKS)
    assert {f"{'/'.join(name[1:-1])}.py" for name in TASK_CLASSES} <= sources().keys()


def test_no_two_files_import_each_other_however_long_the_way_round() -> None:
    needs = {path: imported_files(source) - {path} for path, source in sources().items()}
    while free := [path for path, found in needs.items() if not found & needs.keys()]:
        for path in free:
            del needs[path]
    assert {path: found & needs.keys() for path, found in needs.items()} == {}


def test_the_checks_see_imports_of_every_spelling(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    for name in ("tasks/a.py", "tasks/b.py", "model/masks.py", "config/__init__.py", "training/run.py", "api.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    path = tmp_path / "tasks" / "a.py"
    path.write_text(
        "from ..model.masks import x\nfrom ..config import Config\nfrom . import b\nimport clearhead.training.run\n"
        "def f():\n    from clearhead.api import load\n    import torch, os.path\n"
        "    import_module('clearhead.decode.a')\n    import_module('.c', __package__)\n    g('clearhead.apps.d:App')\n"
    )
    found = read(path)
    assert floors(found) == {"model", "config", "tasks", "training", "api", "decode", "apps"}
    assert ("clearhead", "tasks", "c", "*") in found.imports and ("torch",) not in found.at_the_top
    everything = {it.relative_to(tmp_path).as_posix(): found for it in tmp_path.rglob("*.py")}
    monkeypatch.setitem(globals(), "sources", lambda: everything)
    assert imported_files(found) == everything.keys() - {"tasks/a.py"}


def test_no_room_is_crowded() -> None:
    rooms = Counter(path.rpartition("/")[0] for path in modules())
    assert {room: count for room, count in rooms.items() if count > 16} == {}


def test_no_two_modules_share_a_name_but_the_parts_of_parallel_tasks() -> None:
    parallel = {"task", "examples", "scores", "reading"}
    paths = (Path(path) for path in modules())
    names = Counter(path.stem for path in paths if "tasks" not in path.parts or path.stem not in parallel)
    assert {name for name, count in names.items() if count > 1} <= {
        "answer",
        "classify",
        "embed",
        "generate",
        "registry",  # of tasks, of engines
        "speak",
        "summarize",
        "translate",
    }


def test_only_what_needs_torch_imports_it_at_the_top() -> None:
    heavy = {"torch", "numpy", "tokenizers", "safetensors", "sacrebleu", "rich", "matplotlib"}
    light = {path: source for path, source in sources().items() if floor(path) in ("errors", "config", "cli")}
    assert {path for path, source in light.items() if heavy & {name[0] for name in source.at_the_top}} == set()


def test_a_part_of_the_model_imports_torch_and_errors_and_only_what_chooses_and_joins_the_settings() -> None:
    more: dict[str, set[str]] = defaultdict(set)
    for path in ("assembly", "transformer", "module_choice", "restore", "fronts/frames"):  # frames: sizes
        more[f"model/{path}.py"] = {"config"}
    more["model/restore.py"] |= {"folder"}
    parts = {path: source for path, source in modules().items() if floor(path) == "model"}
    outside = {path: {name[0] for name in source.imports} | floors(source) for path, source in parts.items()}
    reached = {path: found - sys.stdlib_module_names - {"clearhead", "model"} for path, found in outside.items()}
    assert {path: it for path, it in reached.items() if not {"torch"} <= it <= {"torch", "errors"} | more[path]} == {}


# --- one of each


def who_calls(name: str) -> set[str]:
    return {path for path, source in modules().items() if name in source.calls}


def test_there_is_one_trainer_whatever_is_learnt() -> None:
    assert who_calls("backward") == {"training/update.py"}
    assert who_calls("Trainer") == {"training/run.py"}
    assert who_calls("make_optimizer") == {"training/update.py"}
    tasks = {path: source for path, source in modules().items() if floor(path) == "tasks"}
    assert {path for path, source in tasks.items() if source.calls & {"backward", "step", "zero_grad"}} == set()


def test_there_is_one_search_whatever_is_searched_for() -> None:
    assert who_calls("beam_search") == {"decode/session.py", "course/laws_of_stacks.py"}  # the latter, a student's
    assert who_calls("topk") == {  # of tokens; of passages; of fillings
        *("decode/engines/torch_engine.py", "tasks/answer/windows.py", "tasks/fill/task.py"),
        *("inspection/views/lens.py", "inspection/page/choice_data.py"),  # for the eye
    }
    assert not who_calls("multinomial"), "tokens are drawn by the sampler, with its own seed"


def test_there_is_one_set_of_blocks_whatever_is_built_of_them() -> None:
    every = {
        path: [name for name, of in source.classes.items() if "Module" in of] for path, source in modules().items()
    }
    blocks = {path: found for path, found in every.items() if found}
    assert blocks.pop("training/distributed/processes.py") == ["LossOf"]  # DDP takes only modules
    assert blocks.pop("course/own_parts.py") == ["Attention"]  # calls a student's functions
    assert {floor(path) for path in blocks} == {"model"}
    assert {name for names in blocks.values() for name in names if "Block" in name} == {"EncoderBlock", "DecoderBlock"}
    theirs = {"Transformer", "MultiheadAttention", "TransformerEncoder", "TransformerDecoder", "LSTM", "GRU"}
    assert not any(who_calls(name) for name in theirs)
