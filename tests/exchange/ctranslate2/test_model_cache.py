"""Converted models are kept in the user's cache folder: whole, for their weights, and only if their answers agree."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.api import load
from clearhead.errors import ConfigError, ModelError, TrainingError
from clearhead.exchange import ct2
from clearhead.exchange.ctranslate2.model_cache import CONVERTERS, cached_model
from clearhead.folder.atomic import cache_folder
from clearhead.folder.manifest import read_verified

pytest.importorskip("ctranslate2", reason="needs the extra ct2")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "clearhead"


def test_it_is_in_the_user_s_cache_folder(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == cache
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "clearhead"


def test_a_model_is_converted_once(cache: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = cached_model(model_folder)
    assert found.parent == cache / "ct2" and list(found.parent.iterdir()) == [found]
    assert str(found) in capsys.readouterr().err
    written = (found / "model.bin").stat().st_mtime_ns
    assert cached_model(model_folder) == found and (found / "model.bin").stat().st_mtime_ns == written
    assert capsys.readouterr().err == ""


def test_each_precision_is_converted_for_itself(cache: Path, model_folder: Path) -> None:
    assert not CONVERTERS["ct2-int8"].is_converted(model_folder)
    found = cached_model(model_folder, "int8")
    assert [CONVERTERS[f"ct2-{it}"].is_converted(model_folder) for it in ("int8", "fp32")] == [True, False]
    assert cached_model(model_folder) != found == cached_model(model_folder, "int8")
    app = load(model_folder, device="cpu")
    assert app("I am hungry.", beam=1, engine="ct2", precision="int8")
    with pytest.raises(ConfigError) as caught:
        app("I am hungry.", beam=1, engine="ct2", precision="bf16")
    assert (caught.value.name, caught.value.expected) == ("decode.precision", "fp32, int8")


def test_other_weights_are_another_model(model_folder: Path, word_model_folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model_folder, copy)
    assert cached_model(copy) == cached_model(model_folder) != cached_model(word_model_folder)


@pytest.mark.parametrize("damage", [
    lambda folder: (folder / "model.bin").write_bytes(b"damaged"),
    lambda folder: (folder / "config.json").unlink(),
    lambda folder: (folder / "manifest.json").write_text("{"),
])  # fmt: skip
def test_a_damaged_folder_is_written_again(model_folder: Path, damage) -> None:
    found = cached_model(model_folder)
    before = read_verified(found)
    damage(found)
    assert cached_model(model_folder) == found and read_verified(found) == before
    assert list(found.parent.iterdir()) == [found]


def test_an_interrupted_conversion_leaves_nothing_for_long(model_folder: Path, monkeypatch, cache: Path) -> None:
    old, new = cache / "ct2" / ".old", cache / "ct2" / ".new"
    for it in (old, new):
        it.mkdir(parents=True)
    os.utime(old, (time.time() - 1e6,) * 2)
    cached_model(model_folder)
    assert not old.exists() and new.exists()


@pytest.mark.slow
def test_two_processes_can_convert_at_the_same_time(model_folder: Path, cache: Path) -> None:
    code = "import sys, pathlib; from clearhead.exchange.ctranslate2.model_cache import cached_model as c; "
    code += "print(c(pathlib.Path(sys.argv[1])))"
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(model_folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    found = {run.communicate(timeout=100)[0].strip() for run in runs}
    assert all(run.returncode == 0 for run in runs) and len(found) == 1
    [folder] = (cache / "ct2").iterdir()
    assert found == {str(folder)} and read_verified(folder)


def test_a_process_that_was_slower_uses_the_folder_of_the_other(model_folder: Path, monkeypatch) -> None:
    write, found = ct2.convert, []

    def overtaken(path: Path, target: Path, precision: str) -> None:
        write(path, target, precision)
        if not found:
            found.append(None)
            found[0] = cached_model(path)

    monkeypatch.setattr(ct2, "convert", overtaken)
    assert cached_model(model_folder) == found[0] and list(found[0].parent.iterdir()) == found


@pytest.mark.parametrize(("precision", "factor"), [("fp32", 1.2), ("int8", 4)])
def test_a_model_whose_answers_differ_is_named_and_not_kept(
    model_folder: Path, monkeypatch, cache: Path, precision: str, factor: float
) -> None:
    right = ct2.engine_files

    def wrong(config, weights, precision):
        return right(config, {name: it * factor for name, it in weights.items()}, precision)

    monkeypatch.setattr(ct2, "engine_files", wrong)
    with pytest.raises(ModelError) as caught:
        cached_model(model_folder, precision)
    assert caught.value.name == "decode.engine" and str(model_folder) in caught.value.what
    assert list((cache / "ct2").iterdir()) == []


def test_a_cache_folder_that_can_t_be_written_to_is_named(model_folder: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(TrainingError) as caught:
        cached_model(model_folder)
    assert "XDG_CACHE_HOME" in caught.value.fix


def test_answering_with_a_converted_model_doesn_t_import_torch(model_folder: Path) -> None:
    expected = load(model_folder, device="cpu")("I am hungry.", beam=1, engine="ct2")
    code = "import sys; from clearhead.api import load; app = load(sys.argv[1], device='cpu')\n"
    code += "print(repr(app('I am hungry.', beam=1, engine='ct2'))); assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code, str(model_folder)], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, repr(expected)), done.stderr
