"""`clearhead score`: score existing translations or summaries with a model."""

from typing import TYPE_CHECKING, cast

from ...config.messages import say
from ..models import FILES, add_model_options, add_reading_options, open_model, read_as_trained
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ...api import Translator


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.alpha"])
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    add_reading_options(parser)
    parser.add_flag("--json", "print JSON lines with tokens and log-probabilities")


def _run(options: Options) -> None:
    if not options.files:
        raise UsageError("no file of pairs is given", expected=FILES)
    app, decode = open_model(options, "translate", "summarize", one_answer=False)
    pairs = read_as_trained([app], options.files, options)
    scored, report = cast("Translator", app).score(pairs, **decode)
    say(str(report))
    for each in scored:
        values = f"{each.line}\t{each.log_probability:.6f}\t{each.score:.6f}"
        print(to_json(each.to_dict()) if options.json else values)


VERB = Verb(
    name="score",
    summary="print the line number, log-probability and length-normalised score of each pair in a file",
    usage="DIR FILE [FILE] [options]",
    examples=("clearhead score models/en-fr pairs.tsv", "clearhead score models/en-fr text.en text.fr --json"),
    add_options=_add_options,
    run=_run,
)
