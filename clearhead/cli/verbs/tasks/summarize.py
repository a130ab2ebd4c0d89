"""`clearhead summarize`: summarize files, texts from the command line, or each line of standard input."""

from ...parser import Options, Parser, Verb
from ...text_to_text import add_text_options, answer_texts


def _add_options(parser: Parser) -> None:
    add_text_options(parser, "summarize", "summary")
    parser.add_argument(
        "--file",
        nargs="+",
        action="extend",
        metavar="FILE",
        default=[],
        help="summarize each file as one document; - means all of standard input",
    )


def _run(options: Options) -> None:
    answer_texts(options, "summarize", "a document", options.file)


VERB = Verb(
    name="summarize",
    summary="summarize texts, whole files, or each line of standard input",
    usage="DIR [TEXT ...] [--file FILE ...] [options]",
    examples=(
        "clearhead summarize models/minutes --file meeting.txt",
        "clearhead summarize models/minutes --file notes/*.txt --json",
        "cat documents.txt | clearhead summarize models/minutes --max-len 30",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
