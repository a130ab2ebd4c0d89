"""Zip archives are read as the folder in them."""

import tempfile
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from clearhead.errors import DataError, ModelError
from clearhead.folder import archive
from clearhead.folder.archive import archive_names, display_name, unpacked
from clearhead.readers.files import Input


def zipped(path: Path, files: dict[str, bytes], **options: object) -> Path:
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("outer", ["", "animals/", "a/b/"])
def test_the_folder_in_an_archive_has_its_files_whatever_it_is_in(tmp_path: Path, outer: str) -> None:
    files = {"cat/1.txt": b"one", "dog/2.txt": b"two" * 1000}
    path = zipped(tmp_path / "animals.ZIP", {outer + name: it for name, it in files.items()}, compression=8)
    assert content(unpacked(path)) == files


def test_an_archive_is_unpacked_once_unless_it_changes(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"1.txt": b"one"})
    assert unpacked(path) == unpacked(str(path))
    zipped(path, {"1.txt": b"another"})
    assert content(unpacked(path)) == {"1.txt": b"another"}


def test_what_macos_adds_is_left_out_and_names_are_utf_8(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"d/Ä.txt": b"1", "__MACOSX/d/._a.txt": b"2", "d/.DS_Store": b"3", "d/b/": b""})
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        assert archive.infolist()[0].flag_bits & 0x800
    flags_cleared = whole.replace(b"\x14\x00\x00\x08", b"\x14\x00\x00\x00")  # as macOS writes it
    assert flags_cleared != whole
    path.write_bytes(flags_cleared)
    assert content(unpacked(path)) == {"Ä.txt": b"1"}


def test_other_paths_are_returned_unchanged(tmp_path: Path) -> None:
    (tmp_path / "folder.zip").mkdir()
    for path in (tmp_path / "folder.zip", tmp_path / "absent.zip", tmp_path / "a.tsv"):
        assert unpacked(path) == path


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/../../b", "..\\a"])
def test_names_outside_of_the_archive_are_rejected(tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / "a.zip", {name: b"x", "b.txt": b"y"})
    with pytest.raises(DataError) as caught:
        unpacked(path)
    assert caught.value.name == str(path) and not (tmp_path.parent / "a").exists()


def test_damaged_archives_are_rejected(tmp_path: Path) -> None:
    whole = zipped(tmp_path / "a.zip", {"cat/1.txt": b"one" * 99, "dog/2.txt": b"two"}).read_bytes()
    encrypted = bytearray(whole)
    encrypted[whole.index(b"PK\x01\x02") + 8] |= 1
    twice = whole.replace(b"dog/2.txt", b"cat/1.txt")
    for damaged in (b"", b"no archive", whole[:60], whole.replace(b"oneone", b"oneOne", 1), bytes(encrypted), twice):
        path = tmp_path / "b.zip"
        path.write_bytes(damaged)
        with pytest.raises(DataError) as caught:
            unpacked(path)
        assert caught.value.name == str(path) and caught.value.expected


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_content_is_an_error_whatever_compresses_it(tmp_path: Path, compression: int) -> None:
    path = zipped(tmp_path / "a.zip", {"cat/1.txt": bytes(range(256)) * 9}, compression=compression)
    whole = path.read_bytes()
    n_errors = 0
    for place in range(40, len(whole) - 90, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            assert content(unpacked(path)) == {"1.txt": bytes(range(256)) * 9}
        except DataError as error:
            n_errors += "complete" in error.what
    assert n_errors


def test_a_file_in_place_of_a_folder_is_a_fault_of_the_archive(tmp_path: Path) -> None:
    for names in (("a", "a/b.txt"), ("a/b.txt", "a")):
        path = zipped(tmp_path / f"{len(names[0])}.zip", dict.fromkeys(names, b"x"))
        with pytest.raises(DataError) as caught:
            unpacked(path)
        assert "twice" in caught.value.what


def test_an_archive_that_would_fill_the_disk_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "a.zip", {"1.txt": bytes(10_000)}, compression=8)
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 19_999})())
    with pytest.raises(DataError) as caught:
        unpacked(path)
    assert caught.value.value == 10_000 and caught.value.fix


def test_messages_name_the_archive_and_not_the_temporary_folder(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"animals/cat/1.txt": b"one", "animals/dog/1.txt": b"two"})
    file = unpacked(path) / "cat" / "1.txt"
    assert display_name(file) == f"{path}/animals/cat/1.txt" != str(file)
    assert display_name(f"{file} and {file}") == f"{path}/animals/cat/1.txt and {path}/animals/cat/1.txt"
    with pytest.raises(ModelError) as caught, archive_names():
        raise ModelError(f"{file} is damaged", name="1.txt")
    assert caught.value.what == str(caught.value) == f"{path}/animals/cat/1.txt is damaged"
    assert Input(file).name == display_name(file) and display_name(path) == str(path)


def test_on_windows_no_process_is_sent_a_signal_to_find_out_whether_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(archive, "os", SimpleNamespace(name="nt", kill=lambda number, _: asked.append(number)))
    with tempfile.TemporaryDirectory(prefix=f"{archive._PREFIX}1-"):
        archive._remove_leftovers()
        assert asked == []
        monkeypatch.setattr(archive, "os", SimpleNamespace(name="posix", kill=lambda number, _: asked.append(number)))
        archive._remove_leftovers()
    assert 1 in asked
