"""One writer a folder."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.errors import TrainingError
from clearhead.folder import atomic
from clearhead.folder.atomic import FolderLock

HOLDER = """
import sys, pathlib
from clearhead.folder.atomic import FolderLock
held = FolderLock(pathlib.Path(sys.argv[1]), say=print)
print("held", flush=True)
sys.stdin.read()
"""


def quiet(message: str) -> None:
    raise AssertionError(message)


def test_a_folder_in_use_by_another_process_is_refused_until_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(TrainingError, match=rf"is in use by another run \(process {holder.pid} on ") as caught:
            FolderLock(tmp_path, say=quiet)
        assert caught.value.value == tmp_path
        holder.kill()
        holder.wait()
    FolderLock(tmp_path, say=quiet).release()


def test_what_to_do_is_for_the_caller_to_say(tmp_path: Path) -> None:
    held = FolderLock(tmp_path, say=quiet)
    with pytest.raises(TrainingError) as caught:
        FolderLock(tmp_path, say=quiet)
    assert "`out`" in caught.value.fix
    with pytest.raises(TrainingError) as caught:
        FolderLock(tmp_path, say=quiet, advice="drink tea")
    assert caught.value.fix == "drink tea"
    held.release()


def test_a_second_lock_in_one_process_is_refused_too(tmp_path: Path) -> None:
    held = FolderLock(tmp_path, say=quiet)
    with pytest.raises(TrainingError, match=f"process {os.getpid()} "):
        FolderLock(tmp_path, say=quiet)
    held.release()


def test_a_released_folder_is_as_it_was(tmp_path: Path) -> None:
    FolderLock(tmp_path, say=quiet).release()
    assert not list(tmp_path.iterdir())


def test_a_lock_whose_file_was_removed_by_its_last_holder_is_taken_again(tmp_path: Path, monkeypatch) -> None:
    real = atomic._lock
    tried = []

    def late(file) -> None:
        if not tried:
            (tmp_path / ".lock").unlink()  # the holder lets go between our open and our lock
        tried.append(file)
        real(file)

    monkeypatch.setattr(atomic, "_lock", late)
    held = FolderLock(tmp_path, say=quiet)
    assert len(tried) == 2
    with pytest.raises(TrainingError, match="in use"):
        FolderLock(tmp_path, say=quiet)
    held.release()


def test_a_file_system_without_locks_is_said_and_used(tmp_path: Path, monkeypatch) -> None:
    def unsupported(_) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(atomic, "_lock", unsupported)
    said: list[str] = []
    FolderLock(tmp_path, say=said.append).release()
    assert len(said) == 1 and str(tmp_path) in said[0] and "No locks available" in said[0]


def test_a_holder_that_could_not_write_its_name_is_another_process(tmp_path: Path, monkeypatch) -> None:
    held = FolderLock(tmp_path, say=quiet)
    (tmp_path / ".lock").write_bytes(b"")
    with pytest.raises(TrainingError, match="another process"):
        FolderLock(tmp_path, say=quiet)
    held.release()
