"""`clearhead classify`: label texts from the command line, or each line of standard input."""

import sys

from ...config.messages import say
from ..input_lines import STDIN
from ..input_warnings import warn
from ..models import add_model_options, open_model
from ..output import to_json
from ..parser import Options, Parser, Verb
from ..text_to_text import expect_one_input, numbered_lines, numbered_texts


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="text to label (default: lines of standard input)")
    parser.add_argument("--json", action="store_true", help="print JSON lines with the probabilities of all labels")


def _run(options: Options) -> None:
    expect_one_input(options.texts, len(options.texts))
    app, decode = open_model(options, "classify", one_answer=False)
    piped = options.texts in ([], [STDIN])
    for group in numbered_lines("classify", "a text") if piped else [numbered_texts(options.texts)]:
        results = app.results([line.text for _, line in group], **decode)
        for (place, line), result in zip(group, results):
            warn(place, line, result)
            if not line.text.strip():
                say(f"{place} is blank, so its label is meaningless")
            print(to_json(result.to_dict()) if options.json else result.label)
        sys.stdout.flush()


VERB = Verb(
    name="classify",
    summary="label texts, or each line of standard input",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead classify models/topics "The match ended in a draw."',
        "clearhead classify models/topics < texts.txt > labels.txt",
        "cat texts.txt | clearhead classify models/topics --json",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
