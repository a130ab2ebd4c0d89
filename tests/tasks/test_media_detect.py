"""The task of images and audio, and a preview of both."""

from pathlib import Path

import numpy as np
import pytest

from clearhead.config import Config
from clearhead.errors import ConfigError, DataError
from clearhead.tasks.detect import find_task, with_modality
from clearhead.tasks.preview import preview
from clearhead.tasks.registry import task_of

Image = pytest.importorskip("PIL.Image")
soundfile = pytest.importorskip("soundfile")


def recordings(folder: Path, targets: list[str], header: str = "path,text") -> Path:
    for n in range(len(targets)):
        soundfile.write(folder / f"{n}.wav", np.full(800 + n, 0.1), 8000)
    (folder / "a.csv").write_text(f"{header}\n" + "".join(f"{n}.wav,{it}\n" for n, it in enumerate(targets)))
    return folder / "a.csv"


def images(folder: Path, targets: list[str]) -> Path:
    for n in range(len(targets)):
        Image.fromarray(np.full((4, 6, 3), n, np.uint8)).save(folder / f"{n}.png")
    (folder / "a.csv").write_text("path,text\n" + "".join(f"{n}.png,{it}\n" for n, it in enumerate(targets)))
    return folder / "a.csv"


def found(path: Path, task: str | None = None) -> tuple[str, str]:
    data = with_modality(Config().override({"data.train": [str(path)]})).data
    it = find_task(str(path), data, task=task)
    assert it.why and str(it).startswith(f"task: {it.verb}, because ")
    return it.verb, it.modality


def test_repeated_targets_are_labels_and_others_transcripts(tmp_path: Path) -> None:
    assert found(recordings(tmp_path, [str(n % 3) for n in range(30)], "path,digit")) == ("classify", "audio")
    assert found(recordings(tmp_path, [str(n % 3) for n in range(30)])) == ("classify", "audio")
    assert found(recordings(tmp_path, [f"{n // 2} go" for n in range(30)])) == ("transcribe", "audio")
    assert found(recordings(tmp_path, ["one", "two", "three"])) == ("transcribe", "audio")
    assert found(tmp_path / "a.csv", "transcribe") == ("transcribe", "audio")


def test_folders_and_images(tmp_path: Path) -> None:
    for label in "ab":
        (tmp_path / label).mkdir()
        images(tmp_path / label, ["x"])
        (tmp_path / label / "a.csv").unlink()
    assert found(tmp_path) == ("classify", "image")
    assert found(images(tmp_path, [f"a {n % 3}" for n in range(30)])) == ("classify", "image")


def test_paths_are_texts_if_you_say_so(tmp_path: Path) -> None:
    path = recordings(tmp_path, [f"the number {n}" for n in range(30)])
    config = Config().override({"data.train": [str(path)], "data.modality": "text"})
    assert with_modality(config).data.modality == "text"
    assert find_task(str(path), with_modality(config).data).modality == "text"


def test_captions_are_not_supported(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        found(images(tmp_path, [f"a dog with {n} balls" for n in range(30)]))
    assert caught.value.name == str(tmp_path / "a.csv") and caught.value.value == 30


def test_a_task_for_texts_is_an_error_for_images(tmp_path: Path) -> None:
    config = Config().override({"data.train": [str(images(tmp_path, ["a", "b"]))], "train.task": "translate"})
    with pytest.raises(ConfigError) as caught:
        task_of(with_modality(config))
    assert caught.value.name == "train.task" and "classify" in caught.value.fix


def test_a_preview_shows_sizes_labels_and_what_cannot_be_read(tmp_path: Path) -> None:
    path = images(tmp_path, [str(n % 2) for n in range(40)])
    (tmp_path / "3.png").write_text("no image")
    (tmp_path / "4.png").unlink()
    shown = "\n".join(preview(Config().override({"data.train": [str(path)]})))
    for part in ("task: classify", "6 x 4 pixels", "64 x 64 pixels", "3.png isn't an image", "4.png", "example 3"):
        assert part in shown
    assert "texts" not in shown and "pairs" not in shown


def test_a_preview_of_recordings(tmp_path: Path) -> None:
    path = recordings(tmp_path, [f"{n} is said" for n in range(30)])
    (tmp_path / "3.wav").write_text("no recording")
    shown = "\n".join(preview(Config().override({"data.train": [str(path)], "data.split": 0.0})))
    for part in ("task: transcribe", "0.10 to 0.10 seconds", "8,000 samples per second", "3.wav can't be read"):
        assert part in shown


def test_a_preview_shows_no_example_that_cannot_be_read_and_fails_without_any(tmp_path: Path) -> None:
    path = recordings(tmp_path, [f"{n} is said" for n in range(4)])
    soundfile.write(tmp_path / "0.wav", np.full(800, np.nan), 8000, subtype="FLOAT")
    shown = list(preview(Config().override({"data.train": [str(path)]})))
    examples = [it for it in shown if it.startswith("example")]
    assert [n for it in examples for n in range(4) if f"{n} is said" in it] == [1, 2, 3]
    for n in range(1, 4):
        (tmp_path / f"{n}.wav").write_bytes(b"no recording")
    with pytest.raises(DataError) as caught:
        list(preview(Config().override({"data.train": [str(path)]})))
    assert caught.value.value == 4
