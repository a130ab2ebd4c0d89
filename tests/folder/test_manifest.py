"""What is read is what was written."""

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clearhead.errors import ModelError
from clearhead.folder import manifest
from clearhead.folder.manifest import (
    MANIFEST,
    Manifest,
    mark_finished,
    read_verified,
    replace_files,
    write_folder_with_manifest,
)

OLD, NEW = {"a": b"old a", "b": b"old b"}, {"b": b"new b", "c": b"new c"}


def test_the_manifest_has_the_sha256_of_each_file(tmp_path: Path) -> None:
    replace_files(tmp_path, OLD)
    expected = {name: hashlib.sha256(data).hexdigest() for name, data in OLD.items()}
    assert json.loads((tmp_path / MANIFEST).read_bytes()) == {"format_version": 1, "files": expected}
    assert read_verified(tmp_path) == OLD


def test_files_replaced_by_a_process_that_dies_at_any_call_are_old_or_new_and_verify(
    tmp_path: Path, crash_points
) -> None:
    replace_files(tmp_path, OLD)
    seen = set()
    for _ in crash_points(lambda: replace_files(tmp_path, NEW)):
        found = read_verified(tmp_path)
        assert found["a"] == OLD["a"] and found["b"] in (OLD["b"], NEW["b"]) and found.get("c", NEW["c"]) == NEW["c"]
        seen.add(found["b"])
        replace_files(tmp_path, {"a": OLD["a"]})  # the next writer settles what the dead one left open
        assert not Manifest.read(tmp_path).incoming
        assert read_verified(tmp_path) == found | ({"c": NEW["c"]} if (tmp_path / "c").exists() else {})
        replace_files(tmp_path, OLD)
    assert seen == {OLD["b"], NEW["b"]}
    assert read_verified(tmp_path) == OLD | NEW


WRITER = """
import sys, pathlib
from clearhead.folder.manifest import replace_files
folder = pathlib.Path(sys.argv[1])
for n in range(10**9):
    replace_files(folder, {name: f"{name} {n} ".encode() * 20_000 for name in ("a", "b")})
    print(n, flush=True)
"""


def test_a_writer_that_is_really_killed_leaves_files_that_verify(tmp_path: Path) -> None:
    for wait in (0.0, 0.011, 0.023):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE) as writer:
            assert writer.stdout
            writer.stdout.readline()
            time.sleep(wait)
            writer.kill()
        assert set(read_verified(tmp_path)) == {"a", "b"}


def test_a_reader_gets_what_verifies_while_files_are_replaced(tmp_path: Path, monkeypatch) -> None:
    replace_files(tmp_path, OLD)
    real, reads = manifest.read_bytes, 0

    def slow_read(path: Path) -> bytes:
        nonlocal reads
        reads += 1
        if reads == 3:  # the manifest and the first file are read
            replace_files(tmp_path, NEW)
        return real(path)

    monkeypatch.setattr(manifest, "read_bytes", slow_read)
    assert read_verified(tmp_path, ["a", "b"]) == {"a": OLD["a"], "b": NEW["b"]}


def test_the_mark_of_a_finished_run_outlives_later_files_and_can_be_taken_away(tmp_path: Path) -> None:
    replace_files(tmp_path, OLD)
    mark_finished(tmp_path, 300)
    replace_files(tmp_path, NEW)
    assert Manifest.read(tmp_path).finished == 300
    mark_finished(tmp_path, None)
    assert Manifest.read(tmp_path).finished is None
    assert read_verified(tmp_path) == OLD | NEW


def test_a_folder_gets_the_manifest_of_all_that_is_in_it(tmp_path: Path) -> None:
    write_folder_with_manifest(tmp_path / "folder", iter(OLD.items()))
    assert read_verified(tmp_path / "folder") == OLD


@pytest.mark.parametrize("damage", [b"old ", b"old A", b"", b"old a\n"])
def test_a_damaged_file_is_named_with_the_digest_expected_and_found(tmp_path: Path, damage: bytes) -> None:
    replace_files(tmp_path, OLD)
    (tmp_path / "a").write_bytes(damage)
    with pytest.raises(ModelError, match="is damaged or was edited") as caught:
        read_verified(tmp_path, ["a"])
    assert (caught.value.name, caught.value.value) == ("a", hashlib.sha256(damage).hexdigest())
    assert hashlib.sha256(OLD["a"]).hexdigest() in caught.value.expected
    assert read_verified(tmp_path, ["b"]) == {"b": OLD["b"]}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    replace_files(tmp_path, OLD)
    (tmp_path / "b").unlink()
    with pytest.raises(ModelError, match="is missing") as caught:
        read_verified(tmp_path)
    assert caught.value.name == "b"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    replace_files(tmp_path, OLD)
    (tmp_path / "b").unlink()
    (tmp_path / "b").mkdir()
    with pytest.raises(ModelError, match="Is a directory") as caught:
        read_verified(tmp_path)
    assert caught.value.name == "b"


@pytest.mark.parametrize("name", ["b", MANIFEST])
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device", "socket"])
def test_what_could_keep_a_reader_waiting_is_an_error_at_once(tmp_path: Path, name: str, kind: str) -> None:
    replace_files(tmp_path, OLD)
    (tmp_path / name).unlink()
    if kind == "socket":
        with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(tmp_path):
            server.bind(name)
    elif kind == "device":
        (tmp_path / name).symlink_to("/dev/zero")
    else:
        pipe = tmp_path / (name if kind == "pipe" else "pipe")
        os.mkfifo(pipe)
        if kind != "pipe":
            (tmp_path / name).symlink_to(pipe)
    with pytest.raises(ModelError) as caught:
        read_verified(tmp_path)
    assert caught.value.name == name
    assert kind == "socket" or caught.value.expected == "a regular file"


def test_a_file_without_a_digest_is_not_trusted(tmp_path: Path) -> None:
    replace_files(tmp_path, OLD)
    (tmp_path / "c").write_bytes(b"from elsewhere")
    with pytest.raises(ModelError, match="no digest") as caught:
        read_verified(tmp_path, ["c"])
    assert caught.value.name == "c"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("{", MANIFEST, ""),
        ("\xff", MANIFEST, ""),
        ("[" * 100_000, MANIFEST, ""),
        ("[1]", MANIFEST, "a JSON object"),
        ("{}", "format_version", "1"),
        ('{"format_version": true}', "format_version", "1"),
        ('{"format_version": 2}', "format_version", "1"),
        ('{"format_version": 1}', MANIFEST, '"files"'),
        ('{"format_version": 1, "files": {"a": 1}}', MANIFEST, '"files"'),
        ('{"format_version": 1, "files": {}, "incoming": 1}', MANIFEST, '"files"'),
        ('{"format_version": 1, "files": {}, "finished": "yes"}', MANIFEST, '"files"'),
    ],
)
def test_a_damaged_manifest_is_said(tmp_path: Path, text: str, name: str, expected: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError) as caught:
        read_verified(tmp_path)
    assert caught.value.name == name and caught.value.expected.startswith(expected)
    assert "manifest.json" in caught.value.what
    assert ("newer" in caught.value.fix) == ("2}" in text)
