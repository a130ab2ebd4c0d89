"""`clearhead classify`: the labels of texts of the command line, or of standard input line by line; a line for each."""

import sys

from ...config.messages import say
from ..input_texts import text_of, warn
from ..model_options import add_model_options, open_model
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb
from ..text_answers import standard_input


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.batch_tokens"])
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="what to label; none, or -: standard input")
    parser.add_argument("--json", action="store_true", help="print JSON lines with the probabilities of all labels")


def _run(options: Options) -> None:
    if "-" in options.texts and len(options.texts) > 1:
        raise UsageError("- stands for standard input, and is one of several texts here; expected it alone")
    app, decode = open_model(options, "classify", one_answer=False)
    typed = [(f"text {number:,}", text_of(text, number)) for number, text in enumerate(options.texts, 1)]
    for group in standard_input("classify", "a text") if options.texts in ([], ["-"]) else [typed]:
        results = app.results([line.text for _, line in group], **decode)
        for (place, line), result in zip(group, results):
            warn(place, line, result)
            if not line.text.strip():
                say(f"{place} is blank: its label says nothing")
            print(to_json(result.to_dict()) if options.json else result.label)
        sys.stdout.flush()


VERB = Verb(
    name="classify",
    summary="give texts, or each line of standard input, a label",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead classify models/topics "The match ended in a draw."',
        "clearhead classify models/topics < texts.txt > labels.txt",
        "cat texts.txt | clearhead classify models/topics --json",
    ),
    add_options=_add_options,
    run=_run,
)
