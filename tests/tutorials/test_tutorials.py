"""Tutorials, how-tos and the README work for somebody who has only installed the wheel: every block runs in order."""

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("run_page.py")
PAGES = sorted(
    str(page.relative_to(ROOT))
    for page in [
        ROOT / "README.md",
        *(ROOT / "docs" / "tutorials").glob("*.md"),
        *(ROOT / "docs" / "how-to").glob("*.md"),
    ]
    if page.name != "index.md"
)
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment in which the wheel is installed, next to the packages of this one."""
    folder = tmp_path_factory.mktemp("installed")
    source, environment = folder / "source", folder / "environment"
    shutil.copytree(ROOT / "clearhead", source / "clearhead", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    offline = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-index")
    pip = (sys.executable, "-m", "pip")
    subprocess.run([*pip, "wheel", *offline, "--no-build-isolation", "-w", folder, source], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    [wheel] = folder.glob("*.whl")
    subprocess.run([*pip, "--python", programs / "python", "install", *offline, wheel], check=True)
    [library] = environment.rglob("site-packages")
    (library / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # not its .pth, which would find ROOT
    return programs


@pytest.fixture(scope="session")
def environment(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process that uses what is installed."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CLEARHEAD_DATA")}
    return kept | {
        "PATH": f"{installed}{os.pathsep}{kept['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }


@pytest.fixture
def run(installed: Path, environment: dict[str, str], tmp_path: Path) -> Run:
    """Run Python in the environment and in an empty folder."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        called = [installed / "python", "-P", *arguments]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(called, cwd=folder, env=environment | more, start_new_session=True, **streams)
        try:
            out, err = process.communicate(timeout=1800)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # a server that a page which failed has left behind
        return subprocess.CompletedProcess(called, process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def runner(installed: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of the environment that runs a page for each line it's given."""
    called = [installed / "python", "-P", RUNNER, "--each"]
    more = {"NUMBA_DISABLE_JIT": "1"}  # the engine loops isn't compiled in the background
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(called, cwd=installed.parent, env=environment | more, **streams) as process:
        yield process


def test_the_installed_package_is_used_and_not_the_checkout(run: Run, installed: Path) -> None:
    done = run("-c", "import clearhead; print(clearhead.__file__)")
    assert Path(done.stdout.strip()).is_relative_to(installed.parent), done.stdout + done.stderr
    assert not Path(done.stdout.strip()).is_relative_to(ROOT)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_with_short_trainings(run: Run, request: pytest.FixtureRequest, tmp_path: Path, page: str) -> None:
    if sys.platform != "linux":  # a process that has imported PyTorch can't be copied there
        done = run(RUNNER, ROOT / page, NUMBA_DISABLE_JIT="1")
        assert done.returncode == 0, done.stderr
        return
    runner: subprocess.Popen[str] = request.getfixturevalue("runner")
    assert runner.stdin is not None and runner.stdout is not None
    print(tmp_path / "empty", ROOT / page, sep="\t", file=runner.stdin, flush=True)
    assert runner.stdout.readline() == "0\n", (tmp_path / "errors").read_text(encoding="utf-8")
    assert page != "README.md" or (tmp_path / "empty" / "models" / "mine" / "loss.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_written(run: Run, page: str) -> None:
    done = run(RUNNER, ROOT / page, "--in-full")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("```sh\nclearhead info nowhere\n```\n", "nowhere"),
        ("```sh\nclearhead --version | grep nothing\n```\n", "exit code 1"),
        ("```sh\nclearhead --version\n```\n```text\nanother 1.0\n```\n", "this isn't printed: another 0"),
        (
            "```sh\nclearhead --version\n```\n```text\nclearhead …\nclearhead 9.9\n```\n",
            "this isn't printed: clearhead 0",
        ),
        ("```python\nassert 1 > 2\n```\n", "AssertionError"),
        ("<!-- not run: -->\n```sh\nclearhead info nowhere\n```\n", "unknown comment"),
        ("Only words.\n", "no block to run"),
    ],
)
def test_a_page_that_is_wrong_fails(run: Run, tmp_path: Path, page: str, problem: str) -> None:
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    done = run(RUNNER, tmp_path / "page.md")
    assert done.returncode and problem in done.stderr, done.stderr


def test_few_blocks_are_not_run() -> None:
    reasons = [
        line for page in PAGES for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if "not run:" in line
    ]
    assert len(reasons) <= 12, reasons
