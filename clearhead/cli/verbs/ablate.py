"""`clearhead ablate`: what a model can do without each of its heads, attentions and feed-forwards."""

from argparse import ArgumentTypeError
from pathlib import Path
from typing import TYPE_CHECKING

from ...config.messages import say
from ..countdown import Countdown
from ..data_options import FILES, add_reading_options, read_as_trained
from ..model_options import NO_FOLDER, WATCHED, add_search_options, check_options, open_models
from ..output import to_json
from ..parser import Options, Parser, UsageError, Verb, new_picture

if TYPE_CHECKING:
    from ...api import App
    from ...inspection.ablation.ablation_report import Ablation

_LIMIT = 200


def _add_options(parser: Parser) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help="a model folder")
    parser.add_argument("data", nargs="*", metavar="FILE", help=f"{FILES}; needed")
    parser.add_argument(
        "--parts", metavar="KIND", default="all", help="heads, attentions, feed-forwards or all (default: all)"
    )
    parser.add_argument(
        "--limit",
        type=_count,
        metavar="N",
        default=_LIMIT,
        help=f"how many texts are drawn from the data, always the same; all: every one (default: {_LIMIT})",
    )
    parser.add_argument("--score", metavar="NAME", help="bleu or chrf, f1 or exact_match, ...: left out, the first")
    parser.add_argument("--png", type=new_picture("png"), metavar="FILE", help="draw it, too")
    parser.add_argument("--svg", type=new_picture("svg"), metavar="FILE", help="the same as a drawing without pixels")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_reading_options(parser)
    add_search_options(parser, WATCHED)


def _run(options: Options) -> None:
    if options.folder is None:
        raise UsageError(NO_FOLDER)
    if not options.data:
        raise UsageError(f"no data are named: clearhead ablate {options.folder} FILE; expected {FILES}")
    here, decode = check_options([options.folder], options, one_answer=True)
    _check(options)
    data = read_as_trained([options.folder], options.data, options)
    say(str(data.report))
    [app] = open_models([options.folder], here, decode)
    with Countdown() as countdown:
        found = app.ablate(
            data, parts=options.parts, limit=options.limit, score=options.score, watch=countdown, **decode
        )
    _say(app, found)
    for picture in filter(None, (options.png, options.svg)):
        found.plot(picture)
        say(f"written to {picture}")
    print(to_json(found.to_dict()) if options.json else found.render())


def _check(options: Options) -> None:
    """Raise the ConfigError of what cannot be asked of the model, before data and weights are read."""
    from ...apps.ablating import Asked
    from ...folder.model_folder import read_config
    from ...tasks.registry import task_of

    task = task_of(read_config(Path(options.folder)))
    Asked(options.parts, options.limit, options.score, keep=True).check(task.verb, task.compared_by)


def _say(app: "App", found: "Ablation") -> None:
    """What is to be known beside the results."""

    study = found.study
    if study.sampled:
        say(study.sampled)
    from ...scoring import score_labels

    if study.cut:
        say(f"{app.path}: {score_labels.what_was_cut(study.cut, app.task.units.sources)}")
    if study.kept:
        say(f"{study.kept:,} of {len(found.rows) + 1:,} results are from before, in {study.folder}")
    if study.problem:
        say(f"the results are not kept: {study.problem}")


def _count(text: str) -> int | None:
    """A number of texts; None stands for all of them."""
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no number of texts; expected 1 at least, or all")
    return int(text)


VERB = Verb(
    name="ablate",
    summary="score a model without each of its heads, attentions and feed-forwards: which of them matter",
    usage="DIR FILE [FILE] [options]",
    examples=(
        "clearhead ablate models/en-fr test.tsv",
        "clearhead ablate models/en-fr test.tsv --parts heads --limit 100 --beam 1 --png heads.png",
        "clearhead ablate models/topics labelled.csv --score right_probability --limit all --json",
    ),
    add_options=_add_options,
    run=_run,
)
