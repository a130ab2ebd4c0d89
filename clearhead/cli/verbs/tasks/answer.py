"""`clearhead answer`: answer questions about a text, from the command line or line by line from standard input."""

import sys
from typing import TYPE_CHECKING

from ....config.messages import say
from ...input_lines import STDIN, input_groups, reads_stdin, warn, whole_text
from ...lines.table_answers import add_output_options, add_table_options, answer_table, check_table_options
from ...models import add_model_options, open_model
from ...output import to_json
from ...parser import Options, Parser, UsageError, Verb
from ...rejection import MARK, Rejection, add_rejection_options

if TYPE_CHECKING:
    from ....tasks.answer.windows import Passage

_SEARCH = ("decode.n_best", "decode.beam", "decode.batch_tokens")


def _add_options(parser: Parser) -> None:
    add_model_options(parser, _SEARCH)
    parser.add_inputs("questions", "QUESTION", "question to answer (default: lines of standard input)")
    parser.add_argument("--context", metavar="FILE", help="file to find answers in; - means standard input (required)")
    parser.add_flag("--json", "print JSON lines with positions, scores and alternatives")
    add_table_options(parser, "the answer", "columns with the question and its text (default: question,context)")
    add_output_options(parser)
    add_rejection_options(parser)


def _run(options: Options) -> None:
    check_table_options(options, len(options.questions))
    if options.data:
        if options.context:
            raise UsageError("--data can't be combined with --context", fix="put the texts into a column of the table")
        answer_table(options, *open_model(options, "answer", one_answer=True))
        return
    if reads_stdin(options.questions) and options.context == STDIN:
        raise UsageError(
            "standard input can't hold both the text and the questions", fix="give the questions as arguments"
        )
    app, decode = open_model(options, "answer", one_answer=False)
    if options.context is None:
        what = "no text to find answers in is given"
        raise UsageError(what, fix='name a file: clearhead answer DIR --context FILE "QUESTION"', name="--context")
    context, rejection = whole_text(options.context), Rejection.of(options, app)
    count = 0
    for group in input_groups(options.questions, "answer", "a question", noun="question"):
        for place, found in zip(group, app.results([line.text for _, line in group], context, **decode)):
            warn(place, found)
            rejected = rejection is not None and rejection(found)
            count += rejected
            if options.json:
                print(to_json(rejection.marked(found) if rejection else found.to_dict()))
            else:
                print(MARK if rejected else _rows(found, *found.alternatives))
        sys.stdout.flush()
    if rejection is not None:
        say(rejection.said(count))


def _rows(*answers: "Passage") -> str:
    """Return a row for the best answer, followed by indented rows for the alternatives."""
    return "\n".join(f"{'    ' * (number > 0)}{_row(it)}" for number, it in enumerate(answers))


def _row(it: "Passage") -> str:
    """Return an answer, its position and its score, separated by tabs. The answer's whitespace is collapsed."""
    place = "" if it.start is None else f"{it.start}-{it.end}"
    return f"{' '.join(it.text.split())}\t{place}\t{it.score:.2f}"


VERB = Verb(
    name="answer",
    summary="answer questions about a text, and show where each answer is",
    usage="DIR (--context FILE [QUESTION ...] | --data FILE) [options]",
    examples=(
        'clearhead answer models/squad --context article.txt "Who won the game?"',
        "clearhead answer models/squad --context article.txt < questions.txt | cut -f1",
        'clearhead answer models/squad --context article.txt "Who won the game?" --n-best 5 --json',
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
