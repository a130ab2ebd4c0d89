"""`clearhead score`: how likely a model finds translations that others made."""

from ..messages import say
from .output import to_json
from .pairs import FILES, add_reading_options, read_as_trained
from .parser import Options, Parser, UsageError, Verb
from .using import add_model_options, check_options, open_models


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.alpha"])
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    add_reading_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines with the tokens and their probabilities")


def _run(options: Options) -> None:
    if not options.files:
        raise UsageError(f"no file of pairs is given; expected {FILES}")
    here, decode = check_options([options.folder], options)
    pairs = read_as_trained([options.folder], options.files, options)
    (app,) = open_models([options.folder], here, decode)
    scored, report = app.score(pairs, **decode)
    say(str(report))
    for each in scored:
        values = f"{each.line}\t{each.log_probability:.6f}\t{each.score:.6f}"
        print(to_json(each.to_dict()) if options.json else values)


VERB = Verb(
    name="score",
    summary="print line, log-probability and score (over the length penalty) of each pair of a file",
    usage="DIR FILE [FILE] [options]",
    examples=(
        "clearhead score models/en-fr pairs.tsv",
        "clearhead score models/en-fr text.en text.fr --json",
    ),
    add_options=_add_options,
    run=_run,
)
