"""Folders of classes, manifests and arrays as names with labels; what can't be used is counted and listed."""

import gzip
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest

from clearhead.config import DataConfig
from clearhead.data.forms import IMAGES, RECORDINGS, TRANSCRIPTS, MediaForm
from clearhead.errors import DataError
from clearhead.readers.media.array_files import read_array
from clearhead.readers.media.media_files import expect_file
from clearhead.readers.media.media_source import MediaSource


def source(*paths: object, roles=IMAGES, modality: str = "image", **data: str) -> MediaSource:
    given = list(paths) if len(paths) > 1 else paths[0]
    return MediaSource(given, DataConfig(**data), roles, modality)


def rows(*paths: object, **options) -> list[tuple[str, str]]:
    with source(*paths, **options) as found:
        return [(Path(name).name, target) for _, name, target in found]


def fails(*paths: object, **options) -> DataError:
    with pytest.raises(DataError) as caught, source(*paths, **options) as found:
        list(found)
    return caught.value


# --- a folder for each label


def test_a_folder_for_each_label(tmp_path: Path, image) -> None:
    for name in ("cat/1.png", "cat/more/10.PNG", "cat/more/2.png", "dög/#1.png", "dög/.hidden.png", ".git/1.png"):
        image(name)
    with source(tmp_path) as found:
        assert [(str(Path(name).relative_to(tmp_path)), label) for _, name, label in found] == [
            ("cat/1.png", "cat"), ("cat/more/2.png", "cat"), ("cat/more/10.PNG", "cat"), ("dög/#1.png", "dög")
        ]  # fmt: skip
        assert (found.report.used, found.report.lines, found.report.skipped) == (4, 4, {})


def test_what_cannot_be_used_is_counted_and_listed(tmp_path: Path, image) -> None:
    for name in ("cat/1.png", "dog/1.png", "stray.png"):
        image(name)
    (tmp_path / "cat" / "notes.txt").write_text("x")
    (tmp_path / "dog" / "empty.png").touch()
    (tmp_path / "dog" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    (tmp_path / "bird").mkdir()
    with source(tmp_path) as found:
        assert len(list(found)) == 2
        report = found.report
    assert (report.used, report.lines) == (2, 6)
    assert sorted(Path(it.text).name for it in report.examples) == ["empty.png", "gone.png", "notes.txt", "stray.png"]
    assert sum(report.skipped.values()) == 4 and len(report.skipped) == 4
    assert any("bird" in note for note in report.notes)


@pytest.mark.parametrize("name", ["", " ", "missing.png", ".", "x" * 5000, "a\0b.png", "empty.png"])
def test_paths_without_content(tmp_path: Path, monkeypatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.png").write_bytes(b"")
    with pytest.raises(DataError) as caught:
        expect_file(name, "an image file")
    assert caught.value.name == name and caught.value.expected == "an image file"


@pytest.mark.parametrize("header", ["", "path\n"])
def test_a_list_of_paths_has_no_labels(tmp_path: Path, header: str) -> None:
    (tmp_path / "list.csv").write_text(header + "".join(f"a/{n}.png\n" for n in range(5)))
    for roles, modality, targets in ((IMAGES, "image", "labels"), (TRANSCRIPTS, "audio", "transcripts")):
        text = (tmp_path / "list.csv").read_text()
        (tmp_path / "list.csv").write_text(text if modality == "image" else text.replace("png", "wav"))
        with pytest.raises(DataError) as caught:
            source(tmp_path / "list.csv", roles=roles, modality=modality)
        assert caught.value.name == str(tmp_path / "list.csv") and targets in caught.value.what


def test_links_are_followed(tmp_path: Path, image) -> None:
    image("store/1.png")
    (tmp_path / "data" / "cat").mkdir(parents=True)
    (tmp_path / "data" / "cat" / "1.png").symlink_to(tmp_path / "store" / "1.png")
    (tmp_path / "data" / "dog").symlink_to(tmp_path / "store")
    assert rows(tmp_path / "data") == [("1.png", "cat"), ("1.png", "dog")]


def test_parts_of_a_data_set_are_no_labels(tmp_path: Path, image) -> None:
    for name in ("test/cat/1.png", "train/cat/1.png", "val/cat/1.png"):
        image(name)
    error = fails(tmp_path)
    assert (
        error.value == ("test", "train", "val")
        and f"{tmp_path / 'train'}` and `data.test={tmp_path / 'test'}`" in error.fix
    )


def test_folders_without_labels_or_files(tmp_path: Path, image) -> None:
    path = image("1.png")
    assert fails(tmp_path).name == str(tmp_path)
    assert fails(path).name == path
    (tmp_path / "cat").mkdir()
    assert fails(tmp_path).value  # the reasons
    assert fails(path, path, path).value == 3


# --- manifests

TABLES = {
    "a.csv": "path,label\n{0},cat\n{1},dog\n",
    "b.tsv": "file_name\tlabel\n{0}\tcat\n{1}\tdog\n",
    "c.csv": "{0},cat\n{1},dog\n",  # no header
    "d.csv": "cat,{0}\ndog,{1}\n",
    "e.jsonl": '{{"file_name": "{0}", "label": "cat"}}\n{{"file_name": "{1}", "label": "dog"}}\n',
    "f.csv": "split,clip_location,label\ntrain,{0},cat\ntest,{1},dog\n",
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("absolute", [False, True])
def test_manifests(tmp_path: Path, image, name: str, absolute: bool) -> None:
    paths = [image(f"images/{it}.png") for it in "ab"]
    names = paths if absolute else [str(Path(it).relative_to(tmp_path)) for it in paths]
    (tmp_path / name).write_text(TABLES[name].format(*names))
    assert rows(tmp_path / name) == [("a.png", "cat"), ("b.png", "dog")]


def test_columns_can_be_chosen(tmp_path: Path, image) -> None:
    for name in "ab":
        image(f"{name}.png")
    (tmp_path / "a.csv").write_text("path,label,kind\na.png,cat,x\nb.png,dog,y\n")
    assert rows(tmp_path / "a.csv", source_column="path", target_column="kind") == [("a.png", "x"), ("b.png", "y")]
    assert fails(tmp_path / "a.csv", source_column="path", target_column="no").expected


@pytest.mark.parametrize("keys", [("audio_filepath", "text"), ("path", "sentence"), ("clip", "what_was_said")])
@pytest.mark.parametrize("longer", [False, True])
def test_transcripts_are_found_whether_longer_or_shorter_than_paths(
    tmp_path: Path, write_wave, tone, keys: tuple[str, str], longer: bool
) -> None:
    said = [f"{'a long way to say ' * 3 * longer}{it}" for it in ("one", "two", "three")]
    for number in range(3):
        write_wave(tmp_path / f"{number}.wav", tone(440, 0.01))
    expected = [(f"{number}.wav", text) for number, text in enumerate(said)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(dict(zip(keys, row))) + "\n" for row in expected))
    (tmp_path / "a.csv").write_text("".join(f"{a},{b}\n" for a, b in [keys, *expected]))
    (tmp_path / "b.csv").write_text("".join(f"{a},{b}\n" for a, b in expected))
    for name in ("a.jsonl", "a.csv", "b.csv"):
        assert rows(tmp_path / name, roles=TRANSCRIPTS, modality="audio") == expected


def test_a_folder_with_a_manifest(tmp_path: Path, image) -> None:
    image("a.png"), image("b.png")
    (tmp_path / "metadata.csv").write_text("file_name,label\na.png,cat\nb.png,dog\nc.png,dog\n,dog\n")
    with source(tmp_path) as found:
        assert len(list(found)) == 2
        assert (found.report.used, found.report.lines) == (2, 4)
        assert {it.text for it in found.report.examples} >= {str(tmp_path / "c.png")}
        assert sum(found.report.skipped.values()) == 2


def test_a_folder_of_recordings_has_no_transcripts(tmp_path: Path, write_wave, tone) -> None:
    write_wave(tmp_path / "a.wav", tone(440))
    assert "metadata.csv" in fails(tmp_path, roles=TRANSCRIPTS, modality="audio").fix


def test_rows_in_memory(image) -> None:
    path = image("a.png")
    assert rows([(path, "cat"), (path, "dog")]) == [("a.png", "cat"), ("a.png", "dog")]
    assert rows([{"path": path, "label": "cat"}]) == [("a.png", "cat")]


# --- arrays


def idx(array: np.ndarray) -> bytes:
    kind = {"uint8": 8, "int32": 12}[array.dtype.name]
    head = bytes([0, 0, kind, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_idx_files(tmp_path: Path, suffix: str) -> None:
    images, labels = np.arange(12, dtype=np.uint8).reshape(3, 2, 2), np.array([4, 5, 4], np.uint8)
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    (tmp_path / f"train-images-idx3-ubyte{suffix}").write_bytes(pack(idx(images)))
    (tmp_path / f"train-labels-idx1-ubyte{suffix}").write_bytes(pack(idx(labels)))
    first, second = (tmp_path / f"train-{it}-ubyte{suffix}" for it in ("images-idx3", "labels-idx1"))
    assert [label for _, label in rows(first, second)] == ["4", "5", "4"]
    (tmp_path / "labels.txt").write_text("a\n\nb\n")
    with source(first, tmp_path / "labels.txt") as found:
        assert [label for _, _, label in found] == ["a", "b"] and found.report.skipped == {"empty label": 1}
    first.write_bytes(first.read_bytes()[:-1])
    assert fails(first, second).name == str(first)


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\x08\x03\0", b"\0\0\x08\x03" + b"\xff" * 12, b"\0\0\x0e\xff" + b"\xff" * 1020]
)
def test_a_damaged_header_of_an_idx_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x-idx3-ubyte").write_bytes(content)
    (tmp_path / "labels.txt").write_text("a\n")
    error = fails(tmp_path / "x-idx3-ubyte", tmp_path / "labels.txt")
    assert error.name == str(tmp_path / "x-idx3-ubyte") and "unpack" not in error.what


def test_npy_files(tmp_path: Path, image) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 4, 4, 3), np.uint8))
    np.save(tmp_path / "y.npy", np.array(["a", "b"]))
    assert [label for _, label in rows(tmp_path / "x.npy", tmp_path / "y.npy")] == ["a", "b"]
    old = (tmp_path / "x.npy").read_bytes().replace(b"(2, 4, 4, 3), } ", b"(2L, 4, 4, 3), }")  # as Python 2 wrote it
    (tmp_path / "x.npy").write_bytes(old)
    assert b"2L" in old and [label for _, label in rows(tmp_path / "x.npy", tmp_path / "y.npy")] == ["a", "b"]
    np.save(tmp_path / "z.npy", np.array([1, 2, 3]))
    assert fails(tmp_path / "x.npy", tmp_path / "z.npy").value == (2, 3)
    for labels in (np.array([0.5, 1.0]), np.zeros((2, 2), np.uint8), np.array(1)):
        np.save(tmp_path / "z.npy", labels)
        assert fails(tmp_path / "x.npy", tmp_path / "z.npy").name == str(tmp_path / "z.npy")
    for images in (np.zeros((2, 4, 4)), np.zeros((2, 4), np.uint8), np.zeros((2, 4, 4, 2), np.uint8)):
        np.save(tmp_path / "x.npy", images)
        assert str(tmp_path / "x.npy") in fails(tmp_path / "x.npy", tmp_path / "y.npy").name
    first, second = image("1.png"), image("2.png")
    assert fails(first, second).value == (first, second)
    np.save(tmp_path / "x.npy", np.array([{}]), allow_pickle=True)
    assert fails(tmp_path / "x.npy", tmp_path / "y.npy").name == str(tmp_path / "x.npy")


# --- digests


def test_a_damaged_header_of_an_npy_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array(["cat", "dog"]))
    whole = path.read_bytes()
    for place in range(len(whole)):
        for byte in (0x00, 0x28, 0x7B, 0xFF):
            path.write_bytes(whole[:place] + bytes([byte]) + whole[place + 1 :])
            try:
                labels = read_array(path)
                assert [*map(str, labels.reshape(-1).tolist())] or not labels.size
            except DataError as error:
                assert error.name == str(path)


def test_copies_have_one_key_and_a_changed_file_another_digest(tmp_path: Path, image) -> None:
    first = image("cat/1.png", 1)
    image("dog/1.png", 2)
    shutil.copy(first, tmp_path / "dog" / "copy.png")
    with source(tmp_path) as found:
        assert found.content_key(first) == found.content_key(str(tmp_path / "dog" / "copy.png"))
        digest = found.digest()
        found.expect_digest(digest)
        image("dog/1.png", 3)
        with pytest.raises(DataError):
            found.expect_digest(digest)


def test_data_can_be_moved(tmp_path: Path, image) -> None:
    image("before/cat/1.png"), image("before/dog/2.png", 9)
    form = MediaForm(IMAGES, "image")
    with source(tmp_path / "before") as found:
        digest, pairs = found.digest(), form.read(tmp_path / "before", DataConfig())
    (tmp_path / "before").rename(tmp_path / "after")
    with source(tmp_path / "after") as found:
        assert found.digest() == digest
        again = form.from_notes(form.to_notes(pairs), found.report)
    assert again.sources == [str(tmp_path / "after" / it) for it in ("cat/1.png", "dog/2.png")]


def test_recordings_of_another_kind_are_counted(tmp_path: Path, write_wave, tone, image) -> None:
    write_wave(tmp_path / "a" / "1.wav", tone(440)), write_wave(tmp_path / "b" / "1.wav", tone(440))
    image("b/cover.png")
    with source(tmp_path, roles=RECORDINGS, modality="audio") as found:
        assert len(list(found)) == 2 and [Path(it.text).name for it in found.report.examples] == ["cover.png"]


def test_a_zip_archive_is_read_as_the_folder_in_it(tmp_path: Path, image) -> None:
    for name in ("animals/cat/1.png", "animals/cat/2.png", "animals/dog/1.png"):
        image(name, 3 + len(name))
    whole = source(tmp_path / "animals")
    archive = shutil.make_archive(str(tmp_path / "animals"), "zip", tmp_path, "animals")
    zipped = source(archive)
    assert [(number, Path(name).name, label) for number, name, label in zipped] == [
        (number, Path(name).name, label) for number, name, label in whole
    ]
    assert zipped.digest() == whole.digest() and zipped.report.paths == (f"{archive}/animals",)
