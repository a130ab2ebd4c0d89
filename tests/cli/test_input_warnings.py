"""What of a text could not be read as it should, whichever verb reads it."""

from pathlib import Path

import pytest

from clearhead.apps.answers import Reading
from clearhead.cli.input_lines import text_of
from clearhead.cli.input_warnings import warn

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
    warn("it", text_of("text"), reading)
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
