"""`clearhead fill` as a user calls it."""

import json
from pathlib import Path

import pytest

from clearhead.api import load
from tests.builders import make_encoder_folder

from ...conftest import Run

TEXT = "They [MASK] well."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder(tmp_path_factory.mktemp("fill"), task="fill", tokenizer="word")


def test_it_prints_a_filled_text_a_line(run: Run, folder: Path) -> None:
    app = load(folder, device="cpu")
    done = run("fill", folder, TEXT, "[MASK] sings.")
    assert done.code == 0 and done.out.splitlines() == app([TEXT, "[MASK] sings."])


def test_lines_of_standard_input_stay_aligned(pipe: Run, folder: Path) -> None:
    lines = pipe(f"{TEXT}\n\n{TEXT}\n".encode(), "fill", folder).out.splitlines()
    assert len(lines) == 3 and lines[0] == lines[2] and lines[1] == ""


def test_top_prints_tokens_with_their_probabilities(run: Run, folder: Path) -> None:
    [result] = load(folder, device="cpu").results(["[MASK] are [MASK]."], top=2)
    expected = " | ".join("  ".join(f"{it.text} {it.probability:.4f}" for it in mask) for mask in result.masks)
    assert run("fill", folder, "[MASK] are [MASK].", "--top", 2).out == f"{expected}\n"


def test_json_has_everything(run: Run, folder: Path) -> None:
    found = json.loads(run("fill", folder, TEXT, "--json", "--top", 3).out)
    assert list(found) == ["format_version", "text", "filled", "masks", "unknown"]
    [mask] = found["masks"]
    assert len(mask) == 3 and list(mask[0]) == ["token", "text", "probability"]
    assert found["filled"] == TEXT.replace("[MASK]", mask[0]["text"])


def test_a_line_without_a_mask_is_an_error_that_names_the_line(run: Run, pipe: Run, folder: Path) -> None:
    done = run("fill", folder, "I am hungry.")
    assert (
        done.code == 1
        and done.err == 'error: the text "I am hungry." has no mask to fill\n  expected: [MASK] in place of a token\n'
    )
    done = pipe(f"{TEXT}\nI am hungry.\n".encode(), "fill", folder)
    assert done.code == 1 and done.out == "" and done.err.startswith("error: line 2: ")


@pytest.mark.parametrize("top", ["0", "-1", "x"])
def test_top_is_a_number_from_1(run: Run, folder: Path, top: str) -> None:
    assert run("fill", folder, TEXT, f"--top={top}").code == 2


def test_unknown_words_are_reported(run: Run, folder: Path) -> None:
    done = run("fill", folder, "zebras [MASK]")
    assert done.code == 0 and '"zebras"' in done.err
