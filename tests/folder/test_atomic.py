"""Files are whole or not there."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from clearhead.errors import TrainingError
from clearhead.folder.atomic import (
    remove_folder,
    remove_partials,
    replacing,
    write_file,
    write_files,
    write_folder,
    writing,
)


def test_a_write_that_is_killed_at_any_call_leaves_the_old_content_or_the_new(tmp_path: Path, crash_points) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen = set()
    for _ in crash_points(lambda: write_file(path, b"new")):
        seen.add(path.read_bytes())
        path.write_bytes(b"old")
    assert seen == {b"old", b"new"}
    assert path.read_bytes() == b"new"


def test_a_link_stays_a_link_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link, dangling = tmp_path / "far" / "file", tmp_path / "link", tmp_path / "dangling"
    target.write_bytes(b"old")
    link.symlink_to(target)
    dangling.symlink_to(tmp_path / "far" / "new")
    write_file(link, b"1")
    write_file(dangling, b"2")
    assert link.is_symlink() and dangling.is_symlink()
    assert (target.read_bytes(), (tmp_path / "far" / "new").read_bytes()) == (b"1", b"2")


def test_files_written_bit_by_bit_appear_together_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    paths = [tmp_path / "link", tmp_path / "new" / "file"]
    for error, expected in ((OSError(errno.ENOSPC, "full"), TrainingError), (KeyboardInterrupt(), KeyboardInterrupt)):
        with pytest.raises(expected), replacing(paths) as files:
            files[0].write(b"half")
            raise error
        assert (tmp_path / "old").read_bytes() == b"old" and not [*(tmp_path / "new").iterdir()]
    with replacing(paths) as files:
        for place, file in enumerate(files):
            file.write(bytes([place]))
    assert [it.read_bytes() for it in paths] == [b"\0", b"\1"] and paths[0].is_symlink()
    assert {it.name for it in tmp_path.iterdir()} == {"old", "link", "new"}


def test_a_link_that_leads_to_itself_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    write_file(tmp_path / "loop", b"data")
    assert (tmp_path / "loop").read_bytes() == b"data"


def test_what_is_no_regular_file_gets_the_data_and_stays_what_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_file(pipe, b"data")
    assert os.read(reader, 9) == b"data" and pipe.is_fifo()
    os.close(reader)
    (tmp_path / "null").symlink_to(os.devnull)
    write_file(tmp_path / "null", b"data")
    assert (tmp_path / "null").is_symlink() and not Path(os.devnull).is_file()


def test_a_pipe_that_nobody_reads_is_an_error_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(TrainingError) as caught, writing(tmp_path):
        write_file(tmp_path / "pipe", b"data")
    assert caught.value.value == tmp_path
    os.mkfifo(tmp_path / ".file.partial")
    write_file(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


def test_what_to_do_is_for_the_caller_to_say(tmp_path: Path, disk_full, read_only) -> None:
    too_large = OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    for error, advice in (
        (disk_full, "make room and drink tea; "),
        (read_only, "change its permissions, or leave"),
        (too_large, "raise the limit and drink tea"),
        (OSError(errno.EIO, os.strerror(errno.EIO)), "fix that and drink tea, or leave"),
    ):
        with pytest.raises(TrainingError) as caught, writing(tmp_path, again="drink tea", instead="leave"):
            raise error
        assert caught.value.fix.startswith(advice) and caught.value.value == tmp_path


def test_a_folder_that_is_killed_at_any_call_is_whole_or_not_there(tmp_path: Path, crash_points) -> None:
    target, files = tmp_path / "deep" / "folder", {"a": b"1", "b": b"2"}
    crashes = 0
    for _ in crash_points(lambda: write_folder(target, files.items())):
        crashes += 1
        if target.exists():
            assert {path.name: path.read_bytes() for path in target.iterdir()} == files
            remove_folder(target)
    assert crashes > 4
    assert {path.name: path.read_bytes() for path in target.iterdir()} == files


def test_a_folder_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    write_folder(tmp_path / "folder", [("a", b"1")])
    write_folder(tmp_path / "folder", [("b", b"2")])
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "b"]


def test_a_folder_whose_removal_is_killed_is_whole_or_gone(tmp_path: Path, crash_points) -> None:
    target, files = tmp_path / "folder", [("a", b"1"), ("b", b"2")]
    write_folder(target, files)
    for _ in crash_points(lambda: remove_folder(target)):
        if not target.exists():
            write_folder(target, files)
        assert len(list(target.iterdir())) == 2
    assert not target.exists()


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    write_folder(tmp_path / ".a.partial", [("x", b"")])
    for name in (".b.partial", "c.partial", ".d", "e"):
        (tmp_path / name).write_bytes(b"half")
    remove_partials(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".d", "c.partial", "e"]


def test_a_full_disk_is_said_with_the_room_there_is_and_leaves_no_half_file(
    tmp_path: Path, fail_from, disk_full, monkeypatch
) -> None:
    write_file(tmp_path / "file", b"old")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9 << 20, 6 << 20, 3 << 20))
    with pytest.raises(TrainingError) as caught, fail_from(1, disk_full), writing(tmp_path):
        write_file(tmp_path / "file", b"new")
    assert caught.value.what == f"can't write to {tmp_path}: No space left on device (3 MiB are free)"
    assert caught.value.fix.startswith("make room and run the command again")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"old"}


@pytest.mark.parametrize("number", range(1, 5))
def test_several_files_on_a_full_disk_leave_nothing_half_written(
    tmp_path: Path, fail_from, disk_full, number: int
) -> None:
    (tmp_path / ".of another program.partial").touch()
    with pytest.raises(OSError, match="No space left"), fail_from(number, disk_full):
        write_files(tmp_path, {"a": b"1", "b": b"2"}, before_moving=("c", b"3"))
    assert {path.name for path in tmp_path.iterdir()} <= {".of another program.partial", "c"}


def test_a_folder_on_a_full_disk_leaves_nothing_half_written(tmp_path: Path, fail_from, disk_full) -> None:
    for number in range(1, 5):
        with pytest.raises(OSError, match="No space left"), fail_from(number, disk_full):
            write_folder(tmp_path / "folder", [("a", b"1"), ("b", b"2")])
        assert not list(tmp_path.iterdir())


def test_the_room_is_found_although_the_folder_is_not_there_yet(tmp_path: Path, disk_full) -> None:
    with pytest.raises(TrainingError, match="MiB are free"), writing(tmp_path / "not" / "yet"):
        raise disk_full


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path, read_only) -> None:
    with pytest.raises(TrainingError, match="Read-only file system") as caught, writing(tmp_path):
        raise read_only
    assert caught.value.expected == "a folder with write permission"


def test_a_file_in_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError) as caught, writing(tmp_path / "file"):
        (tmp_path / "file").mkdir()
    assert caught.value.expected.startswith("a folder") and caught.value.fix.startswith("move the file")


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrainingError) as caught, writing(tmp_path / "missing"):
        write_file(tmp_path / "missing" / "file", b"")
    assert caught.value.expected == "a folder that exists" and caught.value.fix.startswith("create it")


def test_what_a_function_wrote_is_synced_through_a_descriptor_that_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows syncs no others."""
    fcntl = pytest.importorskip("fcntl")
    modes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda it: modes.append(fcntl.fcntl(it, fcntl.F_GETFL) & os.O_ACCMODE))
    write_folder(tmp_path / "a", [("one", lambda path: path.write_text("1")), ("two", b"2")])
    assert modes[:2] == [os.O_RDWR, os.O_WRONLY]
