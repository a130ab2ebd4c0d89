import csv
from pathlib import Path

import numpy as np
import pytest

import clearhead
from clearhead.readers.media.audio import read_audio
from tests.serving.small_models import make

from ...conftest import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("speak") / "model", "speak")


def test_one_text_is_one_file(run: Run, pipe: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "a.WAV"
    done = run("speak", folder, "She sings.", "--out", out, "--max-len", 5)
    assert (done.code, done.out) == (0, f"{out}\n")
    samples, rate = clearhead.load(folder)("She sings.", max_len=5)
    np.testing.assert_array_equal(read_audio(out, rate)[0], samples)
    assert run("speak", folder, "We are here.", "--out", out, "--max-len", 5).code == 0  # replaces it
    assert pipe(b"She sings.\n", "speak", folder, "--out", out, "--max-len", 5).code == 0
    np.testing.assert_array_equal(read_audio(out, rate)[0], samples)


def test_several_texts_are_a_folder_with_a_table(run: Run, folder: Path, tmp_path: Path) -> None:
    out, texts = tmp_path / "out", ["She sings, late.", "Go!"]
    done = run("speak", folder, *texts, "--out", out, "--max-len", 5)
    names = ["0001.wav", "0002.wav"]
    assert (done.code, done.out.split()) == (0, [str(out / name) for name in names])
    rows = list(csv.reader((out / "metadata.csv").read_text().splitlines()))
    assert rows == [["path", "text"], *map(list, zip(names, texts))]
    app = clearhead.load(folder)
    for name, (samples, rate) in zip(names, app(texts, max_len=5)):
        np.testing.assert_array_equal(read_audio(out / name, rate)[0], samples)
    done = run("speak", folder, "Go!", "--out", out)
    assert done.code == 1 and "already has files" in done.err


def test_a_voice_is_chosen_by_its_name(run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.apps.translator.Speaker.voices", ("She", "anna"))
    out, other = tmp_path / "a.wav", tmp_path / "b.wav"
    assert run("speak", folder, "sings.", "--voice", "She", "--out", out, "--max-len", 5).code == 0
    assert run("speak", folder, "She sings.", "--out", other, "--max-len", 5).code == 0
    assert out.read_bytes() == other.read_bytes()
    done = run("speak", folder, "sings.", "--voice", "Anna", "--out", out)
    assert done.code == 2 and "no voice 'Anna'" in done.err and "She, anna" in done.err


def test_unknown_characters_are_reported(run: Run, folder: Path, tmp_path: Path) -> None:
    assert '"ß"' in run("speak", folder, "Goß!", "--out", tmp_path / "a.wav", "--max-len", 5).err


@pytest.mark.parametrize(
    ("words", "lines", "code", "said"),
    [
        (["Go!"], b"", 2, "--out is missing"),
        (["Go!", "--out", ""], b"", 2, "--out is missing"),
        (["Go!", "Go!", "--out", "a.wav"], b"", 2, "there are 2 texts"),
        (["Go!", " ", "--out", "a"], b"", 1, "text 2 is blank"),
        (["--out", "a"], b"Go!\n\n", 1, "line 2 is blank"),
        (["--out", "a.wav"], b"", 1, "no texts"),
        (["Go!", "--out", "a.wav", "--voice", "theo"], b"", 2, "the model has no voices to choose from"),
    ],
)
def test_what_cannot_be_done_is_an_error_and_leaves_nothing(
    pipe: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: list[str], lines: bytes, code: int, said: str
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = pipe(lines, "speak", folder, *words)
    assert done.code == code and said in done.err and [it.name for it in tmp_path.iterdir()] == ["stdin"]


def test_a_folder_with_the_name_of_a_file_is_an_error(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.wav").mkdir()
    done = run("speak", folder, "Go!", "--out", tmp_path / "a.wav")
    assert done.code == 2 and "is a folder" in done.err
