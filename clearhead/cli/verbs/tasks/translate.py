"""`clearhead translate`: translate texts from the command line, or each line of standard input."""

from ...parser import Options, Parser, Verb
from ...text_to_text import add_text_options, answer_texts


def _add_options(parser: Parser) -> None:
    add_text_options(parser, "translate", "translation")


def _run(options: Options) -> None:
    answer_texts(options, "translate", "a sentence")


VERB = Verb(
    name="translate",
    summary="translate texts, or each line of standard input",
    usage="DIR [TEXT ...] [options]",
    examples=(
        'clearhead translate models/en-fr "I am hungry."',
        "cat text.en | clearhead translate models/en-fr --beam 4 > text.fr",
        "clearhead translate models/en-fr --json < text.en",
    ),
    add_options=_add_options,
    run=_run,
    less_memory="lower --batch-tokens to use less",
)
