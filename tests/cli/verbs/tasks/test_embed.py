"""`clearhead embed` as a user calls it."""

import json
from pathlib import Path

import numpy as np
import pytest

from clearhead.api import load
from tests.builders import make_encoder_folder

from ...conftest import Run

TEXTS = ["I am hungry.", "She sings."]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder(tmp_path_factory.mktemp("embed"), task="embed", tokenizer="word")


def test_it_prints_a_list_a_line(run: Run, folder: Path) -> None:
    done = run("embed", folder, *TEXTS)
    found = np.array([json.loads(line) for line in done.out.splitlines()], np.float32)
    np.testing.assert_array_equal(found, load(folder, device="cpu").embed(TEXTS))  # to the last bit


def test_options_change_the_embeddings(run: Run, folder: Path) -> None:
    done = run("embed", folder, *TEXTS, "--pooling", "first", "--normalize", "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert [it["text"] for it in found] == TEXTS and list(found[0]) == ["format_version", "text", "embedding"]
    expected = load(folder, device="cpu").embed(TEXTS, pooling="first", normalize=True)
    np.testing.assert_array_equal(np.array([it["embedding"] for it in found], np.float32), expected)


def test_lines_of_standard_input_become_a_file(pipe: Run, folder: Path, tmp_path: Path) -> None:
    typed = f"{TEXTS[0]}\n\n{TEXTS[1]}\n".encode()
    done = pipe(typed, "embed", folder, "--out", tmp_path / "new" / "vectors.npy")
    assert done.code == 0 and done.out == "" and "3 embeddings of width 16" in done.err
    found = np.load(tmp_path / "new" / "vectors.npy")
    np.testing.assert_array_equal(found, load(folder, device="cpu").embed([TEXTS[0], "", TEXTS[1]]))
    assert found.dtype == np.float32


def test_no_line_is_a_file_without_embeddings(pipe: Run, folder: Path, tmp_path: Path) -> None:
    assert pipe(b"", "embed", folder, "--out", tmp_path / "vectors.npy").code == 0
    assert np.load(tmp_path / "vectors.npy").shape == (0, 16)


def test_a_translator_embeds_too(run: Run, model_folder: Path) -> None:
    assert len(json.loads(run("embed", model_folder, TEXTS[0]).out)) == 16


@pytest.mark.parametrize(
    "options", [("--out", "vectors.txt"), ("--out", "v.npy", "--json"), ("--pooling", "max"), ("--beam", "2"), ("-",)]
)
def test_a_wrong_option_is_a_usage_error(run: Run, folder: Path, options: tuple[str, ...]) -> None:
    done = run("embed", folder, *TEXTS, *options)
    assert done.code == 2 and done.out == ""


def test_long_texts_and_unknown_words_are_reported(run: Run, folder: Path) -> None:
    done = run("embed", folder, "zebra " * 60)
    assert done.code == 0 and "text 1 is too long" in done.err and '"zebra"' in done.err
