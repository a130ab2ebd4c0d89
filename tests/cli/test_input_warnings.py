"""What of a text could not be read as it should, whichever verb reads it."""

from pathlib import Path

import pytest

from clearhead.apps.answers import Reading
from clearhead.cli.input_lines import text_of, warn, warn_of_file_names

from .conftest import Run

BYTES = b"caf\xe9".decode("utf-8", "surrogateescape")  # as Python has them where a shell hands them over


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(), ""),
        (
            Reading(long=1234),
            "it has 1,234 tokens, more than any text in training, so the answer may be poor; split it\n",
        ),
        (
            Reading(long=300, cut=1000),
            "it is too long for the model, which ignores the last 1,000 tokens; shorten or split it\n",
        ),
        (Reading(cut=1), "it is too long for the model, which ignores the last 1 token; shorten or split it\n"),
        (Reading(unknown=("a\nb", "c")), 'it has words that the model doesn\'t know: "a\\nb", "c"\n'),
    ],
)
def test_each_fault_of_a_text_has_its_sentence(capsys: pytest.CaptureFixture[str], reading: Reading, said: str) -> None:
    warn(("it", text_of("text")), reading)
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["translate", "{folder}", BYTES], "text 1"),
        (["translate", "{folder}", "She sings.", "--prefix", BYTES], "the prefix"),
        (["explain", "{folder}", BYTES], "the text"),
    ],
)
def test_bytes_of_the_command_line_that_are_not_utf_8_are_replaced_and_that_is_said(
    run: Run, model_folder: Path, arguments: list[str], what: str
) -> None:
    done = run(*(argument.replace("{folder}", str(model_folder)) for argument in arguments))
    assert (done.code, done.err.splitlines()) == (
        0,
        [f"{what} isn't UTF-8; bytes that can't be decoded are read as U+FFFD"],
    )
    assert done.out.startswith("caf\ufffd") == (what == "the prefix")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        *((it, True) for it in ("letter.txt", "notes/a.md", "there")),
        *((it, False) for it in ("A text.", "a letter.txt", "e.g.", "www.example.com", "a" * 5000, "no", "a\nb.txt")),
    ],
)
def test_a_text_that_looks_like_a_file_is_said_to_be_read_as_a_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, warned: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").touch()
    warn_of_file_names([text], "--file")
    assert (f"--file {text}\n" in capsys.readouterr().err) == warned


def test_a_model_of_texts_given_an_image_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b.png").touch()
    warn_of_file_names(["a b.png", "there's no such.png"], "<")
    assert capsys.readouterr().err.endswith("is read as a text; this model doesn't read images\n")


def test_a_file_name_is_translated_and_that_is_said(run: Run, model_folder: Path) -> None:
    done = run("translate", model_folder, "letter.txt", "She sings.")
    assert done.code == 0 and done.err.count("text 1, letter.txt, looks like a file name") == 1
    assert done.err.count("< letter.txt") == 1 and "text 2" not in done.err
