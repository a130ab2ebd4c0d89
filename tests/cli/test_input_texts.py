"""What of a text could not be read as it should, whichever verb reads it."""

from pathlib import Path

import pytest

from clearhead.apps.answers import Reading
from clearhead.cli.input_texts import text_of, warn

from .conftest import Run

BYTES = b"caf\xe9".decode("utf-8", "surrogateescape")  # as Python has them where a shell hands them over


@pytest.mark.parametrize(
    ("reading", "said"),
    [
        (Reading(), ""),
        (
            Reading(long=1234),
            "it has 1,234 tokens, more than any sentence in training: expect a poor answer, or split it\n",
        ),
        (
            Reading(long=300, cut=1000),
            "it is too long for the model: its last 1,000 tokens are left out; shorten or split it\n",
        ),
        (Reading(unknown=("a\nb", "c")), 'it has words that the model does not know: "a\\nb", "c"\n'),
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
    assert (done.code, done.err) == (0, f"{what} is not UTF-8; what could not be read was taken as U+FFFD\n")
    assert done.out.startswith("caf\ufffd") == (what == "the prefix")
