"""`clearhead score`: how likely a model finds translations, or summaries, that others made."""

from typing import TYPE_CHECKING, cast

from ...config.messages import say
from ..data_options import FILES, add_reading_options, read_as_trained
from ..model_options import NO_FOLDER, add_model_options, check_options, expect_task, open_models
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb

if TYPE_CHECKING:
    from ...api import Translator


def _add_options(parser: Parser) -> None:
    add_model_options(parser, ["decode.alpha"])
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    add_reading_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON lines with the tokens and their probabilities")


def _run(options: Options) -> None:
    if not options.files:
        raise UsageError(f"no file of pairs is given; expected {FILES}")
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    here, decode = check_options([options.folder], options)
    expect_task(options.folder, "translate", "summarize")
    pairs = read_as_trained([options.folder], options.files, options)
    (app,) = open_models([options.folder], here, decode)
    scored, report = cast("Translator", app).score(pairs, **decode)
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
