"""What data consists of is detected by the names of its files."""

from pathlib import Path

import pytest

from clearhead.errors import DataError
from clearhead.readers.media.array_files import is_array_file, split_item
from clearhead.readers.media.media_files import modality_of
from clearhead.readers.source import as_paths


def files(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a/1.png", "b/1.jpg"], "image"),
        (["a/1.wav", "b/x/1.FLAC"], "audio"),
        (["a/1.txt", "b/1.txt"], "text"),
        (["1.txt", "2.txt"], "text"),
        ([*(f"a/{n}.wav" for n in range(9)), "a/cover.jpg"], "audio"),
        (["a/1.png", "a/2.txt", "a/3.txt"], "text"),
    ],
)
def test_folders(tmp_path: Path, names: list[str], kind: str) -> None:
    assert modality_of([files(tmp_path, *names)]) == kind


def test_a_mixture_is_an_error(tmp_path: Path) -> None:
    folder = files(tmp_path, *(f"a/{n}.png" for n in range(30)), *(f"b/{n}.wav" for n in range(30)))
    with pytest.raises(DataError) as caught:
        modality_of([folder])
    assert caught.value.name == str(folder) and caught.value.fix


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("path,text\na.wav,hello there\nb.wav,good day\n", "audio"),
        ("a.wav\thello\n", "audio"),
        ('{"audio_filepath": "x/a.flac", "text": "hello"}\n', "audio"),
        ('label;"file"\ncat;"a.png"\n', "image"),
        ("images.npy#0,cat\nimages.npy#1,dog\n", "image"),
        ("I am hungry.\tJ'ai faim.\nSee photo.png please.\tVoir photo.png.\n", "text"),
        ("", "text"),
    ],
)
def test_manifests(tmp_path: Path, content: str, kind: str) -> None:
    (tmp_path / "table").write_text(content)
    assert modality_of([tmp_path / "table"]) == kind


def test_other_data(tmp_path: Path) -> None:
    assert modality_of([]) == modality_of(["-"]) == modality_of([tmp_path / "missing"]) == "text"
    assert modality_of([tmp_path / "a.npy", tmp_path / "b.npy"]) == "image"
    assert modality_of([tmp_path / "a.en", tmp_path / "a.fr"]) == "text"
    assert modality_of(as_paths([("a.png", "cat")])) == "image"
    assert modality_of(as_paths([("a cat", "un chat")])) == "text"


def test_names_of_arrays() -> None:
    assert all(map(is_array_file, ["a.npy", "train-images-idx3-ubyte", "t10k-labels.idx1-ubyte.gz", "x.idx.xz"]))
    assert not any(map(is_array_file, ["my-idx-photo.png", "a.npz", "idx", "a.idxx"]))
    assert split_item("a/b.npy#12") == ("a/b.npy", 12)
    assert split_item("a#1.png") is split_item("b.png#1") is split_item("a.npy#x") is None
