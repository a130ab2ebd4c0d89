"""The wheel and the source distribution have everything that the package needs, and nothing else."""

import ast
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import clearhead

ROOT = Path(__file__).parents[1]
NAME = f"clearhead-{clearhead.__version__}"
BUILT_FROM = (
    "pyproject.toml",
    "MANIFEST.in",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    "constraints.txt",
)
PLACES = re.compile(r"\b(docs|benchmarks|examples|tests)/|CONTRIBUTING")


def package_files() -> dict[str, bytes]:
    files = [it for it in (ROOT / "clearhead").rglob("*") if it.is_file() and "__pycache__" not in it.parts]
    return {it.relative_to(ROOT).as_posix(): it.read_bytes() for it in files}


def build(kind: str, source: Path, out: Path) -> Path:
    """Build without network: with the installed setuptools, as the standard asks of it."""
    code = f"import sys; from setuptools.build_meta import build_{kind}; print(build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=source, capture_output=True, text=True, check=True
    )
    assert "absent from the `packages`" not in done.stderr, done.stderr
    return out / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A source distribution, and the wheel that is built from it."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("distribution")
    shutil.copytree(ROOT / "clearhead", folder / "clearhead", ignore=shutil.ignore_patterns("__pycache__"))
    for name in BUILT_FROM:
        shutil.copy(ROOT / name, folder)
    packed = build("sdist", folder, folder)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return packed, build("wheel", folder / NAME, folder)


def test_the_wheel_has_the_files_of_the_package_byte_for_byte(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist()}
    about = {name: data for name, data in found.items() if name.startswith(f"{NAME}.dist-info/")}
    inside = {name: data for name, data in found.items() if name not in about}
    expected = package_files()
    assert inside.keys() == expected.keys()
    assert [name for name, data in inside.items() if data != expected[name]] == []
    for name in ("recipes/tatoeba-15m.toml", "course/lessons/", "demo/models/demo/model.safetensors", "py.typed",
                 "demo/phrasebook.tsv.bz2", "examples/own_attention.py", "examples/paper_walkthrough.ipynb",
                 "inspection/page/static/main.js", "exchange/page/static/embedded/"):  # fmt: skip
        assert any(it.startswith(f"clearhead/{name}") for it in inside), name
    assert b"clearhead = clearhead.cli:main" in about[f"{NAME}.dist-info/entry_points.txt"]
    metadata = about[f"{NAME}.dist-info/METADATA"].decode()
    assert f"\nVersion: {clearhead.__version__}\n" in metadata and "\nLicense-Expression: MIT\n" in metadata
    assert distributions[1].stat().st_size < 10e6


def test_the_source_distribution_has_what_a_wheel_is_built_from(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[0]) as archive:
        names = {it.name.removeprefix(f"{NAME}/") for it in archive.getmembers() if it.isfile()}
    assert names >= {*package_files(), *BUILT_FROM}
    assert {name.split("/")[0] for name in names - {*BUILT_FROM}} <= {
        "clearhead",
        "clearhead.egg-info",
        "PKG-INFO",
        "setup.cfg",
    }


def test_no_message_names_a_file_that_only_the_repository_has() -> None:
    found = []
    for name, data in package_files().items():
        if name.endswith(".py") and not name.startswith("clearhead/examples/"):
            tree = ast.parse(data)
            documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            docstrings = {
                id(it.body[0].value) for it in ast.walk(tree) if isinstance(it, documented) and ast.get_docstring(it)
            }
            texts = [it for it in ast.walk(tree) if isinstance(it, ast.Constant) and isinstance(it.value, str)]
            found += [(name, it.value) for it in texts if id(it) not in docstrings and PLACES.search(it.value)]
    assert found == []
