"""The machine code of the loops: compiled once, by one process, and loaded by all."""

import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.config import DecodeConfig, ModelConfig
from clearhead.decode.engines.loops import entries, jit, machine_code
from clearhead.decode.engines.loops.machine_code import LoopsOpener
from clearhead.decode.model_handle import InMemoryModel
from clearhead.decode.registry import choice_for, is_preparing, open_engine, prepare_later
from clearhead.errors import ConfigError
from clearhead.folder.atomic import FolderLock
from clearhead.model.transformer import build as build_model

CONFIG = ModelConfig(src_vocab_size=29, tgt_vocab_size=29, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1)
MONTH = 30 * 24 * 3600
PATIENCE = 120  # seconds


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, in which nothing has been started."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine_code, "_started", {})
    return tmp_path / "clearhead"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands of the processes that are started in the background, instead of starting them."""
    found: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            found.append(command)

        def wait(self) -> None:
            pass

    monkeypatch.setattr(subprocess, "Popen", Process)
    return found


def compiles(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let the process that compiles run this script instead."""
    monkeypatch.setattr(machine_code, "_command", lambda _: [sys.executable, "-c", script])


@pytest.fixture(scope="module")
def good() -> Path:
    """The machine code of these sources. It takes ten seconds to compile, so what another test has compiled is used."""
    machine_code.prepare()
    return machine_code.machine_code_file()


def copies(monkeypatch: pytest.MonkeyPatch, good: Path) -> Path:
    """Let the process that compiles copy the machine code, and return the file that it writes."""
    path = machine_code.machine_code_file()
    compiles(monkeypatch, f"import shutil; shutil.copy({str(good)!r}, {str(path)!r})")
    return path


def test_the_first_use_compiles_and_says_so(
    good: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copies(monkeypatch, good)
    machine_code.prepare()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("compiling the engine loops") and second.startswith("compiled in ")
    assert [it.name for it in good.parent.iterdir()] == [it.name for it in path.parent.iterdir()] == ["loops.o"]
    machine_code.prepare()
    assert capsys.readouterr().err == "" and machine_code.is_compiled()


def test_a_compiler_that_fails_is_an_error_with_its_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for script, reason in (("raise SystemExit('no room')", "no room"), ("raise SystemExit(1)", "no reason is given")):
        compiles(monkeypatch, script)
        with pytest.raises(ConfigError) as caught:
            machine_code.prepare()
        assert reason in caught.value.what and (caught.value.name, caught.value.value) == ("decode.engine", "loops")


def test_a_python_that_cannot_be_started_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(cache / "python"))
    with pytest.raises(ConfigError, match="No such file"):
        machine_code.prepare()
    machine_code.prepare_later()


def test_files_beside_the_package_or_in_the_working_directory_are_not_imported(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("numba", "clearhead", "sys"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path)
    command = machine_code._command("wait")
    command[3] = command[3].replace("main()", "import numba; print(numba.__file__, clearhead.__file__)")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(tmp_path) not in done.stdout and str(Path(entries.__file__).parents[3]) in done.stdout


def test_a_failure_is_remembered_with_its_reason(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "clearhead.decode.engines.loops.compiler"
    fake = f"import sys, types; m = sys.modules[{name!r}] = types.ModuleType({name!r}); m.object_code = lambda: 1 / 0"
    path = str(machine_code.machine_code_file())
    compiles(monkeypatch, f"{fake}; from {machine_code.__name__} import *; build(Path({path!r}), 'yield')")
    with pytest.raises(ConfigError, match="can't be compiled here: ZeroDivisionError: division by zero"):
        machine_code.prepare()
    assert machine_code.failure() == "ZeroDivisionError: division by zero"


def test_nothing_can_be_compiled_with_numba_disabled_or_in_a_frozen_program(
    cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigError, match="this program can't start Python"):
        machine_code.prepare()
    machine_code.prepare_later()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    with pytest.raises(ConfigError, match="NUMBA_DISABLE_JIT is set"):
        machine_code.prepare()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "")
    assert not jit.is_disabled() and started == []


def test_settings_of_numba_do_not_change_what_all_processes_use(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_OPT", "0")
    assert "NUMBA_OPT" not in machine_code._surroundings()["env"]


def test_a_process_in_the_background_is_waited_for(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiles(monkeypatch, "pass")
    before = threading.active_count()
    machine_code.prepare_later()
    gc.collect()  # a forgotten process would be a ResourceWarning
    while threading.active_count() > before:
        time.sleep(0.01)


def test_a_damaged_file_is_compiled_again(good: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = good.read_bytes()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = copies(monkeypatch, good)
    path.parent.mkdir(parents=True)
    for damaged in (b"", whole[:1000], whole[:-1] + b"?"):
        entries.loaded.cache_clear()
        path.write_bytes(damaged)
        assert LoopsOpener.open(InMemoryModel(build_model(CONFIG), CONFIG)) and path.read_bytes() == whole
    entries.loaded.cache_clear()
    path.unlink()  # though it was found before
    assert LoopsOpener.open(InMemoryModel(build_model(CONFIG), CONFIG)) and path.read_bytes() == whole


def test_in_int8_the_engine_that_is_open_stays(cache: Path, real_readiness: None) -> None:
    path, handle = machine_code.machine_code_file(), InMemoryModel(build_model(CONFIG), CONFIG)
    search = DecodeConfig(engine="auto", precision="int8")
    assert choice_for(handle, search).name == "packed"
    handle.engines["packed int8"] = object()
    path.parent.mkdir(parents=True)
    path.touch()
    assert choice_for(handle, search).name == "packed"
    handle.engines.clear()
    assert choice_for(handle, search).name == "loops"


def test_it_is_compiled_in_the_background_once(cache: Path, started: list[list[str]]) -> None:
    machine_code.prepare_later()
    machine_code.prepare_later()
    assert [command[-1] for command in started] == ["yield"]


@pytest.mark.parametrize("why", ["disabled", "compiled", "failed"])
def test_nothing_is_started_if_it_is_no_use(
    why: str, cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine_code.machine_code_file()
    if why == "disabled":
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    else:
        path.parent.mkdir(parents=True)
        (path if why == "compiled" else path.with_suffix(".begun")).touch()
    machine_code.prepare_later()
    assert started == []


def test_an_hour_after_a_failure_it_is_tried_again(cache: Path, started: list[list[str]]) -> None:
    begun = machine_code.machine_code_file().with_suffix(".begun")
    begun.parent.mkdir(parents=True)
    begun.touch()
    os.utime(begun, (time.time() - 3601,) * 2)
    machine_code.prepare_later()
    assert len(started) == 1


def test_two_processes_never_compile_at_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine_code.machine_code_file()
    path.parent.mkdir(parents=True)
    lock = FolderLock(path.parent, say=print)
    machine_code.build(path, "yield")
    assert not path.exists()

    def other_is_done(_: float) -> None:
        path.touch()
        lock.release()

    monkeypatch.setattr(time, "sleep", other_is_done)
    machine_code.build(path, "wait")
    assert path.read_bytes() == b"" and not path.with_suffix(".begun").exists()


def test_a_process_that_was_killed_leaves_nothing_that_counts(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = machine_code.machine_code_file()
    name = "clearhead.decode.engines.loops.compiler"
    fake = f"import os, sys, types; m = sys.modules[{name!r}] = types.ModuleType({name!r}); m.object_code = os.abort"
    compiles(
        monkeypatch,
        f"{fake}; from {machine_code.__name__} import *; build(Path({str(path)!r}), 'wait')",
    )
    with pytest.raises(ConfigError):
        machine_code.prepare()
    assert not machine_code.is_compiled() and path.with_suffix(".begun").exists()
    FolderLock(path.parent, say=print).release()


def test_code_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = entries.AS_PYTHON._replace(project=lambda x, stack, logits: logits.fill(0))
    monkeypatch.setattr(entries, "functions_of", lambda _: wrong)
    with pytest.raises(RuntimeError, match="something else"):
        entries.check(b"")


def test_auto_takes_it_once_it_is_there(
    cache: Path, started: list[list[str]], monkeypatch: pytest.MonkeyPatch, real_readiness: None
) -> None:
    handle = InMemoryModel(build_model(CONFIG), CONFIG)
    monkeypatch.setattr(InMemoryModel, "needs_module", False)  # as for a model folder
    assert choice_for(handle, DecodeConfig(engine="auto")).waiting == ("loops",) and started == []
    open_engine(handle, DecodeConfig(engine="torch"))
    assert started == []
    open_engine(handle, DecodeConfig(engine="auto"))
    assert len(started) == 1 and list(handle.engines) == ["torch fp32"]
    path = machine_code.machine_code_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    assert choice_for(handle, DecodeConfig(engine="auto")).name == "loops"
    path.unlink()  # what's loaded stays
    assert choice_for(handle, DecodeConfig(engine="auto")).name == "loops"
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert choice_for(handle, DecodeConfig(engine="auto")).name == "torch"


def test_a_model_knows_that_a_faster_engine_is_being_compiled(
    cache: Path, monkeypatch: pytest.MonkeyPatch, real_readiness: None
) -> None:
    compiles(monkeypatch, f"import time; time.sleep({PATIENCE})")
    handle = InMemoryModel(build_model(CONFIG), CONFIG)
    monkeypatch.setattr(InMemoryModel, "needs_module", False)  # as for a model folder
    assert not is_preparing(handle)
    open_engine(handle, DecodeConfig(engine="auto"))
    process = machine_code._started[machine_code.machine_code_file()]
    assert process is not None and is_preparing(handle)
    other = InMemoryModel(build_model(CONFIG), CONFIG)
    assert not is_preparing(other)  # it has no engine that would be replaced
    process.kill()
    process.wait()
    assert not is_preparing(handle)


def test_training_lets_it_be_compiled_for_models_that_use_it(
    cache: Path, started: list[list[str]], real_readiness: None
) -> None:
    prepare_later(CONFIG, DecodeConfig(), "cuda")
    prepare_later(ModelConfig(topology="encoder-only", src_vocab_size=29), DecodeConfig(), "cpu")
    prepare_later(CONFIG, DecodeConfig(engine="torch"), "cpu")
    assert started == []
    prepare_later(CONFIG, DecodeConfig(), "cpu")
    assert len(started) == 1


def test_if_numba_disables_compiling_nothing_waits_and_the_loops_are_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    opened: Any = LoopsOpener.open(InMemoryModel(build_model(CONFIG), CONFIG))
    assert opened.loops is entries.AS_PYTHON and not machine_code.is_compiled()


def test_what_nothing_has_used_for_a_month_is_removed(cache: Path) -> None:
    own = machine_code.machine_code_file()
    folders = {own.parent: MONTH + 99, cache / "loops-a": MONTH + 99, cache / "loops-b": MONTH - 99}
    for folder, age in {**folders, cache / "ct2": MONTH + 99}.items():
        (folder / "x").mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    own.touch()
    machine_code.prepare()  # marks it as used
    machine_code._remove_unused(own.parent)
    assert {it.name for it in cache.iterdir()} == {own.parent.name, "loops-b", "ct2"}


def test_it_belongs_to_the_content_of_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "loops.py"
    monkeypatch.setattr(machine_code, "__file__", str(source))

    def fingerprint(text: str, time: int) -> str:
        source.write_text(text)
        os.utime(source, (time, time))
        return machine_code._fingerprint.__wrapped__()

    assert fingerprint("a", 1) == fingerprint("a", 2) != fingerprint("b", 2)


def test_arguments_of_another_type_are_rejected() -> None:
    x, stack, logits = entries.examples()["project"]
    machine_code.prepare()
    project = entries.loaded(machine_code.machine_code_file()).project
    wide = np.zeros((2, 2), np.float32)
    for wrong in ((x.astype(np.float64), stack, logits), (x[0], stack, logits), (x, stack, 1), (wide.T, stack, logits)):
        with pytest.raises(TypeError, match="the loops are compiled for"):
            project(*wrong)


def test_too_little_memory_is_an_error() -> None:
    encoder, decoder, jobs, ruling, _, _, found = entries.examples()["search"]
    machine_code.prepare()
    with pytest.raises(MemoryError, match="too little memory"):
        entries.loaded(machine_code.machine_code_file()).search(encoder, decoder, jobs, ruling, 2**50, 1, found)
