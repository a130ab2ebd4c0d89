"""`clearhead answer`: questions about a text, from the command line or line by line from standard input."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...config.messages import say
from ..input_texts import text_of, warn, whole_text
from ..model_options import add_model_options, expect_task, open_model
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..stdin import Line, read_groups

if TYPE_CHECKING:
    from ...tasks.answer.passages import Passage

_SEARCH = ("decode.n_best", "decode.beam", "decode.batch_tokens")
_STDIN = "-"


def _add_options(parser: Parser) -> None:
    add_model_options(parser, _SEARCH)
    parser.add_argument(
        "questions", nargs="*", metavar="QUESTION", help="what is asked; none, or -: standard input, one a line"
    )
    parser.add_argument("--context", metavar="FILE", help="the text that has the answers; -: standard input; needed")
    parser.add_argument("--json", action="store_true", help="print JSON lines with places, scores and alternatives")


def _run(options: Options) -> None:
    if options.context is None:
        if options.folder is not None:
            expect_task(options.folder, "answer")  # of another model no text is wanted
        raise UsageError('no --context FILE is given; expected a text: clearhead answer DIR --context FILE "QUESTION"')
    reading = options.questions in ([], [_STDIN])
    if _STDIN in options.questions and not reading:
        raise UsageError("- stands for standard input, and is one of several questions here; expected it alone")
    if reading and options.context == _STDIN:
        raise UsageError("standard input has the text here; expected the questions on the command line")
    app, decode = open_model(options, "answer", one_answer=False)
    context = whole_text(options.context)
    place = "line" if reading else "question"
    for group in _standard_input() if reading else [[text_of(it, n) for n, it in enumerate(options.questions, 1)]]:
        for line, found in zip(group, app.results([line.text for line in group], context, **decode)):
            warn(f"{place} {line.number:,}", line, found)
            print(to_json(found.to_dict()) if options.json else _rows(found, *found.alternatives))
        sys.stdout.flush()


def _rows(*answers: "Passage") -> str:
    """A row for the answer, and indented ones for those that come next: answer, place and score between tabs."""
    return "\n".join(f"{'    ' * (number > 0)}{_row(it)}" for number, it in enumerate(answers))


def _row(it: "Passage") -> str:
    """White space in an answer is shown as one space, so that a row is a row; the place says what it is."""
    place = "" if it.start is None else f"{it.start}-{it.end}"
    return f"{' '.join(it.text.split())}\t{place}\t{it.score:.2f}"


def _standard_input() -> Iterator[list[Line]]:
    if sys.stdin is None:
        raise UsageError('standard input is closed; give questions: clearhead answer DIR --context FILE "QUESTION"')
    if sys.stdin.isatty():
        say("type a question a line; end with Ctrl-D")
    return read_groups(sys.stdin.fileno())


VERB = Verb(
    name="answer",
    summary="answer questions from a text, and say where in it the answers stand",
    usage="DIR --context FILE [QUESTION ...] [options]",
    examples=(
        'clearhead answer models/squad --context article.txt "Who won the game?"',
        "clearhead answer models/squad --context article.txt < questions.txt | cut -f1",
        'clearhead answer models/squad --context article.txt "Who won the game?" --n-best 5 --json',
    ),
    add_options=_add_options,
    run=_run,
)
